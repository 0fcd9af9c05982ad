"""Lines on stderr about calls that take long, and none about others."""

from __future__ import annotations

import time

import pytest

from hetgym import _progress
from hetgym._progress import Progress


def test_a_call_that_takes_long_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _progress.PATIENCE <= 2
    monkeypatch.setattr(_progress, "PATIENCE", 0.05)
    monkeypatch.setattr(_progress, "EVERY", 0.05)
    with Progress("mine") as progress:
        progress.now = "half done"
        time.sleep(0.5)
    said = capsys.readouterr().err.splitlines()
    assert len(said) >= 2 and all(line.startswith("hetgym: mine: half done (") for line in said)
    with pytest.raises(KeyError), Progress("quick"):
        raise KeyError
    time.sleep(0.2)
    assert capsys.readouterr().err == ""
