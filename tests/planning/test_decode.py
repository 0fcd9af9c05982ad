"""Decoding of placements, and orders in which they are decoded."""

from __future__ import annotations

import numpy as np
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

from hetgym import InvalidSchedule, Problem, Schedule, UnknownName, simulate, validate
from hetgym.baselines import heft
from hetgym.planning import DECODES, decode_in_order, decode_placement, with_times
from hetgym.planning.decode import by_start, start_order
from hetgym.planning.ranks import list_order, upward_rank


@pytest.mark.parametrize("how", DECODES)
@given(problem=strategies.problems(), seed=st.integers(0, 2**32 - 1))
def test_a_decoded_placement_is_a_legal_schedule_of_it(how: str, problem: Problem, seed: int) -> None:
    placement = strategies.random_assignment(problem, np.random.default_rng(seed))
    schedule = decode_placement(problem, placement, how)
    validate(problem, schedule)
    assert schedule.assignment.tolist() == placement.tolist()
    assert simulate(problem, schedule).start.tolist() == schedule.start.tolist()


@given(problem=strategies.problems())
def test_heft_is_the_decoding_of_its_own_placement(problem: Problem) -> None:
    schedule = heft(problem)
    order = list_order(problem.arrays, np.array(upward_rank(problem)))
    for again in (decode_placement(problem, schedule.assignment), decode_in_order(problem, schedule.assignment, order)):
        assert again.start.tolist() == schedule.start.tolist()


@given(case=strategies.cases(("start",)))
def test_in_the_order_of_its_own_times_no_schedule_gets_longer(case: tuple[Problem, Schedule]) -> None:
    problem, schedule = case
    timed = Schedule(schedule.assignment, start=schedule.start)
    finish = timed.start + problem.cost[np.arange(problem.num_operators), timed.assignment]
    order = by_start(problem, timed.start, finish)
    assert decode_in_order(problem, timed.assignment, order).makespan <= finish.max() * (1 + 1e-12)


@given(case=strategies.cases(("order",)))
def test_times_are_those_of_the_simulation(case: tuple[Problem, Schedule]) -> None:
    problem, schedule = case
    trace = simulate(problem, schedule)
    timed = with_times(problem, schedule)
    validate(problem, timed)
    assert (timed.start.tolist(), timed.finish.tolist()) == (trace.start.tolist(), trace.finish.tolist())


def test_start_orders_are_topological() -> None:
    problem = Problem.from_arrays([[1.0, 9.0], [9.0, 1.0], [4.0, 9.0], [2.0, 9.0]], [(0, 1, 1.0), (1, 2, 1.0)])
    schedule = heft(problem)
    assert start_order(problem, schedule, "order").tolist() == [0, 3, 1, 2]
    assert start_order(problem, schedule, "insertion").tolist() == [0, 1, 2, 3]
    assert start_order(problem, schedule, "bottom-level").tolist() == [0, 1, 2, 3]


def test_an_unknown_decode() -> None:
    with pytest.raises(UnknownName, match="unknown decode 'insert'; did you mean 'insertion'"):
        decode_placement(Problem.from_arrays([[1.0]], []), np.zeros(1, np.int32), "insert")


@pytest.mark.parametrize(
    "device", [[0, 0], [0, 0, 2], [0, 0, -1], [0, 0, 0.5], [0, 0, np.nan], [0, 1, 0], "abc", [None] * 3, [[0], [0, 0]]]
)
def test_placements_that_cannot_be_decoded_are_refused(device: object) -> None:
    problem = Problem.from_arrays([[1.0, 2.0], [1.0, np.inf], [3.0, 1.0]], [(0, 1, 0.0)])
    assert decode_placement(problem, np.zeros(3)).makespan == 5.0
    with pytest.raises(InvalidSchedule, match="a placement"):
        decode_placement(problem, device)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", [[0, 1], [0, 1, 1], [1, 0, 2], [0, 1, 3], [[0], [1, 2], [3]], [None] * 3, "abc"])
def test_orders_that_cannot_be_decoded_are_refused(order: object) -> None:
    problem = Problem.from_arrays(np.ones((3, 2)), [(0, 1, 0.0)])
    with pytest.raises(InvalidSchedule, match="an order"):
        decode_in_order(problem, [0, 0, 0], order)  # type: ignore[arg-type]
