"""Pools: vector environments draw from one by default, and its problems depend on the reset's seed and split alone."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import hetgym
from hetgym.envs import ENVIRONMENTS, HetScheduleEnv
from hetgym.envs.core.autoreset import AutoresetLanes, make_lanes
from hetgym.envs.core.registry import arguments_of
from hetgym.workloads import RandomMix, textbook

QUICK = {"observation": "candidates", "completion": "off"}
SMALL = {"generator": RandomMix(operators=(3, 6)), "max_operators": 6, "max_edges": 20, "max_devices": 8, **QUICK}


def played(seed: int | None, draws: int, rng: np.random.Generator | None = None, **arguments: Any) -> list[list[str]]:
    """[L, draws] problems that eight lanes draw after the reset, under random actions or the first legal ones."""
    envs = gym.make_vec("HetSchedule-v0", 8, autoreset_mode="SameStep", **{**SMALL, **arguments}).unwrapped
    _, infos = envs.reset(seed=seed)
    met: list[list[str]] = [[] for _ in range(8)]
    while min(map(len, met)) < draws:
        mask = infos["action_mask"]
        actions = np.where(mask, mask if rng is None else rng.random(mask.shape), -1.0).argmax(axis=1)
        _, _, over, _, infos = envs.step(actions)
        for lane in np.flatnonzero(over).tolist():
            met[lane].append(envs.lanes.problem(lane).digest)
    return [row[:draws] for row in met]


def distinct(rows: list[list[str]]) -> set[str]:
    return {digest for row in rows for digest in row}


@pytest.mark.slow
def test_problems_of_thousands_of_draws_depend_on_the_seed_alone_and_pools_share_none() -> None:
    first = played(0, 500)
    assert first == played(0, 500, np.random.default_rng(0))  # whatever the actions, and whichever lane ends first
    assert 4000 / 16 < len(distinct(first)) < 4000 / 16 + 256
    others = [played(1, 100), played(7, 100), played(0, 100, split="train"), played(0, 100, split="test")]
    every = [distinct(first), *map(distinct, others)]
    assert len(set.union(*every)) == sum(map(len, every))


@pytest.mark.parametrize("name", sorted(ENVIRONMENTS))
def test_vector_environments_draw_from_a_pool_by_default(name: str) -> None:
    given = arguments_of(name)()
    assert (given.pool, given.pool_plays) == (256, 200 if name == "HetSplit-v0" else 16)
    scalar = gym.make(name, observation="candidates").unwrapped
    envs = gym.make_vec(name, num_envs=2, observation="candidates").unwrapped
    assert "pool_plays: how many times" in (type(scalar).__doc__ or "")
    scalar.reset(seed=8)
    envs.reset(seed=7)
    assert scalar.lanes.identity(0) == envs.lanes.identity(1)  # a reset with a seed draws a new problem
    generators = [scalar.np_random, envs._generators[0]]
    new = [scalar.lanes.source.draw(generators[0]) for _ in range(8)]
    envs.lanes.source.share(0, 64)  # four problems for each lane
    pooled = [envs.lanes.source.draw(generators[1]) for _ in range(60)]
    renewed = 0 if name == "HetSplit-v0" else 60 // 16
    assert len(set(map(id, new))) == 8 and 2 <= len(set(map(id, pooled))) <= 4 + renewed


def test_an_episode_on_a_pooled_problem_equals_a_scalar_one() -> None:
    envs = gym.make_vec("HetSchedule-v0", 3, pool=6, autoreset_mode="SameStep").unwrapped
    seen, infos = envs.reset(seed=2)
    rng, finished = np.random.default_rng(0), 0
    twins = [HetScheduleEnv() for _ in range(3)]
    for lane, twin in enumerate(twins):
        twin.reset(seed=2 + lane)
    while finished < 9:
        actions = np.where(infos["action_mask"], rng.random(infos["action_mask"].shape), -1.0).argmax(axis=1)
        seen, rewards, over, _, infos = envs.step(actions)
        for lane, twin in enumerate(twins):
            alone, reward, done, _, _ = twin.step(actions[lane])
            assert (reward, done) == (rewards[lane], over[lane])
            if done:
                finished += 1
                alone, _ = twin.reset(options={"problem": envs.lanes.problem(lane)})
            assert all(np.array_equal(alone[key], seen[key][lane]) for key in alone)


def test_every_lane_has_a_share() -> None:
    for lanes, sizes in ((3, [4, 3, 3]), (4, [3, 3, 2, 2]), (20, [1] * 20)):
        made = make_lanes("HetSchedule-v0", lanes, pool=10, pool_plays=None, **SMALL)
        for lane, size in enumerate(sizes):
            rng = made.generator(lane)[0]
            assert len({id(made.source.draw(rng, lane)) for _ in range(80)}) == size


def lives(env: HetScheduleEnv, episodes: int, seed: int | None = None) -> list[str]:
    env.reset(seed=seed)
    return [env.problem.digest, *(env.problem.digest for _ in range(episodes - 1) if env.reset())]


@pytest.mark.parametrize("plays", [1, 3, 10])
def test_a_new_problem_replaces_the_oldest_after_so_many_draws(plays: int) -> None:
    found = lives(HetScheduleEnv(pool=4, pool_plays=plays, **SMALL), 1200, seed=0)[1:]
    ends = {digest: turn for turn, digest in enumerate(found)}
    starts = {digest: turn for turn, digest in reversed(list(enumerate(found)))}
    assert max(ends[digest] - starts[digest] for digest in ends) < 4 * plays
    counts = [found.count(digest) for digest in list(starts)[8:-8]]
    assert 0.9 * plays < np.mean(counts) < 1.3 * plays + 0.5  # those that were never drawn do not count
    kept = lives(HetScheduleEnv(pool=4, pool_plays=None, **SMALL), 200, seed=0)[1:]
    assert len(set(kept)) == 4


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))], ids=["copy", "pickle"])
@pytest.mark.parametrize("draws", [0, 7])
def test_a_copy_draws_alike(clone: Any, draws: int) -> None:
    env = HetScheduleEnv(pool=3, pool_plays=2, **SMALL)
    env.reset(seed=0)
    for _ in range(draws):
        env.reset()
    assert lives(clone(env), 9) == lives(env, 9)


def test_state_restores_pools_in_other_processes_parts() -> None:
    whole = AutoresetLanes(make_lanes("HetSchedule-v0", 3, pool=6, pool_plays=2, **SMALL))
    whole.begin([5, 6, 7], [{}] * 3)

    def ahead(episodes: AutoresetLanes, steps: int) -> list[list[str]]:
        rows = []
        for _ in range(steps):
            episodes.step(episodes.mask.argmax(axis=1))
            rows.append([episodes.problem(lane).digest for lane in range(episodes.count)])
        return rows

    ahead(whole, 40)
    state = whole.state()
    part = make_lanes("HetSchedule-v0", 2, pool=6, pool_plays=2, **SMALL)
    part.source.share(1, 3)  # as a worker that has the last two lanes of three
    again = AutoresetLanes(part)
    again.restore(state[1:])
    assert [row[1:] for row in ahead(whole, 60)] == ahead(again, 60)


def test_what_is_said_of_pools_needs_a_generator_and_a_pool() -> None:
    with pytest.raises(hetgym.ConfigError, match="pool_plays=2 means nothing without pool"):
        gym.make("HetPipeline-v0", pool_plays=2)
    with pytest.raises(hetgym.ConfigError, match="pool_plays is 0"):
        gym.make_vec("HetSplit-v0", 2, pool=3, pool_plays=0)
    with pytest.raises(hetgym.ConfigError, match="problem=… is a pool itself"):
        HetScheduleEnv(problem=textbook("topcuoglu"), pool=3)
    with pytest.raises(hetgym.ConfigError, match="graph=… is a pool itself"):
        gym.make_vec("HetSplit-v0", 2, graph="alexnet", platform="cpu-gpu", pool=3)
    with pytest.raises(hetgym.ConfigError, match="pool is 0"):
        gym.make("HetPipeline-v0", pool=0)
    with pytest.raises(hetgym.ConfigError, match="unexpected keyword argument 'pool_seed'"):
        gym.make("HetSchedule-v0", pool_seed=3)
