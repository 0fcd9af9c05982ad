"""Cases from public questions and bug reports, with answers that were worked out by hand or measured by others.

``cases/expected.json`` holds for each case the value of each figure, and its tolerance. A case in that file is either
measured by a function below or named in :data:`LATER`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from cli.commands import ask

import hetgym
from hetgym import Problem, Schedule
from hetgym.baselines import get
from hetgym.baselines.pipeline import contiguous_dp
from hetgym.envs.sb3 import make_vec_env
from hetgym.errors import HetgymError, HetgymWarning
from hetgym.graph import DataflowGraph, Operator, Tensor
from hetgym.pipeline import pipeline
from hetgym.planning.layers import layers_of
from hetgym.sim.memory import resident_weights
from hetgym.topology import import_platform
from hetgym.workloads import replay
from tests.envs.core.test_illegal import lanes_of, returns_of
from tests.llm import cases as llm

FOLDER = Path(__file__).parent / "cases"
EXPECTED: dict[str, dict[str, Any]] = json.loads((FOLDER / "expected.json").read_text())
EXPECTED.pop("how")

LATER: dict[str, str] = {}
"""Cases, or figures of cases, that need what hetgym does not have yet -> what that is."""


def played(env: gym.Env[Any, Any], rule: Callable[[Any], int], **reset: Any) -> tuple[float, dict[str, Any]]:
    """The return of an episode, and its last info; the rule maps the action mask to an action."""
    _, info = env.reset(**reset)
    total, over = 0.0, False
    while not over:
        _, reward, over, _, info = env.step(rule(np.asarray(info["action_mask"])))
        total += float(reward)
    return total, info


def cpu_reads_weights() -> dict[str, Any]:
    """A decoded token reads each weight once, of eight experts those of the two that are chosen."""
    shares = []
    for dtype in ("float32", "bfloat16"):
        graph = hetgym.load_graph("mixtral-8x7b", sequence=512, phase="decode", dtype=dtype)
        for name in ("cpu-2gpu-nvlink", "cpu-gpu"):
            platform = hetgym.load_platform(name)
            problem = Problem.build(graph, platform)
            for operator, read in (("self_attn.q_proj", 1.0), ("mlp.experts.gate_up_proj", 0.25)):
                i = problem.operator_names.index(f"layers.3.{operator}")
                rate = problem.weight_bytes[i] * read / problem.cost[i, 0]
                shares.append(rate / platform.devices[0].memory_bandwidth)
    return {"share_of_memory_bandwidth": shares}


def shared_uplink() -> dict[str, Any]:
    """1 GB from each card of one PCIe switch to one of another at once, and one copy alone."""
    platform = import_platform(FOLDER / "two-switches.txt")

    def milliseconds(pairs: int) -> float:
        big, small = Tensor((250_000_000,)), Tensor((1,))
        senders = [Operator(f"a{k}", "Relu", (small,), (big,)) for k in range(pairs)]
        readers = [Operator(f"b{k}", "View", (big,), (small,)) for k in range(pairs)]
        graph = DataflowGraph([*senders, *readers], [(k, 0, pairs + k) for k in range(pairs)], "copies")
        problem = Problem.build(graph, platform)
        problem = problem.replace(cost=np.zeros_like(problem.cost))
        devices = [platform.index(f"gpu{k}") for k in (*range(pairs), *range(4, 4 + pairs))]
        order = [[i for i, d in enumerate(devices) if d == k] for k in range(len(platform))]
        return float(hetgym.simulate(problem, Schedule(devices, order=order), runtime="links").makespan * 1e3)

    return {"ms_four": milliseconds(4), "ms_one": milliseconds(1)}


def two_machines() -> dict[str, Any]:
    graph = hetgym.load_graph("llama-7b", sequence=1024, phase="decode")
    problem = Problem.build(graph, hetgym.load_platform(FOLDER / "two-machines.yaml"))
    plan = hetgym.plan(problem, budget="1s")
    alone = get("single-device")(problem, "memory=enforce")
    return {
        "devices_used": [problem.device_names[d] for d in sorted(set(plan.assignment.tolist()))],
        "ms_over_best_feasible_single_device": plan.makespan / alone.makespan,
    }


def stages_of(table: str, *words: str) -> dict[str, Any]:
    """The answer of ``hetgym pipeline`` for a table of layers of this folder."""
    done = ask("pipeline", f"{table}.csv", "--json", "--out", mkdtemp(), *words, cwd=FOLDER)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def table_of_layers() -> dict[str, Any]:
    """A small first layer and sixty of 9.7 GB, four cards that hold two each beside buffers of 2500 MiB, and a CPU."""
    document = stages_of("expert-layers", "--platform", "four-cards.yaml", "--reserve", "2500MiB")
    layers = {stage["device"]: stage["layers"] - (stage["first"] == "first") for stage in document["stages"]}
    return {"whole_layers_by_card": [layers[f"gpu{k}"] for k in range(4)], "layers_on_cpu": layers["cpu"]}


def megatron_layout() -> dict[str, Any]:
    document = stages_of("dense-layers", "--layout", "1,2,2,4")  # the head is one more layer
    return {
        "heaviest_stage_1223": document["layout"]["largest"],
        "heaviest_stage_2222": document["largest"],
    }


def stage_times() -> dict[str, Any]:
    document = stages_of("equal-layers", "--layout", "9,8,8,8,8,8,8,9")
    return {"speed_up_8_each": document["layout"]["speedup"], "speed_up_best": document["speedup"]}


def buffers_in_device_map() -> dict[str, Any]:
    """Layers with a parameter and a buffer of their own, which is in a state dict or not; whole and cut in two."""
    torch = pytest.importorskip("torch")

    class Layer(torch.nn.Module):
        def __init__(self, persistent: bool) -> None:
            super().__init__()
            self.up, self.down = torch.nn.Linear(256, 1024), torch.nn.Linear(1024, 256)
            self.register_buffer("layer_scalar", torch.full((1,), 0.5), persistent=persistent)

        def forward(self, x: Any) -> Any:
            return (self.down(torch.relu(self.up(x)))) * self.layer_scalar

    missing = 0
    for persistent in (True, False):
        net = torch.nn.Sequential(*(Layer(persistent) for _ in range(4))).eval()
        graph = hetgym.graph.from_torch(net, (torch.zeros(2, 256),))
        problem = Problem.build(graph, hetgym.load_platform("cpu-2gpu-nvlink"))
        weights = [name for name, _ in (*net.named_parameters(), *net.named_buffers())]
        for second in ("23", "0123"):
            late = [n[0] in second and (second == "23" or "down" in n or "mul" in n) for n in problem.operator_names]
            device = [1 + int(there) for there in late]
            plan = Schedule(device, order=[[i for i, d in enumerate(device) if d == k] for k in range(3)])
            found = hetgym.export_plan(plan, "accelerate", problem=problem, weights=weights)
            for name in weights:
                at = [found[path] for path in found if name == path or name.startswith(f"{path}.")]
                missing += not at or (second == "0123" and "scalar" in name and at != [1])
    return {"parameters_and_buffers_without_device": missing}


def overhead_per_partition() -> dict[str, Any]:
    """Four branches between a source and a sink that only the CPU has; entering the delegate takes 5 ms."""
    cost = np.array([[1, np.inf], *[[2, 0.1]] * 4, [1, np.inf]]) * 1e-3
    edges = [(0, i, 1.0) for i in range(1, 5)] + [(i, 5, 1.0) for i in range(1, 5)]
    found = []
    for waits in (True, False):
        rules = {"partition_overhead": [0.0, 5e-3], "synchronous": [False, waits]}
        problem = Problem.from_arrays(cost, edges, bandwidth=1e9, **rules)
        plan = get("lns")(problem, "links")
        found.append(hetgym.simulate(problem, plan, "links").makespan * 1e3)
        assert hetgym.plan(problem, budget="300ms").makespan * 1e3 <= 7.4 * 1.005
    return {"ms_waiting": found[0], "ms_not_waiting": found[1]}


def onnx_loop(folder: Path) -> dict[str, Any]:
    """A loop of 32 rounds before a product; its body does not state the shape of the state."""
    onnx = pytest.importorskip("onnx")
    helper, f = onnx.helper, onnx.TensorProto.FLOAT

    def known(name: str, kind: int, shape: list[int] | None) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    boolean, whole = onnx.TensorProto.BOOL, onnx.TensorProto.INT64
    inside = [helper.make_node("Add", ["state", "one"], ["next"]), helper.make_node("Identity", ["cond"], ["go"])]
    arguments = [known("i", whole, []), known("cond", boolean, []), known("state", f, [1, 64])]
    one = helper.make_tensor("one", f, [1], [1.0])
    body = helper.make_graph(inside, "body", arguments, [known("go", boolean, []), known("next", f, None)], [one])
    nodes = [
        helper.make_node("Loop", ["trips", "yes", "x"], ["looped"], name="tokens", body=body),
        helper.make_node("MatMul", ["looped", "w"], ["y"], name="dense"),
    ]
    constants = [
        helper.make_tensor("trips", whole, [], [32]),
        helper.make_tensor("yes", boolean, [], [True]),
        onnx.numpy_helper.from_array(np.zeros((64, 4096), np.float32), "w"),
    ]
    graph = helper.make_graph(nodes, "g", [known("x", f, [1, 64])], [known("y", f, [1, 4096])], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "l.onnx")
    with pytest.warns(HetgymWarning, match="shape of 'looped' unknown"):
        loaded = hetgym.load_graph(folder / "l.onnx")
    problem = Problem.build(loaded, hetgym.load_platform("cpu-gpu"))
    devices = hetgym.plan(problem, budget="50ms").assignment[[op.kind == "Loop" for op in loaded.operators]]
    return {"devices_of_the_loop": len(devices), "text": EXPECTED["26-onnx-loop"]["text"]}


def chakra_leaf_kernels(folder: Path) -> dict[str, Any]:
    """Kernels of two streams, which nothing depends on; nodes in a circle; and the form of chakra_jsonizer."""

    def node(
        i: int, name: str, took: int, after: list[int], type: int, start: int | None, **more: int
    ) -> dict[str, Any]:
        row = {"id": i, "name": name, "type": type, "duration_micros": took, "ctrl_deps": after, **more}
        return row if start is None else row | {"start_time_micros": start}

    def nodes(starts: list[int] | None) -> list[dict[str, Any]]:
        at = starts or [None] * 6
        return [
            node(1, "aten::mm", 10, [], 4, at[0], is_cpu_op=1, tid=1),
            node(2, "sgemm", 500, [1], 4, at[1], is_cpu_op=0, stream=7),
            node(3, "aten::relu", 10, [1], 4, at[2], is_cpu_op=1, tid=1),
            node(4, "elementwise", 300, [3], 4, at[3], is_cpu_op=0, stream=7),
            node(5, "nccl:all_reduce", 10, [3], 4, at[4], is_cpu_op=1, tid=1),
            node(6, "ncclDevKernel_AllReduce", 400, [5], 7, at[5], is_cpu_op=0, stream=20, comm_type=0),
        ]

    def printed(row: dict[str, Any]) -> str:
        attributes = [{"name": k, "int64Val": str(row[k])} for k in ("is_cpu_op", "tid", "stream") if k in row]
        kind = {4: "COMP_NODE", 7: "COMM_COLL_NODE"}[row["type"]]
        whole = {"id": str(row["id"]), "name": row["name"], "type": kind, "attr": attributes}
        after = [str(k) for k in row["ctrl_deps"]]
        return json.dumps(whole | {"ctrlDeps": after, "durationMicros": str(row["duration_micros"])}, indent=2)

    def read(name: str, text: str) -> Any:
        (folder / name).write_text(text)
        return hetgym.graph.from_trace(folder / name)

    timed = read("timed.json", json.dumps({"workload_graph": nodes([1, 11, 11, 511, 21, 811])}))
    bound = "3 of 6 nodes have no reader, kernels among them.* lower bound"
    with pytest.warns(HetgymWarning, match=bound):
        untimed = read("untimed.json", json.dumps({"workload_graph": nodes(None)}))
    with pytest.warns(HetgymWarning, match=bound):
        again = read("printed.json", '{"version": "0.0.4"}' + "".join(map(printed, nodes(None))))
    assert len(again.names) == len(untimed.names) == 6 and again.span == untimed.span < timed.span
    ring = [
        node(i, name, 10, [], 4, None, tid=1) | {"data_deps": [k]}
        for i, name, k in ((1, "a", 3), (2, "b", 1), (3, "c", 2))
    ]
    with pytest.raises(HetgymError, match="cycle: 'b' -> 'c' -> 'a' -> 'b'"):
        read("circle.json", json.dumps({"workload_graph": ring}))
    run = hetgym.simulate(*replay(timed)).makespan
    assert run == pytest.approx(timed.span)
    return {"A_ms_with_starts": run * 1e3, "text": EXPECTED["34-chakra-leaf-kernels"]["text"]}


def prefill_pipeline() -> dict[str, Any]:
    most = stages_of("llama-3-70b-8-bit", "--platform", "8xl4.yaml", "--reserve", "4GB", "--objective", "cache")
    ends = [stage["layers"] - 1 for stage in (most["stages"][0], most["stages"][-1])]  # beside the words, or the head
    platform, empty = hetgym.load_platform(FOLDER / "8xl4.yaml"), 0
    for phase in ("decode", "prefill", "forward"):
        problem = pipeline(hetgym.load_graph("llama-3-8b", sequence=1024, phase=phase), platform)
        empty += 8 - len(set(contiguous_dp(problem).tolist()))
    return {"empty_stages": empty, "layers_first_and_last_for_most_cache": sum(ends) / 2}


def tied_words() -> dict[str, Any]:
    """100 MB that both operators read, on cards of 60 MB; words of GPT-2 (154 MB) tied to its head."""
    platform = hetgym.load_platform(FOLDER / "small2.yaml")
    x, w = Tensor((1, 5000)), Tensor((5000, 5000), constant=True, name="w")
    operators = [Operator("embed", "MatMul", (x, w), (x,)), Operator("head", "MatMul", (x, w), (x,))]
    problem = Problem.build(DataflowGraph(operators, [(0, 0, 1)], "tied"), platform)
    problem = problem.replace(memory_capacity=[0.0, 60e6, 60e6])

    def verdict(call: Callable[[], object]) -> str:
        try:
            call()
        except HetgymError:
            return "refused"
        return "fits"

    gpt2 = Problem.build(hetgym.load_graph("gpt2"), platform)
    layer, names = layers_of(gpt2)
    numbers = [k for k, name in enumerate(names) if name.rpartition(".")[2].isdigit()]
    second = np.isin(np.arange(len(names)), numbers[7:]) | (np.arange(len(names)) > max(numbers))
    held = resident_weights(gpt2, (1 + second[layer]).astype(np.int32))
    return {
        "validate": verdict(lambda: hetgym.validate(problem, Schedule([1, 2], order=[[], [0], [1]]))),
        "plan": verdict(lambda: hetgym.plan(problem, budget="100ms")),
        "gpt2_mb_by_card_7_5": (held[1:] / 1e6).tolist(),
    }


def illegal_pays() -> dict[str, Any]:
    """Random legal actions come from the stream that replaces illegal ones, so that luck does not tell them apart."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HetgymWarning)
        never, _ = returns_of(lanes_of("HetDispatch-v0", 200), legal=False)
    legal, _ = returns_of(lanes_of("HetDispatch-v0", 200), legal=True)
    gain = never - legal
    return {"never_legal_minus_random_legal_upper_99": gain.mean() + 2.33 * gain.std(ddof=1) / len(gain) ** 0.5}


