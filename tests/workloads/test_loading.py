"""Files of others that hold whole problems: what becomes of their fields, and any damage in one sentence."""

from __future__ import annotations

import copy
import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetgym
from hetgym import HetgymError, Problem, ProblemError, load_problem, pipeline
from hetgym.errors import HetgymWarning
from hetgym.workloads import textbook
from hetgym.workloads.wfcommons import NETWORK
from tests.effort import examples

PARTITIONING: dict[str, Any] = {
    "maxSizePerFPGA": 100.0,
    "maxFPGAs": 2,
    "maxCPUs": 1,
    "nodes": [
        {
            "id": 7,
            "name": "a",
            "supportedOnFpga": 1,
            "cpuLatency": 10.0,
            "fpgaLatency": 1.0,
            "isBackwardNode": False,
            "colorClass": 3,
            "size": 60.0,
            "layerId": 9,
        },
        {
            "id": 2,
            "name": "b",
            "supportedOnFpga": True,
            "cpuLatency": 20,
            "fpgaLatency": 2,
            "isBackwardNode": 0,
            "size": 60.0,
        },
        {
            "id": 5,
            "name": "a'",
            "supportedOnFpga": 0,
            "cpuLatency": 4.0,
            "fpgaLatency": 0.5,
            "isBackwardNode": True,
            "colorClass": "x",
            "size": 0.0,
        },
    ],
    "edges": [
        {"sourceId": 7, "destId": 2, "cost": 0.5, "size": 1000.0},
        {"sourceId": 7, "destId": 5, "cost": 0.5, "size": 1000.0},
        {"sourceId": 2, "destId": 5, "cost": 0.25, "size": 500.0},
    ],
}

WORKFLOW_14: dict[str, Any] = {
    "name": "tiny",
    "schemaVersion": "1.4",
    "workflow": {
        "makespanInSeconds": 9,
        "executedAt": "2020-01-01",
        "machines": [
            {"nodeName": "slow", "cpu": {"count": 1, "speed": 1000}},
            {"nodeName": "fast", "cpu": {"count": 2, "speed": 2000}},
        ],
        "tasks": [
            {
                "name": "split",
                "id": "1",
                "type": "compute",
                "runtimeInSeconds": 4,
                "parents": [],
                "children": ["work"],
                "machine": "slow",
                "category": "splitter",
                "files": [
                    {"link": "input", "name": "in", "sizeInBytes": 9},
                    {"link": "output", "name": "part", "sizeInBytes": 250e6},
                ],
            },
            {
                "name": "work",
                "id": "2",
                "type": "compute",
                "runtimeInSeconds": 6.0,
                "parents": ["split"],
                "machine": "fast",
                "files": [{"link": "input", "name": "part", "sizeInBytes": 250e6}],
            },
            {"name": "log", "id": "3", "type": "compute", "runtimeInSeconds": 1, "parents": ["split", "work"]},
        ],
    },
}

WORKFLOW_15: dict[str, Any] = {
    "name": "tiny",
    "schemaVersion": "1.5",
    "workflow": {
        "specification": {
            "tasks": [
                {
                    "name": "split",
                    "id": "s1",
                    "parents": [],
                    "children": ["w2"],
                    "inputFiles": ["in"],
                    "outputFiles": ["part"],
                },
                {"name": "work", "id": "w2", "parents": ["s1"], "children": ["l3"], "inputFiles": ["part"]},
                {"name": "log", "id": "l3", "parents": ["s1", "w2"], "children": []},
            ],
            "files": [{"id": "in", "sizeInBytes": 9}, {"id": "part", "sizeInBytes": 250000000}],
        },
        "execution": {
            "makespanInSeconds": 9,
            "executedAt": "2020-01-01",
            "machines": [
                {"nodeName": "slow", "cpu": {"coreCount": 1, "speedInMHz": 1000}},
                {"nodeName": "fast", "cpu": {"coreCount": 2, "speedInMHz": 2000}},
            ],
            "tasks": [
                {"id": "s1", "runtimeInSeconds": 4, "machines": ["slow"]},
                {"id": "w2", "runtimeInSeconds": 6, "machines": ["fast"]},
                {"id": "l3", "runtimeInSeconds": 1},
            ],
        },
    },
}

DOCUMENTS = {"partitioning": PARTITIONING, "workflow 1.4": WORKFLOW_14, "workflow 1.5": WORKFLOW_15}


