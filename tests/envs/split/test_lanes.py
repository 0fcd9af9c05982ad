"""Episodes of splitting: senseless actions, graphs at the edge, forced graphs."""

from __future__ import annotations

import math
import pickle

import gymnasium as gym
import numpy as np
import pytest
from split_tools import action, at_random, machine, products, rollout

import hetgym
from hetgym import DataflowGraph, Platform
from hetgym.envs import (
    HetSplitEnv,
)
from hetgym.graph import Operator, Tensor


def test_illegal_actions_are_replaced_by_the_best_or_the_worst_choice() -> None:
    ends = {}
    for rule in ("eft", "worst"):
        env = HetSplitEnv(products(2), machine(), illegal=rule)
        env.reset(seed=0)
        env.step(-1)
        _, _, done, _, info = env.step(99)
        assert done and info["illegal_actions"] == 2
        ends[rule] = info["makespan"]
    assert ends["eft"] < info["reference"] <= ends["worst"]
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


def test_lanes_go_on_with_graphs_that_caches_have_dropped() -> None:
    small = DataflowGraph([Operator("r", "Relu", (Tensor((64, 64)),), (Tensor((64, 64)),))], [], "one")
    drawn = iter([(products(), machine())])

    def generator(_: np.random.Generator) -> tuple[DataflowGraph, Platform]:
        return next(drawn, (small, machine()))

    sizes = {"max_operators": 12, "max_edges": 12, "max_devices": 2}
    envs = gym.make_vec("HetSplit-v0", num_envs=4, generator=generator, autoreset_mode="SameStep", **sizes)
    envs.unwrapped.lanes._known.limit = envs.unwrapped.lanes.splits._assemblies.limit = 2
    _, infos = envs.reset(seed=0)
    assert infos["problem"][0] != infos["problem"][1]
    for _ in range(3):
        actions = np.where(infos["action_mask"], np.arange(infos["action_mask"].shape[1]), -1).max(axis=1)
        *_, infos = envs.step(actions)


def test_graphs_and_problems_of_an_episode_are_made_when_they_are_read() -> None:
    env = gym.make("HetSplit-v0", pool=1)
    _, info = rollout(env, at_random(0))
    problem, graph = info["split_problem"], info["split_graph"]
    assert type(problem) is hetgym.Problem and "cost" not in vars(problem)
    assert type(graph) is DataflowGraph and "operators" not in vars(graph)
    assert pickle.loads(pickle.dumps(graph)) == graph and len(graph) == problem.num_operators
    assert "cost" in vars(problem) and not hasattr(problem, "weight")
    again = pickle.loads(pickle.dumps(rollout(env, at_random(0))[1]["split_problem"]))
    assert again.digest == problem.digest
