"""Numbers of untrusted text at their limits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hetgym import ProblemError
from hetgym.workloads import lines
from hetgym.workloads.documents import LARGEST
from hetgym.workloads.lines import Line, Lines, as_number, checked_devices, cost_table


def test_whole_numbers_at_their_limits() -> None:
    line = Line("f.txt, line 2", ["3", "007", "3.0", "-3", "1234567890123456"])
    assert line.whole(0, "a thing", 3, 3) == 3 and line.whole(1, "a thing", 0, 7) == 7
    for at, limits in ((0, (4, 9)), (0, (0, 2)), (2, (0, 9)), (3, (-9, 9)), (4, (0, 2**60))):
        with pytest.raises(ProblemError, match=r"^f.txt, line 2: a thing is .* from -?\d+ to \d+$"):
            line.whole(at, "a thing", *limits)
    with pytest.raises(ProblemError, match="line 2: ends before a thing"):
        line.whole(5, "a thing", 0, 9)
    line.exactly(5)
    with pytest.raises(ProblemError, match="5 numbers, not 6"):
        line.exactly(6)


def test_numbers_at_their_limits() -> None:
    words = {"0": 0.0, "1e15": LARGEST, ".5": 0.5, "5.": 5.0, "2E-3": 2e-3}
    assert {word: as_number(word) for word in words} == words
    for word in ("1.000001e15", "-0.1", "nan", "inf", "1e", "0x1", "1_000", "", "+1"):
        assert as_number(word) is None, word


def test_devices_and_costs_at_their_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [checked_devices(count) for count in (1, lines.MOST_DEVICES)] == [1, lines.MOST_DEVICES]
    for count in (0, lines.MOST_DEVICES + 1, True, 2.0, "2"):
        with pytest.raises(ProblemError, match="devices is"):
            checked_devices(count)
    monkeypatch.setattr(lines, "MOST_COSTS", 12)
    assert (cost_table(3, 4, "f") == np.full((3, 4), np.inf)).all()
    with pytest.raises(ProblemError, match="f: 13 operators on 1 devices are more than 12 costs"):
        cost_table(13, 1, "f")


def test_comments_and_empty_lines_count_as_lines(tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("# all of it\n\n 1 2 # three\n#\n4\n")
    found = Lines(tmp_path / "f.txt")
    assert [(line.place.rpartition(" ")[2], line.words) for line in found] == [("3", ["1", "2"]), ("5", ["4"])]
