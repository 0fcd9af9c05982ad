"""Networks and algorithms of one's own, which recipes name by their import paths."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hetgym
from hetgym.agents import Recipe, TrainingRun
from hetgym.agents.import_paths import found_at
from hetgym.errors import ArtefactError, ConfigError
from hetgym.planning.registry import import_file

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
from hetgym.agents.networks import ActorCritic, Sizes  # noqa: E402

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_policy.py"
SIZES = {"hidden": 8, "embedding": 8, "features": "own_policy:Attention"}


@pytest.fixture(autouse=True)
def imported() -> Any:
    """The example, run as ``--import`` runs it; what it registers is taken back."""
    from hetgym.planning import registry

    before = dict(registry._entered)
    registry._files.clear()
    yield import_file(EXAMPLE)
    registry._files.clear()
    registry._entered.clear()
    registry._entered.update(before)


def recipe(**changes: Any) -> Recipe:
    base = Recipe(
        algorithm="own_policy:A2C",
        env="HetSchedule-v0",
        steps=512,
        lanes=4,
        checkpoint_every=128,
        arguments={"observation": "candidates", "completion": "off"},
        network=Sizes(**SIZES),
        settings={"length": 32},
    )
    return replace(base, evaluation=replace(base.evaluation, every=256, episodes=2), **changes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [("own_policy:A2C", {"length": 32}), ("maskable-ppo", {"n_steps": 32, "batch_size": 64, "n_epochs": 2})],
)
def test_a_run_that_is_stopped_ends_with_the_same_weights(
    tmp_path: Path, algorithm: str, settings: dict[str, Any]
) -> None:
    wanted = recipe(algorithm=algorithm, settings=settings)
    whole = TrainingRun(wanted, tmp_path / "whole").train().state_dict()

    class Stop(Exception):
        pass

    def watch(step: int, judged: Any) -> None:
        if step >= 256:
            raise Stop

    with pytest.raises(Stop):
        TrainingRun(wanted, tmp_path / "parts", watch=watch).train()
    resumed = TrainingRun(wanted, tmp_path / "parts")
    assert resumed.checkpoint is not None and 0 < resumed.checkpoint.step < wanted.steps
    parts = resumed.train().state_dict()
    assert whole.keys() == parts.keys() and any("attend" in name for name in whole)
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    policy = hetgym.agents.load(tmp_path / "whole" / "policy.safetensors")
    problem = hetgym.workloads.textbook("topcuoglu")
    assert (
        policy.plan(problem).makespan
        == hetgym.baselines.get("own-policy", file=str(tmp_path / "parts" / "policy.safetensors"))(problem).makespan
    )


def test_a_file_of_weights_names_its_class_and_runs_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hetgym.agents.network_policy import NetworkPolicy
    from hetgym.planning import registry

    file, never = tmp_path / "policy.safetensors", tmp_path / "never_asked.py"
    never.write_text("raise SystemExit('it ran')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    NetworkPolicy(ActorCritic("place", "candidates", Sizes(**SIZES))).save(file)
    assert isinstance(hetgym.agents.load(file), NetworkPolicy)
    registry._files.clear()
    with pytest.raises(ArtefactError, match="import own_policy first"):
        hetgym.agents.load(file)
    file.write_bytes(file.read_bytes().replace(b"own_policy:Attention", b"never_asked:Attentio"))
    with pytest.raises(ArtefactError, match="import never_asked first"):
        hetgym.agents.load(file)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "nowhere_at_all:A2C"}, "cannot be imported"),
        ({"algorithm": "own_policy:A3C"}, "has no 'A3C'"),
        ({"algorithm": "own_policy:train"}, "must be a hetgym.agents.Algorithm"),
        ({"network": Sizes(features="own_policy:train")}, "derive it from ActionFeatures"),
        ({"network": Sizes(features="own_policy:Nothing")}, "has no 'Nothing'"),
        ({"algorithm": "place-labelling", "arguments": {}, "settings": {}}, "leave features="),
    ],
)
def test_import_paths_that_lead_nowhere(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrainingRun(recipe(**changes), tmp_path).train()


def test_what_is_no_import_path_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be an import path"):
        Sizes(features="Attention")
    with pytest.raises(ConfigError, match="import json.tool first"):
        found_at("json.tool:main", "features", load=False)
    assert found_at("math:pi", "a number", load=True) == np.pi
    with pytest.raises(ArtefactError):
        hetgym.agents.load("nowhere.safetensors")
