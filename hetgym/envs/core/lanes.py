"""Lanes: episodes of one environment side by side, apart from Gymnasium's two ways of asking for them.

An environment's dynamics and its observations are written once, for many lanes. A scalar environment is
one lane of it and a vector environment all of them (:mod:`hetgym.envs.core.scalar`,
:mod:`hetgym.envs.core.vector`), so that they cannot differ.
"""

from __future__ import annotations

import abc
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from hetgym._types import BoolArray, FloatArray

Observation = dict[str, npt.NDArray[Any]] | npt.NDArray[Any]
"""What an agent sees; of lanes, with their number in front of each shape."""


class Lanes(abc.ABC):
    """Episodes that go on at the same time.

    Args:
        count: number of lanes.
        observation_space: of one lane.
        action_space: likewise.

    Attributes:
        seen: what the agent of each lane sees; overwritten in place when the lane goes on.
        mask: [L, A] int8, 1 where an action is legal.
        reward: [L] of the last step.
        over: [L] whether each lane's episode is over, or has not begun.
        illegal: [L] actions of the running episodes that were not legal.
    """

    def __init__(self, count: int, observation_space: spaces.Space[Any], action_space: spaces.Discrete) -> None:
        self.count = count
        self.observation_space = observation_space
        self.action_space = action_space
        self.mask: npt.NDArray[np.int8] = np.zeros((count, int(action_space.n)), np.int8)
        self.reward: FloatArray = np.zeros(count)
        self.over: BoolArray = np.ones(count, np.bool_)
        self.illegal = np.zeros(count, np.int64)

    @property
    @abc.abstractmethod
    def seen(self) -> Observation:
        """What the agents see, [L, …]."""

    @abc.abstractmethod
    def begin(self, lane: int, rng: np.random.Generator, options: dict[str, Any], seed: int | None) -> None:
        """Begin an episode.

        Args:
            lane: which.
            rng: what is drawn is drawn from it.
            options: of the reset.
            seed: of that generator, if it was made for this episode.

        Raises:
            ConfigError: an unknown option.
        """

    @abc.abstractmethod
    def step(self, actions: npt.NDArray[np.int64], active: BoolArray) -> None:
        """Go on by one decision in each active lane.

        Args:
            actions: [L]; what is no legal action is replaced by a documented rule, and counted.
            active: [L] lanes that go on; their episodes are running.
        """

    @abc.abstractmethod
    def problem(self, lane: int) -> Any:
        """What the lane's episode is about: a Problem, or a PipelineProblem."""

    @abc.abstractmethod
    def shared(self) -> dict[str, npt.NDArray[Any]]:
        """What every ``info`` holds besides the mask and the illegal actions, [L] each; the caller's to keep."""

    @abc.abstractmethod
    def result(self, lane: int) -> dict[str, Any]:
        """What the last ``info`` of an episode holds in addition."""

    @abc.abstractmethod
    def frame(self, lane: int, mode: str) -> Any:
        """A picture of a lane's state: text for ``ansi``, [height, width, 3] colours for ``rgb_array``."""


def as_action(action: Any) -> int:
    """An action as a number; -1, which is never legal, for whatever is none.

    >>> as_action(2), as_action(np.array([3.0])), as_action(float("nan")), as_action("left")
    (2, 3, -1, -1)
    """
    try:
        array: npt.NDArray[Any] = np.asarray(action)
        value = array.item() if array.size == 1 else -1
        return int(value) if float(value).is_integer() and abs(value) < 2**62 else -1
    except (TypeError, ValueError, OverflowError):
        return -1


def as_actions(actions: Any, count: int) -> npt.NDArray[np.int64]:
    """[count] actions as numbers; -1 for whatever is none.

    >>> as_actions([0, 2], 2), as_actions(np.array([1.0, np.nan]), 2)
    (array([0, 2]), array([ 1, -1]))
    """
    array = np.asarray(actions)
    if array.shape == (count,) and array.dtype.kind == "i":
        return array.astype(np.int64, copy=False)
    return np.array([as_action(action) for action in actions], np.int64)
