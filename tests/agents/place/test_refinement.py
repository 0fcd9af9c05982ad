"""The search that the place policy guides."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from place_tools import drawn, prepared

from hetgym import evaluate, validate
from hetgym.agents.place import episodes
from hetgym.agents.place.refinement import Refinement, Refining, settled_order
from hetgym.errors import ConfigError


def search(problem, seed=0, **how):
    stage, head, desk = prepared(problem)
    makespan, choice = episodes.greedy(problem, stage, head, desk)
    return makespan, Refinement(problem, stage, head, choice, stage.order, Refining(**how), seed)


@pytest.mark.parametrize("how", [{}, {"policy": 1.0}, {"policy": 0.0}, {"reorder": 1.0}, {"size": 1, "horizon": 1}])
@pytest.mark.parametrize("seed", range(3))
def test_schedules_are_valid_and_never_worse(seed, how):
    problem = drawn(seed, 30)
    first, found = search(problem, **how)
    assert found.makespan == first
    found.advance(20_000, 20_000)
    schedule = found.schedule()
    validate(problem, schedule)
    assert schedule.makespan == found.makespan <= first
    assert evaluate(problem, [schedule])[0] <= found.makespan


def test_finds_optima_of_small_problems():
    for seed in range(4):
        problem = drawn(seed, 6, 2)
        legal = [np.flatnonzero(np.isfinite(row)) for row in problem.cost]
        placements = np.array(list(itertools.product(*legal)))
        _, found = search(problem)
        found.advance(30_000, 30_000)
        assert found.makespan <= evaluate(problem, placements).min() * (1 + 1e-12)


def test_improves_much():
    gains = []
    for seed in range(4):
        first, found = search(drawn(seed, 60, 4))
        found.advance(100_000, 100_000)
        gains.append(found.makespan / first)
    assert np.mean(gains) < 0.9  # the start is an untrained network's


def test_same_seed_same_schedule_in_one_part_or_many():
    problem = drawn(0, 30)
    makespans = []
    for seed, parts in ((0, 1), (0, 7), (1, 1)):
        _, found = search(problem, seed)
        for k in range(parts):
            found.advance(20_000 * (k + 1) // parts, 20_000)
        makespans.append((found.makespan, found.schedule().assignment.tolist(), found.placed >= 20_000))
    assert makespans[0][:2] != makespans[2][:2] or makespans[0][0] == makespans[2][0]
    assert all(reached for *_, reached in makespans)


def test_settled_order_is_topological():
    problem = drawn(3, 30)
    stage, head, desk = prepared(problem)
    _, choice = episodes.greedy(problem, stage, head, desk)
    turn = np.argsort(settled_order(problem, choice))
    assert (turn[problem.edge_source] < turn[problem.edge_target]).all()


@pytest.mark.parametrize("wrong", [{"reorder": 1.5}, {"size": 0}, {"temperature": float("nan")}, {"policy": -0.1}])
def test_refuses(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Refining(**wrong)
