"""HetCluster-v0, against the enumeration of all plans."""

from __future__ import annotations

import copy
import pickle
import warnings
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import hetgym
from hetgym.baselines.parallel import PLANNERS, every_plan, exhaustive
from hetgym.device import Device
from hetgym.envs import LAYER_FEATURES, POOL_FEATURES, STEP_FEATURES, HetClusterEnv, HetPipelineEnv, replay
from hetgym.parallel import (
    Cluster,
    Framework,
    MeasuredNetwork,
    Pool,
    ProfiledLayers,
    RandomSteps,
    TrainingProblem,
    Wire,
)
from hetgym.pipeline import PipelineProblem


def small(seed: int, schedules: tuple[str, ...] = ("gpipe", "1f1b", "zb-h1")) -> TrainingProblem:
    """A random problem of four or five layers on two pools that are short of memory."""
    rng = np.random.default_rng(seed)
    layers, pools, times = int(rng.integers(4, 6)), [], {}
    for name in ("a", "b"):
        base = rng.uniform(0.5, 2.0, (layers, 3)) * [1.0, 2.0, 0.1]
        for tensor in (1, 2):
            for batch in (1, 2):
                times[name, tensor, batch] = base * batch**0.8 / tensor**0.7
        wire = Wire(rng.uniform(0.0, 0.1), (1.0,), (rng.uniform(5.0, 500.0),))
        device = Device(name, "gpu", {"float32": 1.0}, 1.0, rng.uniform(60.0, 160.0))
        pools.append(Pool(device, 1, 2, MeasuredNetwork(wire)))
    whole = rng.uniform(1.0, 5.0, (layers, 3))
    costs = ProfiledLayers(times, {1: whole, 2: whole / [2.0, 2.0, 1.0]})
    framework, cluster = Framework(state_bytes=10.0), Cluster(f"small-{seed}", tuple(pools))
    return TrainingProblem(costs, cluster, 4, framework, (1, 2), (1, 2), schedules=schedules, chunks=(2,))


def test_the_checker_is_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for level in ("graph", "candidates", "flat"):
            env = gym.make("HetCluster-v0", problem=[small(1), small(2)], observation=level)
            check_env(env.unwrapped, skip_render_check=level != "graph")
        check_env(HetClusterEnv(small(1, ("interleaved",))), skip_render_check=True)


def test_random_problems_stay_within_the_padding_and_have_a_plan() -> None:
    env = gym.make("HetCluster-v0")
    sizes = set()
    for seed in range(20):
        obs, info = env.reset(seed=seed)
        done, rng = False, np.random.default_rng(seed)
        while not done:
            assert env.observation_space.contains(obs)
            obs, _, done, _, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
        assert info["value"] >= info["bound"] and (info["within_memory"] or info["plan"].chunks > 1)
        sizes.add(env.unwrapped.problem.costs.layers)
    assert len(sizes) > 3
    with pytest.raises(hetgym.ProblemError, match="holds no training problem"):
        RandomSteps(layers=(3, 2))


def test_the_manual_lists_the_shapes() -> None:
    text, space = HetClusterEnv.__doc__ or "", HetClusterEnv(small(1)).observation_space
    for key, columns in (("blocks", LAYER_FEATURES), ("devices", POOL_FEATURES), ("candidates", STEP_FEATURES)):
        assert space[key].shape[1] == len(columns)
        assert f"``{key}`` | [{ {'blocks': 'N', 'devices': 'D', 'candidates': 'A'}[key] }, {len(columns)}]" in text


def test_masked_actions_make_all_plans_that_fit_and_no_others() -> None:
    """The mask is exact with one chunk a stage: every path of legal actions ends with a plan that fits."""
    for seed in range(3):
        problem = replace(small(seed), stages=3)
        expected = {plan for plan in every_plan(problem) if problem.value(plan) < np.inf}
        env = HetClusterEnv(problem)
        env.reset(seed=0)
        start, found = env.lanes.episode(0), set()
        actions = env.action_space.n
        stack = [copy.deepcopy(start, {id(start.instance): start.instance})]
        while stack:
            at = stack.pop()
            ahead = at.ahead(actions)
            assert at.over or ahead.legal.any()
            for action in np.flatnonzero(ahead.legal).tolist():
                child = copy.deepcopy(at, {id(at.instance): at.instance})
                child.decide(action)
                if child.over:
                    assert ahead.bound[action] <= problem.value(child.plan)
                    found.add(child.plan)
                else:
                    assert child.ahead(actions).bound.min() >= ahead.bound[action] * (1 - 1e-9)
                    stack.append(child)
        assert found == expected


@pytest.mark.parametrize("schedules", [("gpipe", "1f1b", "zb-h1"), ("interleaved",)])
def test_plans_of_planners_can_be_played(schedules: tuple[str, ...]) -> None:
    for seed in range(3):
        problem = small(seed, schedules)
        env = HetClusterEnv(problem)
        for name in ("uniform-grid", "search", "exact"):
            try:
                plan = PLANNERS[name](problem)
                env.reset(seed=0)
            except hetgym.ProblemError:
                continue
            rewards = 0.0
            for action in env.actions(plan):
                _, reward, done, _, info = env.step(action)
                rewards += reward
            assert done and info["illegal_actions"] == 0 and info["plan"] == plan
            assert info["value"] == problem.value(plan) >= info["bound"]
            assert rewards == pytest.approx(1.0 - info["value"] / info["reference"])
            assert 1.0 + sum(info["reward_terms"].values()) == pytest.approx(1.0 + rewards)
            assert replay(problem, info["replay"])["value"] == info["value"]
            if name == "exact":
                assert info["value"] == problem.value(exhaustive(problem))


