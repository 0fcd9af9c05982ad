"""The typed state of splitting: the choices of episodes, and the graphs that they make.

Sizes: L lanes, of k decisions; n operators and d devices of a graph, padded to N and D in arrays that all lanes share;
A entries of the menu.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, NamedTuple

import numpy as np

from hetgym._kernels.blanks import example
from hetgym._kernels.records import reader, record
from hetgym._types import BoolArray, Float32Array, FloatArray, Int8Array, Int64Array
from hetgym.envs.split.forms import UNCUT, Forms
from hetgym.envs.split.instance import Loads, SplitInstance
from hetgym.graph import DataflowGraph
from hetgym.problem import Problem
from hetgym.schedule import Schedule

Chosen = tuple[tuple[int, int], ...]
"""Splits as (turn, entry of the menu), in the order in which they are applied; operators left whole do not appear."""


@dataclass(frozen=True, eq=False)
class SplitNode:
    """A graph as split so far; the parts that are rarely needed are made on demand."""

    makespan: float  # of the inner scheduler's schedule under the runtime [s]
    loads: Loads  # of the devices under that schedule
    excess: float  # bytes by which the fullest device exceeds its memory, at most 0 if all fit; -inf if not computed
    graph: DataflowGraph = field(repr=False)  # the graph, with parts as operators of their own
    problem: Problem = field(repr=False)  # the graph on the platform
    # makes the inner scheduler's schedule, and the largest memory in use on each device
    end: Callable[[], tuple[Schedule, FloatArray]] = field(repr=False)

    @cached_property
    def _end(self) -> tuple[Schedule, FloatArray]:
        return self.end()

    @property
    def schedule(self) -> Schedule:
        """The inner scheduler's schedule."""
        return self._end[0]

    @property
    def peak(self) -> FloatArray:
        """[d] largest memory in use on each device [byte]."""
        return self._end[1]


class SplitState(NamedTuple):
    """The state of one lane, as Python sees it."""

    instance: SplitInstance  # the graph on the platform
    chosen: Chosen  # the splits so far
    turn: int  # number of operators that are decided

    @property
    def operator(self) -> int:
        """The operator to be decided on."""
        return self.instance.keys[self.turn]


@record
class SplitTables(NamedTuple):
    """An instance's tables for kernels; computed once for each."""

    keys: Annotated[Int64Array, "k"]  # operators to decide on, in order
    turns: Annotated[Int64Array, "n"]  # decision on each operator, -1 for those that stay whole
    # 1 where an operator may be split by an entry, and for the entry that leaves it whole
    legal: Annotated[Int8Array, "k, A"]
    candidates: Annotated[Float32Array, "k, A, C"]  # the columns of candidates that do not depend on earlier decisions
    result: Annotated[Int64Array, "k, A"]  # number of the cut of the result
    # the operands that entry a of decision t deals out are `dealt[t * A + a] .. [… + 1]`.
    dealt: Annotated[Int64Array, "k A + 1"]
    source: Annotated[Int64Array, "x"]  # operator that produces each of these operands
    cut: Annotated[Int64Array, "x"]  # number of its cut
    reading: Annotated[Int64Array, "n + 1"]  # the readers of operator i are `reader[reading[i]] .. [i + 1]`
    reader: Annotated[Int64Array, "y"]
    capacity: Annotated[FloatArray, "d"]  # memory of each device [byte]


def tables_of(instance: SplitInstance, forms: Forms, candidates: Sequence[Float32Array]) -> SplitTables:
    """The tables of an instance.

    Args:
        candidates: [A, C] for each decision, see :func:`~hetgym.envs.split.observation.choices_table`.
    """
    options = [option for row in instance.options for option in row]
    deals = [[] if option is None else option.deals for option in options]
    result = [UNCUT if option is None else forms.cut(option.result, option.lengths) for option in options]
    flat = [deal for row in deals for deal in row]
    legal = np.array([[option is not None for option in row] for row in instance.options], np.int8)
    legal[:, 0] = 1
    return SplitTables(
        keys=np.array(instance.keys, np.int64),
        turns=forms.arrays.turn,
        legal=legal,
        candidates=np.stack(candidates),
        result=np.array(result, np.int64).reshape(legal.shape),
        dealt=np.cumsum([0, *map(len, deals)]),
        source=np.array([deal.source[0] for deal in flat], np.int64),
        cut=np.array([forms.dealt(deal.axis, deal.widths, deal.exact) for deal in flat], np.int64),
        reading=np.cumsum([0, *map(len, instance.readers)]),
        reader=np.array([reader for row in instance.readers for reader in row], np.int64),
        capacity=instance.problem.memory_capacity.copy(),
    )


@record
class LaneState(NamedTuple):
    """The state of all lanes."""

    turn: Annotated[Int64Array, "L"]  # number of operators that are decided
    # entries of the menu by which they are split; 0 for those that stay whole, and for all others
    entries: Annotated[Int64Array, "L, K"]
    log: Annotated[Int64Array, "L, K"]  # actions as they were passed
    action: Annotated[Int64Array, "L"]  # entry that the current operator gets in this step
    found: Annotated[Int64Array, "L"]  # what came of measuring, see measure
    reference: Annotated[FloatArray, "L"]  # makespan that returns compare with [s]
    makespan: Annotated[FloatArray, "L"]  # of the graph as split so far [s]
    before: Annotated[FloatArray, "L"]  # of that before the last decision
    busy: Annotated[FloatArray, "L, D"]  # this and the next two are its Loads
    operators: Annotated[Int64Array, "L, D"]
    weights: Annotated[FloatArray, "L, D"]


@record
class SplitObservation(NamedTuple):
    """The part of the observations that changes from step to step; see :mod:`hetgym.envs.split.observation`."""

    operators: Annotated[Float32Array, "L, N, 20"]
    candidates: Annotated[Float32Array, "L, A, 19"]
    operator: Annotated[Float32Array, "L, 20"]
    makespan: Annotated[Float32Array, "L, 1"]
    current: Annotated[Int64Array, "L, 1"]
    devices: Annotated[Float32Array, "L, D, 4"]
    mask: Annotated[Int8Array, "L, A"]


@record
class SplitRecord(NamedTuple):
    """The arrays that the kernels need of the lanes, as one record."""

    tables: Annotated[Int64Array, "L, row"]  # rows of records: SplitTables
    state: LaneState  # of all lanes
    observation: SplitObservation  # of all lanes
    reward: Annotated[FloatArray, "L"]  # of the last step
    over: Annotated[BoolArray, "L"]  # true where the episode is over
    fresh: Annotated[BoolArray, "L"]  # true where an episode is to be opened


TABLES, RECORD = example(SplitTables), example(SplitRecord)  # Examples of the records that lanes hold
read_tables = reader(TABLES)
read_lanes = reader(RECORD)
