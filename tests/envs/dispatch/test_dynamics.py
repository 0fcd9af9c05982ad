"""Dispatch: the same run as ``sim.online``, event for event; masks; problems at the edge."""

from __future__ import annotations

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from schedule_tools import play, problems

import hetgym
from hetgym.envs import HetDispatchEnv, HetScheduleEnv
from hetgym.errors import ConfigError
from hetgym.sim import Loss, SlowDown, online
from hetgym.workloads import textbook


def weighted_out_degree(problem: hetgym.Problem) -> np.ndarray:
    """DONF's priority in its simplest form: successors, each counted by one over its predecessors."""
    inputs = np.bincount(problem.edge_target, minlength=problem.num_operators)
    weight = np.zeros(problem.num_operators)
    np.add.at(weight, problem.edge_source, 1.0 / inputs[problem.edge_target])
    return weight


@pytest.mark.parametrize("runtime", ["classic", "links", "framework", "donf", hetgym.Runtime(communication="fair")])
def test_donf_played_as_an_agent_is_donf_online_event_for_event(runtime: str | hetgym.Runtime) -> None:
    for number, problem in enumerate(problems(4)):
        weight = weighted_out_degree(problem)
        changes = [SlowDown(0, 5.0, 2.5)] if number % 2 else []

        def decide(situation, weight=weight):
            operator = max(situation.ready.tolist(), key=lambda i: weight[i])
            return operator, int(situation.estimate(operator).finish.argmin())

        def choose(obs, info, weight=weight, problem=problem, env=None):
            offered = obs["candidate_operators"]
            best = max(range(int((offered >= 0).sum())), key=lambda k: weight[offered[k]])
            ties = [k for k in range(int((offered >= 0).sum())) if weight[offered[k]] == weight[offered[best]]]
            position, devices = problem.arrays.position, problem.num_devices
            best = min(ties, key=lambda k: position[offered[k]])
            return best * devices + int(env.lanes.state.ends[0, best * devices : (best + 1) * devices].argmin())

        expected = online(problem, decide, runtime, changes=changes)
        env = HetDispatchEnv(
            problem,
            runtime=runtime,
            candidates=problem.num_operators,
            changes=changes,
            completion="off",
        )
        total, info = play(env, partial(choose, env=env), seed=0)
        trace = info["trace"]
        for name in ("assignment", "start", "finish", "sent", "arrived"):
            assert np.array_equal(getattr(trace, name), getattr(expected, name)), name
        assert info["makespan"] == expected.makespan
        assert total == pytest.approx(1 - expected.makespan / info["reference"], abs=1e-9)


def test_the_reference_is_the_highest_rank_first_where_it_finishes_first() -> None:
    for conditions in ({}, {"noise": 0.3}, {"jobs": 2, "gap": 0.4}, {"slow_downs": 2, "losses": 1}):
        env = HetDispatchEnv(problems(2), runtime="links", **conditions)
        for seed in range(4):
            lanes, width = env.lanes, env.lanes.padding.devices
            first = partial(lambda lanes, width, *_: int(lanes.estimates(0)[:width].argmin()), lanes, width)
            total, _ = play(env, first, seed=seed)
            assert total == pytest.approx(0.0, abs=1e-12)


def test_a_view_for_people() -> None:
    env = HetDispatchEnv(textbook("topcuoglu"))
    env.reset(seed=0)
    env.step(0)
    view = env.graph_view()
    assert (len(view), view.number_of_edges()) == (10, 15)
    assert sum(data["device"] is not None for _, data in view.nodes(data=True)) == 1
    assert all(np.isfinite(data["bytes"]) for *_, data in view.edges(data=True))
    place = HetScheduleEnv(textbook("topcuoglu"))
    place.reset(seed=0)
    assert all(data["device"] is None for _, data in place.graph_view().nodes(data=True))


