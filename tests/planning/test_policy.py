"""Schedulers as agents in an environment have the makespans of their schedules."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from brief import brief

import hetgym
from hetgym.baselines import as_policy, names
from hetgym.envs import HetScheduleEnv
from hetgym.errors import ConfigError, UnknownName
from hetgym.workloads import RandomMix, textbook

SLOW = {"cp-sat", "tvm-fusion"}  # minutes, or an extra


@pytest.mark.parametrize("name", [name for name in names() if name not in SLOW])
def test_the_same_makespan_inside_and_outside(name: str) -> None:
    scheduler = brief(name)
    runtimes = ("classic", "links", "framework") if name in ("heft", "peft-again", "place-v2") else ("classic", "links")
    for problem in (textbook("topcuoglu"), RandomMix(operators=(12, 24))(np.random.default_rng(0))):
        for runtime in runtimes:
            env = HetScheduleEnv(problem, decode="append", runtime=runtime, observation="candidates", completion="off")
            policy = as_policy(name, **scheduler.options)
            observation, info = policy.reset(env, seed=1)
            total, done = 0.0, False
            while not done:
                observation, reward, done, _, info = env.step(policy(observation, info))
                total += float(reward)
            outside = hetgym.simulate(problem, scheduler(problem, runtime), runtime).makespan
            assert info["makespan"] == pytest.approx(outside, rel=1e-12)
            assert total == pytest.approx(1 - outside / info["reference"], abs=1e-9)
            assert info["illegal_actions"] == 0


def test_plain_functions_do_not_see_the_runtime() -> None:
    seen = []

    def first(problem: hetgym.Problem) -> hetgym.Schedule:
        return hetgym.baselines.get("heft")(problem)

    def second(problem: hetgym.Problem, runtime: object = "classic") -> hetgym.Schedule:
        seen.append(runtime)
        return first(problem)

    env = HetScheduleEnv(textbook("topcuoglu"), decode="append", runtime="links", completion="off")
    for scheduler in (first, second):
        as_policy(scheduler).reset(env)
    assert seen == [env.lanes.rules.simulated]


def test_orders_are_checked() -> None:
    env = gym.make("HetSchedule-v0", problem=textbook("topcuoglu"))
    with pytest.raises(ConfigError, match="each of the 10 operators"):
        env.reset(options={"order": [0, 1]})
    with pytest.raises(ConfigError, match="before one of its inputs"):
        env.reset(options={"order": list(range(9, -1, -1))})
    with pytest.raises(UnknownName, match="scheduler"):
        as_policy("hefd")
