"""Profiles: real operators measured by a real process that may hang, die or be killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from hetgym import load_graph  # noqa: E402
from hetgym.device import Device  # noqa: E402
from hetgym.errors import ConfigError, UnknownName  # noqa: E402
from hetgym.graph import DataflowGraph, Operator, Tensor  # noqa: E402
from hetgym.measurements import Dataset, MachineCard, Measurements  # noqa: E402
from hetgym.profiling import designs  # noqa: E402
from hetgym.profiling.designs import DESIGNS, Size, draw  # noqa: E402
from hetgym.profiling.host import HostSettings  # noqa: E402
from hetgym.profiling.networks import random_networks  # noqa: E402
from hetgym.profiling.plans import design_items, model_items, table_items, total  # noqa: E402
from hetgym.profiling.session import Item, Profile, Worker, merged  # noqa: E402
from hetgym.profiling.timing import repeat  # noqa: E402

CORE = min(os.sched_getaffinity(0))
HOST = HostSettings((CORE,))
RELU = Operator("relu", "Relu", (Tensor((64, 64)),), (Tensor((64, 64)),))
HUGE = Operator("huge", "Relu", (Tensor((1 << 40,)),), (Tensor((1 << 40,)),))
TASK = Operator("task", "Task", (Tensor((2,)),), (Tensor((2,)),))
SLOW = Operator("slow", "MatMul", (Tensor((6000, 6000)), Tensor((6000, 6000))), (Tensor((6000, 6000)),))


def small_graph():
    x = Tensor((8, 8))
    return DataflowGraph(
        [Operator("a", "Relu", (x,), (x,)), Operator("b", "Relu", (x,), (x,)), Operator("c", "Add", (x, x), (x,))],
        [(0, 0, 1), (0, 0, 2), (1, 0, 2)],
        "small",
    )


@pytest.mark.slow
def test_a_profile_measures_refuses_and_gives_up(tmp_path):
    items = [
        Item("d", RELU),
        Item("d", RELU, direction="backward"),
        Item("d", HUGE),
        Item("d", TASK),
        Item("d", SLOW),
        Item("small", graph=small_graph()),
    ]
    seen = []
    patient = Profile(tmp_path / "p.csv.gz", HOST, time_limit=100.0, rounds=3)  # also where the machine is busy
    patient.run([item for item in items if item.operator is not SLOW], 2, lambda *what: seen.append(what))
    profile = Profile(tmp_path / "p.csv.gz", HOST, time_limit=1.0, rounds=3)
    table = profile.run(items, 2, lambda *what: seen.append(what))
    assert list(tmp_path.glob("*.part.csv")) and not profile.path.exists()
    profile.finish(
        Dataset(
            table, MachineCard.collect((CORE,), "full"), Device("cpu", "cpu", {"float32": 1e9}, memory_bandwidth=1e9)
        )
    )
    status = {(row.operator.kind, row.direction, row.context, row.operator.inputs): row.status for row in table}
    assert status["Relu", "forward", "isolated", RELU.inputs] == "ok"
    assert status["Relu", "backward", "isolated", RELU.inputs] == "ok"
    assert status["Relu", "forward", "isolated", HUGE.inputs] == "memory"
    assert status["Task", "forward", "isolated", TASK.inputs] == "unsupported"
    assert status["MatMul", "forward", "isolated", SLOW.inputs] == "timeout"
    assert len(seen) == 2 * len(items)
    relu = next(row for row in table if row.context == "graph" and row.operator.kind == "Relu")
    assert relu.count == 2
    assert relu.repetitions == 6
    whole = table.graphs()["small"]
    parts = sum(row.seconds * row.count for row in table.timed() if row.context == "graph")
    assert 0 < parts < 1.5 * whole
    assert all(0 < row.p10 <= row.p90 for row in table.timed())
    assert not list(tmp_path.glob("*.part.csv"))
    assert [row.row() for row in Measurements.load(tmp_path / "p.csv.gz")] == [row.row() for row in table]


@pytest.mark.slow
def test_a_profile_goes_on_where_a_kill_stopped_it(tmp_path):
    script = (
        "from hetgym.profiling.plans import design_items; from hetgym.profiling.session import Profile\n"
        "from hetgym.profiling.host import HostSettings\n"
        f"Profile({str(tmp_path / 'p.csv.gz')!r}, HostSettings(({CORE},))).run(design_items(['relu'], 0.2), 3)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
    journal = tmp_path / "p.part.csv"
    limit = time.monotonic() + 300
    while (not journal.exists() or journal.read_text().count("\n") < 6) and time.monotonic() < limit:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    profile = Profile(tmp_path / "p.csv.gz", HOST)
    items = design_items(["relu"], 0.2)
    kept = len(profile.journal.rows)
    assert kept >= 5
    assert len(profile.missing(items, 3)) == 3 * len(items) - kept
    del profile.journal.rows[6:]
    table = profile.run(items[:2], 1)
    assert len(table.timed()) >= 2


def children(pid):
    """Process ids of the children of a process, and of theirs."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    found = [int(word) for thread in threads for word in thread.read_text().split()]
    return found + [grandchild for child in found for grandchild in children(child)]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_a_worker_ends_with_its_parent_even_while_it_measures(tmp_path):
    script = (
        "from hetgym.graph import Operator, Tensor; from hetgym.profiling.session import Item, Profile\n"
        "from hetgym.profiling.host import HostSettings\n"
        "x = Tensor((20_000, 20_000))\n"
        f"Profile({str(tmp_path / 'p.csv.gz')!r}, HostSettings(({CORE},)), time_limit=600.0, memory_limit=2e10)"
        ".run([Item('slow', Operator('slow', 'MatMul', (x, x), (x,)))])\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script])
    limit = time.monotonic() + 300
    while len(children(parent.pid)) < 2 and time.monotonic() < limit:  # the worker, and its copy that measures
        time.sleep(0.05)
    family = children(parent.pid)
    parent.kill()
    parent.wait()
    assert len(family) == 2
    while any(Path(f"/proc/{pid}").exists() for pid in family) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in family)


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced():
    with Worker(HOST) as worker:
        request = {"row": Item("d", RELU).blank.row()}
        assert worker.ask(request, 60)["status"] == "ok"
        os.kill(worker._process.pid, signal.SIGKILL)
        assert worker.ask(request, 60) is None
        assert worker.ask(request, 60)["status"] == "ok"
        process = worker._process
    assert process.poll() is not None


