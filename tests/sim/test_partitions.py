"""Partitions: the time to enter them, and hosts that wait while a device runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import oracle_runtime
import pytest
import strategies
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

import hetgym
from hetgym import ConfigError, Problem, ProblemError, Runtime, Schedule, simulate
from hetgym.baselines import get
from hetgym.graph import DataflowGraph, Operator, Tensor
from hetgym.metrics import single_device_makespan
from hetgym.planning.bounds import lower_bound
from hetgym.search.course import exact, new_course
from hetgym.sim.online import OnlineSimulation

COLUMNS = ("start", "finish", "sent", "arrived")


@pytest.mark.parametrize("communication", ["free", "fifo", "endpoint"])
@pytest.mark.parametrize("kind", ["order", "priority"])
@examples(100)
@given(data=st.data())
def test_equals_oracle(communication: str, kind: str, data: st.DataObject) -> None:
    problem = data.draw(strategies.partitioned())
    schedule = data.draw(strategies.schedules(problem, (kind,)))
    runtime = data.draw(strategies.runtimes(communication=communication, streams=1))
    order = None if schedule.priority is not None else [row.tolist() for row in schedule.device_order(problem)]
    priority = None if schedule.priority is None else schedule.priority.tolist()
    reference = oracle_runtime.simulate(problem, schedule.assignment.tolist(), order, priority, runtime)
    trace = simulate(problem, schedule, runtime)
    for name in COLUMNS:
        assert getattr(trace, name).tolist() == getattr(reference, name), name


@pytest.mark.parametrize("capacity", [1e3, 1e9])
def test_a_single_device_is_entered_once(capacity: float) -> None:
    """Two operators take 10 s each on the CPU; on the delegate 1 s each, and 100 s to enter."""
    problem = Problem.from_arrays(
        [[10.0, 1.0]] * 2, [(0, 1, 1.0)], bandwidth=1e9, memory_capacity=capacity, partition_overhead=[0.0, 100.0],
        synchronous=[False, True],
    )  # fmt: skip
    for runtime in ("classic", "links", Runtime(memory="enforce")):
        plan = get("single-device")(problem, runtime)
        assert plan.assignment.tolist() == [0, 0] and simulate(problem, plan, runtime).makespan == 20.0
    assert single_device_makespan(problem) == 20.0


@examples(60)
@given(data=st.data())
def test_the_switch_changes_nothing_without_partitions(data: st.DataObject) -> None:
    problem = data.draw(strategies.machines())
    schedule = data.draw(strategies.schedules(problem, ("order",)))
    runtime = data.draw(strategies.runtimes(streams=1))
    plain, charged = (simulate(problem, schedule, r) for r in (runtime, replace(runtime, partitions=True)))
    assert plain.finish.tolist() == charged.finish.tolist()


@examples(60)
@given(data=st.data())
def test_every_engine_gives_the_same_times(data: st.DataObject) -> None:
    problem = data.draw(strategies.partitioned())
    schedule = data.draw(strategies.schedules(problem, ("order",)))
    for runtime in ("classic", "links"):
        trace = simulate(problem, schedule, runtime)
        assert hetgym.evaluate(problem, [schedule], runtime=runtime).tolist() == [trace.makespan]
        assert trace.makespan >= lower_bound(problem, runtime=runtime) * (1 - 1e-9)
        planned = get("heft")(problem, runtime)
        assert planned.makespan == simulate(problem, planned, runtime).makespan
        assert single_matches(problem, runtime)


def single_matches(problem: Problem, runtime: str) -> bool:
    schedule = get("single-device")(problem, runtime)
    return bool(single_device_makespan(problem, runtime) == simulate(problem, schedule, runtime).makespan)


# By hand.


def branches(synchronous: bool = False) -> Problem:
    """Four branches of 2 s on the CPU or 0.1 s on the GPU, between two operators of 1 s that only the CPU has."""
    cost = [[1, np.inf], *[[2, 0.1]] * 4, [1, np.inf]]
    edges = [(0, i, 0.0) for i in range(1, 5)] + [(i, 5, 0.0) for i in range(1, 5)]
    return Problem.from_arrays(
        cost, edges, partition_overhead=[0.0, 5.0], synchronous=[False, synchronous], name="branches"
    )


def times(problem: Problem, assignment: list[int], runtime: str = "classic") -> float:
    order = [[i for i, d in enumerate(assignment) if d == k] for k in range(problem.num_devices)]
    return simulate(problem, Schedule(assignment, order=order), runtime).makespan


def test_a_partition_is_entered_once() -> None:
    assert times(branches(), [0, 1, 1, 1, 1, 0]) == pytest.approx(7.4)
    assert times(branches(), [0, 1, 1, 0, 0, 0], "links") == pytest.approx(7.2)
    assert times(branches(True), [0, 1, 1, 0, 0, 0]) == pytest.approx(11.2)  # the CPU waits for the GPU


def test_a_result_that_comes_back_enters_another_partition() -> None:
    there_and_back = Problem.from_arrays([[1.0, 1.0]] * 3, [(0, 1, 0.0), (1, 2, 0.0)], partition_overhead=[0.0, 5.0])
    assert times(there_and_back, [1, 0, 1]) == 13.0
    assert times(there_and_back, [1, 1, 1]) == 8.0


@pytest.mark.slow  # tests/test_cases.py has the same case
@pytest.mark.parametrize(("synchronous", "best"), [(False, 7.2), (True, 7.4)])
def test_searches_charge_partitions(synchronous: bool, best: float) -> None:
    problem = branches(synchronous)
    for runtime in ("classic", "links"):
        plan = get("lns")(problem, runtime)
        assert plan.makespan == pytest.approx(best)
        assert simulate(problem, plan, runtime).makespan == plan.makespan
    course_runtime = Runtime(partitions=True)
    assert exact(problem, course_runtime)
    plan = get("heft")(problem)
    assert new_course(problem, course_runtime, plan.assignment, np.argsort(plan.start).astype(np.int32)) is not None
    online = OnlineSimulation(problem)
    assert online.runtime == course_runtime


def test_platforms_and_files_keep_partitions(tmp_path: Path) -> None:
    (tmp_path / "phone.yaml").write_text(
        "name: phone\ndevices:\n"
        "  - {name: cpu, kind: cpu, peak_flops: {float32: 1e11}, memory_bandwidth: 3e10}\n"
        "  - {name: npu, kind: npu, peak_flops: {float32: 1e12}, memory_bandwidth: 3e10, partition_overhead: 5e-3, "
        "synchronous: true}\n"
        "links:\n  - {between: [cpu, npu], latency: 1e-5, bandwidth: 1e10}\n"
    )
    x, w = Tensor((64, 64)), Tensor((64, 64), constant=True, name="w")
    graph = DataflowGraph([Operator(name, "Gemm", (x, w), (x,)) for name in "ab"], [(0, 0, 1)], "two")
    problem = Problem.build(graph, hetgym.load_platform(tmp_path / "phone.yaml"))
    assert problem.partition_overhead.tolist() == [0.0, 5e-3] and problem.takes_turns.tolist() == [True, True]
    problem.save(tmp_path / "p.npz")
    again = Problem.load(tmp_path / "p.npz")
    assert again.digest == problem.digest != problem.replace(synchronous=False).digest
    assert again.synchronous.tolist() == [False, True]
    assert problem.replace(synchronous=False, partition_overhead=0.0).has_partitions is False


@pytest.mark.parametrize("id", ["HetSchedule-v0", "HetDispatch-v0", "HetImprove-v0"])
def test_environments_refuse_partitions(id: str) -> None:
    with pytest.raises(ConfigError, match="which environments do not simulate; plan it with hetgym.plan"):
        gym.make(id, problem=branches())
    env = gym.make(id, problem=branches().replace(partition_overhead=0.0))
    with pytest.raises(ConfigError, match="which environments do not simulate"):
        env.reset(options={"problem": branches()})


def test_bad_input_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match="streams is 2; devices that take time to enter partitions"):
        simulate(branches(), Schedule([0] * 6, order=[list(range(6)), []]), Runtime(streams=2))
    with pytest.raises(ConfigError, match="partitions cannot be 'maybe'; it must be true or false"):
        hetgym.sim.runtime("links,partitions=maybe")
    with pytest.raises(ConfigError, match="partitions is 1; it must be true or false"):
        Runtime(partitions=1)  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match=r"partition_overhead\[1\] is -1"):
        branches().replace(partition_overhead=[0.0, -1.0])
    with pytest.raises(ProblemError, match="synchronous has shape"):
        branches().replace(synchronous=[True] * 3)