def test_an_agent_follows_the_plan_of_search() -> None:
    problem = small(2, ("1f1b", "interleaved"))
    episode = hetgym.agents.play(gym.make("HetCluster-v0", problem=problem), hetgym.agents.ClusterPlanner(), seed=0)
    assert episode.info["plan"] == hetgym.plan_training(problem)


def test_lanes_and_the_scalar_environment_agree_bit_for_bit() -> None:
    problems = [small(seed, ("1f1b", "interleaved")) for seed in (1, 2, 4)]
    envs = gym.make_vec("HetCluster-v0", num_envs=3, problem=problems)
    singles = [gym.make("HetCluster-v0", problem=problems).unwrapped for _ in range(3)]
    seen, _ = envs.reset(seed=5)
    alone = [env.reset(seed=5 + k)[0] for k, env in enumerate(singles)]
    rng, over = np.random.default_rng(0), np.zeros(3, bool)
    for _ in range(40):
        for k in range(3):
            for key, value in alone[k].items():
                assert np.array_equal(seen[key][k], value), key
        actions = np.array([int(rng.choice(np.flatnonzero(seen["action_mask"][k]))) for k in range(3)])
        before = over.copy()
        seen, rewards, over, _, _ = envs.step(actions)
        for k, env in enumerate(singles):
            if before[k]:
                alone[k] = env.reset()[0]
                continue
            alone[k], reward, done, _, _ = env.step(actions[k])
            assert reward == rewards[k] and done == over[k]


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"])
def test_a_copy_in_mid_episode_goes_on_alike(clone) -> None:  # type: ignore[no-untyped-def]
    env = HetClusterEnv(small(1), render_mode="ansi")
    _, info = env.reset(seed=0)
    for _ in range(3):
        _, _, _, _, info = env.step(int(np.flatnonzero(info["action_mask"])[-1]))
    twin, done = clone(env), False
    while not done:
        action = int(np.flatnonzero(info["action_mask"])[0])
        seen, reward, done, _, info = env.step(action)
        again, same, _, _, _ = twin.step(action)
        assert reward == same and all(np.array_equal(seen[key], again[key]) for key in seen)
    assert env.render() == twin.render() and "done: step" in env.render()
    twin.reset(seed=0)


def test_illegal_actions_are_replaced_and_plans_that_do_not_fit_fail() -> None:
    env = HetClusterEnv(small(1))
    env.reset(seed=0)
    done = False
    while not done:
        _, _, done, _, info = env.step(-1)
    assert info["illegal_actions"] > 0 and info["within_memory"]
    worst = set()
    for seed in range(3):
        env = HetClusterEnv(small(seed, ("1f1b", "interleaved")), reward="sparse")
        rng = np.random.default_rng(seed)
        for _ in range(20):
            _, info = env.reset(seed=0)
            done, total = False, 0.0
            while not done:
                _, reward, done, _, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
                total += reward
            worst.add(info["within_memory"])
            assert info["within_memory"] or (total == -1.0 and info["plan"].chunks == 2)
    assert True in worst


def test_bad_arguments_get_one_sentence() -> None:
    problem, chain = small(1), PipelineProblem.chain([[1.0]], [hetgym.pipeline.DeviceKind("gpu", 1)])
    for arguments, message in (
        (
            {"problem": problem, "objective": "training"},
            "unexpected keyword argument 'objective'; HetPipeline-v0 has it",
        ),
        (
            {"problem": problem, "micro_batches": 3},
            "unexpected keyword argument 'micro_batches'; HetPipeline-v0 has it",
        ),
        ({"problem": [problem, chain]}, "pipelines are cut in HetPipeline-v0"),
        ({"problem": 3}, "expected a hetgym.parallel.TrainingProblem, got 3"),
        ({"problem": problem, "generator": small}, "one source"),
        ({"generator": small}, "pass max_blocks"),
    ):
        with pytest.raises(hetgym.ConfigError, match=message):
            HetClusterEnv(**arguments)
    for made in (lambda: HetPipelineEnv(problem), lambda: HetPipelineEnv([chain, problem])):
        with pytest.raises(hetgym.ConfigError, match="a TrainingProblem is planned in HetCluster-v0"):
            made()
    with pytest.raises(hetgym.ConfigError, match="unexpected keyword argument 'max_actions'; HetCluster-v0 has it"):
        HetPipelineEnv(chain, max_actions=9)
    env = HetClusterEnv(problem, max_blocks=3)
    with pytest.raises(hetgym.ProblemError, match="max_blocks"):
        env.reset(seed=0)
    env = HetClusterEnv(problem)
    env.reset(seed=0)
    with pytest.raises(hetgym.ConfigError, match="pipelines are cut in HetPipeline-v0"):
        env.reset(options={"problem": chain})
    with pytest.raises(hetgym.ConfigError, match="must be a hetgym.parallel.ParallelPlan"):
        env.actions([0, 0])
    with pytest.raises(hetgym.ConfigError, match="belongs to another training problem"):
        env.actions(replace(PLANNERS["search"](problem), schedule="interleaved"))
    with pytest.raises(hetgym.ProblemError, match="no plan fits"):
        HetClusterEnv(replace(problem, framework=Framework(context_bytes=1e9))).reset(seed=0)
