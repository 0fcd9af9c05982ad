"""Problems and episodes for the tests of HetSchedule-v0."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

import hetgym
from hetgym.envs.place.observation import CandidateColumn
from hetgym.workloads import RandomMix


def earliest_finish(obs: dict, info: dict) -> int:
    return int(np.argmin(np.where(info["action_mask"], obs["candidates"][:, CandidateColumn.FINISH], np.inf)))


def problems(count: int) -> list[hetgym.Problem]:
    rng = np.random.default_rng(0)
    return [RandomMix()(rng) for _ in range(count)]


def play(env: gym.Env, choose, **reset) -> tuple[float, dict]:
    obs, info = env.reset(**reset)
    total, done = 0.0, False
    while not done:
        obs, reward, done, _, info = env.step(choose(obs, info))
        total += reward
    return total, info


def rollout(env: gym.Env, choose, seed: int | None = 0) -> tuple[float, dict]:
    return play(env, choose, seed=seed)
