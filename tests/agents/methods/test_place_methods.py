"""READYS, DOPPLER and GDP: recipes train, stop and resume, and their files play."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("tensorboard")

import hetgym  # noqa: E402
from hetgym.agents import Recipe, TrainingRun, load_recipe  # noqa: E402
from hetgym.agents.checkpoint import Checkpoint  # noqa: E402
from hetgym.agents.import_paths import found_at  # noqa: E402
from hetgym.errors import ConfigError  # noqa: E402
from hetgym.workloads import textbook  # noqa: E402

SMALL: dict[str, Any] = {
    "readys": {"curriculum": [{"kind": "tiled", "count": 4, "arguments": {"tiles": [2, 2]}}]},
    "doppler": {"generator": {"operators": [5, 7], "devices": 3}},
    "gdp": {"generator": {"operators": [5, 7], "devices": 3}},
}


def short(name: str) -> Recipe:
    recipe = load_recipe(name)
    return dataclasses.replace(
        recipe,
        steps=480,
        lanes=16,
        checkpoint_every=90,
        arguments={**recipe.arguments, **SMALL[name]},
        network=dataclasses.replace(recipe.network, hidden=8, embedding=8, layers=1),
        evaluation=dataclasses.replace(recipe.evaluation, every=1000, episodes=4, arguments=SMALL[name]),
    )


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in ("doppler", "gdp") else []) for name in SMALL]
)
def test_a_killed_run_ends_with_the_same_weights_and_its_file_plays(name: str, tmp_path: Path) -> None:
    class Kill(Exception):
        pass

    def watch(step: int, judged: Any) -> None:
        if step > 180:
            raise Kill

    TrainingRun(short(name), tmp_path / "whole").train()
    with pytest.raises(Kill):
        TrainingRun(short(name), tmp_path / "killed", watch=watch).train()
    run = TrainingRun(short(name), tmp_path / "killed")
    assert run.checkpoint is not None and 0 < run.checkpoint.step < 480
    run.train()
    one, other = (Checkpoint.load(tmp_path / at / "checkpoint.safetensors").tensors for at in ("whole", "killed"))
    assert one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)
    policy = hetgym.agents.load(tmp_path / "whole" / "policy.safetensors")
    assert policy.card["network"]["sizes"]["features"].startswith(f"hetgym.agents.methods.{name}:")
    problem = textbook("topcuoglu")  # another size than in training
    assert hetgym.simulate(problem, policy.plan(problem)).makespan >= 73  # the best there is


def test_a_file_of_weights_may_name_methods_of_hetgym_and_no_other_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "hetgym.agents.methods.gdp", raising=False)
    assert found_at("hetgym.agents.methods.gdp:Gdp", "features", load=False).__name__ == "Gdp"
    for module in ("this", "hetgym.agents.methods.gpd"):
        with pytest.raises(ConfigError, match="import this first|cannot be imported"):
            found_at(f"{module}:Gdp", "features", load=False)
