"""Sources: where an environment's problems come from, for problems of any kind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from hetgym.envs.core.arguments import Arguments, whole
from hetgym.envs.core.padding import Sizes
from hetgym.errors import ConfigError, shown
from hetgym.graph import DataflowGraph, load_graph
from hetgym.platform import Platform, load_platform

Item = TypeVar("Item")
Graph = DataflowGraph | str | Path  # A graph, or a zoo name or a path of one
Machine = Platform | str | Path  # A platform, or a preset's name or a path of one
_SAMPLE_SALT = 71_346_523  # Seed by which samples differ from episodes

_POOL_KEY = 1_886_351_212  # Key by which the problems of pools differ from those that are drawn outside of them
POOL = 256  # Problems of a pool by default


@dataclass(frozen=True)
class Kind(Generic[Item, Sizes]):
    """A kind of problem that episodes are about."""

    expected: str  # description of an item, for messages
    is_one: Callable[[Any], bool]  # predicate: true if a value is an item
    sizes: Callable[[Item], Sizes]  # function from an item to its sizes


@dataclass(frozen=True)
class PoolArguments(Arguments):
    """How many problems an environment takes from its generator; manuals describe it."""

    _: KW_ONLY
    pool: int | None = whole(POOL)
    pool_plays: int | None = whole(16)

    def _refuse_pool(self, given: str | None) -> None:
        """Refuse a pool without a generator, and plays without a pool.

        Raises:
            ConfigError: the problems come from another source, which is named; or there is no pool.
        """
        if self.pool is None and self.pool_plays != type(self).pool_plays:
            raise ConfigError(f"pool_plays={self.pool_plays} means nothing without pool=…, the number of its problems")
        if self.pool not in (None, POOL) and given not in (None, "generator"):
            raise ConfigError(f"pool={self.pool} belongs to a generator of problems; {given}=… is a pool itself")


@dataclass
class _Share(Generic[Item]):
    """A lane's share of the pool."""

    rng: np.random.Generator  # the lane's generator, whose seed decides the problems
    root: tuple[Any, tuple[int, ...]]  # entropy and key of that seed
    draws: int = 0  # number of problems drawn so far
    drawn: int | None = None  # number of the next problem, while its making has failed
    items: dict[int, Item] = field(default_factory=dict)  # problems drawn and not replaced, by number


