"""Gymnasium's wrappers for vector environments, around those that step all lanes in one call."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import vector as wrappers

from hetgym.envs import ENVIRONMENTS

LANES = 2


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
@pytest.mark.parametrize("name", sorted(ENVIRONMENTS))
def test_wrappers_see_every_episode_once(name: str, mode: str) -> None:
    """The statistics hold the sum of the rewards that the wrapped environment paid, also where others rescale them."""
    plain = gym.make_vec(name, num_envs=LANES, observation="flat", autoreset_mode=mode)
    paid: list[np.ndarray] = []
    noted = wrappers.TransformReward(plain, lambda reward: paid.append(reward.copy()) or reward)
    envs = wrappers.NormalizeReward(wrappers.RecordEpisodeStatistics(noted), gamma=1.0)
    if mode == "NextStep":  # the only one that it takes
        envs = wrappers.NormalizeObservation(envs)
    seen, info = envs.reset(seed=0)
    rng, sums, lengths = np.random.default_rng(0), np.zeros(LANES), np.zeros(LANES, int)
    ended, episodes, asleep = np.zeros(LANES, bool), np.zeros(LANES, int), np.zeros(LANES, bool)
    while episodes.min() < 2:
        legal = info["action_mask"]
        seen, reward, ended, cut, info = envs.step((rng.random(legal.shape) * legal).argmax(axis=1))
        assert np.isfinite(seen).all() and np.isfinite(reward).all() and not cut.any()
        sums, lengths = np.where(asleep, 0.0, sums + paid[-1]), np.where(asleep, 0, lengths + 1)
        assert np.array_equal(info.get("_episode", np.zeros(LANES, bool)), ended)
        for lane in np.flatnonzero(ended):
            assert info["episode"]["r"][lane] == pytest.approx(sums[lane], abs=1e-12)
            assert info["episode"]["l"][lane] == lengths[lane]
        episodes += ended
        asleep = ended if mode == "NextStep" else np.zeros(LANES, bool)
        if mode != "NextStep":
            sums[ended], lengths[ended] = 0.0, 0
        if mode == "Disabled" and ended.any():
            seen, info = envs.reset(options={"reset_mask": ended})
