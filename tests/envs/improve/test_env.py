"""HetImprove-v0: moves, acceptance, returns, starts, and agents that are known searches."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import hetgym
from hetgym import Problem, Schedule
from hetgym._kernels.draws import new_draws
from hetgym.baselines.region_search import RegionAnnealing
from hetgym.envs import MOVE_FEATURES, PLAN_FEATURES
from hetgym.envs.place.observation import OperatorColumn
from hetgym.errors import ConfigError, HetgymError
from hetgym.planning.decode import decode_placement
from hetgym.search import course as courses
from hetgym.sim import PRESETS
from hetgym.transfer import transfer_times
from hetgym.workloads import RandomMix

COLUMN = {feature.name: k for k, feature in enumerate(MOVE_FEATURES)}
PLAN = {feature.name: k for k, feature in enumerate(PLAN_FEATURES)}
SMALL = RandomMix(operators=(12, 20), devices=3)


def problem_of(seed: int) -> Problem:
    return SMALL(np.random.default_rng(seed))


def play(env: gym.Env, choose: Any = None, seed: int = 0, **options: Any) -> tuple[list[float], list[Any], dict]:
    """Rewards, observations and the last info of an episode; random legal actions unless ``choose`` says otherwise."""
    observation, _ = env.reset(seed=seed, options=options)
    rng, rewards, seen, over, info = np.random.default_rng(seed), [], [observation], False, {}
    while not over:
        legal = np.flatnonzero(observation["action_mask"])
        action = int(rng.choice(legal)) if choose is None else choose(observation, len(rewards))
        observation, reward, over, _, info = env.step(action)
        rewards.append(reward)
        seen.append(observation)
    return rewards, seen, info


@pytest.mark.parametrize(
    "runtime",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in ("framework", "ready") else name
        for name in sorted(PRESETS)
    ],
)
@pytest.mark.parametrize("reward", ["dense", "sparse", "current"])
def test_the_return_is_exact_under_every_runtime(runtime: str, reward: str) -> None:
    problem = problem_of(3)
    env = gym.make("HetImprove-v0", problem=problem, runtime=runtime, reward=reward)
    rewards, seen, info = play(env)
    assert len(rewards) == 2 * problem.num_operators
    assert sum(rewards) == pytest.approx(1 - info["makespan"] / info["reference"], abs=1e-12)
    again = hetgym.simulate(problem, info["schedule"], runtime)
    hetgym.validate(problem, info["schedule"], memory=False)
    assert again.makespan == pytest.approx(info["makespan"], rel=1e-12)
    if reward == "sparse":
        assert not any(rewards[:-1])
    if reward == "dense" and courses.exact(problem, PRESETS[runtime]):
        assert all(value >= 0 for value in rewards[1:])  # the best plan becomes no longer
        assert info["makespan"] <= info["start"]
        final = seen[-1]["plan"][PLAN["best"]]
        assert final == pytest.approx(min(10.0, info["makespan"] / info["reference"]), rel=1e-6)


@pytest.mark.parametrize("runtime", ["classic", "links", "ready"])
def test_gains_are_the_makespans_that_the_moves_lead_to(runtime: str) -> None:
    problem = problem_of(4)
    env = gym.make("HetImprove-v0", problem=problem, runtime=runtime, reward="current")
    observation, _ = env.reset(seed=1)
    kinds = set()
    for step in range(30):
        told, mask = observation["candidates"], observation["action_mask"] == 1
        action = int(np.flatnonzero(mask)[step % mask.sum()])
        kinds |= {(row[COLUMN["is_region"]], row[COLUMN["is_turn"]]) for row in told[mask]}
        value = told[action, COLUMN["makespan"]]
        observation, _, over, _, _ = env.step(action)
        assert observation["plan"][PLAN["current"]] == pytest.approx(value, rel=1e-6)
        assert not over
    assert kinds == ({(1, 0)} if runtime == "ready" else {(1, 0), (0, 1)})


def test_without_gains_the_makespan_is_the_current_one() -> None:
    env = gym.make("HetImprove-v0", problem=problem_of(5), gains=False)
    observation, _ = env.reset(seed=0)
    shown = observation["operator"] >= 0
    assert (observation["candidates"][shown, COLUMN["makespan"]] == observation["plan"][PLAN["current"]]).all()


@pytest.mark.parametrize("accept", ["always", "better", "metropolis"])
def test_what_is_not_accepted_leaves_the_plan(accept: str) -> None:
    env = gym.make("HetImprove-v0", problem=problem_of(6), accept=accept, reward="current", heat=0.05, steps=200)
    rewards, seen, info = play(env)
    assert len(rewards) == 200
    changes = np.array(rewards[1:])
    if accept == "better":
        assert (changes >= 0).all() and (changes == 0).any() and (changes > 0).any()
    if accept == "metropolis":
        assert (changes == 0).any() and (changes < 0).any()
    for k, (before, after) in enumerate(zip(seen, seen[1:], strict=False)):
        if k and rewards[k] == 0 and accept == "better":
            assert np.array_equal(before["assignment"], after["assignment"])
    if accept == "always":
        assert info["replay"].actions and (changes < 0).sum() > 20


@pytest.mark.parametrize(
    "runtime", ["classic", "links", *(pytest.param(name, marks=pytest.mark.slow) for name in ("ready", "framework"))]
)
def test_always_the_only_move_under_metropolis_is_region_annealing(runtime: str) -> None:
    """The same draws, kept and taken back by the same rule, lead to the same plan, bit for bit."""
    for seed in range(3):
        problem, tries = problem_of(10 + seed), 400
        start = hetgym.baselines.get("heft")(problem, runtime=runtime)
        search = RegionAnnealing(problem, start, heat=0.02, cooling=1.0, runtime=runtime)
        search.rng = new_draws(77 + seed)
        while int(search.course.counts[courses.TRIED]) < tries:
            search.advance(search.placed + 1, 10**9)
        env = gym.make(
            "HetImprove-v0", problem=problem, runtime=runtime, moves=1, steps=tries, accept="metropolis",
            heat=0.02, cooling=1.0, gains=False,
        )  # fmt: skip
        _, _, info = play(env, lambda *_: 0, schedule=start, conditions=77 + seed)
        course = env.unwrapped.lanes._courses[0]
        assert np.array_equal(course.assignment, search.course.assignment)
        assert np.array_equal(course.order, search.course.order)
        assert course.value.tolist() == search.course.value.tolist()
        assert info["makespan"] == search.schedule().makespan


def task_by_eft(problem: Problem, start: Schedule, order: list[int], runtime: str) -> float:
    """GiPH's control: one operator after the other goes to the device of earliest finish in the plan as it is."""
    plan, best, assignment = start, start.makespan, np.array(start.assignment)
    devices = np.arange(problem.num_devices, dtype=np.int32)
    for i in order:
        finish = problem.cost[i].copy()
        into = np.flatnonzero(problem.edge_target == i)
        if len(into):
            sources, size = problem.edge_source[into], problem.edge_bytes[into]
            sender = np.repeat(assignment[sources][:, None], len(devices), 1)
            receiver = np.broadcast_to(devices, sender.shape)
            arrival = transfer_times(problem, sender, receiver, np.broadcast_to(size[:, None], sender.shape))
            finish += (plan.finish[sources][:, None] + arrival).max(axis=0)
        assignment[i] = finish.argmin()
        plan = decode_placement(problem, assignment, "append", runtime)
        best = min(best, plan.makespan)
    return float(best)


