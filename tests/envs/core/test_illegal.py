"""Illegal actions never pay, are counted, and stay out of replays."""

from __future__ import annotations

import threading

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils import seeding

import hetgym.envs
from hetgym.envs.core.autoreset import make_lanes
from hetgym.envs.core.illegal import SETTLED, replacement, stream_of
from hetgym.envs.core.lanes import Lanes
from hetgym.errors import ConfigError, HetgymWarning, IllegalAction

IDS = tuple(hetgym.envs.ENVIRONMENTS)
QUICK = {
    "HetSchedule-v0": {"completion": "off"},
    "HetDispatch-v0": {"completion": "off"},
    "HetSplit-v0": {"key_operators": 3},
}
SEEDS = {"HetSplit-v0": 20, "HetCluster-v0": 20}


def lanes_of(name: str, count: int, **arguments: object) -> Lanes:
    """Lanes with a prepared episode each, on seeds from 0 on."""
    lanes = make_lanes(name, count, observation="candidates", **QUICK.get(name, {}), **arguments)
    for lane in range(count):
        lanes.prepare(lane, seeding.np_random(lane)[0], {}, lane)
    lanes.open()
    return lanes


def returns_of(lanes: Lanes, legal: bool) -> tuple[np.ndarray, list[dict]]:
    """Returns and results if all actions are illegal, or drawn among the legal ones as the environment draws."""
    total, turn = np.zeros(lanes.count), 0
    streams = [stream_of(seeding.np_random(lane)[0]) for lane in range(lanes.count)]
    while not lanes.over.all():
        running, actions = ~lanes.over, np.full(lanes.count, -1)
        for lane in np.flatnonzero(running).tolist() if legal else ():
            actions[lane] = replacement("random", np.flatnonzero(lanes.mask[lane]), np.zeros(0), streams[lane], turn)
        lanes.step(actions, running)
        total += np.where(running, lanes.reward, 0.0)
        turn += 1
    return total, [lanes.result(lane) for lane in range(lanes.count)]


@pytest.mark.filterwarnings("ignore:.*illegal and were replaced")
@pytest.mark.parametrize("name", IDS)
def test_never_legal_is_no_better_than_random_legal(name: str) -> None:
    """The same stream of numbers decides, so the returns are equal, seed by seed."""
    count = SEEDS.get(name, 50)
    never, results = returns_of(lanes_of(name, count), legal=False)
    legal, others = returns_of(lanes_of(name, count), legal=True)
    assert (never == legal).all()
    assert all(result["illegal_share"] == 1.0 for result in results)
    assert all(result["illegal_share"] == 0.0 for result in others)
    assert [result["replay"].actions for result in results] == [result["replay"].actions for result in others]


@pytest.mark.filterwarnings("ignore:.*illegal and were replaced")  # the other lane always takes action 0
@pytest.mark.parametrize("name", IDS)
def test_the_share_is_the_share_sent_and_the_same_in_vectors(name: str) -> None:
    arguments = {"observation": "candidates", **QUICK.get(name, {})}
    env, envs = gym.make(name, **arguments), gym.make_vec(name, num_envs=2, autoreset_mode="SameStep", **arguments)
    _, info = env.reset(seed=5)
    envs.reset(seed=5)
    sent, over, turn = 0, False, 0
    while not over:
        sent += (wrong := turn % 12 == 0)
        action = -1 if wrong else int(info["action_mask"].argmax())
        _, reward, over, _, info = env.step(action)
        _, rewards, _, _, infos = envs.step([action, 0])
        assert reward == rewards[0]
        turn += 1
    assert info["illegal_actions"] == sent and info["illegal_share"] == sent / turn
    assert infos["final_info"]["illegal_share"][0] == sent / turn


@pytest.mark.parametrize("name", IDS)
def test_an_illegal_action_raises_on_request_and_changes_nothing(name: str) -> None:
    env, twin = (gym.make(name, observation="flat", illegal="raise", **QUICK.get(name, {})) for _ in range(2))
    _, info = env.reset(seed=1)
    twin.reset(seed=1)
    with pytest.raises(IllegalAction, match="action 99999 is illegal; legal actions are "):
        env.step(99999)
    over = False
    while not over:
        action = int(info["action_mask"].argmax())
        seen, reward, over, _, info = env.step(action)
        same, gained, *_ = twin.step(action)
        assert reward == gained and (seen == same).all()
    assert info["illegal_share"] == 0.0


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("bad", ["a", None, float("nan"), float("inf"), 1.5, [1, 2]], ids=str)
def test_what_is_not_a_whole_number_is_refused(name: str, bad: object) -> None:
    env = gym.make(name, **QUICK.get(name, {})).unwrapped
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="must be a whole number"):
        env.step(bad)


def test_many_illegal_actions_are_told_once() -> None:
    lanes = lanes_of("HetSchedule-v0", 64)
    with pytest.warns(HetgymWarning, match="of the actions so far are illegal and were replaced") as told:
        for _ in range(SETTLED // 64 + 10):
            lanes.step(np.full(64, -1), ~lanes.over)
    assert len(told) == 1


def test_the_stream_leaves_the_generator_alone() -> None:
    """Illegal actions do not shift later problems, whatever the kind of generator."""
    for bits in (np.random.PCG64, np.random.MT19937, np.random.Philox):
        rng, same = np.random.Generator(bits(3)), np.random.Generator(bits(3))
        assert stream_of(rng) == stream_of(same)
        assert rng.integers(2**40) == same.integers(2**40) and stream_of(rng) == stream_of(same)


def test_rules_by_estimates() -> None:
    legal, estimates = np.array([0, 2, 3]), np.array([5.0, 1.0, 2.0, np.inf])
    assert replacement("eft", legal, estimates, 0, 0) == 2 and replacement("worst", legal, estimates, 0, 0) == 0
    assert replacement("worst", np.array([3]), estimates, 0, 0) == 3
    drawn = [replacement("random", legal, estimates, 9, count) for count in range(300)]
    assert set(drawn) == {0, 2, 3} and min(drawn.count(action) for action in (0, 2, 3)) > 60


@pytest.mark.filterwarnings("ignore:.*illegal and were replaced")
@pytest.mark.parametrize("name", IDS)
def test_two_threads_may_share_an_environment(name: str) -> None:
    """One steps after the other; a mistake ends the interpreter."""
    envs = gym.make_vec(name, num_envs=4, observation="candidates", **QUICK.get(name, {}))
    envs.reset(seed=0)
    errors: list[BaseException] = []

    def hammer() -> None:
        try:
            for _ in range(40):
                envs.step(np.zeros(4, np.int64))
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=hammer) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors
