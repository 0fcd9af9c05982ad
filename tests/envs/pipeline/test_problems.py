"""The problems of HetPipeline-v0: real models, skip connections, recurrent networks, several sizes."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from cut_tools import CHAIN, actions_of, cuts, plan_of, play, reachable, skips

import hetgym
from hetgym.baselines.pipeline import contiguous_dp
from hetgym.envs import (
    BLOCK_FEATURES,
    HetPipelineEnv,
)
from hetgym.graph.generators import lstm_grid
from hetgym.pipeline import (
    DeviceKind,
    PipelineProblem,
    blocks,
    training_pipeline,
)
from hetgym.platform import load_platform


def test_graphs_with_skip_connections_colours_and_backward_operators() -> None:
    for seed in range(6):
        problem = skips(np.random.default_rng(seed))
        env = HetPipelineEnv(problem)
        assert env.observation_space["blocks"].shape[0] == 6
        values = {}
        for _, info in reachable(env):
            device = np.repeat([s.device for s in info["stages"]], [s.end - s.first for s in info["stages"]])
            values[tuple(device)] = info["value"]
            assert info["value"] == problem.max_load(np.concatenate([device, device]))
            assert info["within_memory"]
        every = set()
        for plan in cuts(6, 3):
            device = np.repeat([d for *_, d in plan], [j - i for i, j, _ in plan])
            try:
                problem.check(np.concatenate([device, device]))
            except hetgym.InvalidSchedule:
                continue
            every.add(tuple(device))
        assert values.keys() == every
        assert info["optimal"] == min(values.values())


def test_a_platforms_real_model() -> None:
    env = gym.make("HetPipeline-v0", graph="resnet50", platform="cpu-2gpu-nvlink")
    obs, info = env.reset(seed=0)
    assert info["problem"] == "resnet50@cpu-2gpu-nvlink" and obs["blocks"].shape == (40, len(BLOCK_FEATURES))
    best = contiguous_dp(env.unwrapped.problem)
    total, info = play(env, actions_of(plan_of(best)))
    assert info["value"] == info["optimal"] and total >= 0


def test_time_steps_of_recurrent_networks_are_blocks() -> None:
    graph = lstm_grid(layers=2, steps=5)
    assert blocks(graph).tolist() == [0, 1, 2, 3, 4] * 2
    step = training_pipeline(graph, load_platform("cpu-gpu"))
    assert step.problem.num_operators == 5 and len(step.problem.edge_source) == 4  # a chain of steps
    assert np.allclose(step.problem.cost[1], step.problem.cost[2])
    held = (4 * 256 * 256 * 2 + 8 * 256) * 4 * 2
    assert step.problem.size == pytest.approx([held] * 5)  # each step reads all of the weights
    assert step.state == pytest.approx([3 * held] * 5)
    env = HetPipelineEnv(graph="lstm", platform="cpu-gpu", objective="training")  # inputs skip steps: no chain
    assert env.observation_space["blocks"].shape[0] == 24
    _, info = play(env, [2] + [0] * 11 + [1] + [0] * 11)
    assert info["illegal_actions"] == 0 and info["value"] > 0


def test_sizes_differ_and_pad() -> None:
    other = PipelineProblem.chain(np.ones((2, 1)), [DeviceKind("gpu", 1)], name="two")
    env = gym.make("HetPipeline-v0", problem=[CHAIN, other])
    env.reset(seed=0)
    assert {env.reset()[1]["problem"] for _ in range(20)} == {"four", "two"}
    obs, info = env.reset(options={"problem": other})
    assert obs["block_mask"].tolist() == [1, 1, 0, 0] and info["action_mask"].tolist() == [False, True, False]
    one = PipelineProblem.chain([[1.0]], [DeviceKind("gpu", 1)])
    _, info = play(HetPipelineEnv(one), [1])
    assert info["value"] == info["reference"] == 1.0