@pytest.mark.slow
def test_graphs_run_within_a_sum_of_their_parts(tmp_path):
    """In one of several profiles: a process that takes the core away prolongs the graph, and few of its parts."""
    ratios = []
    while len(ratios) < 6:
        table = Profile(tmp_path / f"p{len(ratios)}.csv.gz", HOST, rounds=5).run(model_items(["squeezenet"]))
        assert sum(row.count for row in table.timed()) == len(load_graph("squeezenet"))
        total_seconds = sum(row.seconds * row.count for row in table.timed())
        ratios.append(total_seconds / table.graphs()["squeezenet"])
        if 0.5 < ratios[-1] < 1.2:
            return
    pytest.fail(f"the parts take {ratios} of the whole")


@pytest.mark.parametrize("size", [designs.CORE, designs.GPU], ids=["core", "gpu"])
@pytest.mark.parametrize("name", DESIGNS)
def test_designs_give_different_legal_operators(name: str, size: Size) -> None:
    operators = draw(name, 40, size=size)
    assert len({(op.inputs, op.outputs) for op in operators}) == 40
    assert all(op.flops <= size.flops and op.bytes_read + op.bytes_written <= size.bytes for op in operators)
    assert [op.inputs for op in draw(name, 10, size=size)] == [op.inputs for op in operators[:10]]
    assert [op.inputs for op in draw(name, 10, seed=1, size=size)] != [op.inputs for op in operators[:10]]


def test_designs_and_networks_of_gpus_are_larger() -> None:
    sizes = (designs.CORE, designs.GPU)
    for name in ("conv", "gemm", "relu"):
        core, gpu = (sum(op.bytes_read for op in draw(name, 40, size=size)) for size in sizes)
        assert gpu > 2 * core
    core, gpu = (sum(item.direction == "backward" for item in design_items(["gemm"], size=s)) for s in sizes)
    assert (core, gpu) == (60, 300)
    core, gpu = (sum(op.flops for graph in random_networks(22, size=size) for op in graph.operators) for size in sizes)
    assert gpu > 2 * core


