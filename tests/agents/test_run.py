"""Runs of training that go on in another process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from cluster_tools import place_labelling  # noqa: E402

from hetgym._input.config import read  # noqa: E402
from hetgym.agents.checkpoint import Checkpoint  # noqa: E402
from hetgym.agents.recipe import Recipe  # noqa: E402
from hetgym.agents.run import TrainingRun  # noqa: E402
from hetgym.errors import ConfigError  # noqa: E402


def test_the_time_of_a_run_is_summed_over_processes(tmp_path: Path) -> None:
    recipe = read(Recipe, place_labelling(4), "here")
    assert TrainingRun(recipe, tmp_path).times["seconds"] < 100
    history = [{"step": 0, "return": 0.0}]
    state = {"history": history, "seconds": 1000.0, "core_seconds": 2000.0}
    Checkpoint(2, {}, state).save(tmp_path / "checkpoint.safetensors")
    again = TrainingRun(recipe, tmp_path)
    assert 1000 <= again.times["seconds"] < 1100 and again.history == history
    assert 2000 <= again.times["core_seconds"] < 2100
    assert TrainingRun(recipe, tmp_path, force=True).times["seconds"] < 100


class Judged:
    """A policy that is as good as its network says."""

    def __init__(self, network: float, card: dict[str, Any]) -> None:
        self.value, self.card = network, dict(card)

    def judge(self, evaluator: object) -> dict[str, float]:
        return {"return": self.value, "return_error": 0.0, "ratio_reference": 1 - self.value}

    def save(self, path: Path) -> None:
        path.write_text(f"{self.card['step']}")


def begin(path: Path, **options: Any) -> tuple[TrainingRun, list[tuple[int, bool]]]:
    """A run that is evaluated every 3 steps and saved every 4, and what its watcher is told."""
    fields = place_labelling(12) | {"checkpoint_every": 4}
    fields["evaluation"] = fields["evaluation"] | {"every": 3, "must_beat": ["reference"]}
    told: list[tuple[int, bool]] = []
    run = TrainingRun(
        read(Recipe, fields, "here"),
        path,
        watch=lambda step, judged: told.append((step, judged is not None)),
        **options,
    )
    run.wrap = Judged
    return run, told


def saved(path: Path) -> int:
    return Checkpoint.load(path / "checkpoint.safetensors").step


def test_evaluations_and_checkpoints_are_due_when_a_multiple_is_passed(tmp_path: Path) -> None:
    run, told = begin(tmp_path)
    checkpoints = []
    for step in (0, 2, 3, 5, 7, 11):
        run.between(step, step / 100, lambda step=step: Checkpoint(step, {}))
        checkpoints.append(saved(tmp_path) if (tmp_path / "checkpoint.safetensors").exists() else None)
    assert told == [(0, True), (2, False), (3, True), (5, False), (7, True), (11, True)]
    assert checkpoints == [None, None, None, 5, 5, 11]
    run.between(12, 0.5, lambda: Checkpoint(12, {}), last=True)
    assert told[-1] == (12, True) and saved(tmp_path) == 12


def test_a_run_that_is_resumed_repeats_nothing(tmp_path: Path) -> None:
    run, _ = begin(tmp_path)
    for step, value in ((0, 0.1), (3, 0.2), (8, 0.3)):
        run.between(step, value, lambda step=step: Checkpoint(step, {}))
    again, told = begin(tmp_path)
    assert again.history == run.history and [entry["step"] for entry in again.history] == [0, 3, 8]
    again.between(8, 0.9, lambda: Checkpoint(8, {}))
    assert told == []
    again.between(9, 0.4, lambda: Checkpoint(9, {}))
    assert told == [(9, True)] and saved(tmp_path) == 8
    again.between(9, 0.4, lambda: Checkpoint(9, {}), last=True)
    assert [entry["step"] for entry in again.history] == [0, 3, 8, 9] and saved(tmp_path) == 9


def test_the_best_policy_is_the_first_of_the_best(tmp_path: Path) -> None:
    run, _ = begin(tmp_path)
    for step, value in ((0, -0.2), (3, 0.1), (6, 0.1), (9, -0.3)):
        run.between(step, value, lambda step=step: Checkpoint(step, {}))
    assert [(tmp_path / f"{name}.safetensors").read_text() for name in ("best", "policy")] == ["3", "9"]
    results = run.results()
    assert (results["best"]["step"], results["final"]["step"]) == (3, 9)
    assert results["beaten"] == {"reference": False}  # a ratio of 1.3 at the end
    run.between(12, 0.0, lambda: Checkpoint(12, {}), last=True)
    assert run.results()["beaten"] == {"reference": False}  # 1 is not below 1


def test_another_recipe_needs_another_folder(tmp_path: Path) -> None:
    run, _ = begin(tmp_path)
    run.between(0, 0.1, lambda: Checkpoint(0, {}), last=True)
    with pytest.raises(ConfigError, match="seed=|another seed"):
        TrainingRun(read(Recipe, place_labelling(12) | run.recipe.document() | {"seed": 7}, "here"), tmp_path)
