"""Plans with few transfers, for devices that do not hold everything each."""

from __future__ import annotations

import numpy as np
import pytest

import hetgym
from hetgym import Problem, Runtime
from hetgym.planning import get
from hetgym.planning.filling import filled_in_order, single_devices

ENFORCED = Runtime(memory="enforce")


def chain(
    capacity: list[float], speed: list[float], latency: float = 10.0, n: int = 60, shared: bool = False
) -> Problem:
    """Operators of one byte of weights each behind one another, on devices of some speeds far apart."""
    return Problem.from_arrays(
        np.outer(np.ones(n), 1 / np.array(speed)),
        [(i, i + 1, 0.01) for i in range(n - 1)],
        latency=latency,
        weight_bytes=1.0,
        memory_capacity=capacity,
        shared_weights=[(range(n), 1.0)] if shared else (),
    )


def test_every_device_that_holds_everything_is_tried() -> None:
    problem = chain([20.0, 70.0, 65.0, 70.0], [4.0, 1.0, 2.0, 1.0])
    plans = list(single_devices(problem, ENFORCED))
    assert [plan.assignment[0] for plan in plans] == [2, 1]  # the fourth is like the second
    assert get("single-device")(problem, ENFORCED).makespan == 30.0


@pytest.mark.parametrize("name", ["region-annealing", "annealing", "lns", "place-v2-search", "portfolio"])
def test_searches_find_the_device_that_holds_everything(name: str) -> None:
    """The fastest device is too small, and a hop takes longer than everything on the slow one."""
    problem = chain([50.0, 70.0], [1.1, 1.0], latency=100.0)
    plan = get(name, budget=3_000)(problem, "links" if name == "portfolio" else ENFORCED)
    assert plan.makespan <= 60.0 * (1 + 1e-9) and set(plan.assignment.tolist()) == {1}


def test_devices_are_filled_one_after_the_other() -> None:
    problem = chain([31.0, 25.0, 10.0], [1.0, 2.0, 4.0])
    plans = list(filled_in_order(problem, ENFORCED))
    assert [np.flatnonzero(np.diff(plan.assignment)).tolist() for plan in plans] == [[8, 32], [29, 53]]
    for plan in plans:
        hetgym.simulate(problem, plan, ENFORCED)
    assert hetgym.plan(problem, budget="200ms").makespan <= min(plan.makespan for plan in plans)
    assert list(filled_in_order(chain([31.0, 25.0, 3.0], [1.0, 2.0, 4.0]), ENFORCED)) == []
    one = chain([3.0, 3.0], [1.0, 2.0], shared=True)  # all read one weight
    assert [set(plan.assignment.tolist()) for plan in single_devices(one, ENFORCED)] == [{1}, {0}]
