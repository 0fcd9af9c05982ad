"""Agents without parameters, which a trained agent should beat in the same environment."""

from __future__ import annotations

from typing import Any

import numpy as np

from hetgym._input.random import generator
from hetgym.agents.actions import CANDIDATES
from hetgym.agents.play import Agent
from hetgym.envs.core.lanes import Observation
from hetgym.envs.dispatch.observation import DispatchCandidateColumn, DispatchDeviceColumn
from hetgym.errors import unknown_name


def uniform(seed: int = 0) -> Agent:
    """Any legal action with equal probability."""
    rng = generator(seed)

    def act(observation: Observation, info: dict[str, Any]) -> int:
        return int(rng.choice(np.flatnonzero(info["action_mask"])))

    return act


def greedy(feature: str = "finish", kind: str = "place") -> Agent:
    """The legal action with the smallest candidate feature, the smaller number on ties.

    ``greedy("finish")`` decides as HEFT does, up to the observation's rounding to float32;
    ``greedy("completion")`` follows the best roll-out, which makes it the Pilot method.

    Args:
        feature: a column of ``hetgym.envs.CANDIDATE_FEATURES``, or of another kind of decision.
        kind: the kind of decision, one of :data:`~hetgym.envs.core.kinds.IDS`.

    Raises:
        UnknownName: no such feature.
    """
    columns = {column.label: column for column in CANDIDATES[kind]}
    if feature not in columns:
        raise unknown_name("candidate feature", feature, columns)
    column = columns[feature]

    def act(observation: Observation, info: dict[str, Any]) -> int:
        return int(np.argmin(np.where(info["action_mask"], observation["candidates"][:, column], np.inf)))

    return act


def in_turn() -> Agent:
    """The first operator offered that an idle device can run, on the one where it finishes first; else it waits.

    In HetDispatch-v0 it serves operators by the environment's dispatching rule, as the reference does.

    >>> import gymnasium as gym, hetgym
    >>> env = gym.make("HetDispatch-v0", problem=hetgym.workloads.textbook("topcuoglu"), rule="fifo")
    >>> abs(hetgym.agents.play(env, in_turn()).total_reward) < 1e-12
    True
    """

    def act(observation: Observation, info: dict[str, Any]) -> int:
        seen: Any = observation
        legal, devices = np.asarray(info["action_mask"], np.bool_), seen["devices"]
        idle = (devices[:, DispatchDeviceColumn.QUEUED] == 0) & (devices[:, DispatchDeviceColumn.RUNNING] == 0)
        able = legal[:-1].reshape(-1, len(devices)) & idle
        if not able.any():
            return int(np.flatnonzero(legal)[-1])  # to wait comes last
        first = int(able.any(axis=1).argmax())
        finish = seen["candidates"][:-1, DispatchCandidateColumn.FINISH].reshape(able.shape)[first]
        return first * len(devices) + int(np.where(able[first], finish, np.inf).argmin())

    return act
