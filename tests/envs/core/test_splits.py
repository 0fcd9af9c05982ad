"""Problems of different splits differ, whatever the seeds."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import hetgym.envs
from hetgym.envs.core.autoreset import AutoresetLanes, make_lanes
from hetgym.errors import ConfigError
from hetgym.workloads import textbook

IDS = tuple(hetgym.envs.ENVIRONMENTS)


def problems(name: str, split: str | None, seeds: range, episodes: int = 2) -> set[str]:
    """Identities of the first problems of lanes."""
    lanes = make_lanes(name, len(seeds), observation="candidates", split=split, pool=None)
    found = set()
    rngs = [lanes.generator(seed)[0] for seed in seeds]
    for _ in range(episodes):
        for lane, rng in enumerate(rngs):
            lanes.prepare(lane, rng, {}, None)
            found.add(lanes.identity(lane))
    return found


@pytest.mark.parametrize("name", ["HetSchedule-v0", "HetDispatch-v0", "HetPipeline-v0"])
def test_splits_share_no_problem(name: str) -> None:
    seeds = range(12)
    train, test, none = (problems(name, split, seeds) for split in ("train", "test", None))
    assert len(train) == len(test) == len(none) == 24
    assert not train & test and not train & none and not test & none
    assert problems(name, "train", seeds) == train


@pytest.mark.parametrize("name", IDS)
def test_lanes_of_a_split_play_what_scalars_play(name: str) -> None:
    """Lane i has seed + i, Gymnasium's convention."""
    arguments = {"observation": "candidates", "split": "test"}
    env, envs = gym.make(name, **arguments), gym.make_vec(name, num_envs=2, **arguments)
    seen, _ = envs.reset(seed=4)
    first, _ = env.reset(seed=5)
    assert all(np.array_equal(seen[key][1], first[key]) for key in first)
    lanes = AutoresetLanes(make_lanes(name, 2, **arguments))
    again = lanes.begin([4, 5], [{}, {}])
    assert all(np.array_equal(seen[key], again[key]) for key in again)


@pytest.mark.parametrize("split", ["", 3, ("train",)])
def test_a_split_is_a_name(split: object) -> None:
    with pytest.raises(ConfigError, match="split"):
        gym.make("HetSchedule-v0", split=split)


def test_a_fixed_list_cannot_be_split() -> None:
    with pytest.raises(ConfigError, match="needs generated problems"):
        gym.make("HetSchedule-v0", problem=[textbook("topcuoglu")], split="test")
