"""Lines on stderr about calls that take long, and none about others."""

from __future__ import annotations

import io
import sys
import threading
import time
from contextlib import nullcontext

import pytest

from hetgym import _progress
from hetgym._progress import Progress


def test_a_call_that_takes_long_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _progress.PATIENCE <= 2
    monkeypatch.setattr(_progress, "PATIENCE", 0.01)
    monkeypatch.setattr(_progress, "EVERY", 0.01)
    monkeypatch.setattr(sys, "stderr", said := io.StringIO())
    with Progress("mine") as progress:
        progress.now = "half done"
        limit = time.monotonic() + 100
        while said.getvalue().count("half done") < 2 and time.monotonic() < limit:
            time.sleep(0.01)
    lines = said.getvalue().splitlines()
    assert len(lines) >= 2 and all(line.startswith("hetgym: mine: ") for line in lines)
    assert all(line.startswith("hetgym: mine: half done (") for line in lines[-2:])


def test_a_quick_call_says_nothing_and_leaves_no_thread(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_progress, "PATIENCE", 1000.0)
    threads = threading.active_count()
    for error in (KeyError, None):
        with pytest.raises(KeyError) if error else nullcontext(), Progress("quick") as progress:
            if error:
                raise error
        progress._thread.join(100)
    assert threading.active_count() <= threads
    assert capsys.readouterr().err == ""
