"""Instances of HetSplit-v0: a graph on a platform, the operators to decide on, and how each may be split."""

from __future__ import annotations

from dataclasses import dataclass

from hetgym.envs.split.options import Option
from hetgym.envs.split.pricing import PriceList
from hetgym.graph import DataflowGraph
from hetgym.platform import Platform
from hetgym.problem import Problem


@dataclass(frozen=True, eq=False)
class SplitInstance:
    """A graph on a platform with what is worked out once for all of its episodes.

    Attributes:
        graph: not split.
        platform: the devices.
        prices: of operators.
        problem: the graph on the platform.
        keys: [k] operators to decide on, in order.
        options: [k][a] how each may be split; None where it may not. The first, to leave it, is None.
        reference: makespan of the graph as it is under the inner scheduler [s].
        alone: makespan of everything on the one best device [s].
        readers: [n] operators that read an operator's output.
    """

    graph: DataflowGraph
    platform: Platform
    prices: PriceList
    problem: Problem
    keys: tuple[int, ...]
    options: tuple[tuple[Option | None, ...], ...]
    reference: float
    alone: float
    readers: tuple[tuple[int, ...], ...]
