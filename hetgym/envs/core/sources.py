"""Sources: where an environment's problems come from, for problems of any kind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from hetgym.envs.core.arguments import Arguments, whole
from hetgym.envs.core.memory import Remembered
from hetgym.envs.core.padding import Sizes
from hetgym.errors import ConfigError, shown
from hetgym.graph import DataflowGraph, load_graph
from hetgym.platform import Platform, load_platform

Item = TypeVar("Item")

Graph = DataflowGraph | str | Path  # A graph, or a zoo name or a path of one
Machine = Platform | str | Path  # A platform, or a preset's name or a path of one
_SAMPLE_SALT = 71_346_523  # Seed by which samples differ from episodes

_LANES_APART = 2
"""Pools that are kept where pools are refreshed: some lanes are ahead of others. What is dropped is made again."""


@dataclass(frozen=True)
class Kind(Generic[Item, Sizes]):
    """A kind of problem that episodes are about."""

    expected: str  # description of an item, for messages
    is_one: Callable[[Any], bool]  # predicate: true if a value is an item
    sizes: Callable[[Item], Sizes]  # function from an item to its sizes


@dataclass(frozen=True)
class PoolArguments(Arguments):
    """How many problems an environment takes from its generator."""

    _: KW_ONLY
    # number of problems, of which every episode draws one; by default every episode has a new problem
    pool: int | None = whole(None)
    pool_seed: int = whole(0, least=0)  # seed of the pool: pools of different seeds share no problem
    # draws of a lane after which a new problem takes the place of the oldest one of the pool; by default a pool keeps
    # its problems
    pool_refresh: int | None = whole(None)

    def _refuse_pool(self, given: str | None) -> None:
        """Refuse a pool without a generator, and settings of a pool without a pool.

        Raises:
            ConfigError: the problems come from another source, which is named; or there is no pool.
        """
        if self.pool is not None and given not in (None, "generator"):
            raise ConfigError(f"pool belongs to a generator of problems; {given}=… is a pool itself")
        for name, value in (("pool_seed", self.pool_seed), ("pool_refresh", self.pool_refresh)):
            if self.pool is None and value:
                raise ConfigError(f"{name}={value} means nothing without pool=…, the number of its problems")


class Source(Generic[Item, Sizes]):
    """Provides a problem for each episode: one of several given ones, or one from a generator.

    Args:
        items: problems; every episode draws one with equal probability.
        generate: makes a new problem for every episode, if there are no items.
        limit: sizes within which all generated problems stay; None if unknown.
        chosen: the pool of generated problems, if there is one. Each problem has a random generator of its own, so that
            it depends neither on the others nor on when it is first drawn.

    Raises:
        ConfigError: the list of items is empty.
    """

    def __init__(
        self,
        kind: Kind[Item, Sizes],
        items: Iterable[Item] = (),
        generate: Callable[[np.random.Generator], Any] | None = None,
        limit: Sizes | None = None,
        chosen: PoolArguments | None = None,
    ) -> None:
        self.kind, self.items, self.generate, self.limit = kind, tuple(items), generate, limit
        pool = PoolArguments() if chosen is None else chosen
        self._pool, self._pool_seed, self._pool_refresh = pool.pool, pool.pool_seed, pool.pool_refresh
        self._pooled: Remembered[int, Item] = Remembered(self.size)
        self._turns: dict[int, tuple[np.random.Generator, int]] = {}
        if generate is None and not self.items:
            raise ConfigError(f"an environment needs at least one problem ({kind.expected}), the list is empty")

    def draw(self, rng: np.random.Generator, lane: int = 0) -> Item:
        """The problem of the next episode.

        Args:
            rng: of the lane; all randomness comes from it. A single item needs no draw.
            lane: number of the lane, whose draws from one generator are counted: they decide how far its pool has moved
                on. So a lane's problems depend on its seed alone, not on what other lanes do.

        Raises:
            ConfigError: a generator returned something other than a problem of this kind.
        """
        if self.generate is None:
            return self.items[0 if len(self.items) == 1 else int(rng.integers(len(self.items)))]
        generate = self.generate
        if self._pool is None:
            return self._made(generate, rng)
        number = self._oldest(rng, lane) + int(rng.integers(self._pool))
        return self._pooled.get(number, lambda: self._made(generate, np.random.default_rng([self._pool_seed, number])))

    def sample(self, count: int) -> list[Item]:
        """All items, or a number of generated problems that are the same every time."""
        if self.generate is None:
            return list(self.items)
        return [self._made(self.generate, np.random.default_rng([_SAMPLE_SALT, k])) for k in range(count)]

    @property
    def size(self) -> int:
        """Number of problems that are worth keeping; 0 if every episode has a new one."""
        if self.generate is None:
            return len(self.items)
        if self._pool is None:
            return 0
        return self._pool if self._pool_refresh is None else _LANES_APART * self._pool

    def _oldest(self, rng: np.random.Generator, lane: int) -> int:
        """Number of the oldest problem in a lane's pool, whose next draw is counted."""
        if self._pool_refresh is None:
            return 0
        known, turn = self._turns.get(lane, (rng, 0))
        turn = turn if known is rng else 0  # the lane was seeded anew
        self._turns[lane] = rng, turn + 1
        return turn // self._pool_refresh

    def _made(self, generate: Callable[[np.random.Generator], Any], rng: np.random.Generator) -> Item:
        made = generate(rng)
        if not self.kind.is_one(made):
            raise ConfigError(f"the generator returned {type(made).__name__}, expected {self.kind.expected}")
        item: Item = made
        return item

    def padding(self) -> Sizes | None:
        """Sizes within which all problems stay; None if unknown."""
        if self.generate is not None:
            return self.limit
        sizes = [self.kind.sizes(item) for item in self.items]
        return type(sizes[0]).largest(sizes)


