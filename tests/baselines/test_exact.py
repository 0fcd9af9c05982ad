"""CP-SAT: known optima, the bound that it proves, and the contract of schedulers on small problems."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from typing import Any

import numpy as np
import oracle
import pytest
import strategies
from brief import brief
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from hetgym import ConfigError, MissingExtra, Problem, ProblemError, simulate, validate
from hetgym._types import FloatArray
from hetgym.baselines import get, names
from hetgym.baselines.exact import RESOLUTION, solve
from hetgym.planning import bounds
from hetgym.planning.bounds import combined_bound, load_bound, lower_bound
from hetgym.workloads import RandomMix, range_based_costs, textbook, unrelated_costs

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ortools") is None, reason="needs the extra exact")
ROUNDING = 1 + 1e-12


@pytest.mark.parametrize(("example", "optimum"), [("topcuoglu", 73.0), ("arabnejad-barbosa", 113.0)])
def test_published_examples(example: str, optimum: float) -> None:
    problem = textbook(example)
    solution = solve(problem)
    assert (solution.schedule.makespan, solution.lower_bound, solution.status) == (optimum, optimum, "optimal")
    assert solution.gap == 0.0
    assert get("cp-sat")(problem).makespan == optimum


@examples(50)
@given(problem=strategies.problems(max_operators=5, max_devices=3))
def test_against_all_schedules(problem: Problem) -> None:
    solution = solve(problem, workers=1)
    best = oracle.optimum(problem)
    assert solution.lower_bound <= best * ROUNDING
    assert best <= solution.schedule.makespan * ROUNDING
    assert solution.status == "optimal"
    assert solution.schedule.makespan <= best * (1 + 20 / RESOLUTION)


@examples(25)
@given(problem=strategies.problems(max_operators=12, max_devices=3))
def test_contract(problem: Problem) -> None:
    solution = solve(problem, seconds=2.0, workers=1)
    schedule = get("cp-sat", seconds=2.0, workers=1)(problem)
    validate(problem, schedule)
    assert schedule.order is not None
    trace = simulate(problem, schedule)
    assert trace.start.tolist() == schedule.start.tolist()
    assert solution.lower_bound <= schedule.makespan * ROUNDING
    for name in names():
        if get(name).kind != "exact" and "torch" not in get(name).needs:
            made = brief(name)(problem)
            assert made.model != "classic" or made.makespan * ROUNDING >= solution.lower_bound, name


def test_times_that_are_not_whole_numbers_and_links_that_differ() -> None:
    problem = RandomMix(operators=(20, 20), ccr=(5.0,))(np.random.default_rng(1))
    rng = np.random.default_rng(2)
    uneven = Problem.from_arrays(
        problem.cost,
        list(zip(problem.edge_source, problem.edge_target, problem.edge_bytes, strict=True)),
        latency=rng.uniform(0, 1, (4, 4)),
        bandwidth=rng.uniform(0.5, 2, (4, 4)),
    )
    for case in (problem, uneven):
        solution = solve(case, seconds=300.0)
        assert solution.status == "optimal"
        assert 0 <= solution.gap <= 40 / RESOLUTION * 2
        assert lower_bound(case, linear=True) <= solution.lower_bound * (1 + 1e-9)
        assert solution.schedule.makespan <= get("heft")(case).makespan


def test_without_time_the_best_heuristic_is_returned() -> None:
    problem = RandomMix(operators=(60, 60))(np.random.default_rng(3))
    solution = solve(problem, seconds=1e-3)
    assert solution.schedule.makespan <= min(get("heft")(problem).makespan, get("cpgc")(problem).makespan)
    assert lower_bound(problem) <= solution.lower_bound * ROUNDING
    assert solution.status == "feasible" and solution.gap > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seconds": 0}, "seconds is 0"),
        ({"seconds": float("nan")}, "seconds is nan"),
        ({"seconds": "1"}, "seconds is '1'"),
        ({"workers": 0}, "workers is 0"),
        ({"workers": 1.5}, "workers is 1.5"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        get("cp-sat", **options)(textbook("topcuoglu"))


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python.cp_model", None)
    with pytest.raises(MissingExtra, match=r'cp-sat needs ortools: pip install "hetgym\[exact\]"'):
        solve(textbook("topcuoglu"))
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(MissingExtra, match=r'load bound needs scipy: pip install "hetgym\[exact\]"'):
        load_bound(textbook("topcuoglu"))
    assert lower_bound(textbook("topcuoglu")) == 54.0


@examples(40)
@given(problem=strategies.problems(max_operators=5, max_devices=3))
def test_bounds_by_linear_programs(problem: Problem) -> None:
    best = oracle.optimum(problem)
    assert load_bound(problem) <= combined_bound(problem) <= best * ROUNDING
    assert lower_bound(problem) <= lower_bound(problem, linear=True) <= best * ROUNDING


@pytest.mark.parametrize("kind", ["uniform", "classes", "ranges"])
def test_load_bound_of_many_operators_is_below_that_of_the_whole_program(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    n = bounds.MOST_ROWS + 500
    if kind == "uniform":
        cost = rng.lognormal(size=n)[:, None] / rng.uniform(1, 4, 5)
    elif kind == "classes":
        cost = unrelated_costs(n, 5, rng)
    else:
        cost = range_based_costs(n, 5, rng)
    cost[rng.random((n, 5)) < 0.1] = np.inf
    cost[:, 0] = np.where(np.isfinite(cost).any(axis=1), cost[:, 0], 1.0)
    cost[:3] = 0.0
    problem = Problem.from_arrays(cost, [])
    merged = load_bound(problem)
    monkeypatch.setattr(bounds, "MOST_ROWS", n)
    exact = load_bound(problem)
    assert exact * 0.99 < merged <= exact * (1 + 1e-9)


def test_load_bound_by_hand() -> None:
    # Two divisible operators, 2 s on their own device and 4 s on the other: 2 s; a third of 3 s on both adds 1.5 s.
    problem = Problem.from_arrays([[2.0, 4.0], [4.0, 2.0], [3.0, 3.0]], [])
    assert load_bound(problem) == pytest.approx(3.5)
    chained = Problem.from_arrays(
        [[1.0, 1.0], *[[2.0, 2.0]] * 4, [5.0, 5.0]], [(0, k, 0) for k in range(1, 5)] + [(k, 5, 0) for k in range(1, 5)]
    )
    assert combined_bound(chained) == pytest.approx(10.0) == oracle_free_optimum(chained)
    with pytest.raises(ConfigError, match="thresholds is 0"):
        combined_bound(problem, thresholds=0)


def oracle_free_optimum(problem: Problem) -> float:
    """Of the chained problem: one operator, four in two pairs, one operator."""
    return float(get("heft")(problem).makespan)


@examples(50)
@given(problem=strategies.problems(max_operators=4, max_devices=3), data=st.data())
def test_memory_against_all_placements(problem: Problem, data: st.DataObject) -> None:
    """The best of all placements that fit, each with the best order that the solver finds for it alone."""
    n, d = problem.num_operators, problem.num_devices
    size = np.array(data.draw(st.lists(st.integers(0, 5), min_size=n, max_size=n)), np.float64)
    capacity = np.array(data.draw(st.lists(st.integers(0, 10), min_size=d, max_size=d)), np.float64)

    def changed(cost: FloatArray, **more: Any) -> Problem:
        edges = zip(
            problem.edge_source.tolist(), problem.edge_target.tolist(), problem.edge_bytes.tolist(), strict=True
        )
        tensors = problem.edge_tensor.tolist()
        return Problem.from_arrays(cost, edges, problem.latency, problem.bandwidth, tensors=tensors, **more)

    tight = changed(problem.cost, weight_bytes=size, output_bytes=0.0, memory_capacity=capacity)
    best = np.inf
    for placement in itertools.product(range(d), repeat=n):
        cost = np.where(np.eye(d, dtype=bool)[list(placement)], problem.cost, np.inf)
        if np.isfinite(cost).any(axis=1).all() and (np.bincount(placement, size, minlength=d) <= capacity).all():
            best = min(best, oracle.optimum(changed(cost)))
    if best == np.inf:
        with pytest.raises(ProblemError, match="no placement that fits"):
            solve(tight, memory=True)
        return
    solution = solve(tight, workers=1, memory=True)
    held = np.bincount(solution.schedule.assignment, size, minlength=d)
    assert (held <= capacity).all()
    assert solution.status == "optimal"
    assert solution.lower_bound <= best * ROUNDING
    assert best <= solution.schedule.makespan * ROUNDING <= best * (1 + 20 / RESOLUTION) * ROUNDING