@pytest.mark.parametrize("rule", ["random", "in turn"])
def test_control_rules_of_the_field_play_it(rule: str) -> None:
    """A random task, or each in turn, to the device where it would finish first (Hu et al., GiPH, MLSys 2023)."""
    for seed in range(4):
        problem, rng = problem_of(20 + seed), np.random.default_rng(seed)
        n, d = problem.cost.shape
        order = rng.integers(n, size=2 * n) if rule == "random" else np.resize(problem.topological_order, 2 * n)
        start = decode_placement(problem, rng.integers(d, size=n).astype(np.int32), "append", "ready")
        env = gym.make("HetImprove-v0", problem=problem, runtime="ready", moves=None, gains=False)

        def choose(seen: Any, step: int, order: Any = order, d: int = d) -> int:
            rows = seen["candidates"].reshape(-1, d, len(MOVE_FEATURES))[order[step]]
            return int(order[step] * d + rows[:, COLUMN["finish"]].argmin())

        _, _, info = play(env, choose, schedule=start)
        assert info["makespan"] == pytest.approx(task_by_eft(problem, start, order.tolist(), "ready"), rel=1e-12)


def test_starts() -> None:
    problem = problem_of(8)
    heft = hetgym.baselines.get("heft")(problem)
    named = gym.make("HetImprove-v0", problem=problem, start="heft")
    rewards, _, info = play(named)
    assert info["start"] == info["reference"] == heft.makespan and info["replay"].start is None
    given = gym.make("HetImprove-v0", problem=problem)
    _, _, info = play(given, schedule=heft)
    assert info["start"] == heft.makespan
    again = hetgym.envs.replay(problem, info["replay"])
    assert again["makespan"] == info["makespan"] and again["start"] == heft.makespan
    drawn = [play(given, seed=seed)[2]["start"] for seed in range(3)]
    assert len(set(drawn)) == 3 and play(given, seed=1)[2]["start"] == drawn[1]
    with pytest.raises(ConfigError, match=r"options\['schedule'\]"):
        given.reset(options={"schedule": [0, 1]})
    with pytest.raises(HetgymError):
        gym.make("HetImprove-v0", start="hefty")


