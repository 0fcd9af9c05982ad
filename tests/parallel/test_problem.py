"""What plans of a training problem may have in common, and which of them fit."""

from __future__ import annotations

import numpy as np

from hetgym.device import Device
from hetgym.parallel import (
    Cluster,
    Framework,
    Group,
    MeasuredNetwork,
    Pool,
    ProfiledLayers,
    TrainingProblem,
    Wire,
    uniform,
)

FREE = MeasuredNetwork(Wire(0.0, (1.0,), (1e18,)))
COSTS = ProfiledLayers({("gpu", 1, b): [[float(b), 2.0 * b, 0.0]] * 2 for b in (1, 2)}, {1: [[10.0, 8.0, 4.0]] * 2})


def problem(batch: int, memory: float = 1e9, **options: object) -> TrainingProblem:
    pool = Pool(Device("gpu", "gpu", {"float32": 1.0}, 1.0, memory), 1, 4, FREE)
    given = {"framework": Framework(), "tensors": (1,), "micro_batches": (1, 2)} | options
    return TrainingProblem(COSTS, Cluster("one", (pool,)), batch, **given)  # type: ignore[arg-type]


def degrees(found: TrainingProblem) -> list[tuple[int, int]]:
    return [(setting.data, setting.micro_batch) for setting in found.settings()]


def test_degrees_divide_the_global_batch_unless_it_is_filled_up() -> None:
    assert degrees(problem(6)) == [(1, 1), (1, 2), (2, 1), (3, 1), (3, 2)]
    filled = problem(5, fill=True)  # 3 x 2 are more than 5 samples; 4 replicas need two turns, as 3 do
    assert degrees(filled) == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)]
    assert [filled.samples(1, 2), filled.samples(2, 2), filled.samples(3, 1)] == [6, 8, 6]
    assert degrees(problem(2)) == [(1, 1), (1, 2), (2, 1)]  # no more replicas than samples


def test_replicas_alone_have_something_to_share_out() -> None:
    found = [(s.data, s.zero) for s in problem(2, zeros=(3, 1), micro_batches=(1,)).settings()]
    assert found == [(1, 1), (2, 1), (2, 3)]


def test_schedules_have_the_chunks_that_they_know() -> None:
    found = [
        s.order for s in problem(1, schedules=("gpipe", "interleaved"), chunks=(4, 2), micro_batches=(1,)).settings()
    ]
    assert found == [("gpipe", 1), ("interleaved", 2), ("interleaved", 4)]


def test_a_plan_that_fills_the_memory_fits() -> None:
    """20 parameters of 18 bytes and 16 of stash."""
    plan = uniform(2, 1, [Group("gpu")], 1, 1)
    assert problem(1, 376.0).fullest(plan) == 1.0 and problem(1, 376.0).value(plan) == 6.0
    assert problem(1, 375.0).value(plan) == np.inf
    assert problem(1).value(plan, limit=problem(1).bound(plan)) == np.inf
    assert problem(5).value(uniform(2, 1, [Group("gpu")] * 5, 1, 5)) == np.inf  # there are four GPUs
