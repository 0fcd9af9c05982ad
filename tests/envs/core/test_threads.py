"""Lanes on several threads do what they do on one."""

from __future__ import annotations

import threading
import time

import gymnasium as gym
import numpy as np
import pytest

import hetgym  # noqa: F401
from hetgym._kernels.jit import lean
from hetgym._kernels.threads import cores, done, share, take


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("HetSchedule-v0", {"observation": "candidates"}),
        ("HetDispatch-v0", {"observation": "candidates"}),
        pytest.param("HetSplit-v0", {}, marks=pytest.mark.slow),
    ],
)
def test_lanes_do_not_depend_on_the_number_of_threads(name, arguments, monkeypatch):
    def played(threads):
        used = set()

        def counted(work, items, threads):
            share(lambda shared: (used.add(threading.get_ident()), work(shared)), items, threads)

        monkeypatch.setattr("hetgym.envs.core.lanes.cores", lambda: threads)
        monkeypatch.setattr("hetgym.envs.core.lanes.share", counted)
        envs = gym.make_vec(name, num_envs=32, pool=4, **arguments)
        seen, info = envs.reset(seed=1)
        rng, found = np.random.default_rng(0), []
        for _ in range(20):
            actions = np.where(info["action_mask"], rng.random(info["action_mask"].shape), -1.0).argmax(axis=1)
            seen, reward, *_, info = envs.step(actions)
            found += [*(values.copy() for values in seen.values()), reward]
        return found, len(used)

    alone, together = played(1), played(3)
    assert alone[1] == 1 and together[1] >= 2
    for one, other in zip(alone[0], together[0], strict=True):
        np.testing.assert_array_equal(one, other)


@lean
def count(shared, taken, rounds):
    item = take(shared)
    while item >= 0:
        for _ in range(rounds):
            taken[item] += 1
        done(shared)
        item = take(shared)


@pytest.mark.parametrize("items, rounds", [(0, 1), (1, 1), (300, 1), (300, 20_000)])
def test_every_item_is_taken_once_and_done_when_share_returns(items, rounds):
    taken = np.zeros(items, np.int64)
    share(lambda shared: count(shared, taken, rounds), np.arange(items), threads=4)
    assert (taken == rounds).all()


def test_a_thread_that_takes_long_is_waited_for():
    main, there, taken = threading.get_ident(), threading.Event(), []

    def work(shared):
        if threading.get_ident() == main:
            there.wait(60)
            return  # with an item that the other one has taken, and has not done
        item = take_one(shared)
        there.set()
        time.sleep(0.2)
        taken.append(item)
        say_done(shared)

    share(work, np.arange(1), threads=2)
    assert taken == [0]


@lean
def take_one(shared):
    return take(shared)


@lean
def say_done(shared):
    done(shared)


def test_an_interrupt_waits_for_the_threads_that_work():
    main, there, ended = threading.get_ident(), threading.Event(), []

    def work(shared):
        if threading.get_ident() == main:
            there.wait(60)
            raise KeyboardInterrupt
        there.set()
        time.sleep(0.2)
        ended.append(take_one(shared))

    with pytest.raises(KeyboardInterrupt):
        share(work, np.arange(1), threads=2)
    assert ended == [0]


def test_an_error_in_one_thread_reaches_the_caller():
    main = threading.get_ident()

    def work(shared):
        if threading.get_ident() != main:
            raise ValueError("one")
        time.sleep(0.05)  # so that the other one comes to its work

    with pytest.raises(ValueError, match="one"):
        share(work, np.arange(2), threads=2)


def test_a_variable_limits_the_cores(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert cores() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert cores() >= 1
