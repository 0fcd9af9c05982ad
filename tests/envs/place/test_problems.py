"""The problems of HetSchedule-v0: one, several, forced, generated."""

from __future__ import annotations

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
