"""Episodes of splitting: senseless actions, graphs at the edge, forced graphs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import hetgym
from hetgym import DataflowGraph, Platform
from hetgym.device import Device, Link
from hetgym.envs import (
    HetSplitEnv,
)
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


def test_masked_and_senseless_actions_leave_the_operator_whole() -> None:
    for bad in (-1, 99, 1.5, math.nan, math.inf, "batch", None, [1, 2]):
        env = HetSplitEnv(products(2), machine())
        env.reset(seed=0)
        env.step(bad)
        _, _, done, _, info = env.step(bad)
        assert done and info["illegal_actions"] == 2 and info["makespan"] == info["reference"]
        assert set(info["choices"].values()) == {"leave"}
    env = HetSplitEnv(products(2), machine())
    env.reset(seed=0)
    *_, info = env.step(action(env, "spatial", 2, "equal"))
    assert info["illegal_actions"] == 1


@pytest.mark.parametrize(
    ("graph", "platform"),
    [
        (products(), machine(devices=1)),
        (DataflowGraph([Operator("r", "Reshape", (Tensor((4,)),), (Tensor((2, 2)),))], [], "free"), machine()),
        (DataflowGraph([Operator("t", "Task", (), (Tensor((4,)),), {"flops": 1e9})], [], "task"), machine()),
        (DataflowGraph([op for k in range(3) for op in products(k + 1).operators[-1:]], [], "apart"), machine()),
    ],
    ids=["one device", "free", "nothing to split", "no edges"],
)
def test_degenerate_graphs_play_to_the_end(graph: DataflowGraph, platform: Platform) -> None:
    env = HetSplitEnv(graph, platform, runtime="links", memory="mask", lookahead=True)
    obs, info = env.reset(seed=0)
    assert env.observation_space.contains(obs) and info["action_mask"][0]
    rewards, info = rollout(env, at_random(0))
    assert np.isfinite(rewards).all() and info["makespan"] >= 0
    assert math.fsum(rewards) == pytest.approx(math.fsum(info["reward_terms"].values()), abs=1e-9)


def test_reset_options_force_a_graph_and_a_platform() -> None:
    env = gym.make("HetSplit-v0", graph=["alexnet", "squeezenet"], platform=["cpu-gpu", "even-pair"], key_operators=2)
    drawn = {env.reset(seed=seed)[1]["problem"] for seed in range(40)}
    assert drawn == {f"{g}@{p}" for g in ("alexnet", "squeezenet") for p in ("cpu-gpu", "even-pair")}
    forced = {env.reset(options={"graph": "alexnet"})[1]["problem"] for _ in range(20)}
    assert forced == {"alexnet@cpu-gpu", "alexnet@even-pair"}
    assert env.reset(options={"graph": products(), "platform": machine()})[1]["problem"] == "products@made"
    with pytest.raises(hetgym.ConfigError, match="no option 'problem'"):
        env.reset(options={"problem": None})
    with pytest.raises(hetgym.ConfigError, match="a name or a path, got int"):
        env.reset(options={"graph": 3})
    with pytest.raises(hetgym.ConfigError, match=r"hetgym.Platform.*got int"):
        env.reset(options={"platform": 3})
    with pytest.raises(hetgym.ProblemError, match="max_devices=4"):
        env.reset(options={"platform": machine(devices=4)})