def test_heavy_designs_are_large():
    for name in (
        "conv",
        "conv-pointwise",
        "conv-depthwise",
        "gemm",
        "matmul",
        "matmul-batched",
        "attention",
        "lstm-cell",
    ):
        assert len(draw(name)) >= 250


def test_an_unknown_design_is_refused():
    with pytest.raises(UnknownName, match="did you mean 'conv'"):
        draw("convv")


def test_random_networks_are_repeatable_and_varied():
    first, again = random_networks(12), random_networks(12)
    assert [g.name for g in first] == [g.name for g in again]
    assert [[op.outputs for op in g.operators] for g in first] == [[op.outputs for op in g.operators] for g in again]
    kinds = {op.kind for g in first for op in g.operators}
    assert {"Conv", "Gemm", "LSTMCell", "Attention", "Concat", "Transpose", "BatchNormalization", "View"} <= kinds


def test_shapes_from_a_table(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text('kind,inputs,outputs,direction\nRelu,"float32(2,3)","float32(2,3)",backward\n')
    (item,) = table_items(path)
    assert (item.operator.kind, item.direction, item.source) == ("Relu", "backward", "mine")
    assert total([item]) == "1 operators alone, 0 graphs with 0 operators"
    for text, words in (
        ("kind,inputs\n", "'outputs' is missing"),
        ("kind,inputs,outputs,colour\n", "unknown column"),
        ("kind,inputs,outputs\nRelu\n", "1 fields, but 3"),
        ("", "'kind' is missing"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=words):
            table_items(path)
    with pytest.raises(ConfigError, match="no such file"):
        table_items(tmp_path / "none.csv")


def test_repetitions_stop_when_the_spread_is_known():
    steady = repeat(lambda: 1e-3)
    assert (steady.seconds, steady.repetitions) == (1e-3, 9)
    rng = np.random.default_rng(0)
    wild = repeat(lambda: float(rng.lognormal(-7, 0.8)))
    assert wild.repetitions == 45
    assert wild.p10 < wild.seconds < wild.p90

    def slow():
        time.sleep(0.05)
        return 0.05

    assert repeat(slow, budget=0.2).repetitions < 9


def test_an_item_is_an_operator_or_a_graph():
    with pytest.raises(ConfigError, match="either an operator or a graph"):
        Item("x")


def test_passes_are_merged_by_their_medians():
    from dataclasses import replace

    row = replace(Item("d", RELU).blank, status="ok", repetitions=9, p10=1.0, p90=9.0)
    rows = [replace(row, seconds=s) for s in (3.0, 1.0, 2.0)] + [replace(row, seconds=float("nan"), status="timeout")]
    (only,) = merged(rows)
    assert (only.seconds, only.repetitions, only.status) == (2.0, 27, "ok")


@pytest.mark.parametrize(
    ("cores", "isa", "words"),
    [
        ((), "full", "cores are"),
        ((0, 0), "full", "cores are"),
        ((0,), "avx3", "unknown instruction set"),
        ((0,), {"mlk": "avx2"}, "did you mean 'mkl'"),
        ((-1,), "full", "cores are"),
    ],
)
def test_bad_host_settings_are_refused(cores, isa, words):
    with pytest.raises(ConfigError, match=words):
        HostSettings(cores, isa)


@pytest.mark.slow
def test_a_cap_slows_convolutions_down():
    """The caps reach the libraries: a convolution takes longer without wide vectors."""
    x, weight = Tensor((4, 64, 56, 56)), Tensor((64, 64, 3, 3), constant=True)
    convolution = Operator("c", "Conv", (x, weight), (Tensor((4, 64, 54, 54)),), {"kernel_shape": [3, 3]})
    row = Item("d", convolution).blank.row()
    times = []
    for isa in ("full", "sse4.2"):
        with Worker(HostSettings((CORE,), isa)) as worker:
            times.append(min(worker.ask({"row": row}, 60)["seconds"] for _ in range(3)))
    assert times[1] > 1.3 * times[0]