def job_shop_in_place(folder: Path) -> dict[str, Any]:
    rng = np.random.default_rng(2)
    rows = (" ".join(f"{m} {rng.integers(1, 20)}" for m in rng.permutation(5)) for _ in range(5))
    (folder / "five.jsp").write_text("5 5\n" + "\n".join(rows) + "\n")
    env = gym.make("HetSchedule-v0", problem=str(folder / "five.jsp"), completion="off")
    with pytest.warns(HetgymWarning, match="HetDispatch-v0"):
        env.reset(seed=0)
    return {"text": EXPECTED["rl-job-shop-in-place"]["text"]}


def disabled_dones() -> dict[str, Any]:
    """Two lanes of 100 operators take 200 steps: four episodes, one after the other."""
    chain = Problem.from_arrays(np.ones((100, 2)), [(i, i + 1, 1.0) for i in range(99)])
    kinds = {"num_envs": 2, "observation": "flat", "completion": "off", "problem": chain}
    for mode in ("NextStep", "SameStep", "Disabled"):
        envs = gym.wrappers.vector.RecordEpisodeStatistics(gym.make_vec("HetSchedule-v0", autoreset_mode=mode, **kinds))
        _, info = envs.reset(seed=0)
        returned, copies, recorded = [], 0, 0
        for _ in range(200):
            _, _, ended, _, info = envs.step(info["action_mask"].argmax(1))
            returned.append(ended)
            copies += int(ended.sum())
            recorded += int(np.sum(info.get("_episode", 0)))
            if mode == "Disabled" and ended.any():
                _, info = envs.reset(options={"reset_mask": ended})
        assert recorded == copies > 0
    return {
        "episodes_recorded": int(sum(ended.sum() for ended in returned)),
        "text": EXPECTED["rl-disabled-dones"]["text"],
    }


