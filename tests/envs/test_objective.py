"""Other objectives than the makespan, and deadlines."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import hetgym
from hetgym.agents import greedy, play
from hetgym.baselines import get
from hetgym.errors import ConfigError, ProblemError, UnknownName
from hetgym.sim import lateness
from hetgym.workloads import textbook


def powered() -> hetgym.Problem:
    return textbook("topcuoglu").replace(power_busy=[300.0, 200.0, 10.0], power_idle=1.0, price=[3.0, 2.0, 1.0])


@pytest.mark.parametrize(("objective", "of"), [("energy", "energy"), ("cost", "cost"), ("makespan=1", "makespan")])
@pytest.mark.parametrize("name", ["HetSchedule-v0", "HetDispatch-v0"])
def test_the_return_is_what_is_saved_of_hefts_plan(objective: str, of: str, name: str) -> None:
    problem = powered()
    env = gym.make(name, problem=problem, runtime="links", objective=objective)
    result = play(env, greedy("completion"), seed=0)
    plan = hetgym.simulate(problem, get("heft")(problem, "links"), "links")
    expected = {"energy": plan.energy.total, "cost": plan.cost, "makespan": plan.makespan}[of]
    assert result.total_reward == pytest.approx(1 - result.info[of] / expected)
    assert result.info["objective"] == pytest.approx(result.info[of] / expected)


def test_heft_itself_returns_nothing() -> None:
    env = gym.make("HetSchedule-v0", problem=powered(), objective="makespan=1,energy=1,cost=1")
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
    for name, word in (("HetSchedule-v0", "enrgy"), ("HetSchedule-v0", "job-time"), ("HetDispatch-v0", "jobs-time")):
        with pytest.raises(UnknownName, match=word):
            gym.make(name, problem=powered(), objective=word)
    with pytest.raises(ConfigError, match="not a number"):
        gym.make("HetSchedule-v0", problem=powered(), objective="energy=much")
    with pytest.raises(ProblemError, match="power_busy"):
        env = gym.make("HetSchedule-v0", problem=textbook("topcuoglu"), objective="energy")
        play(env, greedy("completion"), seed=0)


def test_weights_need_not_be_said() -> None:
    env = gym.make("HetSchedule-v0", problem=powered(), objective="energy,cost")
    info = play(env, greedy("completion"), seed=0).info
    plan = hetgym.simulate(powered(), get("heft")(powered()))
    assert info["objective"] == pytest.approx((info["energy"] / plan.energy.total + info["cost"] / plan.cost) / 2)


@pytest.mark.parametrize("name", ["HetSchedule-v0", "HetDispatch-v0"])
def test_lanes_pay_what_scalar_environments_pay(name: str) -> None:
    problems = [powered(), powered().replace(power_idle=5.0, name="other")]
    shared = {"problem": problems, "runtime": "links", "objective": "energy=2,cost=1"}
    envs, alone = gym.make_vec(name, num_envs=4, **shared), [gym.make(name, **shared) for _ in range(4)]
    _, infos = envs.reset(seed=3)
    for lane, env in enumerate(alone):
        env.reset(seed=3 + lane)
    ended = 0
    while ended < 4:
        actions = np.array([np.flatnonzero(mask)[0] for mask in infos["action_mask"]])
        _, rewards, over, _, infos = envs.step(actions)
        for lane in range(4):
            _, reward, done, _, info = alone[lane].step(int(actions[lane]))
            assert (reward, done) == (rewards[lane], over[lane]) and (reward == 0.0 or done)
            if done:
                ended += 1
                assert infos["objective"][lane] == info["objective"] == 1.0 - reward
                assert info["energy"] == infos["energy"][lane] and info["cost"] == infos["cost"][lane]
                assert sum(info["reward_terms"].values()) == pytest.approx(reward, abs=1e-12)


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
