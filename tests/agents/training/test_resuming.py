"""A training that is stopped ends with the weights of one that is not, whatever its algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

import hetgym  # noqa: E402
from hetgym.agents import ListDispatcher, ListPlanner, PlacePlanner, RegionPlanner  # noqa: E402
from hetgym.agents.checkpoint import Checkpoint  # noqa: E402
from hetgym.agents.recipe import Recipe, load_recipe  # noqa: E402
from hetgym.agents.run import TrainingRun  # noqa: E402
from hetgym.errors import ConfigError  # noqa: E402

SMALL = {"operators": [8, 12]}
SETTINGS: dict[str, dict[str, Any]] = {
    "gnn": {"samples": 4, "effort": 200},
    "gnn-dispatch": {"samples": 4, "effort": 200},
    "place": {"samples": 2},
    "place-v2": {"rows": 100, "tries": [10, 20], "warm_up": 1, "batch": 32},
}
"""Recipe -> settings, all of them with a curriculum."""

PLANNERS = {"gnn": ListPlanner, "gnn-dispatch": ListDispatcher, "place": PlacePlanner, "place-v2": RegionPlanner}


def short(name: str) -> Recipe:
    curriculum = [{"kind": "random", "count": 4, "arguments": SMALL}]
    few = {} if name == "gnn-dispatch" else {"generator": SMALL}  # side by side, its jobs are larger
    return load_recipe(
        name, steps=6, checkpoint_every=2, network={"hidden": 8, "embedding": 8, "layers": 1},
        settings={"curriculum": curriculum, "problems": 2, **SETTINGS[name]},
        evaluation={"every": 3, "episodes": 2, "arguments": few, "baselines": ["reference"]},
    )  # fmt: skip


def tensors(folder: Path) -> Any:
    return Checkpoint.load(folder / "checkpoint.safetensors").tensors


@pytest.mark.parametrize("name", SETTINGS)
def test_a_stopped_run_ends_with_the_same_weights(name: str, tmp_path: Path) -> None:
    TrainingRun(short(name), tmp_path / "whole").train()

    def stop(step: int, judged: Any) -> None:
        if step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TrainingRun(short(name), tmp_path / "stopped", watch=stop).train()
    resumed = TrainingRun(short(name), tmp_path / "stopped")
    assert resumed.checkpoint is not None and resumed.checkpoint.step == 4
    resumed.train()
    one, other = tensors(tmp_path / "whole"), tensors(tmp_path / "stopped")
    assert one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)
    policy = hetgym.agents.load(tmp_path / "stopped" / "policy.safetensors")
    assert isinstance(policy, PLANNERS[name])
    assert policy.card["recipe"]["algorithm"] == short(name).algorithm
    assert policy.card["evaluation"]["ratio_reference"] > 0
    with pytest.raises(ConfigError, match="another"):
        TrainingRun(load_recipe(name, steps=5), tmp_path / "whole")
