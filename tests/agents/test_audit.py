"""The audit of agents: each finding has an agent or an environment that earns it."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import hetgym
from hetgym import Problem
from hetgym.agents import audit
from hetgym.envs import ENVIRONMENTS
from hetgym.errors import ConfigError, HetgymWarning
from hetgym.workloads import RandomMix

MIX = RandomMix(operators=(8, 12), devices=3)
SIZES = dict(zip(("max_operators", "max_edges", "max_devices"), MIX.limit, strict=True))


def small(**more: Any) -> gym.Env:
    return gym.make("HetSchedule-v0", observation="candidates", generator=MIX, **SIZES, **more)


def test_a_good_agent_in_a_sound_environment_earns_no_finding() -> None:
    found = audit(small(split="test"), hetgym.agents.greedy("completion"), small(split="train"), episodes=12)
    assert found.findings == () and found.overlap == 0.0 and found.choice == 1.0 and found.problems == 12
    assert found.scores["agent"].mean > found.scores["greedy:finish"].mean > found.scores["random"].mean
    assert abs(found.scores["greedy:finish"].mean) < 1e-6  # HEFT's own decisions
    assert json.loads(json.dumps(found.to_dict()))["scores"]["agent"]["illegal"] == 0.0


def test_an_agent_that_is_never_legal() -> None:
    found = audit(small(), lambda observation, info: -1, episodes=12)
    assert found.scores["agent"].illegal == 1.0
    assert any("100% of the agent's actions are illegal" in finding for finding in found.findings)
    assert any("is not above that of random legal actions" in finding for finding in found.findings)


class Model:
    """The interface of MaskablePPO; without masks it always takes the last action."""

    gamma, policy = 0.9, None

    def predict(self, observation: Any, deterministic: bool = False, action_masks: Any = None) -> tuple[Any, None]:
        if action_masks is None:
            return np.array(len(observation["action_mask"]) - 1), None
        rows = np.where(action_masks, observation["candidates"][:, 7], np.inf)
        return np.array(rows.argmin()), None


def test_a_model_is_judged_with_and_without_masks_and_its_discount_is_told() -> None:
    cost = np.ones((30, 3))
    cost[:, 2] = np.inf
    problem = Problem.from_arrays(cost, [(i, i + 1, 1.0) for i in range(29)], bandwidth=10.0)
    found = audit(gym.make("HetSchedule-v0", problem=problem, observation="candidates"), Model(), episodes=4)
    assert found.scores["agent"].illegal == 0.0 and found.scores["agent without masks"].illegal == 1.0
    assert any("illegal without masks" in finding for finding in found.findings)
    assert found.discount == 0.9 and found.last_weight == pytest.approx(0.9**29)
    assert any("a discount of 0.9 weighs the last of 30 rewards with 0.05" in finding for finding in found.findings)


def test_an_agent_that_trained_on_the_test_problems() -> None:
    found = audit(
        small(), hetgym.agents.greedy("completion"), small(), episodes=6, training_seeds=range(1_000_000, 1_000_003)
    )
    assert found.overlap == 0.5
    assert any("50% of the 6 problems are also drawn in training" in finding for finding in found.findings)
    rng = np.random.default_rng(0)
    problems = [MIX(rng) for _ in range(4)]
    tested, trained = (
        gym.make("HetSchedule-v0", problem=part, observation="candidates") for part in (problems[1:], problems[:2])
    )
    assert audit(tested, hetgym.agents.greedy(), trained, episodes=24).overlap == pytest.approx(1 / 3)


def test_an_environment_without_choices() -> None:
    cost = np.full((6, 2), np.inf)
    cost[np.arange(6), np.arange(6) % 2] = 1.0
    with pytest.warns(HetgymWarning, match="has nothing to decide"):
        found = audit(
            gym.make("HetSchedule-v0", problem=Problem.from_arrays(cost, [])), hetgym.agents.uniform(), episodes=2
        )
    assert found.choice == 0.0 and any("0% of the steps" in finding for finding in found.findings)


def test_an_environment_whose_reference_random_agents_beat() -> None:
    """The best plan counts, and the first one is better than the reference."""
    env = gym.make("HetImprove-v0", generator=MIX, start="pilot", steps=10, **SIZES)
    found = audit(env, hetgym.agents.uniform(), episodes=24)
    assert found.scores["random"].mean > 0
    assert any("above the reference" in finding for finding in found.findings)


@pytest.mark.parametrize("name", sorted(ENVIRONMENTS))
def test_every_environment_is_audited(name: str) -> None:
    quick = {"HetSplit-v0": {"key_operators": 2}, "HetImprove-v0": {"steps": 5}}.get(name, {})
    found = audit(gym.make(name, **quick), hetgym.agents.uniform(), episodes=2)
    assert found.env_id == name and found.steps > 0 and len(found.scores) == 3


def test_what_is_no_agent_or_no_environment_is_refused() -> None:
    with pytest.raises(ConfigError, match="agent is 3"):
        audit(small(), 3)
    with pytest.raises(ConfigError, match="audit takes one environment"):
        audit(gym.make("CartPole-v1"), hetgym.agents.uniform())
    with pytest.raises(ConfigError, match="plays HetPipeline-v0"):
        audit(small(), hetgym.agents.load("pipeline-v1"))
