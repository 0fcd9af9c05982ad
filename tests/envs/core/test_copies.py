"""Copies of environments in mid-episode play on as the original; what an environment returned stays as it was."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import hetgym.envs
from hetgym.envs.core.autoreset import make_lanes

IDS = tuple(hetgym.envs.ENVIRONMENTS)
QUICK = {
    "HetSchedule-v0": {"completion": "off"},
    "HetDispatch-v0": {"completion": "off"},
    "HetSplit-v0": {"key_operators": 3},
    "HetImprove-v0": {"steps": 12},
}


def finished(env: Any, rng: np.random.Generator) -> tuple[float, list[Any]]:
    """Makespan and observations of the rest of an episode of random legal actions."""
    seen, over, mask = [], False, env.action_masks()
    while not over:
        observation, _, over, _, info = env.step(int(rng.choice(np.flatnonzero(mask))))
        mask = info["action_mask"]
        seen.append(observation)
    return float(info["makespan"]), seen


@pytest.mark.parametrize("level", ["graph", "candidates", "flat"])
@pytest.mark.parametrize("name", IDS)
def test_copies_play_on_alike(name: str, level: str) -> None:
    env = gym.make(name, observation=level, **QUICK.get(name, {})).unwrapped
    _, info = env.reset(seed=2)
    for _ in range(3):
        env.step(int(info["action_mask"].argmax()))
        info = {"action_mask": env.action_masks()}
        if env.lanes.over[0]:
            _, info = env.reset(seed=3)
    copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]  # noqa: S301
    first, seen = finished(env, np.random.default_rng(0))
    for other in copies:
        makespan, again = finished(other, np.random.default_rng(0))
        assert makespan == first
        for a, b in zip(seen, again, strict=True):
            parts = [(a[key], b[key]) for key in a] if isinstance(a, dict) else [(a, b)]
            assert all(np.array_equal(x, y) for x, y in parts)


def flat(value: Any) -> list[Any]:
    """Arrays within what a step returned."""
    if isinstance(value, dict):
        return [array for part in value.values() for array in flat(part)]
    if isinstance(value, tuple):
        return [array for part in value for array in flat(part)]
    return [value] if isinstance(value, np.ndarray) and value.dtype != object else []


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
@pytest.mark.parametrize("name", IDS)
def test_what_was_returned_stays(name: str, mode: str) -> None:
    arguments = {"observation": "candidates", **QUICK.get(name, {})}
    envs = gym.make_vec(name, num_envs=3, autoreset_mode=mode, **arguments)
    returned = envs.reset(seed=0)
    held = [(array, array.copy()) for array in flat(returned)]
    mask, ends = returned[1]["action_mask"], 0
    for _ in range(70):
        step = envs.step(mask.argmax(axis=1))
        held += [(array, array.copy()) for array in flat(step)]
        over, mask = step[2], step[4]["action_mask"]
        ends += over.sum()
        if mode == "Disabled" and over.any():
            mask = mask.copy()
            begun = envs.reset(options={"reset_mask": over})
            held += [(array, array.copy()) for array in flat(begun)]
            mask[over] = begun[1]["action_mask"][over]
    assert ends and all(np.array_equal(array, kept, equal_nan=array.dtype.kind == "f") for array, kept in held)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_statistics_of_gymnasium_count_episodes(mode: str) -> None:
    arguments = {"observation": "flat", "completion": "off", "pool": 2}
    envs = gym.make_vec("HetSchedule-v0", num_envs=2, autoreset_mode=mode, **arguments)
    envs = gym.wrappers.vector.RecordEpisodeStatistics(envs)
    _, info = envs.reset(seed=0)
    ended = recorded = 0
    for _ in range(200):
        mask = info["action_mask"]
        _, _, over, _, info = envs.step(mask.argmax(1))
        ended += over.sum()
        recorded += info.get("_episode", np.zeros(2, bool)).sum()
        if mode == "Disabled" and over.any():
            kept = info["action_mask"].copy()
            _, begun = envs.reset(options={"reset_mask": over})
            kept[over] = begun["action_mask"][over]
            info = {"action_mask": kept}
    assert ended == recorded > 2


def test_lanes_of_a_restored_state_draw_the_same_replacements() -> None:
    """Streams of illegal actions go with the episode, not with the process."""
    from hetgym.envs.core.autoreset import AutoresetLanes

    actions = np.array([-1, 0])
    first, second = (
        AutoresetLanes(make_lanes("HetSchedule-v0", 2, observation="flat", completion="off")) for _ in "ab"
    )
    first.begin([3, 4], [{}, {}])
    for _ in range(5):
        first.step(actions)
    second.restore(first.state())
    for _ in range(60):
        a, b = first.step(actions), second.step(actions)
        assert (a.executed == b.executed).all() and (a.illegal == b.illegal).all() and (a.seen == b.seen).all()
