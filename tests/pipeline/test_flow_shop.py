"""Flow shops by hand."""

from __future__ import annotations

import numpy as np

from hetgym import simulate, validate
from hetgym.pipeline import FlowShop


def test_the_slowest_device_sets_the_pace() -> None:
    """L + (N - 1) X: 2 + 0.5 + 3 for the first job, 3 for each that follows."""
    shop = FlowShop((0, 1), (1, 1), np.tile([2.0, 3.0], (4, 1)), (0.5,))
    assert shop.makespan == 5.5 + 3 * 3.0


def test_few_in_flight_wait_for_the_last_device() -> None:
    shop = FlowShop((0, 1), (1, 1), np.tile([2.0, 3.0], (4, 1)), (0.5,), in_flight=1)
    assert shop.makespan == 4 * 5.5


def test_unrolled_problems_run_under_any_runtime() -> None:
    problem, schedule = FlowShop((4, 2), (1, 1), np.array([[1.0, 2.0], [3.0, 1.0]]), (0.25,)).unroll()
    validate(problem, schedule)
    assert problem.device_names == ("device4", "device2")
    assert simulate(problem, schedule).makespan == 1.0 + 3.0 + 0.25 + 1.0
    assert simulate(problem, schedule, "links").makespan == 5.25