def job_time_reference() -> dict[str, Any]:
    jobs = [Problem.from_arrays([[cost]], []) for cost in (5.0, 1.0, 8.0, 3.0, 7.0, 2.0, 6.0, 4.0)]
    env = gym.make("HetDispatch-v0", problem=jobs, jobs=8, gap=0.0, objective="job-time", completion="off")
    rng = np.random.default_rng(0)
    runs = [
        played(env, lambda mask: int(rng.choice(np.flatnonzero(mask))), seed=seed, options={"problem": jobs})
        for seed in range(50)
    ]
    return {"reference": runs[-1][1]["reference"], "random_agent_return": float(np.mean([total for total, _ in runs]))}


def speedup_under_arrivals() -> dict[str, Any]:
    """Under arrivals, changes or noise there is either no speedup or one that compares like with like."""
    one, row = Problem.from_arrays([[1.0]], []), Problem.from_arrays(np.ones((30, 1)), [])
    slow = hetgym.sim.SlowDown(device=0, at=0.0, factor=4.0)
    found = []
    for rules in (
        {"problem": one, "jobs": 20, "gap": 5.0},
        {"problem": row, "changes": [slow]},
        {"problem": row, "noise": 0.5},
    ):
        env = gym.make("HetDispatch-v0", completion="off", **rules)
        found.append(played(env, lambda mask: int(mask.argmax()), seed=0)[1].get("speedup", 1.0))
    return {"speedup_of_one_device": max(found, key=lambda value: abs(value - 1.0))}


