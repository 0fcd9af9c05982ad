"""Bounds never lie above the optimum, which never lies above a schedule."""

from __future__ import annotations

import oracle
import pytest
import strategies
from hypothesis import given, settings

from hetgym import Problem
from hetgym.baselines import (
    area_bound,
    communication_bound,
    critical_path_bound,
    get,
    lower_bound,
    names,
)
from hetgym.workloads import textbook

BOUNDS = (critical_path_bound, communication_bound, area_bound, lower_bound)
ROUNDING = 1 + 1e-12  # bounds and makespans add the same numbers in other orders


@settings(max_examples=50)
@given(problem=strategies.problems(max_operators=5, max_devices=3))
def test_bounds_optimum_schedulers(problem: Problem) -> None:
    optimum = oracle.optimum(problem)
    for bound in BOUNDS:
        assert bound(problem) <= optimum * ROUNDING
    for name in names():
        assert optimum <= get(name)(problem).makespan * ROUNDING, name


@pytest.mark.parametrize(("example", "path", "communication"), [("topcuoglu", 41, 54), ("arabnejad-barbosa", 75, 86)])
def test_textbook_bounds(example: str, path: float, communication: float) -> None:
    problem = textbook(example)
    assert critical_path_bound(problem) == path
    assert communication_bound(problem) == communication
    assert area_bound(problem) == pytest.approx(problem.cost.min(axis=1).sum() / 3)
    assert lower_bound(problem) == communication


def test_a_bound_is_reached_where_it_can_be() -> None:
    chain = Problem.from_arrays([[2.0, 9.0], [9.0, 3.0]], [(0, 1, 4.0)], bandwidth=2.0)
    assert critical_path_bound(chain) == 5.0
    assert communication_bound(chain) == 7.0 == oracle.optimum(chain)
    flat = Problem.from_arrays([[2.0, 2.0]] * 4, [])
    assert area_bound(flat) == 4.0 == oracle.optimum(flat)