def edit_machines(document: dict[str, Any]) -> dict[str, Any]:
    """The document with a task that ran on two machines."""
    document["workflow"]["execution"]["tasks"][0]["machines"] = ["m", "n"]
    return document


def write(folder: Path, document: object, name: str = "tiny.json") -> Path:
    path = folder / name
    data = json.dumps(document).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["tiny.json", "tiny.json.gz"])
def test_partitioning_as_a_scheduling_problem(tmp_path: Path, name: str) -> None:
    problem = load_problem(write(tmp_path, PARTITIONING, name))
    assert (problem.name, problem.operator_names) == ("tiny", ("a", "b", "a'"))
    assert problem.device_names == ("cpu0", "accelerator0", "accelerator1")
    np.testing.assert_allclose(problem.cost, [[0.010, 0.001, 0.001], [0.020, 0.002, 0.002], [0.004, np.inf, np.inf]])
    time = problem.latency + problem.edge_bytes[:, None, None] / problem.bandwidth
    one, two = 0.0005, 0.001  # to main memory or from it, and to it and back
    np.testing.assert_allclose(time[0], [[0, one, one], [one, 0, two], [one, two, 0]])
    np.testing.assert_allclose(time[2], np.array([[0, one, one], [one, 0, two], [one, two, 0]]) / 2)
    np.testing.assert_allclose(problem.edge_bytes, [1000, 1000, 500])
    assert problem.edge_tensor.tolist() == [0, 0, 1]
    assert problem.weight_bytes.tolist() == [60, 60, 0]
    assert problem.memory_capacity.tolist() == [np.inf, 100, 100]


def test_several_cpus_share_memory(tmp_path: Path) -> None:
    problem = load_problem(write(tmp_path, PARTITIONING | {"maxCPUs": 2, "maxFPGAs": 1}))
    assert np.isinf(problem.bandwidth[:2, :2]).all()
    assert np.isfinite(problem.bandwidth[2, :2]).all()


def test_partitioning_as_a_pipeline(tmp_path: Path) -> None:
    cut = pipeline.load(write(tmp_path, PARTITIONING))
    assert [kind.name for kind in cut.kinds] == ["cpu", "accelerator"]
    assert [kind.count for kind in cut.kinds] == [1, 2]
    assert cut.colour.tolist() == [0, -1, 1] and cut.backward.tolist() == [False, False, True]
    np.testing.assert_allclose(cut.transfer, [0.0005, 0.00025, 0])
    # a on an accelerator sends once; b on the other fetches and sends; the CPU pays nothing.
    np.testing.assert_allclose(cut.loads([1, 2, 0]), [0.004, 0.0015, 0.00275])
    np.testing.assert_allclose(cut.loads([0, 1, 0]), [0.014, 0.00275, 0])
    with pytest.raises(hetgym.InvalidSchedule, match="memory: device 1 holds 120 bytes, more than 100"):
        cut.loads([1, 1, 0])


WORKFLOW_16 = json.loads((Path(__file__).parent / "wfcommons.json").read_text("utf-8"))
"""The same workflow as the Python package wfcommons 1.6 wrote it, from its own classes of tasks, files and machines."""


@pytest.mark.parametrize("document", [WORKFLOW_14, WORKFLOW_15, WORKFLOW_16])
def test_workflows(tmp_path: Path, document: dict[str, Any]) -> None:
    problem = load_problem(write(tmp_path, document))
    assert problem.device_names == ("slow#0", "fast#1", "fast#2")
    assert problem.cost.tolist() == [[4, 2, 2], [12, 6, 6], [1, 0.5, 0.5]]
    edges = list(zip(problem.edge_source, problem.edge_target, problem.edge_bytes, strict=True))
    assert edges == [(0, 1, 250e6), (0, 2, 0), (1, 2, 0)]
    assert len(set(problem.edge_tensor.tolist())) == 3
    assert problem.bandwidth[0, 1] == NETWORK and np.isinf(problem.bandwidth[1, 2])
    assert hetgym.baselines.get("heft")(problem).makespan == 8.5  # 2 + 6 + 0.5 on one fast core


