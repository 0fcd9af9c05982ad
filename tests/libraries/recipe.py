"""The same recipe for every library: small random problems, a PPO of 20 480 steps, and an evaluation beside chance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

import hetgym
from hetgym.envs import ENVIRONMENTS
from hetgym.workloads import RandomMix

EVERY: dict[str, dict[str, Any]] = {name: {} for name in sorted(ENVIRONMENTS)} | {"HetSchedule-v0": {"max_devices": 5}}
"""Each id with arguments under which it masks some actions; the problems of HetSchedule-v0 have four devices."""

SEED, LANES, ROUND, BATCH, EPOCHS, STEPS = 0, 16, 64, 256, 8, 20_480
"""Lanes play rounds of 64 steps; each round is learned from in eight passes, in batches of 256 steps."""

RATE, GAMMA, LAMBDA, CLIP, ENTROPY, VALUE, NORM, HIDDEN = 1e-3, 1.0, 0.95, 0.2, 0.003, 0.5, 0.5, (64, 64)
"""Learning rate, discounts, clipping, weights of entropy and value, largest gradient, and units of the layers."""

STABLE_BASELINES: dict[str, Any] = {
    "learning_rate": RATE, "n_steps": ROUND, "batch_size": BATCH, "n_epochs": EPOCHS, "gamma": GAMMA,
    "gae_lambda": LAMBDA, "clip_range": CLIP, "ent_coef": ENTROPY, "vf_coef": VALUE, "max_grad_norm": NORM,
    "seed": SEED, "device": "cpu",
}  # fmt: skip
"""The same by the names of Stable-Baselines3 and sb3-contrib."""

EPISODES, FIRST = 200, 1_000_000
"""The evaluation: an episode for each of these seeds, which training does not use."""


def small(rng: np.random.Generator) -> hetgym.Problem:
    """A problem of 6 to 12 operators on 2 to 4 devices, so that masks differ from problem to problem."""
    return RandomMix(operators=(6, 12), devices=int(rng.integers(2, 5)))(rng)


ARGUMENTS: dict[str, Any] = {
    "generator": small,
    "max_operators": 12,
    "max_edges": 36,
    "max_devices": 4,
    "completion": "off",
}


def make(observation: str = "flat") -> gym.Env[Any, Any]:
    """One environment of the recipe."""
    return gym.make("HetSchedule-v0", observation=observation, **ARGUMENTS)


@dataclass(frozen=True)
class Played:
    """What an agent did in the evaluation: the share of its actions that were illegal, and its mean return."""

    illegal: float
    mean: float


def played(choose: Callable[[Any, np.ndarray], Any], observation: str = "flat") -> Played:
    """Play the evaluation's episodes with a function of an observation and its mask, [A] bool."""
    env = make(observation)
    returns, illegal, steps = np.zeros(EPISODES), 0, 0
    for episode in range(EPISODES):
        seen, info = env.reset(seed=FIRST + episode)
        over = False
        while not over:
            seen, reward, over, _, info = env.step(int(choose(seen, info["action_mask"])))
            returns[episode] += reward
            steps += 1
        illegal += info["illegal_actions"]
    return Played(illegal / steps, float(returns.mean()))


def by_chance(masked: bool = True) -> Played:
    """Random actions: legal ones, or any."""
    rng = np.random.default_rng(SEED)
    return played(lambda _, mask: rng.choice(np.flatnonzero(mask) if masked else len(mask)))


def check(library: str, found: Played, seconds: float) -> None:
    """Fewer than one illegal action in a hundred, and a return more than half of the way from chance to HEFT's 0."""
    chance = by_chance()
    print(
        f"{library}: {found.illegal:.2%} illegal, return {found.mean:+.3f} (chance {chance.mean:+.3f}), {seconds:.0f} s"
    )
    assert found.illegal < 0.01
    assert found.mean > chance.mean / 2
