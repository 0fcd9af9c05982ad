from __future__ import annotations

import numpy as np
import pytest

from hetgym.bench.fronts import choices, front, ladder, points
from hetgym.bench.rows import Measured


def row(problem: str, scheduler: str, budget: float | None, seconds: float, gap: float | None) -> Measured:
    status = "ok" if gap is not None else "broken"
    return Measured(
        problem,
        scheduler,
        "search" if budget else "list",
        "classic",
        budget,
        seconds,
        None if gap is None else 1 + gap,
        None,
        gap,
        status,
    )


ROWS = [
    row("a", "heft", None, 1e-4, 0.2), row("b", "heft", None, 3e-4, 0.4),
    row("a", "slow", None, 3e-4, 0.5), row("b", "slow", None, 3e-4, 0.7),
    row("a", "cut", 0.01, 0.010, 0.1), row("b", "cut", 0.01, 0.012, 0.1),
    row("a", "cut", 0.1, 0.100, 0.0), row("b", "cut", 0.1, 0.100, 0.1),
    row("a", "half", None, 1e-5, 0.0), row("b", "half", None, 1e-5, None),
]  # fmt: skip


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


FOUND = points(ROWS, rng())


def test_points_by_hand() -> None:
    heft, slow, cut, longer, half = FOUND
    assert (heft.scheduler, heft.budget_s, heft.problems, heft.failed) == ("heft", None, 2, 0)
    assert (heft.seconds, heft.slowest, heft.gap) == pytest.approx((2e-4, 3e-4, 0.3))
    assert (heft.low, heft.high) == pytest.approx((0.2, 0.4))
    assert slow.gap == pytest.approx(0.6)
    assert (cut.seconds, cut.gap, longer.budget_s, longer.gap) == pytest.approx((0.011, 0.1, 0.1, 0.05))
    assert (half.problems, half.failed, half.low) == (1, 1, None)


def test_a_budget_that_changed_nothing_makes_no_point() -> None:
    again = [row("a", "x", budget, 1e-3, 0.1) for budget in (0.1, 1.0)]
    assert [point.budget_s for point in points(again, rng())] == [0.1]
    assert points([row("a", "x", None, 1.0, None)], rng()) == []


def test_the_front_has_what_nothing_beats_in_both() -> None:
    assert [(point.scheduler, point.budget_s) for point in front(FOUND, "classic")] == [
        ("heft", None),
        ("cut", 0.01),
        ("cut", 0.1),
    ]
    assert front(FOUND, "links") == []


def test_of_equal_points_the_quicker_is_on_the_front() -> None:
    twins = points([row("a", "x", None, 2.0, 0.1), row("a", "y", None, 1.0, 0.1)], rng())
    assert [point.scheduler for point in front(twins, "classic")] == ["y"]


def test_choices_say_what_is_best_within_a_time_and_how_surely() -> None:
    early, some, most = choices(FOUND, ROWS, "classic", [1e-4, 2e-4, 0.0105, 1.0], rng())
    assert (early.within_s, early.best.scheduler, early.second) == (2e-4, "heft", None)
    assert (some.best.scheduler, some.best.budget_s) == ("cut", 0.01)  # 11 ms are within 10.5 ms and a tenth
    assert some.second is not None and some.second.scheduler == "heft" and some.probability == 1.0
    assert (most.best.budget_s, most.within_s) == (0.1, 1.0)


def test_the_ladder_goes_down_to_the_quickest() -> None:
    assert ladder(FOUND, [0.01, 0.1]) == [1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.1]
    assert ladder(FOUND[:1], []) == [2e-4, 5e-4, 1e-3]


def test_budgets_of_equal_makespans_and_other_times_are_points_of_their_own() -> None:
    rows = [row("a", "x", budget, seconds, 0.1) for budget, seconds in ((0.1, 0.1), (1.0, 0.9), (2.0, 0.9))]
    assert [point.budget_s for point in points(rows, rng())] == [0.1, 1.0]


def test_the_second_best_is_another_scheduler() -> None:
    rows = [row("a", "cut", budget, budget, gap) for budget, gap in ((0.1, 0.2), (1.0, 0.1))]
    others = [*rows, row("a", "heft", None, 1e-4, 0.3)]
    for some, second in ((rows, None), (others, "heft")):
        (choice,) = choices(points(some, rng()), some, "classic", [1.0], rng())
        assert choice.best.budget_s == 1.0
        assert (choice.second and choice.second.scheduler) == second
