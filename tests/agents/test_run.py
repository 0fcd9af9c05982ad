"""Runs of training that go on in another process."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from cluster_tools import self_labelling  # noqa: E402

from hetgym._input.config import read  # noqa: E402
from hetgym.agents.checkpoint import Checkpoint  # noqa: E402
from hetgym.agents.recipe import Recipe  # noqa: E402
from hetgym.agents.run import TrainingRun  # noqa: E402


def test_the_time_of_a_run_is_summed_over_processes(tmp_path: Path) -> None:
    recipe = read(Recipe, self_labelling(4), "here")
    assert TrainingRun(recipe, tmp_path).seconds < 100
    history = [{"step": 0, "return": 0.0}]
    Checkpoint(2, {}, {"history": history, "seconds": 1000.0}).save(tmp_path / "checkpoint.safetensors")
    again = TrainingRun(recipe, tmp_path)
    assert 1000 <= again.seconds < 1100 and again.history == history
    assert TrainingRun(recipe, tmp_path, force=True).seconds < 100
