"""Bounds never lie above the optimum, which never lies above a schedule."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
import strategies
from brief import brief
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from hetgym import Problem, simulate
from hetgym.baselines import area_bound, communication_bound, critical_path_bound, get, lower_bound, names
from hetgym.planning.bounds import traffic_bound
from hetgym.workloads import textbook

BOUNDS = (critical_path_bound, communication_bound, area_bound, lower_bound)
ROUNDING = 1 + 1e-12  # bounds and makespans add the same numbers in other orders


@settings(max_examples=8)
@given(problem=strategies.problems(max_operators=5, max_devices=3))
def test_bounds_optimum_schedulers(problem: Problem) -> None:
    optimum = oracle.optimum(problem)
    for bound in BOUNDS:
        assert bound(problem) <= optimum * ROUNDING
    for name in (name for name in names() if "torch" not in get(name).needs):
        assert optimum <= brief(name)(problem).makespan * ROUNDING, name


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


@examples(300)
@given(data=st.data())
def test_no_run_under_any_runtime_is_shorter_than_its_bound(data: st.DataObject) -> None:
    problem = data.draw(strategies.machines())
    if data.draw(st.booleans()):  # most operators have one device only
        cost = np.array(problem.cost)
        forced = np.random.default_rng(data.draw(st.integers(0, 99))).integers(problem.num_devices, size=len(cost))
        cost[np.arange(len(cost)) > 1] = np.inf
        cost[np.arange(len(cost)), forced] = 2.0
        problem = problem.replace(cost=cost)
    schedule, runtime = data.draw(strategies.schedules(problem)), data.draw(strategies.runtimes(noise=0.0))
    bound = lower_bound(problem, runtime=runtime)
    assert bound <= simulate(problem, schedule, runtime).makespan * ROUNDING


def test_bounds_of_contention_by_hand() -> None:
    """Three operators on device 0 feed three on device 1, 4 s of data each, two of them the same tensor."""
    inf = np.inf
    problem = Problem.from_arrays(
        [[1.0, inf]] * 3 + [[inf, 1.0]] * 3, [(0, 3, 4.0), (0, 4, 4.0), (1, 5, 4.0)], latency=0.5, tensors=[0, 0, 1]
    )
    for runtime, expected in (("links", 13.5), ("links,transfers=cached", 9.0), ("fair", 12.0), ("classic", 0.0)):
        assert traffic_bound(problem, runtime) == expected
    assert lower_bound(problem, runtime="links,dispatch=9") == 30.0  # three operators a device
    whole, half = (Problem.from_arrays([[3.0]] * 4, [], occupancy=share) for share in (1.0, 0.5))
    assert lower_bound(whole, runtime="classic,streams=2") == 12.0
    assert lower_bound(half, runtime="classic,streams=2") == 6.0
