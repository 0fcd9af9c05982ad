"""Descriptions of actions, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from hetgym.agents.actions import COLUMNS, describe
from hetgym.envs.dispatch.observation import DispatchCandidateColumn, DispatchDeviceColumn
from hetgym.envs.pipeline.observation import CutColumn, StageColumn
from hetgym.envs.place.observation import CandidateColumn, DeviceColumn
from hetgym.envs.split.observation import SplitCandidateColumn, SplitDeviceColumn, SplitOperatorColumn


def table(rows: int, columns: int, start: float = 0.0) -> np.ndarray:
    """[1, rows, columns] numbers that are all different."""
    return start + np.arange(1.0, rows * columns + 1).reshape(1, rows, columns)


def test_placing_an_operator() -> None:
    seen = {"candidates": table(2, len(CandidateColumn)), "devices": table(2, len(DeviceColumn), 100)}
    found = describe("place", seen, np)
    assert found.shape == (1, 2, len(COLUMNS["place"]))
    assert found[0, 1].tolist() == [*seen["candidates"][0, 1], *seen["devices"][0, 1]]


def test_committing_one_of_two_operators_to_one_of_two_devices_or_waiting() -> None:
    seen = {
        "candidates": table(5, len(DispatchCandidateColumn)),
        "devices": table(2, len(DispatchDeviceColumn), 100),
        "now": np.array([[0.5]]),
    }
    found = describe("dispatch", seen, np)
    nothing = np.zeros(len(DispatchDeviceColumn))
    rows = [*seen["devices"][0], *seen["devices"][0], nothing]
    assert found.shape == (1, 5, len(COLUMNS["dispatch"]))
    for action, row in enumerate(rows):
        assert found[0, action].tolist() == [*seen["candidates"][0, action], *row, 0.5]


def test_splits_share_a_row_in_which_padding_does_not_count() -> None:
    """The third device is padding: it takes no time for the graph."""
    devices = table(3, len(SplitDeviceColumn))
    devices[0, 2] = 0.0
    seen = {
        "candidates": table(4, len(SplitCandidateColumn), 100),
        "operator": table(1, len(SplitOperatorColumn), 200)[:, 0],
        "makespan": np.array([[0.75]]),
        "devices": devices,
    }
    found = describe("split", seen, np)
    assert found.shape == (1, 4, len(COLUMNS["split"]))
    shared = [*seen["operator"][0], 0.75, *((devices[0, 0] + devices[0, 1]) / 2), *devices[0, 1]]
    for action in range(4):
        assert found[0, action] == pytest.approx([*seen["candidates"][0, action], *shared])
    assert np.isfinite(describe("split", seen | {"devices": np.zeros_like(devices)}, np)).all()


@pytest.mark.parametrize("current", [None, 1])
def test_staying_has_the_row_of_the_current_device(current: int | None) -> None:
    devices = table(2, len(StageColumn), 100)
    devices[..., StageColumn.IS_CURRENT] = 0.0
    if current is not None:
        devices[0, current, StageColumn.IS_CURRENT] = 1.0
    seen = {"candidates": table(3, len(CutColumn)), "devices": devices}
    found = describe("pipeline", seen, np)
    stays = np.zeros(len(StageColumn)) if current is None else devices[0, current]
    assert found.shape == (1, 3, len(COLUMNS["pipeline"]))
    for action, (row, mark) in enumerate(zip((stays, *devices[0]), (1.0, 0.0, 0.0), strict=True)):
        assert found[0, action].tolist() == [*seen["candidates"][0, action], *row, mark]
