"""Solvers against enumeration: optima, bounds, memory, and the same result for the same seed."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from sharding_tools import EXAMPLE, optimum, problems

from hetgym.errors import ConfigError, InvalidSharding, MissingExtra, ProblemError, UnknownName
from hetgym.sharding import SOLVERS, ShardingProblem, reduce, solve, validate

INSTALLED = [name for name, row in SOLVERS.items() if all(find_spec(module) for module in row.needs)]
STEPS = {"greedy": 4, "dual": 10, "trees": 60, "mip": 50, "auto": 60}


@pytest.mark.parametrize("name", [*INSTALLED, "auto"])
def test_the_published_optimum(name: str) -> None:
    plan = solve(EXAMPLE, solver=name, steps=STEPS[name])
    assert validate(EXAMPLE, plan.choice) == plan.cost >= 445
    if name != "greedy":
        assert plan.cost == 445
    if name == "mip":
        assert (plan.status, plan.bound) == ("optimal", 445)


@pytest.mark.parametrize("name", INSTALLED)
@examples(200)
@given(problem=problems())
def test_plans_are_feasible_and_bounds_hold(name: str, problem: ShardingProblem) -> None:
    best = optimum(problem)
    try:
        plan = solve(problem, solver=name, steps=STEPS[name])
    except (ProblemError, InvalidSharding):
        assert best is None or name in ("greedy", "dual")
        return
    assert best is not None
    assert validate(problem, plan.choice) == plan.cost >= best
    assert plan.bound is None or plan.bound <= best
    costs = [moment.cost for moment in plan.history if moment.cost is not None]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == plan.cost
    if name in ("trees", "mip"):
        assert plan.cost == best


@pytest.mark.parametrize("name", INSTALLED)
def test_the_same_seed_gives_the_same_plan(name: str) -> None:
    rng = np.random.default_rng(5)
    n, ends = 60, [[v, v + int(k)] for v in range(50) for k in rng.integers(1, 10, 2)]
    problem = ShardingProblem.from_lists(
        list(rng.integers(0, 100, (n, 4))), list(rng.integers(0, 50, (n, 4))),
        np.sort(rng.integers(0, 40, (n, 2)), axis=1), ends, list(rng.integers(0, 100, (len(ends), 4, 4))), limit=500,
    )  # fmt: skip
    one, other = (solve(problem, solver=name, seed=3, steps=20) for _ in range(2))
    assert one.choice.tolist() == other.choice.tolist()
    assert [moment[1:] for moment in one.history] == [moment[1:] for moment in other.history]


def test_a_budget_of_time_ends() -> None:
    assert solve(EXAMPLE, "2s").cost == 445


def test_problems_without_a_choice_are_told_why() -> None:
    tight = ShardingProblem.from_lists([[1, 2]], [[7, 9]], [[3, 4]], limit=5)
    with pytest.raises(ProblemError, match="every choice takes at least 7 of 5 at time 3"):
        solve(tight)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"solver": "tree"}, UnknownName, "did you mean 'trees'"),
        ({"budget": 0}, ConfigError, "budget is 0; it must be positive"),
        ({"budget": "soon"}, ConfigError, "invalid duration 'soon'"),
        ({"steps": 0}, ConfigError, "steps is 0; it must be at least 1"),
    ],
)
def test_mistakes(arguments: dict[str, object], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        solve(EXAMPLE, **arguments)  # type: ignore[arg-type]


@examples(50)
@given(problem=problems())
def test_a_start_is_improved(problem: ShardingProblem) -> None:
    best = optimum(problem)
    if best is None:
        return
    known = solve(problem, steps=60).choice
    reduced = reduce(problem)
    again = reduced.lift(reduced.nearest(known))
    assert again.tolist() == known.tolist()
    assert solve(problem, steps=1, starts=[known]).cost == best


def test_a_library_that_does_not_load_costs_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    assert solve(EXAMPLE, "300ms").cost == 445
    with pytest.raises(MissingExtra, match=r"mip needs highspy"):
        solve(EXAMPLE, solver="mip", steps=1)