class Source(Generic[Item, Sizes]):
    """Provides a problem for each episode: one of several given ones, or one from a generator.

    Every lane has a share of the pool, so that its problems depend on its seed, its number and the size of the share
    alone, not on what other lanes do. A window over the numbers 0, 1, 2, … moves on by one after ``pool_plays`` draws;
    each draw takes a number within it. A problem is made when its number is first drawn.

    Args:
        items: problems; every episode draws one with equal probability.
        generate: makes problems, if there are no items.
        limit: sizes within which all generated problems stay; None if unknown.
        pool: the pool of generated problems; None: every problem is new.

    Raises:
        ConfigError: the list of items is empty.
    """

    def __init__(
        self,
        kind: Kind[Item, Sizes],
        items: Iterable[Item] = (),
        generate: Callable[[np.random.Generator], Any] | None = None,
        limit: Sizes | None = None,
        pool: PoolArguments | None = None,
    ) -> None:
        self.kind, self.items, self.generate, self.limit = kind, tuple(items), generate, limit
        self._pool, self._plays = (None, None) if pool is None else (pool.pool, pool.pool_plays)
        self._first, self._lanes = 0, 1
        self._shares: dict[int, _Share[Item]] = {}
        if generate is None and not self.items:
            raise ConfigError(f"an environment needs at least one problem ({kind.expected}), the list is empty")

    def share(self, first: int, lanes: int) -> None:
        """Share the pool among lanes, at least one problem for each.

        Args:
            first: number of the first lane that draws here, among all of them.
            lanes: number of all lanes, wherever they draw.
        """
        self._first, self._lanes = first, lanes

    def draw(self, rng: np.random.Generator, lane: int = 0, seed: int | None = None) -> Item:
        """The problem of the next episode.

        Args:
            rng: generator of the lane; all randomness comes from it. A single item needs no draw.
            lane: number of the lane, counted from the first that draws here.
            seed: seed of the reset, if it had one: then the problem is new.

        Raises:
            ConfigError: a generator returned something other than a problem of this kind.
        """
        if self.generate is None:
            return self.items[0 if len(self.items) == 1 else int(rng.integers(len(self.items)))]
        if self._pool is None:
            return self._made(self.generate, rng)
        share = self._share(rng, lane)
        if seed is not None:
            return self._made(self.generate, rng)
        number, oldest = self._first + lane, 0 if self._plays is None else share.draws // self._plays
        if share.drawn is None:
            size = max(1, self._pool // self._lanes + (number < self._pool % self._lanes))
            share.drawn = oldest + int(rng.random() * size)  # faster than a whole number
        drawn = share.drawn
        if drawn not in share.items:
            entropy, key = share.root
            stream = np.random.SeedSequence(entropy, spawn_key=(*key, _POOL_KEY, number, drawn))
            share.items[drawn] = self._made(self.generate, np.random.default_rng(stream))
        share.draws, share.drawn = share.draws + 1, None
        share.items.pop(oldest - 1, None)
        return share.items[drawn]

    def draws(self, rng: np.random.Generator, lane: int) -> int:
        """Number of problems that a lane has drawn from its share of the pool."""
        return 0 if self._pool is None else self._share(rng, lane).draws

    def resume(self, rng: np.random.Generator, lane: int, draws: int) -> None:
        """Restore what :meth:`draws` returned."""
        if self._pool is not None:
            self._share(rng, lane).draws = draws

    def passing(self, seed: int | None) -> bool:
        """True if a problem that was drawn for a reset of that seed will not be drawn again."""
        return self.generate is not None and (self._pool is None or seed is not None)

    def kept(self, lanes: int, least: int = 256) -> int:
        """Number of problems whose tables are worth keeping.

        Args:
            lanes: number of lanes that draw here.
            least: least such number, for problems that resets give.
        """
        if self.generate is None or self._pool is None:
            return max(least, len(self.items))
        # A problem of H is drawn again after H draws on average, and hardly ever after 16 H; meanwhile others, whose
        # tables are used later than its own, have been replaced.
        held = max(self._pool, lanes)
        return max(least, held + lanes + (0 if self._plays is None else 16 * held // self._plays))

    def sample(self, count: int) -> list[Item]:
        """All items, or a number of generated problems that are the same every time."""
        if self.generate is None:
            return list(self.items)
        return [self._made(self.generate, np.random.default_rng([_SAMPLE_SALT, k])) for k in range(count)]

    def _share(self, rng: np.random.Generator, lane: int) -> _Share[Item]:
        """A lane's share of the pool, a new one if the lane was seeded anew."""
        found = self._shares.get(lane)
        if found is None or found.rng is not rng:
            root: Any = rng.bit_generator.seed_seq
            found = self._shares[lane] = _Share(rng, (root.entropy, tuple(root.spawn_key)))
        return found

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
    """Refuse, by ConfigError, arguments that say how graphs become problems, where problems come from elsewhere."""
    for one in fields(arguments):
        if one.name in names and getattr(arguments, one.name) != one.default:
            value = shown(getattr(arguments, one.name))
            raise ConfigError(f"{one.name}={value} means nothing without graph=… and platform=…")


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
    """Refuse a graph without a platform, and a platform without a graph; an unknown name is reported first.

    Raises:
        ConfigError: only one is given; or any error of :func:`as_graph` and :func:`as_platform`.
    """
    if (graph is None) != (platform is None):
        for one in listed(graph) if platform is None else ():
            as_graph(one)
        for one in listed(platform) if graph is None else ():
            as_platform(one)
        raise ConfigError("graph=… and platform=… belong together: give both")


def grid(graph: Any, platform: Any, batch: int | None = None) -> list[tuple[DataflowGraph, Platform]]:
    """Every graph on every platform; lists, or single ones, as objects, names or paths."""
    graphs: Sequence[DataflowGraph] = [as_graph(one, batch) for one in listed(graph)]
    platforms: Sequence[Platform] = [as_platform(one) for one in listed(platform)]
    return [(net, machine) for net in graphs for machine in platforms]


def as_graph(source: Any, batch: int | None = None) -> DataflowGraph:
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
