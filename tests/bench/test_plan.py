"""The best of several runs, and what a plan says of it, by hand."""

from __future__ import annotations

import numpy as np

from hetgym import Problem, Schedule, simulate
from hetgym.bench.plan import BestTrace, blocks, device_shares, kind_seconds, schedule_of, transfers
from hetgym.sim import Objective, Trace
from hetgym.workloads import ProblemSpec

SPEC = ProblemSpec.textbook("topcuoglu")
FLAT = Problem.from_arrays([[1.0, 1.0]] * 3, [(0, 1, 4.0), (1, 2, 2.0)], bandwidth=np.inf, output_bytes=0.0)


def run(problem: Problem, assignment: list[int], scheduler: str = "") -> Trace:
    order = [[i for i, d in enumerate(assignment) if d == device] for device in range(2)]
    return simulate(problem, Schedule(assignment, order=order, scheduler=scheduler))


def best(*traces: Trace, keeper: BestTrace | None = None) -> tuple[Trace | None, BestTrace]:
    keeper = keeper or BestTrace()
    for trace in traces:
        keeper.trace(SPEC, trace)
    return keeper.best, keeper


def test_of_equal_runs_that_with_the_fewest_transfers_is_kept_then_the_first() -> None:
    apart, near, alone, again = (run(FLAT, where) for where in ([0, 1, 0], [0, 1, 1], [0, 0, 0], [1, 1, 1]))
    assert best(apart, near)[0] is near and best(near, apart)[0] is near
    assert best(alone, again)[0] is alone and best(again, alone)[0] is again


def test_runs_that_lack_memory_are_noted_and_not_kept() -> None:
    problem = FLAT.replace(weight_bytes=np.full(3, 10.0), memory_capacity=[25.0, 30.0])
    found, keeper = best(run(problem, [0, 0, 0], "x"), run(problem, [1, 1, 1], "y"))
    assert found is not None and found.scheduler == "y" and keeper.lacks == {"x": 5.0}


def test_an_objective_is_relative_to_its_reference() -> None:
    problem = Problem.from_arrays([[1.0, 2.0]], [], power_busy=[9.0, 2.0], power_idle=[0.0, 0.0])
    quick, frugal = run(problem, [0]), run(problem, [1])
    for objective, expected in ((Objective(makespan=1.0), quick), (Objective(energy=1.0), frugal)):
        assert best(quick, frugal, keeper=BestTrace(objective, quick))[0] is expected


def test_what_a_plan_says_by_hand() -> None:
    problem = Problem.from_arrays(
        [[2.0, 9.0], [9.0, 3.0], [9.0, 1.0], [4.0, 9.0]],
        [(0, 1, 6.0), (1, 2, 5.0), (2, 3, 8.0), (0, 3, 6.0)],
        bandwidth=2.0,
        weight_bytes=[1.0, 2.0, 3.0, 4.0],
        memory_capacity=[100.0, np.inf],
        operator_names=["a", "b", "c", "d"],
        operator_kinds=["Conv", "Add", "Conv", "Add"],
        device_names=["cpu", "gpu"],
    )
    trace = run(problem, [0, 1, 1, 0])  # 0-2, 5-8, 8-9, 13-17
    assert [tuple(vars(block).values()) for block in blocks(trace)] == [
        ("cpu", 1, "a", "a", 2.0),
        ("gpu", 2, "b", "c", 4.0),
        ("cpu", 1, "d", "d", 4.0),
    ]
    assert list(kind_seconds(trace).items()) == [("Add", 7.0), ("Conv", 3.0)]
    assert transfers(trace) == (2, 14.0)
    cpu, gpu = device_shares(trace)
    assert (cpu.operators, cpu.busy_seconds, cpu.utilisation, cpu.weight_bytes) == (2, 6.0, 6 / 17, 5.0)
    assert (cpu.capacity_bytes, cpu.sent_bytes, cpu.received_bytes) == (100.0, 6.0, 8.0)
    assert (gpu.operators, gpu.capacity_bytes, gpu.sent_bytes, gpu.received_bytes) == (2, None, 8.0, 6.0)
    assert simulate(problem, schedule_of(trace)).finish.tolist() == trace.finish.tolist()
