"""The problems of HetPipeline-v0: real models, skip connections, recurrent networks, several sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

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

Plan = tuple[tuple[int, int, int], ...]

TWO = [DeviceKind("gpu", 2)]

CHAIN = PipelineProblem.chain([[4.0], [1.0], [1.0], [2.0]], TWO, transfer=0.5, name="four")


def play(env: gym.Env, actions: Any, seed: int | None = 0) -> tuple[float, dict[str, Any]]:
    _, info = env.reset(seed=seed)
    total, done = 0.0, False
    for action in actions:
        assert not done and info["action_mask"].any()
        _, reward, done, _, info = env.step(action)
        total += reward
    assert done
    return total, info


def actions_of(plan: Plan) -> list[int]:
    """The actions with which an agent reproduces a plan."""
    return [1 + d if block == i else 0 for i, j, d in plan for block in range(i, j)]


def plan_of(assignment: np.ndarray) -> Plan:
    """The stages of a chain's assignment."""
    starts = [0, *(np.flatnonzero(np.diff(assignment)) + 1).tolist()]
    return tuple((i, j, int(assignment[i])) for i, j in zip(starts, [*starts[1:], len(assignment)], strict=True))


def cuts(n: int, d: int, schedule: str = "", chunks: int = 1, micro_batches: int = 1) -> Iterator[Plan]:
    """All plans that the rules allow, whatever the memory."""
    for p, rounds in itertools.product(range(1, d + 1), range(1, chunks + 1)):
        if rounds > 1 and (schedule != "interleaved" or p < 2 or micro_batches % p):
            continue
        for ends in itertools.combinations(range(1, n), p * rounds - 1):
            limits = [0, *ends, n]
            for devices in itertools.permutations(range(d), p):
                yield tuple((limits[k], limits[k + 1], devices[k % p]) for k in range(p * rounds))


def reachable(env: HetPipelineEnv, prefix: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], dict[str, Any]]]:
    """All episodes that only take legal actions."""
    _, info = env.reset(seed=0)
    done = False
    for action in prefix:
        _, _, done, _, info = env.step(action)
    if done:
        yield prefix, info
        return
    assert info["action_mask"].any()
    for action in np.flatnonzero(info["action_mask"]).tolist():
        yield from reachable(env, (*prefix, action))


def skips(rng: np.random.Generator) -> PipelineProblem:
    """A graph with skip connections, colours and a backward pass."""
    n = 6
    edges = [(i, i + 1) for i in range(n - 1)] + [(0, 3), (1, 5)]
    edges += [(n + j, n + i) for i, j in edges] + [(i, n + i) for i in range(n)]
    kinds = [DeviceKind("gpu", 2, 40.0), DeviceKind("cpu", 1, transfers=False)]
    colour = np.concatenate([np.arange(n), np.arange(n)])
    size, backward = rng.integers(1, 9, 2 * n), np.arange(2 * n) >= n
    return PipelineProblem(
        rng.uniform(1, 5, (2 * n, 2)), edges, kinds, rng.uniform(0, 2, 2 * n), size, colour, backward
    )


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
    assert step.problem.size.sum() == pytest.approx(held)
    assert step.state.sum() == pytest.approx(3 * held)
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