def wfcommons_cores(folder: Path) -> dict[str, Any]:
    def makespan(name: str, cores: int) -> float:
        ids = [f"t{i}" for i in range(16)]
        tasks = [{"id": i, "runtimeInSeconds": 10.0, "coreCount": cores, "machines": ["m"]} for i in ids]
        machine = {"nodeName": "m", "cpu": {"coreCount": 16, "speedInMHz": 1000}}
        run = {"makespanInSeconds": 10, "executedAt": "-", "tasks": tasks, "machines": [machine]}
        empty = {"parents": [], "children": [], "inputFiles": [], "outputFiles": []}
        specification = {"tasks": [{"name": i, "id": i, **empty} for i in ids], "files": []}
        workflow = {"specification": specification, "execution": run}
        (folder / name).write_text(json.dumps({"name": name, "schemaVersion": "1.5", "workflow": workflow}))
        return float(get("heft")(hetgym.load_problem(folder / name)).makespan)

    return {"makespan_one_core_tasks": makespan("1.json", 1), "makespan_eight_core_tasks": makespan("8.json", 8)}


def seed_overlap() -> dict[str, Any]:
    def problems(split: str, lanes: int, seed: int) -> set[bytes]:
        envs = make_vec_env("HetSchedule-v0", lanes, seed=seed, observation="flat", completion="off", split=split)
        return {row.tobytes() for _ in range(5) for row in np.asarray(envs.reset())}

    train, test = problems("train", 16, 0), problems("test", 4, 1)
    assert len(train) > 60 and len(test) > 15  # a pool may give a lane a problem twice
    return {"common_problems_with_split": len(train & test)}


