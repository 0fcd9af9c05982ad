"""Cuts by hand and by formula, optima that can be played, senseless actions."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from cut_tools import CHAIN, actions_of, plan_of, play

from hetgym.baselines.pipeline import contiguous_dp
from hetgym.envs import (
    HetPipelineEnv,
)
from hetgym.pipeline import (
    DeviceKind,
    PipelineProblem,
)


def test_a_chain_by_hand() -> None:
    # stages 4 + 0.5 and 0.5 + 1 + 1 + 2; the equal cut makes 4 + 1 + 0.5 and 0.5 + 1 + 2, one device 8
    total, info = play(gym.make("HetPipeline-v0", problem=CHAIN), [1, 2, 0, 0])
    assert (info["value"], info["reference"], info["optimal"]) == (4.5, 5.5, 4.5)
    assert total == pytest.approx(1 / 5.5) and info["loads"] == (4.5, 4.5)
    assert info["stages"] == ((0, 1, 0), (1, 4, 1)) and info["speedup"] == 8 / 4.5 and info["schedule"] is None
    # three requests: 4.5 + 4.5, and 4.5 for each that follows; reference: 5.5 + 3.5 + 2 * 5.5
    total, info = play(gym.make("HetPipeline-v0", problem=CHAIN, objective="latency", requests=3), [1, 2, 0, 0])
    assert (info["value"], info["reference"]) == (18.0, 20.0) and total == pytest.approx(0.1)
    assert info["slr"] == 18 / (8 + 2 * 4)  # all blocks once, and twice more the longer of a half and of one block


@pytest.mark.parametrize(("schedule", "expected"), [("gpipe", 33), ("1f1b", 33), ("zb-h1", 27), ("interleaved", 28.5)])
def test_training_steps_by_formula(schedule: str, expected: float) -> None:
    """Four equal stages, eight micro-batches, tF = 1, tB + tW = 2: the table of the schedules' tests."""
    chain = PipelineProblem.chain(np.full((8, 1), 0.5), [DeviceKind("gpu", 4)])
    env = HetPipelineEnv(chain, objective="training", schedule=schedule, micro_batches=8, chunks=2)
    each = 1 if schedule == "interleaved" else 2
    actions = [1 + block // each % 4 if block % each == 0 else 0 for block in range(8)]
    total, info = play(env, actions)
    assert info["illegal_actions"] == 0 and info["value"] == expected
    assert info["reference"] == expected  # the equal cut
    assert info["slr"] == expected / (8 * 12 / 4)  # eight micro-batches of 12 s on four devices
    assert total == pytest.approx(0.0, abs=1e-12)


def test_the_best_cut_is_played_to_the_optimum() -> None:
    """Over chains and over graphs with skip connections: the dynamic program's cut, as an agent."""
    env = HetPipelineEnv()
    for seed in range(25):
        env.reset(seed=seed)
        best = contiguous_dp(env.problem)
        assert env.actions(best) == actions_of(plan_of(best))
        _, info = play(env, env.actions(best), seed)
        assert info["value"] == info["optimal"] == env.problem.max_load(best)
        assert info["illegal_actions"] == 0


def test_what_is_not_legal_is_replaced_and_counted() -> None:
    env = HetPipelineEnv(CHAIN, illegal="eft")
    for action in (0, -1, 3, 99):
        env.reset(seed=0)
        _, _, _, _, info = env.step(action)
        assert info["illegal_actions"] == 1
        bound = env.lanes.estimates(0)[np.flatnonzero(info["action_mask"])]
        _, _, _, _, info = env.step(1)  # in use: the legal action of the least bound stands in
        assert info["illegal_actions"] == 2 and env.lanes.state.potential[0] == bound.min()