def test_operators_that_only_one_device_runs_change_their_turns_alone() -> None:
    cost = np.full((8, 2), np.inf)
    cost[np.arange(8), np.arange(8) % 2] = 1.0
    problem = Problem.from_arrays(cost, [(0, 5, 1.0), (2, 7, 1.0)])
    env = gym.make("HetImprove-v0", problem=problem)
    _, seen, info = play(env)
    assert all(one["candidates"][:, COLUMN["is_region"]].sum() == 0 for one in seen)
    assert info["schedule"].assignment.tolist() == [0, 1] * 4


def test_moves_that_lack_room_are_masked() -> None:
    problem = problem_of(9).replace(weight_bytes=np.ones(problem_of(9).num_operators), memory_capacity=np.full(3, 7.0))
    start = decode_placement(problem, (np.arange(problem.num_operators) % 3).astype(np.int32), "append")
    env = gym.make("HetImprove-v0", problem=problem, memory="mask")
    _, seen, _ = play(env, schedule=start)
    for one in seen:
        assert np.bincount(one["assignment"][one["operator_mask"] == 1], minlength=3).max() <= 7


def test_each_operator_in_turn() -> None:
    problem = problem_of(11)
    n, d = problem.cost.shape
    env = gym.make("HetImprove-v0", problem=problem, moves="turn", reward="current")
    assert env.action_space.n == d
    rewards, seen, info = play(env)
    assert len(rewards) == n and info["replay"].actions == tuple(info["schedule"].assignment.tolist()[i] for i in
                                                                 problem.topological_order)  # fmt: skip
    place, current = OperatorColumn.IS_PLACED, OperatorColumn.IS_CURRENT
    for k, one in enumerate(seen[:-1]):
        assert set(one["operator"].tolist()) == {int(problem.topological_order[k])}
        assert one["device"].tolist() == list(range(d)) and one["action_mask"].all()
        assert one["operators"][:, place].sum() == k
        assert np.flatnonzero(one["operators"][:, current]).tolist() == [int(problem.topological_order[k])]
    with pytest.raises(ConfigError, match="moves is 'turns'"):
        gym.make("HetImprove-v0", moves="turns")


@pytest.mark.parametrize("moves", [None, 32])
def test_what_was_moved_stays_for_a_while(moves: int | None) -> None:
    env = gym.make("HetImprove-v0", problem=problem_of(12), moves=moves, tabu=4, reward="current", gains=False)
    rewards, seen, info = play(env)
    moved = [np.flatnonzero(a["assignment"] != b["assignment"]) for a, b in zip(seen, seen[1:], strict=False)]
    for k in range(len(moved)):
        assert all(not np.isin(moved[k], moved[j]).any() for j in range(max(0, k - 4), k))
    free = gym.make("HetImprove-v0", problem=problem_of(12), moves=moves, reward="current", gains=False)
    _, seen, _ = play(free)
    moved = [np.flatnonzero(a["assignment"] != b["assignment"]) for a, b in zip(seen, seen[1:], strict=False)]
    assert any(np.isin(b, a).any() for a, b in zip(moved, moved[1:], strict=False))
