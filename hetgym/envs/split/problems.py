"""The problems of HetSplit-v0: graphs on platforms, drawn from a list or made by a generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np

from hetgym.envs.core.arguments import whole
from hetgym.envs.core.padding import GraphPadding
from hetgym.envs.core.sources import Graph, Kind, Machine, PoolArguments, Source, generator_of, grid, only_one, together
from hetgym.envs.split.networks import RandomNetworks
from hetgym.graph import DataflowGraph
from hetgym.platform import Platform

Pair = tuple[DataflowGraph, Platform]  # A graph and the platform on which it runs


def _is_pair(made: object) -> bool:
    if not isinstance(made, tuple) or len(made) != 2:
        return False
    return isinstance(made[0], DataflowGraph) and isinstance(made[1], Platform)


def _sizes(pair: Pair) -> GraphPadding:
    graph, platform = pair
    return GraphPadding(len(graph), len(graph.edges), len(platform))


PAIRS: Kind[Pair, GraphPadding] = Kind("a hetgym.DataflowGraph and a hetgym.Platform", _is_pair, _sizes)


@dataclass(frozen=True)
class GraphArguments(PoolArguments):
    """The source of an environment's graphs and platforms; see :class:`~hetgym.envs.HetSplitEnv`."""

    graph: Graph | Sequence[Graph] | None = None
    platform: Machine | Sequence[Machine] | None = None
    _: KW_ONLY
    generator: Callable[[np.random.Generator], Pair] | None = None  # `callable(rng) -> (graph, platform)`
    batch: int | None = whole(None)  # batch size of graphs given by name; None: the one that a model fixes, else 1
    pool_plays: int | None = whole(200)  # more than elsewhere, as a new graph takes long

    def source(self) -> Source[Pair, GraphPadding]:
        """The source; ConfigError for sources that exclude or lack each other."""
        given = only_one(graph=self.graph if self.graph is not None else self.platform, generator=self.generator)
        together(self.graph, self.platform)
        self._refuse_pool(given)
        if self.graph is not None:
            return Source(PAIRS, grid(self.graph, self.platform, self.batch))
        if self.generator is None:
            return Source(PAIRS, generate=RandomNetworks(), limit=RandomNetworks.LIMIT, pool=self)
        return Source(PAIRS, generate=generator_of(self.generator, "(graph, platform)"), pool=self)
