"""Lanes: episodes of one environment side by side, independent of Gymnasium's scalar and vector interfaces.

An environment's dynamics and its observations are written once, for many lanes. A scalar environment is one lane
and a vector environment all of them (:mod:`hetgym.envs.core.scalar`, :mod:`hetgym.envs.core.vector`), so that they
cannot differ.
"""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, TypeVar
from zlib import crc32

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.utils import seeding

from hetgym._kernels import blanks
from hetgym._kernels import records as records
from hetgym._kernels.threads import cores, share
from hetgym._memory import check_memory
from hetgym._types import BoolArray, FloatArray, Int64Array
from hetgym.envs.core.arguments import Arguments
from hetgym.envs.core.illegal import Legality, Rule, stream_of
from hetgym.envs.core.kinds import IDS
from hetgym.envs.core.replay import Replay, recorded
from hetgym.envs.core.sources import Source
from hetgym.envs.core.spaces import Actions, Level, Reward, blank, bytes_of, level_space
from hetgym.errors import ConfigError, shown, suggestion

Observation = dict[str, npt.NDArray[Any]] | npt.NDArray[Any]
"""An observation; for several lanes, their number comes first in each shape."""

Held = TypeVar("Held")


@dataclass(frozen=True)
class LaneArguments(Arguments, abc.ABC):
    """The arguments of an environment, from which lanes can be made; manuals describe them."""

    _: KW_ONLY
    reward: Reward = "dense"  # `"dense"`, rewards at each step, or `"sparse"`, the whole return with the last step
    observation: Level = "graph"  # level of observation: `"graph"`, `"candidates"` or `"flat"`
    illegal: Rule = "random"  # what stands in for an illegal action, see Rule
    split: str | None = None

    def lanes(self, count: int) -> Lanes:
        """Make lanes of the environment.

        Raises:
            ConfigError: sources of problems that exclude each other, or a size that is neither given nor known.
        """
        made = self._lanes(count)
        made.legality, made.split = Legality(count, self.illegal), self._split_of(made)
        sizes = tuple((f"max_{size}", made.padding.sizes[size]) for size in made.sizes)
        made.arguments = recorded(self) + sizes
        made.source.share(0, count)
        return made

    def _split_of(self, made: Lanes) -> str | None:
        """The split. Raises ConfigError: not a name, or the problems are a fixed list, which a seed cannot part."""
        if self.split is None:
            return None
        if not isinstance(self.split, str) or not self.split:
            raise ConfigError(f"split is {shown(self.split)}; it must be a name, such as 'train', or None")
        if made.source.generate is None:
            raise ConfigError(f"split={self.split!r} needs generated problems; a fixed list must be parted by hand")
        return self.split

    @abc.abstractmethod
    def _lanes(self, count: int) -> Lanes:
        """As :meth:`lanes`, with the default rule for illegal actions."""


