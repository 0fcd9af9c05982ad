"""The protocols that agents, policies and schedulers share: acting, planning and scheduling."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import hetgym
from hetgym.agents import (
    RULES,
    ClusterPlanner,
    CutPlanner,
    Policy,
    as_scheduler,
    greedy,
    load,
    names,
    play,
    pretrained,
    rule,
    trained_for,
    uniform,
)
from hetgym.agents.candidates import PipelinePolicy, SchedulePolicy, SplitPolicy
from hetgym.envs.core.kinds import IDS
from hetgym.errors import ArtefactError, ConfigError, HetgymWarning, UnknownName
from hetgym.workloads import RandomMix, textbook

ENVIRONMENTS = {
    "place-v1": {"id": "HetSchedule-v0"},
    "gnn-dispatch-v1": {"id": "HetDispatch-v0"},
    "gnn-v1": {"id": "HetSchedule-v0", "runtime": "links"},
    "place-v2": {"id": "HetSchedule-v0", "runtime": "links"},
    "dispatch": {"id": "HetDispatch-v0"},
    "planned-dispatch": {"id": "HetDispatch-v0"},
    "split-v2": {"id": "HetSplit-v0", "graph": "alexnet", "platform": "even-pair"},
    "split": {"id": "HetSplit-v0", "graph": "alexnet", "platform": "even-pair"},
    "pipeline-v1": {"id": "HetPipeline-v0"},
}


def test_no_compiled_policy_is_left_out() -> None:
    compiled = {name for name in names() if "known" in pretrained.card(name)}  # others play in test_pretrained.py
    assert compiled | set(RULES) == set(ENVIRONMENTS)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_shipped_policy_and_rule_is_a_policy_and_plays(name: str) -> None:
    policy: Policy = rule(name) if name in RULES else load(name)
    assert isinstance(policy, Policy)
    env = gym.make(**ENVIRONMENTS[name], **policy.arguments)  # type: ignore[arg-type]
    result = play(env, policy, seed=5)
    assert result.total_reward == pytest.approx(1 - result.info["makespan"] / result.info["reference"])
    assert play(env, policy.agent(), seed=5).info["makespan"] == result.info["makespan"]


def test_policies_say_where_they_were_not_trained() -> None:
    problem = textbook("topcuoglu")
    for name, inside, beyond in (("place-v1", "classic", "links"), ("place-v2", "ready", "fair")):
        policy = load(name)
        assert inside in trained_for(policy) and beyond not in trained_for(policy)
        play(gym.make("HetSchedule-v0", problem=problem, runtime=inside, **policy.arguments), policy)  # is silent
        env = gym.make("HetSchedule-v0", problem=problem, runtime=beyond, **policy.arguments)
        with pytest.warns(HetgymWarning, match=f"{name} was trained for .*; this environment has {beyond}"):
            play(env, policy)
    noisy = gym.make("HetDispatch-v0", noise=0.2, observation="candidates")
    play(noisy, rule("dispatch"), seed=0)  # noise is a condition, not another runtime


@pytest.mark.parametrize("runtime", ["links", pytest.param("framework", marks=pytest.mark.slow)])
def test_planners_plan_for_the_runtime_of_the_environment(runtime: str) -> None:
    policy, problem = load("place-v2"), RandomMix(operators=(20, 30))(np.random.default_rng(3))
    info = play(gym.make("HetSchedule-v0", problem=problem, runtime=runtime, decode="append"), policy).info
    assert info["makespan"] == pytest.approx(policy.plan(problem, runtime=runtime).makespan, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_place_policy_acts_as_it_plans(seed: int) -> None:
    planner, problem = load("place-v1"), RandomMix(operators=(20, 30))(np.random.default_rng(seed))
    result = play(gym.make("HetSchedule-v0", problem=problem, **planner.arguments), planner)
    assert result.info["makespan"] == pytest.approx(planner.plan(problem).makespan, rel=1e-12)
    assert as_scheduler(planner)(problem).makespan == pytest.approx(planner.plan(problem).makespan, rel=1e-12)


def test_an_agent_that_plans_follows_the_problem_of_the_reset() -> None:
    policy, problem = hetgym.baselines.as_policy("peft"), textbook("arabnejad-barbosa")
    env = gym.make("HetSchedule-v0", decode="append")
    assert play(env, policy, seed=0, options={"problem": problem}).info["makespan"] == 122


def test_what_cannot_play_is_refused_before_the_episode() -> None:
    place = load("place-v1")
    with pytest.raises(ConfigError, match="agent is 'heft'; it must be a function"):
        play(gym.make("HetSchedule-v0"), "heft")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not a vector environment"):
        play(gym.make_vec("HetSchedule-v0", num_envs=2), place)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", IDS)
def test_a_policy_refuses_every_other_environment(kind: str) -> None:
    env = gym.make(IDS[kind], observation="candidates")
    for policy in [*map(load, names()), CutPlanner(), ClusterPlanner()]:
        if policy.kind != kind:
            words = f"this policy plays {IDS[policy.kind]}, the environment is {IDS[kind]}"
            with pytest.raises(ConfigError, match=f"^{words}$"):
                play(env, policy, seed=0)


def test_plans_have_the_type_of_their_kind() -> None:
    assert isinstance(rule("dispatch"), SchedulePolicy)
    assert isinstance(rule("split"), SplitPolicy)
    assert isinstance(load("pipeline-v1"), PipelinePolicy)
    hetgym.validate(textbook("topcuoglu"), rule("dispatch").plan(textbook("topcuoglu")))


def test_an_agent_is_a_scheduler_with_arguments_of_the_environment() -> None:
    problem = textbook("topcuoglu")
    schedule = as_scheduler(greedy("finish"), completion="off")(problem)
    assert schedule.makespan == hetgym.baselines.get("heft")(problem).makespan == 80
    hetgym.validate(problem, as_scheduler(uniform(0), "HetDispatch-v0", completion="off")(problem))
    for wrong in (lambda: as_scheduler(uniform(0), "HetSplit-v0"), lambda: as_scheduler(load("pipeline-v1"))):
        with pytest.raises(ConfigError, match="schedulers come from HetSchedule-v0, .*, HetImprove-v0, not from Het"):
            wrong()


def test_loading_refuses_what_is_no_policy(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'place-v1'"):
        load("placs-v1")
    with pytest.raises(ArtefactError, match="no such file"):
        load(tmp_path / "missing.safetensors")
    with pytest.raises(ConfigError, match="by its name or path, not by int"):
        load(3)  # type: ignore[call-overload]