def test_a_file_that_is_listed_with_several_sizes_has_the_largest(tmp_path: Path) -> None:
    for written, read in ((100, 7), (7, 100)):
        document = copy.deepcopy(WORKFLOW_14)
        tasks = document["workflow"]["tasks"]
        tasks[0]["files"][1]["sizeInBytes"], tasks[1]["files"][0]["sizeInBytes"] = written, read
        assert load_problem(write(tmp_path, document)).edge_bytes[0] == 100


def test_a_workflow_without_machines_or_parents(tmp_path: Path) -> None:
    document = copy.deepcopy(WORKFLOW_15)
    del document["workflow"]["execution"]["machines"]
    for task in document["workflow"]["specification"]["tasks"]:
        task["parents"] = task["children"] = []
    problem = load_problem(write(tmp_path, document))
    assert problem.num_devices == 1
    assert list(zip(problem.edge_source, problem.edge_target, strict=True)) == [(0, 1)]  # through the file


def test_many_cores_and_machines(tmp_path: Path) -> None:
    document = copy.deepcopy(WORKFLOW_15)
    document["workflow"]["execution"]["machines"] = [{"nodeName": "big", "cpu": {"coreCount": 1000}}]
    assert load_problem(write(tmp_path, document)).num_devices == 3  # more cores than tasks change nothing
    document["workflow"]["execution"]["machines"] = [
        {"nodeName": f"n{i}", "cpu": {"coreCount": 1000}} for i in range(400)
    ]
    path = write(tmp_path, document)
    with pytest.warns(HetgymWarning, match="400 of 1200 devices are left out"):
        assert load_problem(path).num_devices == 800
    with pytest.raises(ProblemError, match="400 of 1200 devices are left out; strict=True refuses this"):
        load_problem(path, strict=True)


def with_cores(*cores: int, machine: int = 16, memory: float = 0.0) -> dict[str, Any]:
    """Independent tasks of 10 s that need so many cores, on one machine."""
    names = [f"t{i}" for i in range(len(cores))]
    rows = [
        {"id": name, "runtimeInSeconds": 10.0, "coreCount": count, "machines": ["m"], "memoryInBytes": memory}
        for name, count in zip(names, cores, strict=True)
    ]
    machines = [{"nodeName": "m", "cpu": {"coreCount": machine}, "memoryInBytes": 100.0}]
    tasks = [{"name": name, "id": name, "parents": [], "children": []} for name in names]
    workflow = {"specification": {"tasks": tasks}, "execution": {"tasks": rows, "machines": machines}}
    return {"schemaVersion": "1.5", "workflow": workflow}


@pytest.mark.parametrize(
    ("document", "makespan", "note"),
    [
        (with_cores(*[1] * 16), 10, None),
        (with_cores(*[8] * 16), 80, None),
        (with_cores(*[2, 4] * 8), 20, "8 of 16 tasks need up to 4 cores, and take 2 here"),
        (with_cores(*[32] * 2), 20, "tasks need 32 cores or more, which no machine has"),
        (with_cores(*[1] * 16, memory=6.25), 10, None),
        (with_cores(*[1] * 16, memory=6.5), 10, "memory is left out: tasks side by side may need more"),
        (edit_machines(with_cores(1, 1)), 10, "1 of 2 tasks ran on several machines"),
    ],
)
def test_cores_of_tasks(tmp_path: Path, document: dict[str, Any], makespan: float, note: str | None) -> None:
    path = write(tmp_path, document)
    if note is None:
        problem = load_problem(path, strict=True)
        assert problem.notes == ()
    else:
        with pytest.warns(HetgymWarning, match=note):
            problem = load_problem(path)
        assert note in problem.notes[0]
        with pytest.raises(ProblemError, match=note):
            load_problem(path, strict=True)
    assert hetgym.baselines.get("heft")(problem).makespan == makespan


def test_edges_are_counted_before_they_are_made(tmp_path: Path) -> None:
    names = [f"t{i}" for i in range(4200)]
    tasks = [
        {"name": name, "id": name, "parents": [], "inputFiles": ["f"] * (i >= 2100), "outputFiles": ["f"] * (i < 2100)}
        for i, name in enumerate(names)
    ]
    rows = [{"id": name, "runtimeInSeconds": 1} for name in names]
    workflow = {"specification": {"tasks": tasks}, "execution": {"tasks": rows}}
    with pytest.raises(ProblemError, match="4410000 pairs of a task that writes a file and one that reads it"):
        load_problem(write(tmp_path, {"workflow": workflow}))


