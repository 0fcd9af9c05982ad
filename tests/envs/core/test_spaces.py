"""Spaces of actions: samples under the masks that environments give, and all that Gymnasium's spaces do."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from hetgym.envs import ENVIRONMENTS
from hetgym.envs.core.spaces import Actions

QUICK: dict[str, dict[str, Any]] = {"HetSchedule-v0": {"completion": "off"}, "HetDispatch-v0": {"completion": "off"}}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_samples_follow_the_masks_of_environments(name: str) -> None:
    env = gym.make(name, **QUICK.get(name, {}))
    observation, info = env.reset(seed=1)
    env.action_space.seed(5)
    over = False
    while not over:
        mask = info["action_mask"]
        assert mask.dtype == bool and np.array_equal(observation["action_mask"], mask)
        twin = copy.deepcopy(env.action_space)
        action = env.action_space.sample(mask)
        assert mask[action] and action == twin.sample(observation["action_mask"])
        observation, _, over, _, info = env.step(action)
    assert info["illegal_actions"] == 0


def makers() -> Iterator[Any]:
    """Vector environments of every id, hetgym's own and Gymnasium's."""
    for name in ENVIRONMENTS:
        arguments = QUICK.get(name, {})
        yield pytest.param(lambda n=name, a=arguments: gym.make_vec(n, 3, **a), id=name)
        one = [lambda n=name, a=arguments: gym.make(n, **a)] * 3
        yield pytest.param(lambda one=one: gym.vector.SyncVectorEnv(one), id=f"{name}-sync")


@pytest.mark.parametrize("made", list(makers()))
def test_samples_of_lanes_follow_their_masks(made: Any) -> None:
    envs = made()
    observations, infos = envs.reset(seed=1)
    for _ in range(12):
        mask = infos["action_mask"]
        assert mask.dtype == bool and mask.shape[0] == 3
        twin = copy.deepcopy(envs.action_space)
        actions = envs.action_space.sample(mask)
        assert mask[range(3), actions].all() and actions.dtype == np.int64
        for other in (tuple(mask), tuple(observations["action_mask"])):
            assert np.array_equal(copy.deepcopy(twin).sample(other), actions)
        observations, _, _, _, infos = envs.step(actions)


def test_actions_are_gymnasiums() -> None:
    own, usual = Actions(4), spaces.Discrete(4)
    assert own == usual and usual == own and repr(own) == repr(usual) and own != Actions(5)
    assert own.contains(3) and not own.contains(4) and spaces.flatdim(own) == 4
    lanes, known = batch_space(own, 3), batch_space(usual, 3)
    assert lanes == known and known == lanes and repr(lanes) == repr(known)
    for one, other in ((own, usual), (lanes, known), (pickle.loads(pickle.dumps(own)), usual)):  # noqa: S301
        one.seed(7), other.seed(7)
        assert np.array_equal([one.sample() for _ in range(5)], [other.sample() for _ in range(5)])
    share = np.array([0.0, 0.25, 0.75, 0.0])
    assert own.sample(probability=share) in (1, 2) and (lanes.sample(probability=(share,) * 3) % 3 > 0).all()
    for space, mask in ((own, np.ones(3, bool)), (lanes, np.ones((2, 4), bool)), (own, [True] * 4)):
        with pytest.raises(AssertionError):
            space.sample(mask)
    assert own.sample(np.zeros(4, bool)) == 0
