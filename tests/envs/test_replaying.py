"""Episodes as values: replays of every environment end with the same result."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from schedule_tools import rollout as rollout_schedule
from split_tools import machine, products
from split_tools import rollout as rollout_split

import hetgym
from hetgym import Problem, Runtime
from hetgym.costs import Roofline
from hetgym.envs import ENVIRONMENTS, HetDispatchEnv, HetSplitEnv, Replay, replay
from hetgym.pipeline import DeviceKind, PipelineProblem
from hetgym.sim import Loss, SlowDown
from hetgym.sim.runtime import PRESETS
from hetgym.workloads import textbook

QUICK = {"HetSchedule-v0": {"completion": "off"}, "HetDispatch-v0": {"completion": "off"}}
FEW = {"key_operators": 2, "parts": ("equal",)}
NOISY = Runtime(communication="fifo", noise=0.2, seed=3)
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, QUICK.get(name, {}) | {"observation": level}) for name in ENVIRONMENTS for level in ("graph", "flat")),
    *(
        (name, QUICK.get(name, FEW) | {"observation": "candidates", "reward": "sparse"})
        for name in list(ENVIRONMENTS)[:3]
    ),
    *(("HetSchedule-v0", {"completion": "off", "runtime": name}) for name in [*PRESETS, NOISY]),
    *(("HetDispatch-v0", {"completion": "off", "runtime": name}) for name in [*PRESETS, NOISY]),
    *(("HetSplit-v0", FEW | {"runtime": name}) for name in [*PRESETS, NOISY]),
    *(("HetSchedule-v0", {"decode": decode, "runtime": "links"}) for decode in ("append", "bottom-level", "best")),
    ("HetSchedule-v0", {"memory": "mask", "completion": "eft"}),
    ("HetSchedule-v0", {"suite": "quick", "completion": "off"}),
    ("HetSchedule-v0", {"graph": "alexnet", "platform": ["cpu-gpu", "cpu-2gpu-nvlink"], "costs": "roofline"}),
    ("HetDispatch-v0", {"jobs": 3, "gap": 0.2, "objective": "job-time", "deadline": 2.0, "completion": "off"}),
    ("HetDispatch-v0", {"noise": 0.3, "slow_downs": 2, "losses": 1, "candidates": 3, "completion": "off"}),
    ("HetDispatch-v0", {"changes": [SlowDown(0, 1.0, 2.0), Loss(1, 3.0)], "jobs": 2, "completion": "off"}),
    ("HetDispatch-v0", {"suite": "quick", "tries": 4}),
    ("HetSplit-v0", FEW | {"scheduler": "peft", "fused": True, "multiple": 2, "divisible": False}),
    ("HetSplit-v0", FEW | {"ways": [2, 4], "axes": ("output", "batch"), "granularity": 0.0, "lookahead": True}),
    *(
        ("HetPipeline-v0", {"objective": "training", "schedule": schedule, "micro_batches": 8})
        for schedule in ("gpipe", "1f1b", "interleaved", "zb-h1")
    ),
    ("HetPipeline-v0", {"objective": "latency", "requests": 5, "completion": False, "optimal": False}),
    (
        "HetPipeline-v0",
        {"graph": "alexnet", "platform": "cpu-2gpu-nvlink", "objective": "training", "optimizer": "sgd"},
    ),
]


@pytest.mark.parametrize(("name", "arguments"), CASES)
def test_every_episode_is_played_again_from_a_file(name: str, arguments: dict[str, Any]) -> None:
    env, rng = gym.make(name, **arguments).unwrapped, np.random.default_rng(2)
    for seed in (4, None):
        _, info = env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            legal = rng.choice(np.flatnonzero(env.action_masks()))
            _, reward, over, _, info = env.step(-1 if rng.random() < 0.05 else int(legal))  # few are illegal
            total += reward
        episode = Replay(**json.loads(json.dumps(asdict(info["replay"]))))
        assert episode == info["replay"] and hash(episode) == hash(info["replay"])
        for observation in ("candidates", "graph"):
            again = replay(env.replayable, episode, observation=observation)
            assert again["makespan"] == info["makespan"] and again["replay"] == replace(
                episode, seed=again["replay"].seed
            )
            assert sum(again["reward_terms"].values()) == sum(info["reward_terms"].values()) == pytest.approx(total)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_episodes_of_lanes_are_drawn_and_played_again(name: str, mode: str) -> None:
    arguments = {"split": "test", "pool": 3} | QUICK.get(name, FEW if name == "HetSplit-v0" else {})
    envs = gym.make_vec(name, num_envs=3, autoreset_mode=mode, **arguments)
    _, infos = envs.reset(seed=6)
    ended: dict[int, dict[str, Any]] = {}
    rng = np.random.default_rng(0)
    while len(ended) < 3:
        mask = infos["action_mask"]
        _, _, over, _, infos = envs.step([int(rng.choice(np.flatnonzero(row))) for row in mask])
        last = infos.get("final_info", infos)
        for lane in np.flatnonzero(over).tolist():
            ended.setdefault(lane, {key: last[key][lane] for key in ("makespan", "replay")})
        if mode == "Disabled" and over.any():
            mask = infos["action_mask"]
            mask[over] = envs.reset(options={"reset_mask": over})[1]["action_mask"][over]
            infos = {"action_mask": mask}
    for info in ended.values():
        again = replay(None, info["replay"])
        assert again["makespan"] == info["makespan"] and again["replay"] == info["replay"]


def test_replays_refuse_what_they_were_not_played_with() -> None:
    env = HetSplitEnv(products(2), machine(), costs=Roofline(), **FEW)
    episode: Any = finished(env, 0)["replay"]
    with pytest.raises(hetgym.ConfigError, match="with costs=<Roofline>, an object that it does not hold"):
        replay(env.replayable, episode)
    assert replay(env.replayable, episode, costs=Roofline())["replay"] == episode
    with pytest.raises(hetgym.ConfigError, match="with runtime='classic', not with runtime='links'"):
        replay(env.replayable, episode, costs=Roofline(), runtime="links")
    with pytest.raises(hetgym.ConfigError, match="ended with a makespan of 1 s, its replay ends with"):
        replay(env.replayable, replace(episode, makespan=1.0), costs=Roofline())


def test_replay_reaches_the_same_makespan_schedule() -> None:
    env = gym.make("HetSchedule-v0", runtime="links")
    rng = np.random.default_rng(8)
    _, info = rollout_schedule(env, lambda obs, info: int(rng.integers(-1, 4)), seed=8)
    problem = env.unwrapped.problem
    again = replay(problem, info["replay"], runtime="links")
    assert again["makespan"] == info["makespan"] and again["illegal_actions"] == 0 < info["illegal_actions"]
    assert again["replay"] == info["replay"]
    with pytest.raises(hetgym.ConfigError, match="was played on"):
        replay(textbook("topcuoglu"), info["replay"])
    with pytest.raises(hetgym.ConfigError, match="has 1 actions, but"):
        replay(textbook("topcuoglu"), Replay(textbook("topcuoglu").id, None, (0,)))


def test_conditions_do_not_change_what_is_drawn() -> None:
    env = HetDispatchEnv(noise=0.2, completion="off")
    drawn = [env.reset(seed=3, options=options)[1]["problem"] for options in (None, {"conditions": 5})]
    assert drawn[0] == drawn[1]


def finished(env: gym.Env, seed: int | None, options: dict[str, object] | None = None) -> dict[str, object]:
    _, info = env.reset(seed=seed, options=options)
    over, rng = False, np.random.default_rng(1)
    while not over:
        _, _, over, _, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
    return info


def test_episodes_of_several_jobs_are_played_again() -> None:
    one, other = textbook("topcuoglu"), textbook("arabnejad-barbosa")
    arguments = {"noise": 0.2, "completion": "off"}
    sizes = {"max_operators": 60, "max_edges": 200}
    forced = finished(HetDispatchEnv(one, jobs=2, **sizes, **arguments), 0, {"problem": [one, other]})
    assert replay([one, other], forced["replay"], **sizes, **arguments)["makespan"] == forced["makespan"]
    pool = [one, other]
    for seed in range(4):  # jobs that are drawn from a list as long as there are jobs
        drawn = finished(HetDispatchEnv(pool, jobs=2, **arguments), seed)
        assert replay(pool, drawn["replay"], **arguments)["makespan"] == drawn["makespan"]
    env = HetDispatchEnv(jobs=2, **arguments)
    first = finished(env, 5)
    assert replay(None, first["replay"], **arguments)["makespan"] == first["makespan"]
    second = finished(env, None)
    jobs = env.replayable
    assert len(jobs) == 2 and replay(jobs, second["replay"], **arguments)["makespan"] == second["makespan"]
    with pytest.raises(hetgym.ConfigError, match="was played on"):
        replay(env.problem, second["replay"], **arguments)


def test_an_episode_goes_on_as_it_was_after_a_reset_that_was_refused() -> None:
    problem, arguments = textbook("topcuoglu"), {"noise": 0.3}
    env = HetDispatchEnv(problem, **arguments)
    _, info = env.reset(seed=0)
    with pytest.raises(hetgym.ProblemError, match="max_operators"):
        env.reset(options={"problem": hetgym.Problem.from_arrays(np.ones((50, 3)), []), "conditions": 7})
    over = False
    while not over:
        _, _, over, _, info = env.step(int(info["action_mask"].argmax()))
    assert replay(problem, info["replay"], **arguments)["makespan"] == info["makespan"]


def test_a_problem_that_is_refused_changes_no_later_draw() -> None:
    envs = [HetDispatchEnv(textbook("topcuoglu"), noise=0.3) for _ in range(2)]
    for env in envs:
        env.reset(seed=0)
    for options in ({"problem": Problem.from_arrays(np.ones((50, 3)), [])}, {"problem": []}, {"problem": 3}):
        with pytest.raises(hetgym.HetgymError):
            envs[0].reset(options=options)
    (seen, _), (expected, _) = (env.reset() for env in envs)
    assert (seen["candidates"] == expected["candidates"]).all()


def test_replay_reaches_the_same_makespan_split() -> None:
    arguments = {"key_operators": 4, "runtime": "links"}
    env = gym.make("HetSplit-v0", **arguments)
    rng = np.random.default_rng(8)
    _, info = rollout_split(env, lambda obs, info: int(rng.integers(-1, 17)), seed=8)
    again = replay(env.unwrapped.replayable, info["replay"], **arguments)
    assert again["makespan"] == info["makespan"] and again["illegal_actions"] == 0 < info["illegal_actions"]
    assert again["replay"] == info["replay"] and again["choices"] == info["choices"]
    with pytest.raises(hetgym.ConfigError, match="was played on"):
        replay((products(), machine()), info["replay"])
    own = Problem.build(products(2), machine()).id
    for actions in ((0,), (0, 0, 0)):
        with pytest.raises(hetgym.ConfigError, match=f"has {len(actions)} actions, but"):
            replay((products(2), machine()), Replay(own, None, actions, env_id="HetSplit-v0"))


TWO = [DeviceKind("gpu", 2)]

CHAIN = PipelineProblem.chain([[4.0], [1.0], [1.0], [2.0]], TWO, transfer=0.5, name="four")


def test_replay_reaches_the_same_value_pipeline() -> None:
    env = gym.make("HetPipeline-v0", objective="training", schedule="interleaved")
    env.reset(seed=5)
    problem = env.unwrapped.replayable
    rng, done = np.random.default_rng(0), False
    while not done:
        _, _, done, _, info = env.step(int(rng.integers(6)))
    again = replay(problem, info["replay"], objective="training", schedule="interleaved")
    assert again["value"] == info["value"] and again["stages"] == info["stages"]
    with pytest.raises(hetgym.ConfigError, match="was played on"):
        replay(CHAIN, info["replay"])
    with pytest.raises(hetgym.ConfigError, match="actions"):
        replay(CHAIN, Replay(CHAIN.id, 0, (1,), env_id="HetPipeline-v0"))