def edit(document: dict[str, Any], *path: object) -> dict[str, Any]:
    """The document with the value at the path replaced by the last argument; ... deletes the field."""
    changed = copy.deepcopy(document)
    *way, last, value = path
    place: Any = changed
    for step in way:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return changed


NODE = ("nodes", 0)
TASKS = ("workflow", "tasks")
SPEC = ("workflow", "specification", "tasks")
BAD = [
    (edit(PARTITIONING, "nodes", {}), "'nodes' is an object, not a list"),
    (edit(PARTITIONING, "nodes", []), "has no nodes"),
    (edit(PARTITIONING, *NODE, 3), r"nodes\[0\] is a number, not an object"),
    (edit(PARTITIONING, *NODE, "id", 2), r"nodes\[1\]: 'id' is 2, which another node has too"),
    (edit(PARTITIONING, *NODE, "id", ...), r"nodes\[0\] has no 'id'"),
    (edit(PARTITIONING, *NODE, "cpuLatency", "1"), "'cpuLatency' is '1', not a number"),
    (edit(PARTITIONING, *NODE, "cpuLatency", -1), "'cpuLatency' is -1, not a number"),
    (edit(PARTITIONING, *NODE, "size", 10**400), "'size' is a huge number, not a number"),
    (edit(PARTITIONING, *NODE, "size", 1e300), "'size' is 1e[+]300, not a number"),
    (edit(PARTITIONING, *NODE, "name", 4), "'name' is 4, not a string"),
    (edit(PARTITIONING, *NODE, "colorClass", [1]), "'colorClass' is neither"),
    (edit(PARTITIONING, *NODE, "supportedOnFpga", 2), "'supportedOnFpga' is 2, not true or false"),
    (edit(PARTITIONING, "edges", 0, "destId", 99), r"edges\[0\]: 'destId' is 99, which no node has"),
    (edit(PARTITIONING, "edges", 0, "destId", 7), "is a loop"),
    (edit(PARTITIONING, "edges", 1, "destId", 2), "the edge 7 -> 2 appears twice"),
    (edit(PARTITIONING, "edges", 0, {"sourceId": 5, "destId": 7, "cost": 0}), "has a cycle: "),
    (edit(PARTITIONING, "maxFPGAs", 10**9), "'maxFPGAs' is 1000000000, not a whole number from 0 to 256"),
    (PARTITIONING | {"maxFPGAs": 0, "maxCPUs": 0}, "neither CPUs nor accelerators"),
    (PARTITIONING | {"maxCPUs": 0}, "operator 2 .* cannot be placed"),
    (edit(WORKFLOW_14, "schemaVersion", "0.9"), "schemaVersion is '0.9'; known: 1.3, 1.4"),
    (edit(WORKFLOW_14, "workflow", []), "'workflow' is a list, not an object"),
    (edit(WORKFLOW_14, *TASKS, 0, "name", "work"), "task 'work' appears twice"),
    (edit(WORKFLOW_14, *TASKS, 1, "parents", ["spit"]), "task 'work' names 'spit', which is not a task"),
    (edit(WORKFLOW_14, *TASKS, 1, "parents", "split"), "'parents' is not a list of strings"),
    (edit(WORKFLOW_14, *TASKS, 0, "parents", ["log"]), "has a cycle: "),
    (edit(WORKFLOW_14, *TASKS, 0, "parents", ["split"]), "is a loop"),
    (edit(WORKFLOW_14, *TASKS, 0, "runtimeInSeconds", ...), "has no 'runtime'"),
    (edit(WORKFLOW_14, *TASKS, 0, "files", 0, "link", ...), r"files\[0\] has no 'link'"),
    (edit(WORKFLOW_14, *TASKS, []), "operators"),
    (edit(WORKFLOW_14, "workflow", "machines", 1, "nodeName", "slow"), "'nodeName' is 'slow', which appears twice"),
    (edit(WORKFLOW_15, "workflow", "execution", ...), "'workflow' has no 'execution'"),
    (edit(WORKFLOW_15, "workflow", "execution", "tasks", 0, "id", "x"), "'id' is 'x', which no task"),
    (edit(WORKFLOW_15, "workflow", "execution", "tasks", 0, "id", "w2"), "'id' is 'w2', which appears twice"),
    (edit(WORKFLOW_15, "workflow", "execution", "tasks", []), "has no run time of task 's1'"),
    (edit(WORKFLOW_15, *SPEC, 1, "id", "s1"), "task 's1' appears twice"),
    ({"format": "hetgym-graph"}, "holds a graph without costs: load it with hetgym.load_graph"),
    ({"some": "thing"}, "unknown problem format; known: .npz, .json"),
    ([1, 2], "the document is a list, not an object"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "message"), BAD, ids=range(len(BAD)))
