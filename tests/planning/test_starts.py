"""Starts: never longer than what they improve, within the memory, and the same every time."""

from __future__ import annotations

import numpy as np
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from planning.test_capacity import ENFORCED, limited

from hetgym import OutOfMemory, Problem, simulate, validate
from hetgym.baselines import get
from hetgym.errors import UnknownName
from hetgym.planning import starts
from hetgym.planning.starts import Attempt, best_start
from hetgym.sim import PRESETS
from hetgym.workloads import RandomMix

WITH_STARTS = ("cpop", "dps", "heft", "ilha", "lookahead-heft", "mh", "peft", "peft-again", "pets")
RUNTIMES = [*PRESETS, "links,order=ready", "order=priority", "links,streams=2"]


def drawn(n: int = 120, seed: int = 0) -> Problem:
    return RandomMix(operators=(n, n), ccr=(1.0, 3.0))(np.random.default_rng(seed))


@pytest.mark.parametrize("name", WITH_STARTS)
def test_each_start_is_at_least_as_short_as_the_one_before(name: str) -> None:
    for seed in range(3):
        problem = drawn(seed=seed)
        plain, again, small = (get(f"{name}:start={start}")(problem, "links") for start in starts.STARTS)
        assert plain.makespan == get(name)(problem, "links").makespan
        assert small.makespan <= again.makespan <= plain.makespan
        assert small.makespan == simulate(problem, small, "links").makespan
        assert small.scheduler == f"{name}:start=contracted"


def test_replays_gain_and_contraction_gains_more() -> None:
    problems = [drawn(200, seed) for seed in range(4)]
    plain, again, small = (
        np.array([get(f"heft:start={start}")(problem, "links").makespan for problem in problems])
        for start in starts.STARTS
    )
    assert np.mean(again / plain) < 0.99 and np.mean(small / again) < 0.98


def test_an_unknown_start() -> None:
    with pytest.raises(UnknownName, match="unknown start 'replays'"):
        get("heft:start=replays")(drawn(10))


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_best_start_comes_true_and_is_never_longer_than_its_lists(runtime: str) -> None:
    problem = drawn(80)
    found = best_start(problem, runtime)
    validate(problem, found)
    assert found.makespan == simulate(problem, found, runtime).makespan
    lists = {attempt.scheduler for attempt in starts.ATTEMPTS if attempt.fraction == 1.0 and not attempt.blind}
    assert found.makespan <= min(get(name)(problem, runtime).makespan for name in lists)
    again = best_start(problem, runtime)
    assert again.start is not None and found.start is not None
    assert again.start.tolist() == found.start.tolist() and again.scheduler == found.scheduler


@given(strategies.problems(), st.sampled_from(RUNTIMES))
def test_any_problem(problem: Problem, runtime: str) -> None:
    found = best_start(problem, runtime)
    validate(problem, found)
    assert found.makespan == simulate(problem, found, runtime).makespan


def test_work_bounds_the_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 operators and 100 edges on 2 devices are 400 ratings, and 120 more for the replay of each attempt."""
    problem = Problem.from_arrays(np.ones((100, 2)), [(0, i, 0.0) for i in range(1, 100)] + [(1, 2, 0.0)])
    assert problem.num_edges == 100
    calls: list[str] = []
    place = starts.Best.place

    def note(self: starts.Best, *arguments: object) -> None:
        calls.append(str(arguments[-1]))
        place(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(starts.Best, "place", note)
    monkeypatch.setattr(starts, "AGAIN", 0)
    monkeypatch.setattr(starts, "ATTEMPTS", tuple(map(Attempt, ("heft", "lookahead-heft", "peft", "pets"))))
    for work, made in ((0.0, ["heft"]), (1040e-6, ["heft", "peft"]), (1.0, ["heft", "lookahead-heft", "peft", "pets"])):
        calls.clear()
        best_start(problem, work=work)
        assert calls == made


@pytest.mark.parametrize("plan", ["best", "heft:start=replay", "heft:start=contracted"])
def test_starts_fit_where_capacities_are_enforced(plan: str) -> None:
    planner = best_start if plan == "best" else get(plan)
    for seed in range(4):
        problem = limited(60.0, seed=seed)
        found = planner(problem, ENFORCED)
        assert (simulate(problem, found, ENFORCED).memory.peak <= 60.0).all()
    with pytest.raises(OutOfMemory, match="30 B"):
        planner(limited(30.0), ENFORCED)