def only_one(**given: Any) -> str | None:
    """The name of the only source that is given; None if none is. Raises ConfigError: several are given."""
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise ConfigError(f"an environment takes its problems from one source, not from {' and '.join(names)}")
    return names[0] if names else None


def need_graphs(arguments: Arguments, *names: str) -> None:
    """Refuse arguments that say how graphs become problems, where problems come from elsewhere.

    Args:
        arguments: of the environment.

    Raises:
        ConfigError: one of them is not as it is by default.
    """
    for field in fields(arguments):
        if field.name in names and getattr(arguments, field.name) != field.default:
            value = shown(getattr(arguments, field.name))
            raise ConfigError(f"{field.name}={value} means nothing without graph=… and platform=…")


def generator_of(generator: Any, expected: str) -> Callable[[np.random.Generator], Any]:
    """Check that a generator of problems can be called, and return it. Raises ConfigError: it cannot be called."""
    if not callable(generator):
        raise ConfigError(f"generator is {shown(generator)}; expected callable(rng) -> {expected}")
    found: Callable[[np.random.Generator], Any] = generator
    return found


def listed(value: Any) -> list[Any]:
    """The members of a list, or a single value as a list of one."""
    return list(value) if isinstance(value, list | tuple) else [value]


def together(graph: Any, platform: Any) -> None:
    """Refuse a graph without a platform, and a platform without a graph; a name that does not exist is told first.

    Raises:
        ConfigError: only one is given, or it is not a graph or platform.
        UnknownName: it is a name that does not exist.
        GraphError: it is a file that is missing or malformed.
        PlatformError: likewise.
    """
    if (graph is None) != (platform is None):
        for one in listed(graph) if platform is None else ():
            as_graph(one)
        for one in listed(platform) if graph is None else ():
            as_platform(one)
        raise ConfigError("graph=… and platform=… belong together: give both")


def grid(graph: Any, platform: Any, batch: int = 1) -> list[tuple[DataflowGraph, Platform]]:
    """Every graph on every platform.

    Args:
        graph: a DataflowGraph, a zoo name or a path, or a list of these.
        platform: a Platform, a preset's name or a path, or a list of these.
        batch: batch size of named graphs.
    """
    graphs: Sequence[DataflowGraph] = [as_graph(one, batch) for one in listed(graph)]
    platforms: Sequence[Platform] = [as_platform(one) for one in listed(platform)]
    return [(net, machine) for net in graphs for machine in platforms]


def as_graph(source: Any, batch: int = 1) -> DataflowGraph:
    """Return a graph unchanged, or load it by name or path.

    Raises:
        ConfigError: neither a graph nor a name or path.
        UnknownName: no model has this name.
        GraphError: the file is missing or malformed.
    """
    if isinstance(source, DataflowGraph):
        return source
    if isinstance(source, str | os.PathLike):
        return load_graph(source, batch=batch)
    raise ConfigError(f"expected a hetgym.DataflowGraph, a name or a path, got {type(source).__name__}")


def as_platform(source: Any) -> Platform:
    """Return a platform unchanged, or load it by name or path.

    Raises:
        ConfigError: neither a platform nor a name or path.
        UnknownName: no preset has this name.
        PlatformError: the file is missing or malformed.
    """
    if isinstance(source, Platform):
        return source
    if isinstance(source, str | os.PathLike):
        return load_platform(os.fspath(source))
    raise ConfigError(f"expected a hetgym.Platform, a name or a path, got {type(source).__name__}")
