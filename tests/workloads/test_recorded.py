"""Problems of measured graphs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import hetgym
from hetgym.errors import ProblemError
from hetgym.graph import from_trace
from hetgym.workloads import recorded, replay
from tests.graph.traces import QUEUE


def queue(folder: Path) -> Path:
    path = folder / "queue.json"
    path.write_text(json.dumps(QUEUE))
    return path


def test_every_operator_has_its_own_track(tmp_path: Path) -> None:
    graph = from_trace(queue(tmp_path))
    problem, schedule = replay(graph)
    hetgym.validate(problem, schedule)
    assert problem.device_names == graph.tracks == ("thread 1 of 1", "device 0 stream 7")
    assert (np.isfinite(problem.cost).sum(axis=1) == 1).all()
    assert problem.asynchronous.tolist() == [False, True]


def test_any_schedule_of_the_problem_keeps_the_recorded_order(tmp_path: Path) -> None:
    problem = hetgym.load_problem(queue(tmp_path))
    trace = hetgym.simulate(problem, hetgym.baselines.get("heft")(problem))
    assert trace.makespan == pytest.approx(100e-6)


def test_too_large_a_table_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "MAX_ENTRIES", 10)
    with pytest.raises(ProblemError, match=r"nodes and 2 tracks; that is too many"):
        replay(from_trace(queue(tmp_path)))
    with pytest.raises(ProblemError, match="what hetgym.graph.from_trace returns, not .*Path"):
        replay(queue(tmp_path))  # type: ignore[arg-type]


def test_a_damaged_trace_is_an_invalid_problem(tmp_path: Path) -> None:
    path = tmp_path / "a.et"
    path.write_bytes(b"\xff\xff")
    with pytest.raises(ProblemError, match="damaged protocol buffer"):
        hetgym.load_problem(path)
