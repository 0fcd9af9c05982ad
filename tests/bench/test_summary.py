from __future__ import annotations

from dataclasses import replace

import pytest

from hetgym.bench.rows import Row, with_gaps
from hetgym.bench.summary import by_platform, summarise


def row(problem: str, scheduler: str, makespan: float | None, runtime: str = "classic", platform: str = "p") -> Row:
    status = "ok" if makespan is not None else "broken"
    base = Row(problem, problem, platform, 4, 3, 2, scheduler, "list", runtime, status=status)
    if makespan is None:
        return base
    return replace(
        base,
        makespan_s=makespan,
        slr=makespan / 2,
        speedup=8 / makespan,
        gap_to_bound=makespan / 2 - 1,
        lower_bound_s=2.0,
        schedule_seconds=makespan / 100,
        utilisation=0.5,
    )


ROWS = with_gaps(
    [
        row("a", "x", 4.0),
        row("a", "y", 5.0),
        row("b", "x", 4.0),
        row("b", "y", 4.0),
        row("c", "x", 8.0),
        row("c", "y", 2.0),
    ]
)


def test_means_by_hand() -> None:
    best, worst = summarise(ROWS)
    assert (best.scheduler, worst.scheduler) == ("y", "x")
    assert best.gap_to_best == pytest.approx((0.25 + 0 + 0) / 3)
    assert worst.gap_to_best == pytest.approx((0 + 0 + 3.0) / 3)
    assert best.slr == pytest.approx((2.5 + 2 + 1) / 3)
    assert best.speedup == pytest.approx((8 / 5 * 8 / 4 * 8 / 2) ** (1 / 3))
    assert best.gap_to_bound == pytest.approx((1.5 + 1 + 0) / 3)
    assert best.schedule_seconds == pytest.approx(0.04)
    assert (best.problems, best.failed) == (3, 0)


def test_ties_are_wins_for_all() -> None:
    assert {line.scheduler: line.wins for line in summarise(ROWS)} == {"x": 2, "y": 2}


def test_a_tie_up_to_rounding_is_a_win() -> None:
    rows = with_gaps([row("a", "x", 4.0), row("a", "y", 4.0 * (1 + 5e-10)), row("a", "z", 4.0 * (1 + 2e-9))])
    assert {line.scheduler: line.wins for line in summarise(rows)} == {"x": 1, "y": 1, "z": 0}


def test_failures_are_counted_and_do_not_enter_the_means() -> None:
    rows = with_gaps([row("a", "x", 4.0), row("a", "y", None), row("b", "x", 4.0), row("b", "y", 8.0)])
    line = next(line for line in summarise(rows) if line.scheduler == "y")
    assert (line.problems, line.failed, line.gap_to_best) == (1, 1, 1.0)


def test_a_scheduler_that_never_succeeds_comes_last_without_means() -> None:
    rows = with_gaps([row("a", "a-broken", None), row("a", "x", 4.0)])
    last = summarise(rows)[-1]
    assert (last.scheduler, last.slr, last.speedup, last.wins, last.failed) == ("a-broken", None, None, 0, 1)


def test_unfinished_problems_are_left_out_while_any_is_finished() -> None:
    unfinished = [row("d", "x", 2.0)]
    assert summarise([*ROWS, *unfinished]) == summarise(ROWS)
    assert [line.slr for line in summarise(unfinished)] == [1.0]


def test_runtimes_are_apart_in_their_order() -> None:
    rows = with_gaps([row("a", "x", 4.0, "links"), row("a", "x", 2.0, "classic")])
    assert [(line.runtime, line.slr) for line in summarise(rows)] == [("links", 2.0), ("classic", 1.0)]


def test_platforms_are_apart() -> None:
    rows = with_gaps([row("a@p", "x", 4.0), row("a@q", "x", 2.0, platform="q")])
    assert {name: lines[0].slr for name, lines in by_platform(rows).items()} == {"p": 2.0, "q": 1.0}


def test_nothing_gives_nothing() -> None:
    assert summarise([]) == []