def gantt_of_a_shop(folder: Path) -> dict[str, Any]:
    pytest.importorskip("matplotlib")
    (folder / "two.jsp").write_text("3 2\n0 3 1 2\n1 4 0 1\n0 2 1 5\n")
    problem = hetgym.load_problem(folder / "two.jsp")
    (axes,) = hetgym.simulate(problem, get("heft")(problem)).gantt().axes
    rows = [label.get_text() for label in axes.get_yticklabels()]
    colours = {tuple(colour) for bars in axes.collections for colour in bars.get_facecolors()}
    return {
        "rows": "one a machine" if rows == ["M0", "M1"] else str(rows),
        "colours": "one a job" if len(colours) == 3 else f"{len(colours)} colours",
    }


CASES: dict[str, Callable[..., dict[str, Any]]] = {
    "01b-cpu-reads-weights": cpu_reads_weights,
    "07-table-of-layers": table_of_layers,
    "14d-two-machines": two_machines,
    "33-shared-uplink": shared_uplink,
    "16-prefill-pipeline": prefill_pipeline,
    "20-buffers-in-device-map": buffers_in_device_map,
    "25-overhead-per-partition": overhead_per_partition,
    "26-onnx-loop": onnx_loop,
    "28-megatron-layout": megatron_layout,
    "29-stage-times": stage_times,
    "30-tied-words": tied_words,
    "34-chakra-leaf-kernels": chakra_leaf_kernels,
    "rl-illegal-pays": illegal_pays,
    "rl-job-shop-in-place": job_shop_in_place,
    "rl-disabled-dones": disabled_dones,
    "rl-job-time-reference": job_time_reference,
    "rl-speedup-under-arrivals": speedup_under_arrivals,
    "rl-wfcommons-cores": wfcommons_cores,
    "rl-seed-overlap": seed_overlap,
    "rl-gantt-of-a-shop": gantt_of_a_shop,
    **llm.CASES,
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """The figures of a case, measured once."""

    @cache
    def measure(case: str) -> dict[str, Any]:
        takes_folder = CASES[case].__code__.co_varnames[:1] == ("folder",)
        return CASES[case](*[tmp_path_factory.mktemp("case")] if takes_folder else [])

    return measure


FIGURES = [(case, figure) for case in CASES for figure in EXPECTED[case] if f"{case}/{figure}" not in LATER]


@pytest.mark.parametrize(("case", "figure"), FIGURES)
def test_figures(measured: Callable[[str], dict[str, Any]], case: str, figure: str) -> None:
    found, due = measured(case)[figure], EXPECTED[case][figure]
    if isinstance(due, str):
        assert found == due
        return
    assert due.keys() & {"value", "max", "min"}
    if "value" in due and {"rel", "abs"} & due.keys():
        assert found == pytest.approx(due["value"], rel=due.get("rel"), abs=due.get("abs"))
    elif "value" in due:
        assert found == due["value"]
    for value in found if isinstance(found, list) and {"max", "min"} & due.keys() else [found]:
        assert value <= due.get("max", value) and value >= due.get("min", value)


def test_every_case_is_measured_or_waits() -> None:
    waiting = {name.partition("/")[0] for name in LATER if "/" not in name}
    assert set(EXPECTED) == set(CASES) | waiting and not set(CASES) & waiting
    assert all(figure in EXPECTED[case] for case, _, figure in (n.partition("/") for n in LATER) if figure)
