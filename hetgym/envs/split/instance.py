"""Instances of HetSplit-v0: a graph on a platform, the operators to decide on, and how each may be split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hetgym._types import FloatArray, Int64Array, IntArray
from hetgym.envs.split.options import Option
from hetgym.envs.split.pricing import PriceList
from hetgym.graph import DataflowGraph
from hetgym.platform import Platform
from hetgym.problem import Problem
from hetgym.sim.memory import resident_weights


class Loads(NamedTuple):
    """Loads of devices under a schedule."""

    busy: FloatArray  # [d] summed run times of its operators [s]
    operators: Int64Array  # [d] number of its operators
    weights: FloatArray  # [d] bytes of their weights


def loads_of(problem: Problem, assignment: IntArray) -> Loads:
    """The loads of devices under a placement, [n]."""
    n, d = problem.cost.shape
    return Loads(
        np.bincount(assignment, problem.cost[np.arange(n), assignment], minlength=d).astype(np.float64),
        np.bincount(assignment, minlength=d),
        resident_weights(problem, assignment),
    )


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
