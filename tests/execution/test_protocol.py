"""The protocol on real workers and a graph of a few milliseconds, and the gates around it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
from execution.small import DEVICES, diamond

from hetgym.errors import ConfigError
from hetgym.execution import ExecutionDevice
from hetgym.execution.protocol import BUSY, DONE, ModelResult, Settings, validate_model
from hetgym.execution.quiet import Watch, busy_ticks, process_ticks
from hetgym.execution.report import document, score_rows, side_by_side, verdicts
from hetgym.execution.scores import Scores

EASY = Settings(DEVICES, placements=4, rounds=2, warmups=1, calibration_rounds=2, limit=float("inf"))


@pytest.mark.slow
def test_the_whole_protocol(tmp_path: Path) -> None:
    graph = diamond(64, 5)
    path = tmp_path / "predictions.json"
    asked: list[bool] = []

    def learned(graph: object, devices: object) -> np.ndarray:
        asked.append(path.exists())
        return np.full((len(diamond(64, 5)), 2), 1e-4)

    result = validate_model(graph, EASY, path, learned)
    assert asked == [False]  # predicted before the predictions were written, which was before the placements ran
    assert result.status == DONE
    assert set(result.scores) == {"calibrated", "learned"}
    assert result.scores["calibrated"].n == len(result.rows) == 4
    frozen = json.loads(path.read_text())
    assert [row["calibrated_s"] for row in frozen["predictions"]] == [row["calibrated_s"] for row in result.rows]
    assert all(row["executed_s"] == np.median(row["rounds_s"]) > 0 for row in result.rows)
    own = result.calibration["dispatch_s"]
    learned_s = [len(graph) * (1e-4 + own[d]) for d in range(2)]
    assert [row["learned_s"] for row in result.alone] == pytest.approx(learned_s)
    assert all(row["executed_s"] > 0 for row in result.alone)
    json.dumps(document([result], EASY, ["hetgym"]), allow_nan=False)
    assert result.traces is not None
    both = side_by_side(*result.traces)
    names = {event["args"]["name"] for event in both["traceEvents"] if event["name"] == "process_name"}
    assert {"predicted: devices", "executed: devices"} <= names
    spans = [event for event in both["traceEvents"] if event.get("cat") == "MatMul"]
    assert len(spans) == 2 * sum(op.kind == "MatMul" for op in graph.operators)


@pytest.mark.slow
def test_a_busy_machine_is_skipped_before_anything_starts(tmp_path: Path) -> None:
    busy = Settings(DEVICES, limit=0.0)
    give_up = time.monotonic() + 0.4

    def spin() -> None:
        while time.monotonic() < give_up:
            pass

    child = os.fork()
    if child == 0:
        try:
            os.sched_setaffinity(0, DEVICES[0].host.cores)
            give_up = time.monotonic() + 2.0
            spin()
        finally:
            os._exit(0)
    try:
        result = validate_model(diamond(), busy, tmp_path / "predictions.json")
    finally:
        os.waitpid(child, 0)
    assert result.status == BUSY
    assert result.foreign > 0.02
    assert not (tmp_path / "predictions.json").exists()
    assert score_rows([result])[0][1].startswith(BUSY)
    assert verdicts([result]) == {}


def test_a_watch_counts_others_and_not_its_own() -> None:
    core = DEVICES[0].host.cores[0]
    watch = Watch([core])
    before = process_ticks([os.getpid()])
    while process_ticks([os.getpid()]) < before + 10:
        pass
    assert 0 <= watch.foreign() < 1.01
    assert process_ticks([2**22 + 1]) == 0
    text = "cpu  1 1 1 1 1 1 1 1 1 1\ncpu0 5 0 5 90 1 1 1 0 7 0\ncpu1 1 0 0 9 0 0 0 0 0 0\nintr 5\n"
    assert busy_ticks([0], text) == 12
    assert busy_ticks([0, 1], text) == 13


def result_of(mean: float, tau: float) -> ModelResult:
    scores = Scores(2, mean, mean, mean, mean, 0.0, tau, tau, 0.01)
    rows = [{"calibrated_s": 1.0 + mean, "executed_s": 1.0}, {"calibrated_s": 1.0 - mean, "executed_s": 1.0}]
    return ModelResult("m", DONE, 3, rows=rows, scores={"calibrated": scores})


def test_verdicts_ask_for_error_and_rank() -> None:
    assert verdicts([result_of(0.05, 0.95)]) == {"calibrated": True}
    assert verdicts([result_of(0.07, 0.95)]) == {"calibrated": False}
    assert verdicts([result_of(0.05, 0.85)]) == {"calibrated": False}
    assert verdicts([result_of(0.05, 0.95), result_of(0.05, 0.87)]) == {"calibrated": True}  # tau is a mean
    assert [row[0] for row in score_rows([result_of(0.05, 0.9)])] == ["m", "all"]


def test_a_rank_without_a_value_does_not_count() -> None:
    nothing = result_of(0.05, float("nan"))  # all predictions were equal
    assert verdicts([nothing]) == {"calibrated": False}
    assert verdicts([result_of(0.05, 0.95), nothing]) == {"calibrated": True}
    assert document([nothing], EASY, ["hetgym"])["overall"]["calibrated"]["tau"] is None


def test_settings_that_validate_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="two devices"):
        Settings((ExecutionDevice("one"),))
    with pytest.raises(ConfigError, match="two placements"):
        Settings(DEVICES, placements=1)
