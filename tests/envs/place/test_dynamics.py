"""Placing operators: start times of HEFT, masks, memory, decodes, and problems at the edge."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np
import pytest
from schedule_tools import earliest_finish, rollout

import hetgym
from hetgym.baselines import heft
from hetgym.envs import CANDIDATE_FEATURES, HetScheduleEnv
from hetgym.envs.core.scaling import CLIP
from hetgym.workloads import textbook

COLUMN = {feature.name: k for k, feature in enumerate(CANDIDATE_FEATURES)}


def masked_problem() -> hetgym.Problem:
    inf = math.inf
    return hetgym.Problem.from_arrays(
        [[2.0, inf, 3.0], [inf, 4.0, 4.0], [1.0, 1.0, inf], [5.0, 2.0, 2.0]],
        [(0, 1, 1.0), (0, 2, 2.0), (1, 3, 1.0), (2, 3, 4.0)],
    )


@pytest.mark.parametrize("runtime", ["classic", "links"])
def test_completion_of_the_first_decision_is_heft(runtime: str) -> None:
    problem = textbook("topcuoglu")
    obs, _ = HetScheduleEnv(problem, completion="eft", runtime=runtime).reset(seed=0)
    assert obs["candidates"][:, COLUMN["completion"]].min() <= 1.0 + 1e-6  # following HEFT gives the reference
    first = heft(problem, runtime=runtime).assignment[obs["current"][0]]
    assert obs["candidates"][first, COLUMN["completion"]] == pytest.approx(1.0)


def test_transfers_that_wait_are_seen_before_the_decision() -> None:
    """Operators 0 and 1 run on device 0, and each sends 4 s of data to a reader that only device 1 runs well."""
    problem = hetgym.Problem.from_arrays([[1.0, 99.0], [1.0, 99.0], [9.0, 1.0], [9.0, 1.0]], [(0, 2, 4.0), (1, 3, 4.0)])
    arrivals = {}
    for runtime in ("classic", "links"):
        env = HetScheduleEnv(problem, runtime=runtime)
        obs, _ = env.reset(options={"order": [0, 1, 2, 3]})
        for device in (0, 0, 1):
            obs, *_ = env.step(device)
        reference = env.lanes.instance(0).reference
        arrivals[runtime] = obs["candidates"][1, COLUMN["ready"]] * reference
    assert arrivals == {"classic": pytest.approx(6.0), "links": pytest.approx(9.0)}


@pytest.mark.parametrize("decode", ["insertion", "append", "bottom-level", "best"])
@pytest.mark.parametrize("runtime", ["classic", "links"])
def test_schedule_is_legal_and_simulates_to_the_makespan(decode: str, runtime: str) -> None:
    env = gym.make("HetSchedule-v0", decode=decode, runtime=runtime)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        _, info = rollout(env, lambda obs, info, rng=rng: int(rng.choice(np.flatnonzero(info["action_mask"]))), seed)
        problem = env.unwrapped.problem
        hetgym.validate(problem, info["schedule"])
        assert hetgym.simulate(problem, info["schedule"], runtime).makespan == info["makespan"]


def test_best_decode_is_the_best_of_the_others() -> None:
    problem = textbook("arabnejad-barbosa")
    rng = np.random.default_rng(0)
    for _ in range(20):
        actions = rng.integers(0, 3, 10)
        makespans = {}
        for decode in ("insertion", "append", "bottom-level", "best"):
            turn = iter(actions)
            _, info = rollout(HetScheduleEnv(problem, decode=decode), lambda obs, info, turn=turn: int(next(turn)))
            makespans[decode] = info["makespan"]
        best = makespans.pop("best")
        assert best == min(makespans.values())


def test_illegal_actions_take_the_earliest_finish_on_request() -> None:
    problem = masked_problem()
    for bad in (-1, 3, 99):
        env = HetScheduleEnv(problem, illegal="eft")
        _, honest = rollout(env, earliest_finish)
        env.reset(seed=0)
        done = False
        while not done:
            _, _, done, _, info = env.step(bad)
        assert info["illegal_actions"] == problem.num_operators and info["illegal_share"] == 1.0
        assert info["makespan"] == honest["makespan"] and honest["illegal_actions"] == 0
    env = HetScheduleEnv(problem)
    obs, info = env.reset()
    assert info["action_mask"].tolist() == [True, False, True]
    assert (obs["candidates"][1] == CLIP).all()
    _, _, _, _, info = env.step(1)  # operator 0 cannot run there
    assert info["illegal_actions"] == 1


def test_numpy_actions_of_any_shape_are_taken() -> None:
    env = HetScheduleEnv(textbook("topcuoglu"))
    for action in (np.int64(2), np.array(2), np.array([2]), 2.0, True):
        env.reset(seed=0)
        _, _, _, _, info = env.step(action)
        assert info["illegal_actions"] == 0


@pytest.mark.parametrize(
    "problem",
    [
        hetgym.Problem.from_arrays([[1.0]], []),
        hetgym.Problem.from_arrays([[1.0, 2.0]] * 5, []),
        hetgym.Problem.from_arrays([[0.0, 0.0]] * 3, [(0, 1, 0.0), (1, 2, 0.0)]),
        hetgym.Problem.from_arrays([[3.0]] * 4, [(0, 1, 5.0), (1, 2, 5.0)]),
    ],
    ids=["one operator", "no edges", "all free", "one device"],
)
def test_degenerate_problems_play_to_the_end(problem: hetgym.Problem) -> None:
    env = HetScheduleEnv(problem, runtime="links")
    total, info = rollout(env, earliest_finish)
    assert np.isfinite(total) and info["makespan"] >= 0
    assert env.observation_space.contains(env.reset()[0])


def test_devices_without_room_are_masked() -> None:
    problem = hetgym.Problem.from_arrays(
        [[1.0, 5.0], [1.0, 5.0], [1.0, 5.0]],
        [(0, 1, 2.0), (1, 2, 2.0)],
        weight_bytes=[6.0, 5.0, 9.0],
        output_bytes=[2.0, 2.0, 0.0],
        memory_capacity=[12.0, 12.0],
    )
    env = HetScheduleEnv(problem, memory="mask")
    _, info = env.reset(seed=0)
    assert info["action_mask"].tolist() == [True, True]
    _, _, _, _, info = env.step(0)  # 6 of weights and 2 of output are on device 0
    assert info["action_mask"].tolist() == [False, True]  # 6 + 5 of weights, 2 read and 2 written: 15
    _, _, _, _, info = env.step(1)
    assert info["action_mask"].tolist() == [True, False]  # neither fits, 6 + 9 + 2 there is less than 5 + 9 + 4
    assert HetScheduleEnv(problem).reset(seed=0)[1]["action_mask"].all()


def test_an_action_that_is_not_legal_takes_the_first_of_devices_that_finish_equally_early() -> None:
    env = HetScheduleEnv(hetgym.Problem.from_arrays([[3.0, 2.0, 2.0]], []), illegal="eft")
    env.reset(seed=0)
    *_, info = env.step(99)
    assert info["illegal_actions"] == 1 and info["schedule"].assignment.tolist() == [1]


def test_the_fullest_moment_so_far_counts_against_later_operators() -> None:
    """Operator 0 writes 8 bytes; with the weights of 1 and 2, 6 bytes, they are more than the 12 of device 0."""
    problem = hetgym.Problem.from_arrays(
        [[3.0, 3.0], [2.0, 2.0], [1.0, 1.0]],
        [],
        weight_bytes=[0.0, 1.0, 5.0],
        output_bytes=[8.0, 1.0, 1.0],
        memory_capacity=[12.0, 100.0],
    )
    env = HetScheduleEnv(problem, memory="mask")
    env.reset(seed=0)
    for _ in range(2):
        _, _, _, _, info = env.step(0)
    assert info["action_mask"].tolist() == [False, True]
    roomy = HetScheduleEnv(problem.replace(memory_capacity=np.array([14.0, 100.0])), memory="mask")
    roomy.reset(seed=0)
    for _ in range(2):
        _, _, _, _, info = roomy.step(0)
    assert info["action_mask"].tolist() == [True, True]


def test_a_job_shop_leaves_nothing_to_place_and_says_so() -> None:
    shop = hetgym.Problem.from_arrays([[1.0, math.inf], [math.inf, 2.0]], [(0, 1, 0.0)])
    env = HetScheduleEnv(shop, completion="off")
    with pytest.warns(hetgym.errors.HetgymWarning, match="HetDispatch-v0 decides the order") as told:
        env.reset(seed=0)
        env.reset(seed=1)
    assert len(told) == 1
