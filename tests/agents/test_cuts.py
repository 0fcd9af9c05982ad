"""CutPlanner: planning, and playing its plans."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from hetgym.agents import CutPlanner, Policy, play
from hetgym.errors import ConfigError
from hetgym.pipeline import Objective, RandomChains, cut_problem

CASES: list[dict[str, Any]] = [
    {},
    {"objective": "latency", "requests": 5},
    {"objective": "training", "schedule": "interleaved", "chunks": 3, "micro_batches": 4},
    {"objective": "training", "schedule": "zb-h1"},
]


@pytest.mark.parametrize("arguments", CASES, ids=str)
@pytest.mark.parametrize("completion", [True, False])
def test_an_episode_has_the_value_of_the_plan(arguments: dict[str, Any], completion: bool) -> None:
    planner, rounds, same = CutPlanner(), set(), 0
    assert isinstance(planner, Policy)
    env = gym.make("HetPipeline-v0", observation="candidates", completion=completion, **arguments)
    for seed in range(6):
        chain = RandomChains()(np.random.default_rng(seed))
        info = play(env, planner, seed=seed, options={"problem": chain}).info
        cuts = cut_problem(chain, Objective(**arguments))
        same += tuple(info["stages"]) == planner.plan(chain, **arguments)
        assert info["value"] == cuts.evaluate(info["stages"]).value <= cuts.reference
        assert info["illegal_actions"] == 0
        rounds.add(len(info["stages"]) // len({stage.device for stage in info["stages"]}))
    assert same == 6 or (same > 2 and arguments.get("schedule") == "interleaved")  # see CutPlanner.begin
    assert arguments.get("schedule") != "interleaved" or max(rounds) > 1


def test_an_episode_of_a_drawn_pipeline() -> None:
    env = gym.make("HetPipeline-v0", objective="training")
    one, two = (play(env, CutPlanner(), seed=3).info for _ in range(2))
    assert one["stages"] == two["stages"] and one["value"] < one["reference"]


def test_budgets() -> None:
    chain = RandomChains()(np.random.default_rng(5))
    arguments = {"objective": "training", "schedule": "interleaved"}
    cuts = cut_problem(chain, Objective(**arguments))
    values = [
        cuts.evaluate(CutPlanner().plan(chain, **how, **arguments)).value  # type: ignore[arg-type]
        for how in ({"tries": 0}, {"tries": 2_000}, {"budget": "5ms"}, {})
    ]
    assert max(values[1:]) <= values[0] <= cuts.reference


def test_bad_input() -> None:
    chain = RandomChains()(np.random.default_rng(5))
    with pytest.raises(ConfigError, match="micro_batches"):
        CutPlanner().plan(chain, micro_batch=4)
    with pytest.raises(ConfigError, match="invalid duration 'soon'"):
        CutPlanner().plan(chain, "soon")
    with pytest.raises(ConfigError, match="plays HetPipeline-v0, the environment is HetSchedule-v0"):
        play(gym.make("HetSchedule-v0"), CutPlanner())
