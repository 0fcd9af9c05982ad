"""Parts that the studies of agents share: rules over candidate features, episodes, and their summary.

Seeds below :data:`TRAINING` and all networks of the zoo are held out. Rules and policies are fitted to problems of the
generators, drawn with seeds from :data:`TRAINING` on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from hetgym.graph.dataflow import Feature

TRAINING = 1_000_000
"""First seed of problems to which rules and policies may be fitted."""

Rule = Callable[[dict[str, Any], dict[str, Any]], int]


def uniform(seed: int = 0) -> Rule:
    """Any legal action."""
    rng = np.random.default_rng(seed)
    return lambda _, info: int(rng.choice(np.flatnonzero(info["action_mask"])))


def linear(features: Sequence[Feature], **weights: float) -> Rule:
    """The legal action with the least weighted sum of candidate features; the first one of equal actions."""
    names = [feature.name for feature in features]
    cost = np.zeros(len(names), np.float32)
    for name, weight in weights.items():
        cost[names.index(name)] = weight
    return lambda seen, info: int(np.argmin(np.where(info["action_mask"], seen["candidates"] @ cost, np.inf)))


def play(env: gym.Env[Any, Any], rule: Rule, seed: int, options: dict[str, Any] | None = None) -> dict[str, Any]:
    """Play an episode and return its last info."""
    seen, info = env.reset(seed=seed, options=options)
    over = False
    while not over:
        seen, _, over, _, info = env.step(rule(seen, info))
    return info


def summary(ratios: Iterable[float]) -> dict[str, float]:
    """Mean, its standard error, worst, and the share of episodes that are worse than the reference."""
    values = np.array(list(ratios))
    return {
        "mean": float(values.mean()),
        "error": float(values.std() / len(values) ** 0.5),
        "worst": float(values.max()),
        "lost": float((values > 1 + 1e-9).mean()),
    }