def test_bad_documents(tmp_path: Path, document: object, message: str) -> None:
    path = write(tmp_path, document)
    with pytest.raises(ProblemError, match=message) as caught:
        load_problem(path)
    assert "tiny" in str(caught.value) and "\n" not in str(caught.value)


def test_bad_files(tmp_path: Path) -> None:
    for load in (load_problem, pipeline.load):
        with pytest.raises(ProblemError, match="no such file|missing|not"):
            load(tmp_path / "nowhere.json")
        with pytest.raises(ProblemError, match="not from int"):
            load(3)  # type: ignore[operator]
        for name, data in {
            "text.json": b"{]",
            "bytes.json": b"\xff\xfe\x00",
            "twice.json": b'{"nodes": 1, "nodes": 2}',
            "nan.json": b'{"nodes": NaN, "maxCPUs": 1}',
            "deep.json": b"[" * 100_000,
            "cut.json.gz": gzip.compress(b"{}")[:9],
            "bomb.json.gz": gzip.compress(b" " * (200 << 20)),
        }.items():
            (tmp_path / name).write_bytes(data)
            with pytest.raises(ProblemError, match=name):
                load(tmp_path / name)
    (tmp_path / "problem.yaml").touch()
    with pytest.raises(ProblemError, match="unknown problem format '.yaml'"):
        load_problem(tmp_path / "problem.yaml")
    with pytest.raises(ProblemError, match="not a file of dnn-partitioning"):
        pipeline.load(write(tmp_path, WORKFLOW_15))
    textbook("topcuoglu").save(tmp_path / "own.npz")
    assert isinstance(load_problem(tmp_path / "own.npz"), Problem)


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.sampled_from([1e308, -0.5, 10**30, 10**400, "", "a", "7", "split"]),
    st.just([]),
    st.just({}),
    st.just([1]),
    st.just([[]]),
    st.just(["split", "split"]),
)


@pytest.mark.filterwarnings("ignore::hetgym.errors.HetgymWarning")
@examples(400)
@given(data=st.data())
def test_any_damage_is_a_problem_or_one_sentence(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    document = copy.deepcopy(DOCUMENTS[data.draw(st.sampled_from(sorted(DOCUMENTS)))])
    for _ in range(data.draw(st.integers(1, 3))):
        place: Any = document
        while True:
            keys = sorted(place) if isinstance(place, dict) else range(len(place))
            if not keys:
                break
            key = data.draw(st.sampled_from(list(keys)))
            if isinstance(place[key], dict | list) and data.draw(st.integers(0, 4)) > 0:
                place = place[key]
                continue
            action = data.draw(st.sampled_from(["replace", "delete", "repeat"]))
            if action == "delete":
                del place[key]
            elif action == "repeat" and isinstance(place, list):
                place.append(copy.deepcopy(place[key]))
            else:
                place[key] = copy.deepcopy(data.draw(JUNK))
            break
    path = write(tmp_path_factory.mktemp("fuzz"), document)
    for load in (load_problem, pipeline.load):
        try:
            load(path)
        except HetgymError as error:
            assert "\n" not in str(error)


DATA = Path(os.environ.get("HETGYM_DATA", "/nonexistent")) / "dnn-partitioning"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="set HETGYM_DATA to a folder that holds dnn-partitioning")


@needs_data
@pytest.mark.filterwarnings("ignore::hetgym.errors.HetgymWarning")
def test_published_files() -> None:
    """The files of github.com/msr-fiddle/dnn-partitioning, in two folders: latency and throughput."""
    for path in sorted((DATA / "latency").glob("*.json*")):
        problem = load_problem(path)
        schedule = hetgym.baselines.get("heft")(problem)
        hetgym.validate(problem, schedule)
        assert schedule.makespan <= problem.cost[:, 0].sum()
