"""Weights that several operators read: each device that runs a reader holds all of it, once."""

from __future__ import annotations

import pickle
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import hetgym
from hetgym import Problem, Schedule
from hetgym._types import FloatArray, IntArray
from hetgym.baselines.exact import solve
from hetgym.envs.dispatch.jobs import side_by_side
from hetgym.errors import HetgymError, InvalidSchedule, OutOfMemory, ProblemError
from hetgym.graph import DataflowGraph, Operator, Tensor
from hetgym.planning import get, timeline
from hetgym.planning.layers import by_layers, layers_of
from hetgym.search import course as courses
from hetgym.sim.memory import resident_weights
from hetgym.weights import SharedWeights
from tests.steps import callable_step

book, take_back, clear = (callable_step(f) for f in (timeline.book, timeline.take_back, timeline.clear))
put, undo = callable_step(courses.put), callable_step(courses.take_back)

SMALL = """
name: small
devices:
  - {name: cpu, kind: cpu, peak_flops: {float32: 1e12}, memory_bandwidth: 80e9, memory_capacity: 64e9}
  - {name: gpu0, kind: gpu, peak_flops: {float32: 13e12}, memory_bandwidth: 616e9, memory_capacity: 300e6}
  - {name: gpu1, kind: gpu, peak_flops: {float32: 13e12}, memory_bandwidth: 616e9, memory_capacity: 300e6}
links:
  - {between: [gpu0, cpu], latency: 10e-6, bandwidth: 12e9}
  - {between: [gpu1, cpu], latency: 10e-6, bandwidth: 12e9}
  - {between: [gpu0, gpu1], latency: 10e-6, bandwidth: 12e9}
"""


def drawn(seed: int, n: int = 12, d: int = 3, capacity: float = np.inf) -> Problem:
    """A random problem whose operators share some weights and have some of their own."""
    rng = np.random.default_rng(seed)
    shared = [
        (rng.choice(n, int(rng.integers(2, 5)), replace=False).tolist(), float(rng.integers(1, 50))) for _ in range(4)
    ]
    weights = rng.integers(0, 20, n).astype(np.float64)
    for readers, size in shared:
        weights[readers] += size
    edges = [(i, j, 1.0) for j in range(1, n) for i in {int(rng.integers(j))}]
    return Problem.from_arrays(
        rng.uniform(1, 9, (n, d)),
        edges,
        weight_bytes=weights,
        shared_weights=shared,
        output_bytes=0.0,
        memory_capacity=capacity,
    )


def held(problem: Problem, assignment: IntArray) -> FloatArray:
    """What each device holds, by sets."""
    total = np.zeros(problem.num_devices)
    for a in range(problem.num_devices):
        mine = set(np.flatnonzero(assignment == a).tolist())
        total[a] = problem.weight_bytes[sorted(mine)].sum()
        for readers, size in problem.shared_weights.pairs():
            total[a] -= size * max(0, len(mine & set(readers)) - 1)
    return total


@pytest.fixture
def tied(tmp_path: Path) -> Problem:
    """100 MB of words that the first and the last operator read, on devices of 60 MB."""
    x, w = Tensor((1, 5000)), Tensor((5000, 5000), constant=True, name="w")
    operators = [Operator("embed", "MatMul", (x, w), (x,)), Operator("head", "MatMul", (x, w), (x,))]
    (tmp_path / "small.yaml").write_text(SMALL)
    platform = hetgym.load_platform(tmp_path / "small.yaml")
    built = Problem.build(DataflowGraph(operators, [(0, 0, 1)], "tied"), platform)
    return built.replace(memory_capacity=[1.0, 60e6, 60e6])


def test_devices_that_read_a_weight_hold_all_of_it(tied: Problem) -> None:
    assert tied.weight_bytes.tolist() == [1e8, 1e8] and tied.model_bytes == 1e8
    apart = Schedule([1, 2], order=[[], [0], [1]])
    with pytest.raises(InvalidSchedule, match=r"memory: the operators on device 1 \('gpu0'\) read 100 MB of weights"):
        hetgym.validate(tied, apart)
    with pytest.raises(OutOfMemory, match=r"operator 'embed' reads 100 MB of weights"):
        hetgym.plan(tied, budget="100ms")
    roomy = tied.replace(memory_capacity=[1.0, 101e6, 101e6])
    assert hetgym.validate(roomy, apart).device_operators == (0, 1, 1)
    assert hetgym.simulate(roomy, apart, "memory=track").memory.peak.tolist() == [0.0, 1e8 + 2e4, 1e8 + 4e4]
    assert hetgym.simulate(roomy, Schedule([1, 1], order=[[], [0, 1], []])).memory.peak[1] < 1.01e8


