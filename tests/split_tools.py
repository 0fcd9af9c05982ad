"""Machines, graphs and episodes for the tests of splitting."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from hetgym import DataflowGraph, Platform
from hetgym.device import Device, Link
from hetgym.envs import HetSplitEnv
from hetgym.envs.split.menu import Choice
from hetgym.graph import Operator, Tensor


def machine(ratio: float = 1.0, memory: float = math.inf, latency: float = 1e-6, devices: int = 2) -> Platform:
    """Devices of 1 TFLOP/s, the first ``ratio`` times slower, links of 1 TB/s, without launch overhead."""
    perfect = {"matmul": 1.0, "conv": 1.0, "elementwise": 1.0}
    made = [
        Device(
            f"d{k}",
            "gpu",
            {"float32": 1e12 / (ratio if k == 0 else 1.0)},
            1e18,
            memory,
            efficiency=perfect,
            memory_efficiency=1.0,
        )
        for k in range(devices)
    ]
    names = [device.name for device in made]
    return Platform("made", made, [Link(a, b, latency, 1e12) for a in names for b in names if a != b])


def products(count: int = 1, size: int = 1024) -> DataflowGraph:
    """A chain of products of square matrices: 2 size^3 FLOP each."""
    x = Tensor((size, size))
    nodes = [
        Operator(f"p{k}", "MatMul", (x, Tensor((size, size), constant=True, name=f"w{k}")), (x,)) for k in range(count)
    ]
    return DataflowGraph(nodes, [(k, 0, k + 1) for k in range(count - 1)], "products")


def action(env: HetSplitEnv, *choice: Any) -> int:
    return env.unwrapped.lanes.menu.index(Choice(*choice))


def rollout(env: gym.Env, policy: Callable[[Any, dict], int], seed: int | None = 0) -> tuple[list[float], dict]:
    obs, info = env.reset(seed=seed)
    rewards, done = [], False
    while not done:
        obs, reward, done, _, info = env.step(policy(obs, info))
        rewards.append(reward)
    return rewards, info


def at_random(seed: int) -> Callable[[Any, dict], int]:
    rng = np.random.default_rng(seed)
    return lambda obs, info: int(rng.choice(np.flatnonzero(info["action_mask"])))