class Busy:
    """A lock for one thread at a time, which may take it again; copies and pickles are new locks."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[Busy], tuple[()]]:
        return Busy, ()


class Lanes(abc.ABC):
    """Episodes side by side.

    Args:
        space: observations of one lane at the level ``graph``.
        actions: number of actions.
        hidden: true to keep arrays of keys that the level does not contain.

    Attributes:
        observation_space: space of the observations of one lane.
        action_space: space of the actions of one lane.
        arrays: [L, …] by key: the observations; overwritten in place by every step.
        mask: [L, A] int8, 1 where an action is legal.
        reward: [L] of the last step.
        over: [L] true where the lane's episode is over, or has not begun.
        legality: replaces and counts illegal actions.
        split: name of the set of problems, which salts the generators.
        source: the source of problems.
        busy: held by a thread that steps or begins episodes: kernels write into arrays of all lanes.
        fresh: [L] true where an episode is prepared, which the lane's next step opens.
        names: [L] names of the problems.
        seeds: [L] seeds of the resets that began the episodes; None where a reset had none.
        kind: kind of the decisions, one of :data:`~hetgym.envs.core.kinds.IDS`.
        options: names of the options of a reset.
        narrow: keys that the levels ``candidates`` and ``flat`` contain; ``flat`` concatenates them in this order, row
            by row.
        padding: sizes of the observations.
        sizes: names of those among them that the meaning of actions depends on.
        arguments: those that replays hold, see :func:`~hetgym.envs.core.replay.recorded`.
    """

    kind: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ()
    narrow: ClassVar[tuple[str, ...]] = ("candidates", "devices", "action_mask")
    sizes: ClassVar[tuple[str, ...]] = ()
    padding: Any
    source: Source[Any, Any]

    def __init__(self, count: int, space: spaces.Dict, level: str, actions: int, hidden: bool = False) -> None:
        self.count, self.level = count, level
        self.observation_space = level_space(space, self.narrow, level, self.kind)
        self.action_space: spaces.Discrete = Actions(actions)
        shown = tuple(space) if level == "graph" else self.narrow
        kept = tuple(space) if hidden else shown
        made = spaces.Dict({key: space[key] for key in kept})
        check_memory(
            f"observations of {count} episode{'s' if count > 1 else ''}",
            bytes_of(made, count),
            "use fewer lanes or smaller problems, or observation='candidates'",
        )
        self.arrays: dict[str, npt.NDArray[Any]] = blank(made, count)
        self._shown = {key: self.arrays[key] for key in shown}
        self.mask: npt.NDArray[np.int8] = self.arrays["action_mask"]
        self.reward: FloatArray = np.zeros(count)
        self.over: BoolArray = np.ones(count, np.bool_)
        self.legality, self.busy = Legality(count, "random"), Busy()
        self.split: str | None = None
        self.arguments: tuple[tuple[str, Any], ...] = ()
        self.fresh: BoolArray = np.zeros(count, np.bool_)
        self.names = np.full(count, "", object)
        self.seeds: list[int | None] = [None] * count

    @property
    def env_id(self) -> str:
        """Id of the environment."""
        return IDS[self.kind]

    @property
    def seen(self) -> Observation:
        """[L, …] observations; overwritten in place by every step."""
        if self.level == "flat":
            parts = [array.reshape(self.count, -1) for array in self._shown.values()]
            return np.concatenate(parts, axis=1, dtype=np.float32)
        return self._shown

    def copied(self) -> Observation:
        """[L, …] copies of the observations, which the caller may keep."""
        seen = self.seen
        return {key: values.copy() for key, values in seen.items()} if isinstance(seen, dict) else seen.copy()

    def copied_of(self, lane: int) -> Observation:
        """[…] copy of one lane's observation."""
        seen = self.seen
        if isinstance(seen, dict):
            return {key: np.array(values[lane]) for key, values in seen.items()}
        return np.array(seen[lane])

    def shared(self) -> dict[str, npt.NDArray[Any]]:
        """[L] values that every ``info`` holds besides the mask and the illegal actions; copies for the caller."""
        return {"problem": self.names.copy()}

    def generator(self, seed: int | None) -> tuple[np.random.Generator, int]:
        """A generator of Gymnasium's for a seed, which may be None, salted by the split; and the seed."""
        rng, used = seeding.np_random(seed)
        if self.split is not None:  # a spawn key: streams of different keys are independent for all seeds
            salted = np.random.SeedSequence(used, spawn_key=(crc32(self.split.encode()),))
            rng = np.random.Generator(np.random.PCG64(salted))
        return rng, used

    def begin(self, lane: int, rng: np.random.Generator, options: dict[str, Any], seed: int | None) -> None:
        """Begin an episode: :meth:`prepare` and :meth:`open` it."""
        self.prepare(lane, rng, options, seed)
        self.open()

    def open(self) -> None:
        """Open all episodes that are prepared."""
        if self.fresh.any():
            self.take(self.legality.executed, self.fresh.copy())  # no action is read

    def prepare(self, lane: int, rng: np.random.Generator, options: dict[str, Any], seed: int | None) -> None:
        """Prepare an episode, which the lane's next step opens instead of taking a decision.

        Args:
            rng: the source of all randomness.
            seed: seed of that generator, if it was made for this episode.

        Raises:
            ConfigError: an unknown option, or an invalid value of one.
        """
        stream = stream_of(rng)
        self.begin_episode(lane, rng, options, seed)
        self.legality.begin(lane, stream)
        self.seeds[lane], self.over[lane], self.fresh[lane] = seed, False, True

    @abc.abstractmethod
    def begin_episode(self, lane: int, rng: np.random.Generator, options: dict[str, Any], seed: int | None) -> None:
        """What an environment does to :meth:`prepare` an episode."""

    def step(self, actions: npt.NDArray[np.int64], active: BoolArray) -> None:
        """Open the episode of each active lane that is fresh, and take one decision in each of the others.

        Args:
            actions: [L]; illegal ones are replaced, and counted, by :attr:`legality`.
            active: [L] true for lanes to work on; their episodes are running, or prepared.

        Raises:
            IllegalAction: an action is illegal under the rule ``"raise"``; nothing has changed.
        """
        deciding = active & ~self.fresh
        self.take(self.legality.executed_of(actions, deciding, self.mask, self.estimates), active)

    @abc.abstractmethod
    def take(self, actions: npt.NDArray[np.int64], active: BoolArray) -> None:
        """As :meth:`step`, with legal actions."""

    @abc.abstractmethod
    def estimates(self, lane: int) -> FloatArray:
        """[A] estimated value of the episode after each action, by which illegal ones are replaced [s]."""

    @abc.abstractmethod
    def problem(self, lane: int) -> Any:
        """The problem of the lane's episode: a Problem, a PipelineProblem or a TrainingProblem."""

    def replayable(self, lane: int) -> Any:
        """What :func:`hetgym.envs.replay` takes to play the lane's episode again."""
        return self.problem(lane)

    def identity(self, lane: int) -> str:
        """Name and content hash of the problem of the lane's episode, as one word."""
        return str(self.problem(lane).id)

    def result(self, lane: int) -> dict[str, Any]:
        """Entries that the last ``info`` of an episode holds in addition."""
        return {**self.outcome(lane), "illegal_share": self.legality.share(lane)}

    @abc.abstractmethod
    def outcome(self, lane: int) -> dict[str, Any]:
        """What an environment reports about an episode that has ended."""

    def replay(self, lane: int, actions: Sequence[int], makespan: float, **more: Any) -> Replay:
        """The lane's episode, which has ended, as a value; ``more`` are further attributes of it."""
        known: dict[str, Any] = {"env_id": self.env_id, "arguments": self.arguments, "makespan": makespan}
        return Replay(self.identity(lane), self.seeds[lane], tuple(actions), **known, **more)

    @abc.abstractmethod
    def frame(self, lane: int, mode: str) -> Any:
        """A picture of a lane's state: text for ``ansi``, [height, width, 3] colours for ``rgb_array``."""


