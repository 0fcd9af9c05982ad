"""Playing: an environment whose features have another meaning than in training is refused in one sentence."""

from __future__ import annotations

import gymnasium as gym
import pytest

import hetgym
from hetgym.agents import play
from hetgym.errors import ConfigError

ELSEWHERE = [
    ("dispatch", "HetDispatch-v0", {}, {"completion": "off"}, "completion='eft\\+oct'"),
    ("dispatch", "HetDispatch-v0", {}, {"completion": "eft"}, "completion='eft\\+oct'"),
    ("dispatch", "HetDispatch-v0", {}, {"tries": 10}, "tries=0"),
    ("planned-dispatch", "HetDispatch-v0", {"tries": 300}, {"tries": 0}, "tries=300"),
    ("pipeline-v1", "HetPipeline-v0", {}, {"completion": False}, "completion=True"),
    ("split", "HetSplit-v0", {"completion": True}, {"completion": False}, "completion=True"),
    ("split", "HetSplit-v0", {"completion": True}, {"lookahead": True}, "lookahead=False"),
]


@pytest.mark.parametrize(("name", "env_id", "right", "wrong", "words"), ELSEWHERE)
def test_a_policy_refuses_features_that_it_did_not_learn(
    name: str, env_id: str, right: dict, wrong: dict, words: str
) -> None:
    policy = hetgym.agents.rule(name) if name in hetgym.agents.RULES else hetgym.agents.load(name)
    env = gym.make(env_id, observation="candidates", **(right | wrong))
    with pytest.raises(ConfigError, match=words) as caught:
        play(env, policy, seed=0)
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match=words):
        policy.play(**(right | wrong))


def test_a_policy_plays_the_environment_that_it_knows() -> None:
    policy = hetgym.agents.rule("dispatch")
    env = gym.make("HetDispatch-v0", observation="candidates")
    assert sum(play(env, policy, seed=seed).total_reward for seed in range(5)) > 0


def test_agents_without_a_past_play_anything() -> None:
    env = gym.make("HetSchedule-v0", completion="off")
    assert play(env, hetgym.agents.greedy("finish"), seed=0).info["makespan"] > 0
