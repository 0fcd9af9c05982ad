"""Walks: a changed schedule is that of a fresh decoding, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
import strategies
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from steps import callable_step

from hetgym import Problem
from hetgym.planning import timeline
from hetgym.planning.list_scheduling import place_in_order
from hetgym.planning.ranks import assigned_bottom_level, list_order, upward_rank
from hetgym.search import walk as walks

accept, put, take_back = (callable_step(step) for step in (walks.accept, walks.put, walks.take_back))
try_from, try_level_order = callable_step(walks.try_from), callable_step(walks.try_level_order)
copy_prefix = callable_step(timeline.copy_prefix)


def decoded(problem: Problem, walk: walks.Walk) -> timeline.Timeline:
    """The timeline that insertion gives from scratch for the walk's placement and order."""
    n, d = problem.num_operators, problem.num_devices
    fresh = timeline.new_timeline(problem)
    place_in_order(problem.arrays, fresh, walk.order, walk.fixed, np.zeros((n, d)), True)
    return fresh


def assert_exact(problem: Problem, walk: walks.Walk) -> None:
    """The walk stands on exactly the schedule that its placement and order decode to."""
    fresh = decoded(problem, walk)
    assert walk.now.assignment.tolist() == fresh.assignment.tolist()
    assert walk.now.start.tolist() == fresh.start.tolist()
    assert walk.now.finish.tolist() == fresh.finish.tolist()
    assert walk.value[walks.CURRENT] == fresh.finish.max()
    level = assigned_bottom_level(problem.arrays, walk.fixed)
    assert walk.level.tolist() == level.tolist()
    assert walk.turn[walk.order].tolist() == list(range(len(walk.order)))


@pytest.mark.parametrize("by_level", [False, True])
@examples(150)
@given(problem=strategies.problems(), seed=st.integers(0, 2**32 - 1))
def test_a_changed_schedule_is_that_of_a_fresh_decoding(by_level: bool, problem: Problem, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays, n = problem.arrays, problem.num_operators
    placement = strategies.random_assignment(problem, rng)
    rank = assigned_bottom_level(arrays, placement) if by_level else np.array(upward_rank(problem))
    walk = walks.new_walk(problem, placement, list_order(arrays, rank))
    assert_exact(problem, walk)
    for _ in range(12):
        count = 0
        for operator in rng.choice(n, min(n, int(rng.integers(1, 4))), replace=False):
            count = put(arrays, walk, count, int(operator), int(rng.integers(problem.num_devices)))
        if count == 0:
            continue
        placement = walk.fixed.copy()
        order = list_order(arrays, assigned_bottom_level(arrays, placement)) if by_level else walk.order.copy()
        truth = timeline.new_timeline(problem)
        zeros = np.zeros((n, problem.num_devices))
        makespan = place_in_order(arrays, truth, order, placement, zeros, True)
        limit = float(rng.choice([np.inf, walk.value[walks.CURRENT], makespan, makespan * 0.99]))
        turns = walk.turn[walk.moved[:count]]
        if by_level:
            found = try_level_order(arrays, walk, count, limit)
        else:
            found = try_from(arrays, walk, int(turns.min()), int(turns.max()), limit)
        assert found == (makespan if makespan <= limit else np.inf)
        if found < np.inf:
            assert walk.order.tolist() == order.tolist()
            accept(arrays, walk, -1 if by_level else int(turns.max()), found)
        elif not by_level:
            take_back(walk, count)
        assert_exact(problem, walk)


@examples(60)
@given(problem=strategies.problems(), seed=st.integers(0, 2**32 - 1), first=st.integers(0, 40))
def test_a_prefix_is_what_was_placed_before(problem: Problem, seed: int, first: int) -> None:
    arrays, n, d = problem.arrays, problem.num_operators, problem.num_devices
    walk = walks.new_walk(
        problem,
        strategies.random_assignment(problem, np.random.default_rng(seed)),
        list_order(arrays, np.array(upward_rank(problem))),
    )
    part = timeline.new_timeline(problem)
    copy_prefix(walk.now, part, walk.turn, first)
    fresh = timeline.new_timeline(problem)
    place_in_order(arrays, fresh, walk.order[:first], walk.fixed, np.zeros((n, d)), True)
    assert part.busy.size.tolist() == fresh.busy.size.tolist()
    (order, pointer), (other, ends) = timeline.device_order(part), timeline.device_order(fresh)
    assert pointer.tolist() == ends.tolist()
    assert order[: ends[-1]].tolist() == other[: ends[-1]].tolist()
    assert part.finish[fresh.assignment >= 0].tolist() == fresh.finish[fresh.assignment >= 0].tolist()
