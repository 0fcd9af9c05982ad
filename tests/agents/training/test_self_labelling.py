"""Self-labelling in any environment: labels are the best samples, and it learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("tensorboard")

import hetgym  # noqa: E402
from hetgym._input.config import read  # noqa: E402
from hetgym.agents.networks import ActorCritic  # noqa: E402
from hetgym.agents.recipe import Recipe  # noqa: E402
from hetgym.agents.run import TrainingRun  # noqa: E402
from hetgym.agents.training.self_labelling import relive, sample  # noqa: E402
from hetgym.envs.core.autoreset import make_lanes  # noqa: E402
from hetgym.errors import ConfigError  # noqa: E402

TOY = hetgym.Problem.from_arrays(np.array([[1.0, 4.0], [4.0, 1.0], [4.0, 1.0], [1.0, 4.0]]), [])
"""Four operators without edges, two for each device: the best makespan is 2."""


def made(**changes: Any) -> Recipe:
    given: dict[str, Any] = {"algorithm": "self-labelling", "env": "HetSchedule-v0", "lanes": 16, "steps": 1280}
    given["settings"] = {"samples": 8, "learning_rate": 3e-2}
    given["network"] = {"hidden": 16, "embedding": 8, "layers": 1}
    given["evaluation"] = {"every": 100_000, "episodes": 2}
    return read(Recipe, given | changes, "here")


@pytest.mark.parametrize("observation", ["candidates", "graph"])
def test_learns_the_best_plan_of_a_toy(observation: str, tmp_path: Path) -> None:
    TOY.save(tmp_path / "toy.npz")
    arguments = {"problem": str(tmp_path / "toy.npz"), "observation": observation, "completion": "off"}
    TrainingRun(made(arguments=arguments), tmp_path).train()
    policy = hetgym.agents.load(tmp_path / "policy.safetensors")
    assert policy.plan(TOY).makespan == 2.0


def test_a_label_is_its_episode_again() -> None:
    network = ActorCritic("place", "candidates")
    many, one = (make_lanes("HetSchedule-v0", n, observation="candidates", completion="off") for n in (6, 2))
    action, choice, reward, decisions = sample(network, many, (3, 4), 3)
    assert decisions == choice.sum() and [many.names[k] for k in range(3)] == [many.names[0]] * 3
    best = reward.reshape(2, 3).argmax(1) + [0, 3]
    labels = relive(one, (3, 4), action[:, best], choice[:, best])
    assert [len(label) for label in labels] == choice[:, best].sum(0).tolist()
    found = [one.result(lane)["makespan"] for lane in range(2)]
    assert found == [many.result(int(lane))["makespan"] for lane in best]
    for lane, label in zip(best, labels, strict=True):
        assert [taken for _, taken in label] == action[: len(label), lane].tolist()


def test_refuses_lanes_that_samples_do_not_divide(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="lanes=16 is not a multiple of 5"):
        TrainingRun(made(settings={"samples": 5}, arguments={"observation": "candidates"}), tmp_path).train()
    with pytest.raises(ConfigError, match="samples"):
        made(settings={"samples": 1})