def begun(found: Held | None) -> Held:
    """What a lane holds of its episode, which must have begun."""
    assert found is not None
    return found


def as_action(action: Any) -> int:
    """An action as a number.

    Raises:
        ConfigError: not a whole number.

    >>> as_action(2), as_action(np.array([3.0]))
    (2, 3)
    """
    try:
        array: npt.NDArray[Any] = np.asarray(action)
        value = array.item() if array.size == 1 else None
        if float(value).is_integer() and abs(value) < 2**62:  # type: ignore[arg-type]
            return int(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        pass
    raise ConfigError(f"action is {shown(action)}; it must be a whole number")


def as_actions(actions: Any, count: int) -> npt.NDArray[np.int64]:
    """[count] actions as numbers.

    Raises:
        ConfigError: another number of actions, or one that is not a whole number.

    >>> as_actions([0, 2], 2), as_actions(np.array([1.0, 3.0]), 2)
    (array([0, 2]), array([1, 3]))
    """
    array = np.asarray(actions)
    if array.shape == (count,) and array.dtype.kind == "i":
        return array.astype(np.int64, copy=False)
    if array.ndim == 0 or len(array) != count:
        raise ConfigError(f"actions is {shown(actions)}; it must be a list of {count} actions, one for each lane")
    return np.array([as_action(action) for action in actions], np.int64)


def as_seed(seed: Any) -> int | None:
    """A seed of a reset as a number, or None; ConfigError unless it is None or a non-negative whole number."""
    if seed is None:
        return None
    if isinstance(seed, bool | np.bool_) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigError(f"seed is {shown(seed)}; it must be a non-negative whole number, or None")
    return int(seed)


def as_options(options: Any) -> dict[str, Any]:
    """A copy of the options of a reset; ConfigError unless they are None or a dictionary with text as keys."""
    if options is None:
        return {}
    if not isinstance(options, dict) or not all(isinstance(key, str) for key in options):
        raise ConfigError(f"options is {shown(options)}; it must be a dictionary with text as keys, or None")
    return dict(options)


def only_options(options: dict[str, Any], *known: str) -> tuple[Any, ...]:
    """The values of the options that a reset knows, None where they are not given; ConfigError for others."""
    for name in options:
        if name not in known:
            raise ConfigError(f"reset has no option {shown(name)}; {suggestion(name, known)}")
    return tuple(options.get(name) for name in known)


_LEAST_LANES = 8  # Lanes for each thread: what keeps it busy for longer than it takes to wake up


class RecordLanes(Lanes):
    """Lanes whose kernels take all arrays as one record, ``_lanes``; a copy makes a record of its own arrays."""

    _lanes: records.Rows

    @abc.abstractmethod
    def _all_lanes(self) -> records.Rows:
        """The arrays that the kernels need of the lanes, as a row of one record."""

    def _record(self, like: Any, *parts: Any, **kept: npt.NDArray[Any]) -> records.Rows:
        """The arrays that the kernels need of all lanes, as the row of one record.

        Args:
            like: a record of the same kind; its last fields are ``observation``, ``reward``, ``over`` and ``fresh``.
            parts: the fields before these.
            kept: arrays of the observation that agents do not see, by key. In place of others there are tables without
                rows of operators and edges.
        """
        sizes = {"L": self.count, "A": self.mask.shape[1], "D": self.padding.devices, "N": 0, "E": 0, "K": 0}
        shown = blanks.blank(type(like.observation), **sizes)._asdict() | kept | self.arrays | {"mask": self.mask}
        observation = type(like.observation)(*(shown[key] for key in like.observation._fields))
        rows = records.Rows(1, like)
        rows[0] = type(like)(*parts, observation, self.reward, self.over, self.fresh)
        return rows

    @staticmethod
    def _spread(work: Callable[[Int64Array], None], active: BoolArray) -> None:
        """Call a kernel for all active lanes, on several threads if there are many.

        Lanes share nothing that a kernel writes, so the results do not depend on the number of threads. For the list of
        lanes that ``work`` takes see :func:`hetgym._kernels.threads.share`.
        """
        lanes = active.nonzero()[0]
        threads = len(lanes) // _LEAST_LANES
        share(work, lanes, min(threads, cores()) if threads > 1 else 1)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_lanes"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lanes = self._all_lanes()  # a record of the copies
