"""Costs and memory of choices: published figures, the validator's own code, and numbers beyond 64 bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sharding_tools import EXAMPLE, problems

from hetgym.errors import InvalidSharding
from hetgym.sharding import INFINITE, ShardingProblem, evaluate, validate


@pytest.mark.parametrize(("choice", "cost"), [([0, 1, 2, 0, 0], 495), ([0, 0, 2, 1, 0], 445)])
def test_published_costs(choice: list[int], cost: int) -> None:
    report = evaluate(EXAMPLE, choice)
    assert (report.cost, report.feasible) == (cost, True)
    assert validate(EXAMPLE, choice) == cost


def test_the_published_excess() -> None:
    report = evaluate(EXAMPLE, [0, 0, 1, 1, 0])
    assert (report.cost, report.peak, report.peak_time, report.fits) == (415, 55, 50, False)
    with pytest.raises(InvalidSharding, match="usage: 55 of 50 at time 50"):
        validate(EXAMPLE, [0, 0, 1, 1, 0])


@pytest.mark.parametrize(
    ("choice", "rule", "said"),
    [
        ([0, 0, 1], "length", "5 whole numbers"),
        ([0, 0, 3, 0, 0], "index", "node 2 has no strategy 3"),
        ([0, -1, 0, 0, 0], "index", "node 1 has no strategy -1"),
    ],
)
def test_choices_that_are_none(choice: list[int], rule: str, said: str) -> None:
    with pytest.raises(InvalidSharding, match=rule):
        validate(EXAMPLE, choice)
    with pytest.raises(InvalidSharding, match=said):
        evaluate(EXAMPLE, choice)


@given(problem=problems(), data=st.data())
def test_evaluator_and_validator_agree(problem: ShardingProblem, data: st.DataObject) -> None:
    choice = [data.draw(st.integers(0, width - 1)) for width in problem.widths.tolist()]
    report = evaluate(problem, choice)
    times, usage = report.profile
    taken = {t: sum(_usage(problem, v, choice[v]) for v in _live(problem, t)) for t in range(9)}
    assert report.peak == max(taken.values())
    assert report.peak == 0 or taken[report.peak_time] == report.peak > max(
        [taken[t] for t in range(report.peak_time)], default=-1
    )
    for t in range(9):
        at = np.searchsorted(times, t, "right") - 1
        assert (usage[at] if at >= 0 else 0) == taken[t]
    if report.feasible:
        assert validate(problem, choice) == report.cost
    else:
        with pytest.raises(InvalidSharding, match="infinite" if report.infinite else "usage"):
            validate(problem, choice)
    if report.fits:
        assert validate(problem, choice, infinite=True) == report.cost


def _usage(problem: ShardingProblem, v: int, strategy: int) -> int:
    return int(problem.usages[problem.offsets[v] + strategy])


def _live(problem: ShardingProblem, time: int) -> list[int]:
    return [v for v, (low, high) in enumerate(problem.intervals.tolist()) if low <= time < high]


def test_sums_beyond_64_bits() -> None:
    huge = 2**63 - 1
    problem = ShardingProblem.from_lists([[huge]] * 3, [[huge]] * 3, [[0, 2], [1, 3], [huge - 1, huge]])
    report = evaluate(problem, [0, 0, 0])
    assert (report.cost, report.peak, report.peak_time) == (3 * huge, 2 * huge, 1)
    assert validate(problem, [0, 0, 0]) == 3 * huge


def test_infinite_entries_count_as_the_number_that_they_are() -> None:
    problem = ShardingProblem.from_lists(
        [[INFINITE], [0]], [[0], [0]], [[0, 0], [0, 0]], [[0, 1], [1, 0]], [[INFINITE], [7]]
    )
    report = evaluate(problem, [0, 0])
    assert (report.cost, report.infinite, report.feasible) == (2 * INFINITE + 7, 2, False)


def test_a_peak_that_equals_the_limit_is_allowed_and_empty_intervals_take_nothing() -> None:
    problem = ShardingProblem.from_lists([[1], [1]], [[5], [9]], [[3, 4], [3, 3]], limit=5)
    assert evaluate(problem, [0, 0]).feasible
