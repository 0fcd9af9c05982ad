"""Other objectives than the makespan, and deadlines."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import hetgym
from hetgym.agents import greedy, play
from hetgym.baselines import get
from hetgym.envs import ObjectiveReward
from hetgym.errors import ConfigError, ProblemError, UnknownName
from hetgym.sim import lateness
from hetgym.workloads import textbook


def powered() -> hetgym.Problem:
    return textbook("topcuoglu").replace(power_busy=[300.0, 200.0, 10.0], power_idle=1.0, price=[3.0, 2.0, 1.0])


@pytest.mark.parametrize(("objective", "of"), [("energy", "energy"), ("cost", "cost"), ("makespan", "makespan")])
@pytest.mark.parametrize("name", ["HetSchedule-v0", "HetDispatch-v0"])
def test_the_return_is_what_is_saved_of_hefts_plan(objective: str, of: str, name: str) -> None:
    problem = powered()
    env = ObjectiveReward(gym.make(name, problem=problem, runtime="links"), objective)
    result = play(env, greedy("completion"), seed=0)
    plan = hetgym.simulate(problem, get("heft")(problem, "links"), "links")
    expected = {"energy": plan.energy.total, "cost": plan.cost, "makespan": plan.makespan}[of]
    assert result.total_reward == pytest.approx(1 - result.info[of] / expected)
    assert result.info["objective"] == pytest.approx(result.info[of] / expected)


def test_heft_itself_returns_nothing() -> None:
    env = ObjectiveReward(gym.make("HetSchedule-v0", problem=powered()), "makespan=1,energy=1,cost=1")
    env.reset(seed=0)
    total, over = 0.0, False
    heft = get("heft")(powered())
    order = np.argsort(-hetgym.planning.ranks.upward_rank(powered()), kind="stable")
    for operator in order.tolist():
        assert not over
        _, reward, over, _, info = env.step(int(heft.assignment[operator]))
        total += reward
    assert over and total == pytest.approx(0.0, abs=1e-12) and info["objective"] == pytest.approx(1.0)


def test_objectives_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match="HetSchedule-v0"):
        ObjectiveReward(gym.make("CartPole-v1"))
    with pytest.raises(UnknownName):
        ObjectiveReward(gym.make("HetSchedule-v0", problem=powered()), "enrgy")
    with pytest.raises(ProblemError, match="power_busy"):
        play(ObjectiveReward(gym.make("HetSchedule-v0", problem=textbook("topcuoglu"))), greedy("completion"), seed=0)


def test_deadlines_are_counted_and_change_nothing_else() -> None:
    options = {"problem": textbook("topcuoglu"), "jobs": 3, "gap": 0.2}
    plain = play(gym.make("HetDispatch-v0", **options), greedy("completion"), seed=1)
    infos = [
        play(gym.make("HetDispatch-v0", deadline=factor, **options), greedy("completion"), seed=1).info
        for factor in (1e-6, 2.0, 1e6)
    ]
    assert "miss_rate" not in plain.info
    assert {info["makespan"] for info in infos} == {plain.info["makespan"]}
    assert [infos[0]["miss_rate"], infos[2]["miss_rate"], infos[2]["tardiness"]] == [1.0, 0.0, 0.0]
    trace = infos[1]["trace"]
    ends = trace.finish.reshape(3, 10).max(axis=1)
    late = infos[0]["tardiness"] - infos[1]["tardiness"]
    assert 0 <= late <= 2 * 80.0  # HEFT's makespan
    assert infos[1]["miss_rate"] in (0.0, 1 / 3, 2 / 3, 1.0) and ends.max() == infos[1]["makespan"]
    with pytest.raises(ConfigError, match="HetDispatch-v0 has it"):
        gym.make("HetSchedule-v0", problem=textbook("topcuoglu"), deadline=2.0)
    with pytest.raises(ConfigError, match="deadline"):
        gym.make("HetDispatch-v0", problem=textbook("topcuoglu"), deadline=-1.0)


def test_lateness_by_hand() -> None:
    problem = hetgym.Problem.from_arrays([[2.0], [3.0], [1.0]], [])
    trace = hetgym.simulate(problem, hetgym.Schedule([0, 0, 0], order=[[0, 1, 2]]))
    late = lateness(trace, [4.0, np.inf], job=[0, 0, 1])
    assert (late.tardiness.tolist(), late.miss_rate, late.mean, late.worst) == ([1.0, 0.0], 0.5, 0.5, 1.0)
    for due, job in (([-1.0, 1.0, 1.0], None), ([1.0], None), ([1.0, 1.0], [0, 0, 2]), ([1.0, 1.0], [0.0, 0.0, 1.0])):
        with pytest.raises(ProblemError, match="deadlines"):
            lateness(trace, due, job)
    for due, job in (("x", None), (object(), None), ([[1.0], 2.0], None), ([10**400] * 3, None), ([1.0], [[0], 0, 0])):
        with pytest.raises(ProblemError, match="deadlines or jobs are not an array of numbers"):
            lateness(trace, due, job)  # type: ignore[arg-type]