def test_gpt2_on_two_cards(tied: Problem, tmp_path: Path) -> None:
    """Words of 154 MB are tied to the head; a layer has 28.35 MB: 353 MB and 296 MB for seven layers and five."""
    problem = Problem.build(hetgym.load_graph("gpt2"), hetgym.load_platform(tmp_path / "small.yaml"))
    layer, names = layers_of(problem)
    whole = by_layers(problem)
    blocks = [k for k, name in enumerate(names) if name.rpartition(".")[2].isdigit()]
    assert len(blocks) == 12
    second = np.isin(np.arange(len(names)), blocks[7:]) | (np.arange(len(names)) > max(blocks))
    for held_by, assignment in ((problem, 1 + second[layer]), (whole, 1 + second)):
        found = resident_weights(held_by, assignment.astype(np.int32))
        assert found[1:] / 1e6 == pytest.approx([353, 296], rel=0.02)
    assert whole.model_bytes == problem.model_bytes


@pytest.mark.parametrize("seed", range(20))
def test_the_room_of_a_timeline(seed: int) -> None:
    problem, rng = drawn(seed), np.random.default_rng(seed)
    placed = timeline.new_timeline(problem, hetgym.Runtime(memory="enforce"), np.full(3, 500.0))
    booked: list[int] = []
    for i in problem.topological_order.tolist():
        book(problem.arrays, placed, i, int(rng.integers(3)), float(len(booked) * 10))
        booked.append(i)
        assert (500.0 - placed.moves.room).tolist() == held(problem, placed.assignment).tolist()
    for i in reversed(booked[4:]):
        take_back(problem.arrays, placed, i)
        assert (500.0 - placed.moves.room).tolist() == held(problem, placed.assignment).tolist()
    clear(placed)
    assert placed.moves.room.tolist() == [500.0] * 3


@pytest.mark.parametrize("seed", range(10))
def test_the_weights_that_a_search_counts(seed: int) -> None:
    problem, rng = drawn(seed), np.random.default_rng(seed)
    runtime = hetgym.Runtime(memory="enforce")
    course = courses.new_course(problem, runtime, rng.integers(3, size=12).astype(np.int32), problem.topological_order)
    assert course.held.tolist() == held(problem, course.assignment).tolist()
    before = course.assignment.copy()
    for count, i in enumerate(rng.permutation(12)[:6].tolist()):
        put(problem.arrays, course, count, i, int(rng.integers(3)), courses.switches_of(problem, runtime))
        assert course.held.tolist() == held(problem, course.assignment).tolist()
    undo(course, 6)
    assert (course.assignment == before).all() and course.held.tolist() == held(problem, before).tolist()


PLANNERS = ("m-topo", "m-etf", "heft", "graham", "annealing", "cp-sat")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PLANNERS)
def test_plans_fit(name: str, seed: int) -> None:
    problem = drawn(seed)
    problem = problem.replace(memory_capacity=[0.75 * problem.model_bytes] * 3)
    enforced = hetgym.Runtime(memory="enforce")
    try:
        plan = solve(problem, 1.0, 1, memory=True).schedule if name == "cp-sat" else get(name)(problem, enforced)
    except HetgymError:
        assert name in ("m-topo", "m-etf")  # they do not search
        return
    assert (held(problem, plan.assignment) <= problem.memory_capacity).all()
    hetgym.validate(problem, plan)
    if name != "cp-sat":  # it does not count copies of inputs
        hetgym.simulate(problem, plan, enforced)


def test_a_shared_weight_counts_once_in_baselines() -> None:
    """Two readers of 10 bytes with 1 byte of their own fit on a device of 12."""
    problem = Problem.from_arrays(
        np.ones((2, 1)),
        [(0, 1, 0.0)],
        weight_bytes=11.0,
        output_bytes=0.0,
        memory_capacity=12.0,
        shared_weights=[((0, 1), 10.0)],
    )
    apart = problem.replace(weight_bytes=[11.0] * 2)
    for name in ("m-topo", "m-etf", "m-sct", "donf-m"):
        assert get(name)(problem).assignment.tolist() == [0, 0]
        with pytest.raises(HetgymError):
            get(name)(apart)
    assert solve(problem, 1.0, 1, memory=True).schedule.assignment.tolist() == [0, 0]


