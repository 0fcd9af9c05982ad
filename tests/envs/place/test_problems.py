"""The problems of HetSchedule-v0: one, several, forced, generated."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import pytest
from schedule_tools import earliest_finish, rollout

import hetgym
from hetgym.envs import CANDIDATE_FEATURES, HetScheduleEnv
from hetgym.graph.generators import generate_graph
from hetgym.workloads import RandomMix, textbook

COLUMN = {feature.name: k for k, feature in enumerate(CANDIDATE_FEATURES)}


def test_reset_option_forces_a_problem(tmp_path) -> None:
    env = gym.make("HetSchedule-v0", problem=textbook("topcuoglu"))
    _, info = env.reset(options={"problem": textbook("arabnejad-barbosa")})
    assert info["problem"] == "arabnejad-barbosa"
    textbook("arabnejad-barbosa").save(tmp_path / "ab.npz")
    assert env.reset(options={"problem": tmp_path / "ab.npz"})[1]["problem"] == "arabnejad-barbosa"
    assert env.reset()[1]["problem"] == "topcuoglu"
    with pytest.raises(hetgym.ConfigError, match="no option 'problm'"):
        env.reset(options={"problm": None})
    large = hetgym.Problem.from_arrays(np.ones((11, 3)), [])
    with pytest.raises(hetgym.ProblemError, match=r"11 operators.*max_operators=11"):
        env.reset(options={"problem": large})


def test_several_problems_are_all_drawn() -> None:
    env = gym.make("HetSchedule-v0", problem=[textbook("topcuoglu"), textbook("arabnejad-barbosa")])
    env.reset(seed=0)
    assert {env.reset()[1]["problem"] for _ in range(30)} == {"topcuoglu", "arabnejad-barbosa"}


def test_real_graph_on_a_platform() -> None:
    env = gym.make("HetSchedule-v0", graph="squeezenet", platform="cpu-gpu")
    _, info = rollout(env, earliest_finish)
    assert info["problem"] == "squeezenet@cpu-gpu" and info["makespan"] == info["reference"]


def test_a_generator_must_return_problems_that_fit() -> None:
    env = HetScheduleEnv(generator=lambda rng: 3, max_operators=5, max_edges=5, max_devices=2)
    with pytest.raises(hetgym.ConfigError, match="returned int"):
        env.reset(seed=0)
    env = HetScheduleEnv(generator=lambda rng: textbook("topcuoglu"), max_operators=5, max_edges=50, max_devices=3)
    with pytest.raises(hetgym.ProblemError, match="10 operators, observations are padded to 5"):
        env.reset(seed=0)


def drawn(**arguments) -> set[str]:
    env = HetScheduleEnv(observation="candidates", completion="off", **arguments)
    env.reset(seed=arguments["pool_seed"] + 100)
    return {env.problem.digest for _ in range(40) if env.reset()}


def test_a_pool_holds_so_many_problems_which_its_seed_alone_decides() -> None:
    first, again, other = drawn(pool=5, pool_seed=0), drawn(pool=5, pool_seed=0), drawn(pool=5, pool_seed=1)
    assert len(first) == len(other) == 5 and first == again and first.isdisjoint(other)
    assert first < drawn(pool=7, pool_seed=0)  # the order in which they are drawn plays no part


def lives(env: HetScheduleEnv, seed: int, episodes: int) -> list[str]:
    env.reset(seed=seed)
    return [env.problem.digest, *(env.problem.digest for _ in range(episodes - 1) if env.reset())]


def test_a_refreshed_pool_moves_on_by_one_problem_after_so_many_episodes() -> None:
    small = RandomMix(operators=(5, 8))
    made = [small(np.random.default_rng([9, number])).digest for number in range(60)]

    def numbers(refresh: int | None) -> list[int]:
        size = {"max_operators": 8, "max_edges": 40, "max_devices": 8}
        env = HetScheduleEnv(generator=small, pool=4, pool_seed=9, pool_refresh=refresh, completion="off", **size)
        return [made.index(digest) for digest in lives(env, 0, 120)]

    assert set(numbers(None)) == {0, 1, 2, 3}
    for refresh in (3, 10):
        offsets = {number - turn // refresh for turn, number in enumerate(numbers(refresh))}
        assert offsets == {0, 1, 2, 3}


def test_problems_of_a_refreshed_pool_depend_on_the_seed_of_the_lane_alone() -> None:
    arguments = {"pool": 3, "pool_refresh": 2, "observation": "candidates", "completion": "off"}
    env = HetScheduleEnv(**arguments)
    alone = [lives(env, seed, 12) for seed in (5, 6)]
    assert alone[0] == lives(env, 5, 12) and len(set(alone[0])) > 3  # a reset with a seed begins anew
    lanes = gym.make_vec("HetSchedule-v0", num_envs=2, autoreset_mode="SameStep", **arguments).unwrapped
    _, infos = lanes.reset(seed=5)
    met: list[list[str]] = [[lanes.lanes.problem(lane).digest] for lane in range(2)]
    while min(map(len, met)) < 12:
        _, _, over, _, infos = lanes.step(infos["action_mask"].argmax(axis=1))
        for lane in np.flatnonzero(over).tolist():
            met[lane].append(lanes.lanes.problem(lane).digest)
    assert [one[:12] for one in met] == alone


def test_a_copy_of_an_environment_goes_on_with_its_refreshed_pool() -> None:
    env = HetScheduleEnv(pool=3, pool_refresh=1, observation="candidates", completion="off")
    lives(env, 0, 7)
    copied = copy.deepcopy(env)
    ahead = [env.problem.digest for _ in range(9) if env.reset()]
    assert ahead == [copied.problem.digest for _ in range(9) if copied.reset()]


def test_a_pool_needs_a_generator_and_what_is_said_of_it_needs_a_pool() -> None:
    with pytest.raises(hetgym.ConfigError, match="pool_seed=3 means nothing without pool"):
        HetScheduleEnv(pool_seed=3)
    with pytest.raises(hetgym.ConfigError, match="pool_refresh=2 means nothing without pool"):
        gym.make("HetPipeline-v0", pool_refresh=2)
    with pytest.raises(hetgym.ConfigError, match="pool_refresh is 0"):
        gym.make("HetSplit-v0", pool=3, pool_refresh=0)
    with pytest.raises(hetgym.ConfigError, match="problem=… is a pool itself"):
        HetScheduleEnv(problem=textbook("topcuoglu"), pool=3)
    with pytest.raises(hetgym.ConfigError, match="graph=… is a pool itself"):
        gym.make("HetSplit-v0", graph="alexnet", platform="cpu-gpu", pool=3)
    with pytest.raises(hetgym.ConfigError, match="pool is 0"):
        gym.make("HetPipeline-v0", pool=0)


def test_what_is_said_of_graphs_needs_graphs() -> None:
    with pytest.raises(hetgym.ConfigError, match="batch=8 means nothing without graph=… and platform=…"):
        gym.make("HetSchedule-v0", batch=8)
    with pytest.raises(hetgym.ConfigError, match="costs='roofline' means nothing"):
        gym.make("HetSchedule-v0", problem=textbook("topcuoglu"), costs="roofline")
    with pytest.raises(hetgym.ConfigError, match="blocks='trunk' means nothing"):
        gym.make("HetPipeline-v0", blocks="trunk")


def test_a_random_mix_has_the_edges_of_the_graphs_that_its_families_name() -> None:
    for family in RandomMix.EDGES:
        problem = RandomMix(families=(family,), operators=(40, 40), ccr=(1.0,))(np.random.default_rng(7))
        rng = np.random.default_rng(7)
        for count in (1, 1, 1):  # of families, sizes and ratios
            rng.integers(count)
        graph = generate_graph(family, rng, tasks=40)
        assert np.array_equal(problem.edge_source, graph.edge_source)
        assert np.array_equal(problem.edge_target, graph.edge_target)
