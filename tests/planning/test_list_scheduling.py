"""List scheduling against a plain-Python oracle."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
import strategies
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from hetgym import ConfigError, InvalidSchedule, Problem
from hetgym.planning import timeline
from hetgym.planning.list_scheduling import (
    fastest_device,
    place_by_priority,
    place_in_order,
    single_device_placement,
)
from hetgym.planning.ranks import list_order

INF = np.inf


@pytest.mark.parametrize("insertion", [True, False])
@examples(150)
@given(problem=strategies.problems(max_operators=25), seed=st.integers(0, 2**32 - 1))
def test_place_in_order_equals_oracle(insertion: bool, problem: Problem, seed: int) -> None:
    n, d = problem.num_operators, problem.num_devices
    rng = np.random.default_rng(seed)
    priority = rng.integers(0, 5, n).astype(np.float64)
    bonus = rng.integers(0, 3, (n, d)).astype(np.float64)
    fixed = np.where(rng.random(n) < 0.3, strategies.random_assignment(problem, rng), -1).astype(np.int32)
    order = list_order(problem.arrays, priority)
    line = timeline.new_timeline(problem)
    makespan = place_in_order(problem.arrays, line, order, fixed, bonus, insertion)
    plan = oracle.place(
        problem, oracle.list_order(problem, priority.tolist()), fixed.tolist(), bonus.tolist(), insertion
    )
    assert line.assignment.tolist() == plan.assignment
    assert line.start.tolist() == plan.start
    assert line.finish.tolist() == plan.finish
    assert makespan == plan.makespan


def test_operators_of_one_moment_keep_the_turn_in_which_they_were_placed() -> None:
    """Both take no time and are appended at 2; operator 1 could have run at 0, but its turn came last."""
    problem = Problem.from_arrays([[2.0, 1.0], [0.0, INF], [0.0, INF]], [])
    line = timeline.new_timeline(problem)
    free, bonus = np.full(3, -1, np.int32), np.array([[0.0, 9.0], [0.0, 0.0], [0.0, 0.0]])
    place_in_order(problem.arrays, line, np.array([0, 2, 1], np.int32), free, bonus, False)
    assert line.start.tolist() == [0.0, 2.0, 2.0]
    order, pointer = timeline.device_order(line)
    assert order.tolist() == [0, 2, 1]
    assert pointer.tolist() == [0, 3, 3]


def test_the_fastest_device_is_one_that_can_run_most() -> None:
    problem = Problem.from_arrays([[1.0, 5.0, 4.0], [INF, 5.0, 4.0], [9.0, 5.0, INF]], [])
    assert fastest_device(problem) == 1
    assert fastest_device(problem, [0, 1]) == 2
    assert fastest_device(problem, [0]) == 0
    assert single_device_placement(problem).tolist() == [1, 1, 1]
    assert fastest_device(Problem.from_arrays([[3.0, 1.0, 1.0], [1.0, 2.0, 2.0]], [])) == 1  # of equal ones the first
    mixed = Problem.from_arrays([[1.0, INF], [1.0, 3.0], [INF, 2.0]], [])
    assert single_device_placement(mixed).tolist() == [0, 0, 1]


def test_arrays_that_do_not_fit_the_problem_are_refused() -> None:
    problem = Problem.from_arrays([[1.0, 2.0], [1.0, np.inf]], [(0, 1, 0.0)])
    for priority in ([1.0], [[1.0, 2.0]], [1.0, np.nan], "ab"):
        with pytest.raises(ConfigError, match="priority"):
            place_by_priority(problem, priority)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="bonus has shape"):
        place_by_priority(problem, np.ones(2), bonus=np.ones(2))
    for fixed in ([0], [0, 2], [0, 1], [-2, 0]):
        with pytest.raises(InvalidSchedule, match="a placement"):
            place_by_priority(problem, np.ones(2), fixed=fixed)  # type: ignore[arg-type]
    assert place_by_priority(problem, np.ones(2), fixed=[-1, 0]).makespan == 2.0  # type: ignore[arg-type]
