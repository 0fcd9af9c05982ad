"""Searches: what they find, what they may spend, and that their shortcuts change no result."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
import strategies
from hypothesis import given, settings

from hetgym import Problem
from hetgym.baselines import get, heft

SEARCHES = ("pilot", "pilot-append", "pilot-append-eft", "pilot-eft")
PILOTS = SEARCHES


def plain_pilot(problem: Problem, insertion: bool, optimistic: bool) -> float:
    """The rule of Pilot without any shortcut."""
    n, d = problem.num_operators, problem.num_devices
    order = oracle.list_order(problem, oracle.upward_rank(problem))
    bonus = oracle.optimistic_cost(problem) if optimistic else None
    fixed = [-1] * n
    for operator in order:
        best = oracle.place(problem, order, fixed, bonus, insertion)
        for device in range(d):
            if problem.cost[operator, device] < np.inf and device != best.assignment[operator]:
                fixed[operator] = device
                plan = oracle.place(problem, order, fixed, bonus, insertion)
                if plan.makespan < best.makespan * (1 - 1e-12):
                    best = plan
        fixed[operator] = best.assignment[operator]
    return oracle.place(problem, order, fixed, bonus, insertion).makespan


@pytest.mark.parametrize("name", PILOTS)
@settings(max_examples=40)
@given(problem=strategies.problems(max_operators=12, max_devices=4, costs=("continuous",)))
def test_pilot_equals_its_rule_without_shortcuts(name: str, problem: Problem) -> None:
    expected = plain_pilot(problem, "append" not in name, "eft" not in name)
    assert get(name)(problem).makespan == pytest.approx(expected, rel=1e-9)


@settings(max_examples=60)
@given(problem=strategies.problems())
def test_pilot_is_never_worse_than_its_heuristic(problem: Problem) -> None:
    for budget in (0, 100, 10**6):
        assert get("pilot-eft", budget=budget)(problem).makespan <= heft(problem).makespan
        assert (
            get("pilot-append-eft", budget=budget)(problem).makespan <= get("heft", insertion=False)(problem).makespan
        )
