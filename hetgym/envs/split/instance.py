"""Instances of HetSplit-v0: a graph on a platform, the operators to decide on, and how each may be split."""

from __future__ import annotations

from dataclasses import dataclass

from hetgym.envs.split.loads import Loads
from hetgym.envs.split.options import Option
from hetgym.envs.split.pricing import PriceList
from hetgym.graph import DataflowGraph
from hetgym.platform import Platform
from hetgym.problem import Problem


@dataclass(frozen=True, eq=False)
class SplitInstance:
    """A graph on a platform with the tables that are computed once for all of its episodes."""

    graph: DataflowGraph  # the graph before any split
    platform: Platform  # the devices
    prices: PriceList  # of operators
    problem: Problem  # the graph on the platform
    keys: tuple[int, ...]  # [k] operators to decide on, in order
    # [k][a] result of splitting each by each entry of the menu; None where that is not possible, and for the first
    # entry, which leaves the operator whole
    options: tuple[tuple[Option | None, ...], ...]
    reference: float  # makespan of the unsplit graph under the inner scheduler [s]
    loads: Loads  # of the devices then
    alone: float  # makespan of all operators on the best single device [s]
    readers: tuple[tuple[int, ...], ...]  # [n] operators that read each operator's output
    splits: bool  # true if the graph holds parts of an earlier split
