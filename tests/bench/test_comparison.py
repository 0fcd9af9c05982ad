from __future__ import annotations

import pytest

from hetgym.bench.comparison import against, compare_table, pick_reference
from hetgym.bench.rows import Row, with_gaps
from hetgym.errors import UnknownName


def row(problem: str, scheduler: str, makespan: float | None, runtime: str = "classic") -> Row:
    status = "ok" if makespan is not None else "broken"
    return Row(problem, problem, "p", 4, 3, 2, scheduler, "list", runtime, makespan_s=makespan, status=status)


ROWS = with_gaps([
    row("a", "heft", 4.0), row("a", "x", 2.0), row("a", "y", None),
    row("b", "heft", 4.0), row("b", "x", 8.0), row("b", "y", 4.0),
    row("a", "heft", 1.0, "links"), row("a", "x", 1.0, "links"), row("a", "y", None, "links"),
    row("b", "heft", 1.0, "links"), row("b", "x", 1.0, "links"), row("b", "y", None, "links"),
])  # fmt: skip


def test_each_scheduler_is_compared_on_the_problems_that_both_have_done() -> None:
    found = {(line.runtime, line.scheduler): line.comparison for line in against(ROWS, "heft")}
    assert list(found) == [("classic", "x"), ("classic", "y"), ("links", "x"), ("links", "y")]
    x, y, even, nothing = found.values()
    assert x and (x.ratio, x.low, x.high, x.better, x.worse) == pytest.approx((1.0, 0.5, 2.0, 1, 1))
    assert y and (y.problems, y.ratio, y.low) == (1, 1.0, None)
    assert even and (even.equal, even.probability) == (2, 0.5)
    assert nothing is None


def test_zero_makespans_are_left_out() -> None:
    table = {"heft": {"a": 0.0, "b": 2.0}, "x": {"a": 0.0, "b": 1.0}, "y": {"b": 0.0}, "z": {"a": 1.0}}
    found = compare_table(table, "heft")
    assert found["y"] is None
    assert found["x"] is not None and (found["x"].problems, found["x"].ratio) == (1, 0.5)
    assert found["z"] is None


def test_unfinished_problems_are_left_out() -> None:
    (line,) = against([*ROWS[:2], row("late", "heft", 1.0), row("late", "x", 9.0)], "heft")
    assert line.comparison is not None and line.comparison.problems == 1


def test_the_usual_reference_is_heft_where_it_is_in_the_run() -> None:
    assert pick_reference("", ["cpop", "heft"]) == "heft"
    assert pick_reference("", ["cpop"]) == ""
    assert pick_reference("cpop", ["cpop", "heft"]) == "cpop"
    with pytest.raises(UnknownName, match="'hefft'; did you mean 'heft'"):
        pick_reference("hefft", ["cpop", "heft"])


def test_lines_are_json_ready() -> None:
    entries = [line.to_dict() for line in against(ROWS, "heft")]
    assert entries[0]["ratio"] == pytest.approx(1.0) and entries[0]["runtime"] == "classic"
    assert entries[-1]["problems"] == 0 and entries[-1]["low"] is None
