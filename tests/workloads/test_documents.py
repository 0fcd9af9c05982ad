"""Fields of untrusted objects at their limits."""

from __future__ import annotations

from typing import Any

import pytest

from hetgym import ProblemError
from hetgym.workloads.documents import LARGEST, Row


def test_numbers_at_their_limits() -> None:
    bad = {"c": LARGEST * (1 + 1e-9), "d": -1e-9, "e": True, "f": "1", "g": float("nan")}
    row = Row({"a": 0, "b": LARGEST} | bad, "x")
    assert (row.number("a"), row.number("b"), row.number("z", 3)) == (0.0, LARGEST, 3.0)
    for key in bad:
        with pytest.raises(ProblemError, match=f"x: '{key}' is .* not a number from 0 to 1e"):
            row.number(key)
    with pytest.raises(ProblemError, match="x has no 'z'"):
        row.number("z")


def test_whole_numbers_and_flags_at_their_limits() -> None:
    row = Row({"a": 0, "b": 7, "c": 8, "d": -1, "e": 1.0, "f": False, "g": 2}, "x")
    assert (row.whole("a", 7), row.whole("b", 7)) == (0, 7)
    for key in "cdef":
        with pytest.raises(ProblemError, match=f"'{key}' is .* not a whole number from 0 to 7"):
            row.whole(key, 7)
    assert (row.flag("a", True), row.flag("f", True), row.flag("z", True)) == (False, False, True)
    for key in "eg":
        with pytest.raises(ProblemError, match="not true or false"):
            row.flag(key, False)


@pytest.mark.parametrize(
    ("read", "good", "bad"), [("text", "s", 3), ("texts", ["s"], ["s", 3]), ("rows", [{}], {}), ("row", {}, [])]
)
def test_kinds_of_fields(read: str, good: Any, bad: Any) -> None:
    assert getattr(Row({"k": good}, "x"), read)("k") is not None
    with pytest.raises(ProblemError, match="x: 'k' is"):
        getattr(Row({"k": bad}, "x"), read)("k")
    if read == "rows":
        with pytest.raises(ProblemError, match=r"x: k\[1\] is"):
            Row({"k": [{}, 3]}, "x").rows("k")
