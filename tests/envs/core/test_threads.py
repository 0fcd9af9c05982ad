"""Lanes on several threads do what they do on one."""

from __future__ import annotations

import threading

import gymnasium as gym
import numpy as np
import pytest

import hetgym  # noqa: F401
from hetgym._threads import cores, each


@pytest.mark.parametrize("mode", ["place", "dispatch"])
def test_lanes_do_not_depend_on_the_number_of_threads(mode, monkeypatch):
    def played(threads):
        used = set()

        def counted(work, parts):
            each(lambda part: (used.add(threading.get_ident()), work(part)), parts)

        monkeypatch.setattr("hetgym.envs.core.lanes.cores", lambda: threads)
        monkeypatch.setattr("hetgym.envs.core.lanes.each", counted)
        envs = gym.make_vec("HetSchedule-v0", num_envs=32, mode=mode, observation="candidates", pool=4)
        seen, info = envs.reset(seed=1)
        rng, found = np.random.default_rng(0), []
        for _ in range(12):
            actions = np.where(info["action_mask"], rng.random(info["action_mask"].shape), -1.0).argmax(axis=1)
            seen, reward, *_, info = envs.step(actions)
            found += [seen["candidates"], reward]
        return found, len(used)

    alone, together = played(1), played(3)
    assert alone[1] == 0 and together[1] >= 2
    for one, other in zip(alone[0], together[0], strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_error_in_one_thread_reaches_the_caller_after_all_have_ended():
    ended = []

    def work(number):
        if number == 1:
            raise ValueError("one")
        ended.append(number)

    with pytest.raises(ValueError, match="one"):
        each(work, [0, 1, 2])
    assert sorted(ended) == [0, 2]


def test_a_variable_limits_the_cores(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert cores() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert cores() >= 1
