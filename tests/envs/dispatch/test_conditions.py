"""Conditions of dispatch: drawn anew for each episode, repeatable, and never impossible."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from schedule_tools import play, problems

import hetgym
from hetgym.envs import HetDispatchEnv, replay
from hetgym.envs.dispatch.conditions import Conditions, given, noisy, survivors, with_changes
from hetgym.errors import ConfigError
from hetgym.sim import Loss
from hetgym.workloads import textbook


def test_noise_and_changes_are_drawn_anew_and_can_be_repeated() -> None:
    env = HetDispatchEnv(textbook("topcuoglu"), noise=0.2, slow_downs=1)
    _, first = play(env, lambda obs, info: int(info["action_mask"].argmax()), seed=3)
    _, second = play(env, lambda obs, info: int(info["action_mask"].argmax()))
    assert first["makespan"] != second["makespan"] and first["reference"] != second["reference"]
    actions = iter(second["replay"].actions)
    options = {"problem": textbook("topcuoglu"), "conditions": second["replay"].conditions}
    _, again = play(env, lambda obs, info: next(actions), options=options)
    assert again["makespan"] == second["makespan"]
    assert np.array_equal(again["trace"].start, second["trace"].start)


def test_an_episode_is_a_value() -> None:
    env = HetDispatchEnv(problems(1)[0], runtime="links", noise=0.3, losses=1, candidates=4)
    rng = np.random.default_rng(0)
    _, info = play(env, lambda obs, info: int(rng.choice(np.flatnonzero(info["action_mask"]))), seed=5)
    arguments = {"runtime": "links", "noise": 0.3, "losses": 1, "candidates": 4}
    assert replay(env.problem, info["replay"], **arguments)["makespan"] == info["makespan"]


def test_a_loss_that_leaves_an_operator_without_a_device_is_refused() -> None:
    env = HetDispatchEnv(hetgym.Problem.from_arrays([[1.0, np.inf]], []), changes=[Loss(0, 1.0)])
    with pytest.raises(ConfigError, match="op0"):
        env.reset(seed=0)


def spared(seed: int, losses: int, devices: int = 3) -> tuple[hetgym.Problem, HetDispatchEnv]:
    """A problem in which only device 0 can run operator 0."""
    rng = np.random.default_rng(seed)
    cost = rng.uniform(1, 5, (6, devices))
    cost[0, 1:] = np.inf
    problem = hetgym.Problem.from_arrays(cost, [(k, k + 1, 1.0) for k in range(5)])
    return problem, HetDispatchEnv(problem, losses=losses)


@pytest.mark.parametrize("seed", range(20))
def test_losses_are_drawn_of_devices_that_can_be_spared(seed: int) -> None:
    _, env = spared(seed, losses=1)
    env.reset(seed=seed)
    drawn = env.lanes.drawn(0)
    assert len(drawn.devices) == len(drawn.moments) == 1 and drawn.devices[0] in (1, 2)
    assert np.isinf(drawn.factors).all()


def test_more_losses_than_can_be_spared_leave_what_is_needed() -> None:
    _, env = spared(0, losses=9)
    _, info = env.reset(seed=0)
    assert sorted(env.lanes.drawn(0).devices.tolist()) == [1, 2]
    done = False
    while not done:
        _, _, done, _, info = env.step(int(info["action_mask"].argmax()))
    assert (info["schedule"].assignment[:1] == 0).all()
    _, env = spared(0, losses=1, devices=1)
    env.reset(seed=0)
    assert len(env.lanes.drawn(0).devices) == 0


def test_a_vector_environment_goes_on_through_losses() -> None:
    problem, _ = spared(0, losses=0)
    envs = gym.make_vec("HetDispatch-v0", num_envs=8, problem=problem, losses=1)
    _, infos = envs.reset(seed=0)
    for _ in range(60):
        _, _, _, _, infos = envs.step(infos["action_mask"].argmax(axis=1))


def test_random_changes_are_within_their_ranges() -> None:
    problem = hetgym.Problem.from_arrays(np.ones((3, 4)), [])
    wanted = Conditions(slow_downs=200, losses=2)
    calm = given(problem, wanted, hetgym.Runtime(), np.zeros(3))
    drawn = with_changes(problem, calm, wanted, 8.0, np.random.default_rng(0))
    slow = drawn.factors[np.isfinite(drawn.factors)]
    assert (len(slow), len(drawn.factors), len(drawn.moments)) == (200, 202, 202)
    assert 1.5 <= slow.min() < 1.6 and 3.9 < slow.max() <= 4.0
    assert 0.0 <= drawn.moments.min() < 0.2 and 7.8 < drawn.moments.max() <= 8.0
    assert set(drawn.devices.tolist()) == {0, 1, 2, 3} and survivors(problem, drawn).sum() == 2


def test_noise_has_a_seed_of_its_own() -> None:
    quiet, loud = hetgym.Runtime(), hetgym.Runtime(noise=0.5)
    assert noisy(quiet, 0.0, np.random.default_rng(0)) is quiet
    seed = int(np.random.default_rng(0).integers(2**31))
    for runtime, noise, expected in ((quiet, 0.2, 0.2), (loud, 0.0, 0.5), (loud, 0.2, 0.2)):
        found = noisy(runtime, noise, np.random.default_rng(0))
        assert (found.noise, found.seed) == (expected, seed)
