"""Episodes one after the other: a finished lane begins its next episode in the same step.

This is the interface between trainers and lanes, independent of the training library and of the process that holds
the lanes. :class:`~hetgym.envs.sb3.LaneVecEnv` adapts it to Stable-Baselines3; workers of a cluster each hold a share.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from hetgym._types import BoolArray
from hetgym.envs.core.arguments import made, whole_number
from hetgym.envs.core.lanes import LaneArguments, Lanes, Observation
from hetgym.envs.core.registry import arguments_of
from hetgym.errors import ConfigError

LaneState = dict[str, Any]
"""State of a lane as JSON values: ``generator`` and ``seed`` before its running episode, ``root``, the seed that made
the generator, ``draws`` from the pool before it, ``actions`` executed since, and the number of ``illegal`` ones that
they replaced."""


@dataclass(frozen=True)
class Taken:
    """The results of one decision in every lane."""

    seen: Observation  # [L, …] observations; where an episode ended, the first of the next episode
    mask: BoolArray  # [L, A] legal actions at these observations
    illegal: npt.NDArray[np.int64]  # [L] number of illegal actions so far in these episodes
    # [L] actions that were executed: the given ones, or what stands in for illegal ones
    executed: npt.NDArray[np.int64]
    reward: npt.NDArray[np.float32]  # [L] of the decisions
    over: BoolArray  # [L] true where an episode ended
    # lane -> info of the episode that ended: its results, `terminal_observation`, `action_mask`, `illegal_actions`, and
    # `episode`, the statistics that `Monitor` gives
    ended: dict[int, dict[str, Any]]


class Episodes(Protocol):
    """Lanes that play one episode after the other, in this process or in others."""

    count: int
    observation_space: spaces.Space[Any]
    action_space: spaces.Discrete

    @property
    def mask(self) -> BoolArray:
        """[L, A] legal actions."""

    @property
    def illegal(self) -> npt.NDArray[np.int64]:
        """[L] actions of the running episodes that were not legal."""

    def begin(self, seeds: Sequence[int | None], options: Sequence[dict[str, Any]]) -> Observation:
        """Begin an episode in every lane, with [L] seeds of new generators (None keeps a lane's) and [L] options."""

    def step(self, actions: npt.NDArray[np.int64]) -> Taken:
        """Take a decision in every lane; ConfigError if no episode has begun."""

    def state(self) -> list[LaneState]:
        """State of every lane; ConfigError if one has not begun, or its episode was begun with options."""

    def restore(self, states: Sequence[LaneState]) -> Observation:
        """Restore states that :meth:`state` returned, by playing the running episodes again.

        Raises:
            ConfigError: states of another number of lanes, or an episode that is not reproduced.
        """

    def problem(self, lane: int) -> Any:
        """The problem of a lane's episode; AttributeError if the lanes are in other processes."""

    def frame(self, lane: int) -> Any:
        """[height, width, 3] picture of a lane's state; AttributeError if the lanes are in other processes."""

    def close(self) -> None:
        """Release the resources that the lanes hold."""


def make_lanes(environment: str | LaneArguments, count: int, **arguments: Any) -> Lanes:
    """Make lanes of an environment, named by its id and given its arguments, or of its arguments as one value.

    Raises:
        UnknownName: no such environment.
        ConfigError: an argument that it does not have, or an invalid value.
    """
    if isinstance(environment, LaneArguments):
        if arguments:
            raise ConfigError(f"{type(environment).__name__} is complete; {min(arguments)!r} must be one of its fields")
        given = environment
    else:
        given = made(arguments_of(environment), environment, **arguments)
    return given.lanes(whole_number("the number of lanes", count, 1))


class AutoresetLanes:
    """Lanes of this process as :class:`Episodes`, which describes the methods."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self.count = lanes.count
        self.observation_space, self.action_space = lanes.observation_space, lanes.action_space
        self._generators: list[np.random.Generator | None] = [None] * lanes.count
        self._roots = [0] * lanes.count
        self._active = np.ones(lanes.count, np.bool_)
        self._returns = np.zeros(lanes.count)
        self._lengths = np.zeros(lanes.count, np.int64)
        self._origins: list[dict[str, Any] | None] = [None] * lanes.count
        self._taken: list[list[int]] = [[] for _ in range(lanes.count)]
        self._start = time.monotonic()

    @property
    def mask(self) -> BoolArray:
        """[L, A] legal actions."""
        return self.lanes.mask.astype(np.bool_)

    @property
    def illegal(self) -> npt.NDArray[np.int64]:
        """[L] actions of the running episodes that were not legal."""
        return self.lanes.legality.illegal.copy()

    def begin(self, seeds: Sequence[int | None], options: Sequence[dict[str, Any]]) -> Observation:
        """Begin an episode in every lane."""
        try:
            for lane in range(self.count):
                self._prepare(lane, seeds[lane], options[lane])
        finally:
            self.lanes.open()
        return self.seen()

    def step(self, actions: npt.NDArray[np.int64]) -> Taken:
        """Take a decision in every lane."""
        lanes = self.lanes
        with self.lanes.busy:
            if lanes.over.any():
                raise ConfigError("call reset() before step(): a lane has no running episode")
            lanes.step(actions, self._active)
            executed = lanes.legality.executed.copy()
            for taken, action in zip(self._taken, executed.tolist(), strict=True):
                taken.append(action)
            reward, over = lanes.reward.astype(np.float32), lanes.over.copy()
            self._returns += lanes.reward
            self._lengths += 1
            ended = {}
            for lane in np.flatnonzero(over).tolist():
                ended[lane] = self._ended(lane)
            try:
                for lane in ended:
                    self._prepare(lane, None, {})
            finally:
                lanes.open()
            return Taken(self.seen(), self.mask, self.illegal, executed, reward, over, ended)

    def state(self) -> list[LaneState]:
        """State of every lane."""
        states: list[LaneState] = []
        for origin, taken in zip(self._origins, self._taken, strict=True):
            if origin is None:
                raise ConfigError("there is no state to keep: a lane has not begun, or was begun with options")
            illegal = int(self.lanes.legality.illegal[len(states)])
            states.append({**origin, "actions": list(taken), "illegal": illegal})
        return states

    def restore(self, states: Sequence[LaneState]) -> Observation:
        """Restore states that :meth:`state` returned."""
        if len(states) != self.count:
            raise ConfigError(f"{len(states)} states for {self.count} lanes")
        for lane, state in enumerate(states):
            self._roots[lane] = state["root"]
            self._generators[lane] = generator = self.lanes.generator(state["root"])[0]
            generator.bit_generator.state = state["generator"]
            self.lanes.source.resume(generator, lane, state["draws"])
            self._prepare(lane, None, {}, state["seed"])
            self._taken[lane] = list(state["actions"])
        self.lanes.open()
        self._lengths = np.array([len(taken) for taken in self._taken], np.int64)
        for turn in range(int(self._lengths.max(initial=0))):
            active = self._lengths > turn
            actions = np.array([taken[turn] if turn < len(taken) else 0 for taken in self._taken], np.int64)
            self.lanes.step(actions, active)
            self._returns[active] += self.lanes.reward[active]
            if self.lanes.over[active].any():
                raise ConfigError("the episode ends before its saved state, which belongs to another environment")
        self.lanes.legality.illegal[:] = [state["illegal"] for state in states]
        return self.seen()

    def problem(self, lane: int) -> Any:
        """The problem of a lane's episode."""
        return self.lanes.problem(lane)

    def frame(self, lane: int) -> Any:
        """[height, width, 3] picture of a lane's state."""
        return self.lanes.frame(lane, "rgb_array")

    def close(self) -> None:
        """Do nothing: there are no resources to release."""

    def seen(self) -> Observation:
        """[L, …] copies of the observations, which the caller may keep."""
        return self.lanes.copied()

    def _prepare(self, lane: int, seed: int | None, options: dict[str, Any], known_as: int | None = None) -> None:
        """Prepare an episode; ``known_as`` is the seed of a restored generator from which nothing has been drawn."""
        generator = self._generators[lane]
        if seed is not None or generator is None:
            generator, self._roots[lane] = self.lanes.generator(seed)
            self._generators[lane] = generator
        seed = known_as if seed is None else seed
        before, draws = generator.bit_generator.state, self.lanes.source.draws(generator, lane)
        self.lanes.prepare(lane, generator, dict(options), seed)
        self._origins[lane] = (
            None if options else {"generator": before, "seed": seed, "root": self._roots[lane], "draws": draws}
        )
        self._taken[lane] = []
        self._returns[lane], self._lengths[lane] = 0.0, 0

    def _ended(self, lane: int) -> dict[str, Any]:
        lanes = self.lanes
        return {
            **lanes.result(lane),
            "terminal_observation": lanes.copied_of(lane),
            "action_mask": lanes.mask[lane].astype(np.bool_),
            "illegal_actions": int(lanes.legality.illegal[lane]),
            "episode": {
                "r": round(float(self._returns[lane]), 6),
                "l": int(self._lengths[lane]),
                "t": round(time.monotonic() - self._start, 6),
                "illegal_share": lanes.legality.share(lane),
            },
        }
