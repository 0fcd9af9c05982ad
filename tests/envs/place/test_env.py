"""The promises of HetSchedule-v0: HEFT as an agent has return zero, errors are sentences."""

from __future__ import annotations

import gymnasium as gym
import pytest
from schedule_tools import rollout

import hetgym
from hetgym.baselines import heft
from hetgym.envs import HetScheduleEnv
from hetgym.sim import PRESETS
from hetgym.workloads import textbook


@pytest.mark.parametrize("runtime", PRESETS)
@pytest.mark.parametrize("name", ["topcuoglu", "arabnejad-barbosa"])
def test_heft_played_as_an_agent_returns_exactly_zero(name: str, runtime: str) -> None:
    problem = textbook(name)
    plan = heft(problem, runtime=runtime)
    env = HetScheduleEnv(problem, runtime=runtime)
    total, info = rollout(env, lambda obs, info: int(plan.assignment[obs["current"][0]]))
    assert info["makespan"] == info["reference"] == hetgym.simulate(problem, plan, runtime).makespan
    assert total == pytest.approx(0.0, abs=1e-12)
    assert info["schedule"].to_dict() == {**plan.to_dict(), "scheduler": "agent"}


@pytest.mark.parametrize("runtime", ["classic", "links", "framework"])
def test_heft_played_on_random_problems_returns_zero(runtime: str) -> None:
    env = gym.make("HetSchedule-v0", runtime=runtime)
    for seed in range(10):
        env.reset(seed=seed)
        problem = env.unwrapped.problem
        plan = heft(problem, runtime=runtime)
        total, info = rollout(env, lambda obs, info, plan=plan: int(plan.assignment[obs["current"][0]]), seed)
        assert info["makespan"] == plan.makespan and total == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "dispatch"}, "'mode'; HetSchedule-v0 places before the run, HetDispatch-v0 schedules during it"),
        ({"noise": 0.1}, "unexpected keyword argument 'noise'; HetDispatch-v0 has it"),
        ({"jobs": 2}, "unexpected keyword argument 'jobs'; HetDispatch-v0 has it"),
        ({"reward": "dens"}, "did you mean 'dense'"),
        ({"decode": "insert"}, "did you mean 'insertion'"),
        ({"completion": "oct"}, "unknown completion 'oct'"),
        ({"completion": False}, "completion is False, as YAML reads off"),
        ({"runtime": "clasic"}, "did you mean 'classic'"),
        ({"problem": []}, "at least one problem"),
        ({"problem": 3}, "expected a hetgym.Problem or a path, got int"),
        ({"graph": "resnet50"}, "give both"),
        ({"graph": "resnet51", "platform": "cpu-gpu"}, "did you mean 'resnet50'"),
        ({"graph": "resnet50", "platform": "cpu-gpuu"}, "did you mean 'cpu-gpu'"),
        ({"problem": textbook("topcuoglu"), "suite": "zoo"}, "one source, not from problem and suite"),
        ({"generator": lambda rng: textbook("topcuoglu")}, "pass max_operators"),
        ({"generator": "layred"}, "did you mean 'layered'"),
        ({"problem": textbook("topcuoglu"), "max_operators": 0}, "positive whole number"),
        ({"problem": textbook("topcuoglu"), "max_operators": "all"}, "positive whole number"),
        ({"problem": "/nowhere/x.npz"}, "no such file"),
    ],
)
def test_bad_arguments_get_one_sentence(arguments: dict, message: str) -> None:
    with pytest.raises(hetgym.HetgymError, match=message) as caught:
        HetScheduleEnv(**arguments)
    assert "\n" not in str(caught.value)
