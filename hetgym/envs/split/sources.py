"""Where an environment's graphs and platforms come from: given ones, of which each episode draws, or a generator."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from hetgym.device import Device, Link
from hetgym.envs.place.observation import Padding
from hetgym.errors import ConfigError
from hetgym.graph import DataflowGraph, load_graph
from hetgym.graph.generators import inception, transformer
from hetgym.platform import Platform, load_platform


class Draw(NamedTuple):
    """What an episode is about."""

    graph: DataflowGraph
    platform: Platform


class GraphSource(Protocol):
    """Gives a graph and a platform for each episode."""

    def draw(self, rng: np.random.Generator) -> Draw:
        """The next episode's graph and platform."""
        ...

    def padding(self) -> Padding | None:
        """Sizes that all draws fit in, None if that cannot be known."""
        ...


class Grid:
    """Every graph on every platform; each episode draws one of the combinations evenly.

    Raises:
        ConfigError: no graph, or no platform.
    """

    def __init__(self, graphs: list[DataflowGraph], platforms: list[Platform]) -> None:
        if not (graphs and platforms):
            raise ConfigError("an environment needs at least one graph and one platform, a list is empty")
        self.draws = tuple(Draw(graph, platform) for graph in graphs for platform in platforms)

    def draw(self, rng: np.random.Generator) -> Draw:
        """The only combination, or an even draw."""
        return self.draws[0] if len(self.draws) == 1 else self.draws[int(rng.integers(len(self.draws)))]

    def padding(self) -> Padding:
        """The largest of each size."""
        return Padding(
            max(len(graph) for graph, _ in self.draws),
            max(len(graph.edges) for graph, _ in self.draws),
            max(len(platform) for _, platform in self.draws),
        )


class Generated:
    """A fresh graph and platform for every episode."""

    def __init__(self, generate: Callable[[np.random.Generator], Any], limit: Padding | None = None) -> None:
        self.generate = generate
        self.limit = limit

    def draw(self, rng: np.random.Generator) -> Draw:
        """Whatever the generator makes.

        Raises:
            ConfigError: the generator returned something else than a graph and a platform.
        """
        made = self.generate(rng)
        if not isinstance(made, tuple) or len(made) != 2 or not (
            isinstance(made[0], DataflowGraph) and isinstance(made[1], Platform)
        ):  # fmt: skip
            raise ConfigError(
                f"the generator returned {type(made).__name__}, expected a hetgym.DataflowGraph and a hetgym.Platform"
            )
        return Draw(*made)

    def padding(self) -> Padding | None:
        """What the caller promised."""
        return self.limit


@dataclass(frozen=True)
class RandomNetworks:
    """Small networks of real operators on small machines with fast links, so that splitting often pays.

    Inception modules and transformer blocks of random widths and batch sizes; two or three accelerators
    whose speeds differ up to fourfold.

    >>> graph, platform = RandomNetworks()(np.random.default_rng(0))
    >>> len(graph) <= RandomNetworks.LIMIT.operators, len(platform) in (2, 3)
    (True, True)
    """

    LIMIT = Padding(42, 54, 3)

    def __call__(self, rng: np.random.Generator) -> Draw:
        """Draw a network and a machine."""
        return Draw(self._network(rng), self._machine(rng))

    @staticmethod
    def _network(rng: np.random.Generator) -> DataflowGraph:
        batch = int(rng.choice((2, 4, 6, 8, 16)))
        if rng.random() < 0.5:
            sides, widths = (14, 15, 28, 30), (96, 120, 192, 256)
            return inception(int(rng.integers(1, 3)), batch, int(rng.choice(sides)), int(rng.choice(widths)))
        heads = int(rng.integers(2, 5))
        return transformer(1, heads, heads * int(rng.choice((64, 96, 128))), int(rng.choice((64, 100, 128))), batch)

    @staticmethod
    def _machine(rng: np.random.Generator) -> Platform:
        names = [f"gpu{k}" for k in range(int(rng.integers(2, 4)))]
        devices = []
        for name, speed in zip(names, 2.0 ** rng.uniform(-1, 1, len(names)), strict=True):
            flops, bandwidth = {"float32": 5e12 * float(speed)}, 6e11 * float(speed) ** 0.5
            devices.append(Device(name, "gpu", flops, bandwidth, 16e9, 2e-6))
        rate = float(10 ** rng.uniform(10, 11))
        links = [Link(a, b, 2e-6, rate) for a in names for b in names if a != b]
        return Platform(f"{len(names)}gpu", tuple(devices), tuple(links))


def as_graph(source: Any, batch: int = 1) -> DataflowGraph:
    """A graph as it is, or the one of a name or path.

    Raises:
        ConfigError: neither.
        UnknownName: no model has this name.
        GraphError: the file is missing or malformed.
    """
    if isinstance(source, DataflowGraph):
        return source
    if isinstance(source, str | os.PathLike):
        return load_graph(source, batch=batch)
    raise ConfigError(f"expected a hetgym.DataflowGraph, a name or a path, got {type(source).__name__}")


def as_platform(source: Any) -> Platform:
    """A platform as it is, or the one of a name or path.

    Raises:
        ConfigError: neither.
        UnknownName: no preset has this name.
        PlatformError: the file is missing or malformed.
    """
    if isinstance(source, Platform):
        return source
    if isinstance(source, str | os.PathLike):
        return load_platform(os.fspath(source))
    raise ConfigError(f"expected a hetgym.Platform, a name or a path, got {type(source).__name__}")


def graph_source(graph: Any = None, platform: Any = None, generator: Any = None, batch: int = 1) -> GraphSource:
    """Turn an environment's arguments into a source of graphs and platforms.

    Args:
        graph: a DataflowGraph, a zoo name or a path, or a list of these; needs ``platform``.
        platform: a Platform, a preset's name or a path, or a list of these; needs ``graph``.
        generator: ``None`` for :class:`RandomNetworks`, or ``callable(rng) -> (graph, platform)``.
        batch: batch size of named graphs.

    Raises:
        ConfigError: a graph without a platform, both kinds of source, or what is no generator.
    """
    if generator is not None and (graph is not None or platform is not None):
        raise ConfigError("an environment takes its graphs from one source, not from graph=… and generator=…")
    if (graph is None) != (platform is None):
        raise ConfigError("graph=… and platform=… belong together: give both")
    if graph is not None:
        return Grid([as_graph(g, batch) for g in _listed(graph)], [as_platform(p) for p in _listed(platform)])
    if generator is None:
        return Generated(RandomNetworks(), RandomNetworks.LIMIT)
    if not callable(generator):
        raise ConfigError(f"generator is {generator!r}; expected callable(rng) -> (graph, platform)")
    return Generated(generator)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