def test_a_lost_device_is_masked_from_then_on() -> None:
    env = HetDispatchEnv(textbook("topcuoglu"), changes=[Loss(1, 20.0)])
    obs, info = env.reset(seed=0)
    done = False
    while not done:
        dead = obs["devices"][1, 6] == 0
        offered = info["action_mask"][:-1].reshape(-1, 3)
        assert not (dead and offered[:, 1].any())
        assert info["action_mask"].any()
        obs, _, done, _, info = env.step(int(info["action_mask"].argmax()))
    assert obs["devices"][1, 6] == 0 and (info["trace"].assignment != 1).any()
    assert (info["trace"].finish[info["trace"].assignment == 1] <= 20.0).all()


def test_waiting_is_legal_while_something_will_happen() -> None:
    env = HetDispatchEnv(textbook("topcuoglu"))
    _, info = env.reset(seed=0)
    assert not info["action_mask"][-1]  # nothing runs yet
    _, _, _, _, info = env.step(0)
    while not info["action_mask"][-1]:
        _, _, _, _, info = env.step(0)
    before = float(env.lanes._runs[0].clock[0])
    env.step(env.action_space.n - 1)
    assert float(env.lanes._runs[0].clock[0]) > before


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"observations": "flat"}, ConfigError, "did you mean 'observation'"),
        ({"mode": "dispatch"}, ConfigError, "'mode'; HetDispatch-v0 schedules during the run"),
        ({"decode": "append"}, ConfigError, "unexpected keyword argument 'decode'; HetSchedule-v0 has it"),
        ({"candidates": 0}, ConfigError, "candidates is 0"),
        ({"noise": float("nan")}, ConfigError, "noise is nan"),
        ({"jobs": 1.5}, ConfigError, r"jobs is 1\.5"),
        ({"losses": -1}, ConfigError, "losses is -1"),
    ],
)
def test_bad_arguments_get_one_clear_error(arguments: dict, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        gym.make("HetDispatch-v0", **arguments)


@pytest.mark.parametrize(
    "problem",
    [
        hetgym.Problem.from_arrays([[2.0, 1.0]], []),
        hetgym.Problem.from_arrays([[1.0, 2.0], [3.0, 1.0], [2.0, 2.0]], []),
        hetgym.Problem.from_arrays([[1.0], [2.0]], [(0, 1, 4.0)]),
        hetgym.Problem.from_arrays([[0.0, 0.0], [0.0, 0.0]], [(0, 1, 0.0)]),
        hetgym.Problem.from_arrays([[np.inf, 1.0], [1.0, np.inf]], [(0, 1, 2.0)]),
    ],
    ids=["one operator", "no edges", "one device", "no time", "one place each"],
)
def test_degenerate_problems_play_to_the_end(problem: hetgym.Problem) -> None:
    env = HetDispatchEnv(problem, illegal="eft")
    total, info = play(env, lambda obs, info: -1, seed=0)
    assert total == pytest.approx(0.0, abs=1e-12) and info["illegal_actions"] > 0
    assert info["makespan"] == info["trace"].makespan


@pytest.mark.parametrize("level", ["graph", "candidates"])
def test_ready_operators_that_are_not_offered_are_counted(level: str) -> None:
    """Beside an environment that offers all operators and takes the same decisions."""
    for problem in problems(4):
        n, d, rng, seen = problem.num_operators, problem.num_devices, np.random.default_rng(2), 0
        arguments = {"completion": "off", "observation": level, "noise": 0.3}
        narrow, wide = (HetDispatchEnv(problem, candidates=k, **arguments) for k in (2, n))
        (_, info), (_, other) = narrow.reset(seed=1), wide.reset(seed=1)
        over = False
        while not over:
            few, all_of_them = (env.lanes._offered[0] for env in (narrow, wide))
            if level == "graph":
                few, all_of_them = (env.lanes.arrays["candidate_operators"][0] for env in (narrow, wide))
            assert info["hidden"] == (all_of_them >= 0).sum() - (few >= 0).sum() and other["hidden"] == 0
            seen += info["hidden"]
            action = int(rng.choice(np.flatnonzero(info["action_mask"])))
            same = n * d
            if action < 2 * d:
                same = int(np.flatnonzero(all_of_them == few[action // d])[0]) * d + action % d
            _, _, over, _, info = narrow.step(action)
            _, _, _, _, other = wide.step(same)
        assert info["hidden"] == 0 and info["makespan"] == other["makespan"] and seen > 0