@pytest.mark.parametrize("seed", range(3))
def test_masks_of_devices(seed: int) -> None:
    """A device that holds a weight has room for its next reader."""
    problem = drawn(seed)
    problem = problem.replace(memory_capacity=[0.7 * problem.model_bytes] * 3)
    env = gym.make("HetSchedule-v0", problem=problem, memory="mask").unwrapped
    observation, _ = env.reset(seed=0)
    assignment, over = np.full(12, -1), False
    rng = np.random.default_rng(seed)
    while not over:
        operator, mask = int(observation["current"][0]), observation["action_mask"]
        fits = []
        for a in range(3):
            assignment[operator] = a
            working = problem.edge_bytes[problem.edge_target == operator].sum()
            fits.append(held(problem, assignment)[a] + min(working, 1.0) <= problem.memory_capacity[a])
        if any(fits):
            assert mask.astype(bool).tolist() == fits
        action = int(rng.choice(np.flatnonzero(mask)))
        assignment[operator] = action
        observation, _, over, _, _ = env.step(action)


def test_files_copies_and_jobs(tmp_path: Path) -> None:
    problem = drawn(0)
    problem.save(tmp_path / "p.npz")
    again = Problem.load(tmp_path / "p.npz")
    for other in (again, pickle.loads(pickle.dumps(problem)), problem.replace(name="other")):
        assert other.digest == problem.digest
        assert other.shared_weights.pairs() == problem.shared_weights.pairs()
    assert problem.replace(weight_bytes=problem.weight_bytes).digest != problem.digest
    assert problem.replace(weight_bytes=[1.0] * 12).shared_weights.pairs() == []
    two = side_by_side([problem, problem])
    assert two.model_bytes == 2 * problem.model_bytes
    everywhere = np.zeros(24, np.int32)
    assert resident_weights(two, everywhere)[0] == 2 * held(problem, everywhere[:12])[0]


WRONG = {
    "a reader beyond the operators": ([((0, 12), 5.0)], "operators, 0 to 2"),
    "a negative size": ([((0, 1), -5.0)], "non-negative bytes"),
    "no pairs": ([3], "not .operators, bytes. pairs"),
    "more than the operator's weights": ([((0, 1), 7.0)], r"weight_bytes\[0\] is 6, less than the shared weights"),
}


@pytest.mark.parametrize("shared, message", WRONG.values(), ids=WRONG)
def test_bad_shared_weights(shared: list, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        Problem.from_arrays(np.ones((3, 2)), [], weight_bytes=6.0, shared_weights=shared)


@pytest.mark.parametrize(
    "rows",
    [([0, 1], [0], [3.0]), ([0, 3], [0, 1], [3.0]), ([0, 2], [1, 0], [3.0]), ([0, 2], [0, 5], [3.0])],
    ids=["one reader", "pointers beyond", "readers that descend", "a reader beyond"],
)
def test_bad_rows(rows: tuple) -> None:
    pointer, reader, size = (np.array(row) for row in rows)
    with pytest.raises(ProblemError, match="shared weight"):
        drawn(0, n=5).replace(shared_weights=SharedWeights(pointer, reader, size, pointer, reader))


def test_only_weights_with_several_readers_are_shared() -> None:
    shared = SharedWeights.of(4, [((1,), 3.0), ((2, 0, 2), 5.0), ((0, 1), 0.0)])
    assert shared.pairs() == [([0, 2], 5.0)] and shared.each().tolist() == [5.0, 0.0, 5.0, 0.0]
    assert shared.grouped(np.array([0, 0, 1, 1]), 2).pairs() == [([0, 1], 5.0)]
    assert shared.repeated == 5.0


def test_who_writes_a_cache_and_who_reads_it_share_a_device_or_move_it() -> None:
    """The reader behind a write in place needs what was written to, which takes no memory of its own."""
    graph = hetgym.load_graph("gpt2", phase="decode", sequence=512)
    write = next(i for i, operator in enumerate(graph.operators) if operator.kind == "TensorScatter")
    cache = sum(tensor.bytes for tensor in graph.operators[write].inputs if tensor.constant)
    out = np.flatnonzero(graph.edge_source == write)
    assert cache > 0 and len(out) and (graph.edge_bytes[out] == cache).all()
    assert graph.output_bytes[write] == 0
    problem = Problem.build(graph, hetgym.load_platform("cpu-gpu"))
    operators = problem.arrays.topological_order.tolist()

    def makespan(on_cpu: list[int]) -> float:
        order = [on_cpu, [i for i in operators if i not in on_cpu]]
        devices = [int(i not in on_cpu) for i in range(problem.num_operators)]
        return hetgym.simulate(problem, Schedule(devices, order=order), "links").makespan

    together, apart = makespan([]), makespan([write])
    assert apart - together > cache / problem.bandwidth[0, 1]
