"""ShardingProblem: a strategy for each operator, priced by node and by edge, under a memory limit over time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._types import Int64Array, IntArray, frozen
from hetgym.errors import ProblemError, shown

INFINITE = 10**18
"""Entry of a table that no plan should choose. It is an ordinary number in sums, as in the contest's evaluator."""

UNITS = ("abstract", "ns")
"""Units of costs: those of a file that names none, and nanoseconds."""

LARGEST = 2**63 - 1  # Largest cost, usage and time


class ShardingProblem:
    """Costs of the strategies of all nodes, and of the pairs of strategies that meet on an edge.

    Choose one strategy for each node. The cost of a choice is the sum of the costs of its nodes and edges. A node takes
    its strategy's usage of memory during its interval, which does not include the upper end: an empty interval takes
    none. At every time, the usages of all nodes must add up to no more than the limit.

    This is the problem of the ASPLOS 2025 contest on intra-operator parallelism (asplos-contest/2025:IOPDDL.md), which
    generalises that of Alpa (Zheng et al., OSDI 2022) by memory over time.

    All arrays are read-only.

    Attributes:
        name: for messages and reports.
        offsets: [n + 1] the strategies of node v are numbered from ``offsets[v]`` to ``offsets[v + 1]``.
        costs: [s] cost of each strategy.
        usages: [s] memory that each strategy takes [byte, or the unit of a file].
        intervals: [n, 2] first time at which a node takes memory, and the first time at which it no longer does.
        ends: [m, 2] the nodes of each edge. Several edges may join the same nodes.
        table_offsets: [m + 1] the table of edge e is ``tables[table_offsets[e] : table_offsets[e + 1]]``.
        tables: cost of each pair of strategies; the strategy of the edge's second node runs fastest.
        limit: most memory at any time; None for no limit.
        unit: unit of costs, one of :data:`UNITS`.

    Raises:
        ProblemError: arrays that do not fit each other, a node without strategies, a negative number, an edge whose
            ends are equal or out of range, or an interval that ends before it begins.
    """

    def __init__(
        self,
        offsets: npt.ArrayLike,
        costs: npt.ArrayLike,
        usages: npt.ArrayLike,
        intervals: npt.ArrayLike,
        ends: npt.ArrayLike,
        tables: npt.ArrayLike,
        limit: int | None = None,
        name: str = "sharding",
        unit: str = "abstract",
    ) -> None:
        self.name, self.unit = name, unit
        if unit not in UNITS:
            raise self._fail(f"unit is {shown(unit)}; it must be one of {', '.join(UNITS)}")
        self.limit = None if limit is None else self._whole("usage limit", [limit])[0].item()
        self.offsets: Int64Array = frozen(self._whole("offsets", offsets))
        self.costs: Int64Array = frozen(self._whole("costs", costs))
        self.usages: Int64Array = frozen(self._whole("usages", usages))
        self.intervals: Int64Array = frozen(self._whole("intervals", intervals).reshape(-1, 2))
        self.ends: Int64Array = frozen(self._whole("edges", ends).reshape(-1, 2))
        self.tables: Int64Array = frozen(self._whole("edge costs", tables))
        self._check_nodes()
        self.table_offsets: Int64Array = frozen(self._check_edges())

    def _fail(self, what: str) -> ProblemError:
        return ProblemError(f"sharding problem {shown(self.name)}: {what}")

    def _whole(self, what: str, values: npt.ArrayLike) -> Int64Array:
        """A copy of whole numbers that are not negative."""
        try:
            found = np.array(values)
            if found.size and found.dtype.kind not in "iu":
                raise TypeError
            whole = found.astype(np.int64, casting="same_kind") if found.dtype.kind == "i" else found.astype(np.int64)
        except (OverflowError, TypeError, ValueError):
            raise self._fail(f"{what}: not whole numbers from 0 to {LARGEST}") from None
        if whole.size and whole.min() < 0:  # also numbers from 2^63 on, in an unsigned array
            raise self._fail(f"{what}: not whole numbers from 0 to {LARGEST}")
        return np.ascontiguousarray(whole.reshape(-1))

    def _check_nodes(self) -> None:
        offsets, strategies = self.offsets, len(self.costs)
        if len(offsets) < 2 or offsets[0] or offsets[-1] != strategies or len(self.usages) != strategies:
            raise self._fail(f"{strategies} costs and {len(self.usages)} usages do not fit the offsets of the nodes")
        if (short := np.flatnonzero(np.diff(offsets) < 1)).size:
            raise self._fail(f"node {short[0]} has no strategies")
        if len(self.intervals) != self.nodes:
            raise self._fail(f"{len(self.intervals)} intervals for {self.nodes} nodes")
        if (wrong := np.flatnonzero(self.intervals[:, 1] < self.intervals[:, 0])).size:
            low, high = self.intervals[wrong[0]]
            raise self._fail(f"node {wrong[0]}: its interval [{low}, {high}] ends before it begins")

    def _check_edges(self) -> Int64Array:
        """Offsets of the tables."""
        ends = self.ends
        if (wrong := np.flatnonzero((ends >= self.nodes).any(axis=1))).size:
            raise self._fail(f"edge {wrong[0]} joins nodes {shown(ends[wrong[0]].tolist())} of {self.nodes}")
        if (wrong := np.flatnonzero(ends[:, 0] == ends[:, 1])).size:
            raise self._fail(f"edge {wrong[0]} joins node {ends[wrong[0], 0]} to itself")
        widths = self.widths
        sizes = widths[ends[:, 0]].astype(np.float64) * widths[ends[:, 1]]
        if sizes.sum() != len(self.tables):
            raise self._fail(f"the tables of edges have {len(self.tables)} entries in all, expected {sizes.sum():.0f}")
        return np.concatenate([[0], np.cumsum(sizes.astype(np.int64))])

    @classmethod
    def from_lists(
        cls,
        costs: Sequence[npt.ArrayLike],
        usages: Sequence[npt.ArrayLike],
        intervals: npt.ArrayLike,
        ends: npt.ArrayLike = (),
        tables: Sequence[npt.ArrayLike] = (),
        **options: Any,
    ) -> ShardingProblem:
        """Build a problem from one row for each node and one table for each edge.

        Args:
            costs, usages: for each node, those of its strategies.
            intervals: [n, 2].
            ends: [m, 2].
            tables: for each edge, [p, q] or [p * q] costs of the pairs of its nodes' strategies.
            options: ``limit``, ``name`` and ``unit``.

        Raises:
            ProblemError: as for the class; also rows of different lengths.

        >>> problem = ShardingProblem.from_lists(
        ...     [[3, 1], [2, 2]], [[1, 5], [1, 1]], [[0, 2], [1, 3]], [[0, 1]], [[[0, 9], [9, 0]]], limit=6
        ... )
        >>> problem
        ShardingProblem('sharding', 2 nodes, 1 edge, 4 strategies)
        """
        name = options.get("name", "sharding")
        joined = []
        for what, rows in (("costs", costs), ("usages", usages), ("edge costs", tables)):
            try:
                joined.append([np.asarray(row).reshape(-1) for row in rows])
            except ValueError as error:
                raise ProblemError(f"sharding problem {shown(name)}: {what} are not rows of numbers") from error
        try:
            check_rows(
                [len(row) for row in joined[0]], [len(row) for row in joined[1]], ends, list(map(len, joined[2]))
            )
        except ValueError as error:
            raise ProblemError(f"sharding problem {shown(name)}: {error}") from error
        flat = [np.concatenate(rows) if rows else np.zeros(0, np.int64) for rows in joined]
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in joined[0]], dtype=np.int64)])
        return cls(offsets, flat[0], flat[1], intervals, ends, flat[2], **options)

    @property
    def nodes(self) -> int:
        """Number of nodes, n."""
        return len(self.offsets) - 1

    @property
    def edges(self) -> int:
        """Number of edges, m."""
        return len(self.ends)

    @cached_property
    def widths(self) -> Int64Array:
        """[n] number of strategies of each node."""
        return frozen(np.diff(self.offsets))

    @cached_property
    def profile_order(self) -> tuple[Int64Array, IntArray, Int64Array]:
        """How a profile of memory is summed.

        Returns:
            [t] times at which usage changes, in order; [2n] begins (v) and ends (n + v) of intervals in order of time;
            and [t] index in that order of the last change at each time.
        """
        moments = self.intervals.T.reshape(-1)
        order = np.argsort(moments, kind="stable")
        last = np.flatnonzero(np.diff(moments[order], append=LARGEST) > 0)
        if self.nodes and moments[order[-1]] == LARGEST:
            last = np.append(last, len(order) - 1)
        return frozen(moments[order][last]), frozen(order.astype(np.int32)), frozen(last.astype(np.int64))

    @cached_property
    def wide(self) -> bool:
        """True if usages may add up to more than 64 bits hold."""
        return int(np.maximum.reduceat(self.usages, self.offsets[:-1]).astype(object).sum()) > LARGEST

    def __repr__(self) -> str:
        edges = f"{self.edges} edge{'s' if self.edges != 1 else ''}"
        return f"ShardingProblem({shown(self.name)}, {self.nodes} nodes, {edges}, {len(self.costs)} strategies)"


def check_rows(costs: Sequence[int], usages: Sequence[int], ends: npt.ArrayLike, tables: Sequence[int]) -> None:
    """Compare the lengths of rows.

    Args:
        costs, usages: for each node, numbers of its costs and usages.
        ends: [m, 2] as they were given; loops and edges that are out of range are left to others.
        tables: for each edge, number of entries of its table.

    Raises:
        ValueError: the message names the node or the edge.
    """
    for v, (row, other) in enumerate(zip(costs, usages, strict=False)):
        if row != other:
            raise ValueError(f"node {v} has {row} costs and {other} usages")
    pairs = np.asarray(ends)
    if pairs.shape != (len(tables), 2) or pairs.dtype.kind not in "iu" or not len(costs):
        return
    widths = np.array(costs, np.int64)
    inside = ((pairs >= 0) & (pairs < len(widths))).all(axis=1) & (pairs[:, 0] != pairs[:, 1])
    expected = widths[np.where(inside[:, None], pairs, 0)].prod(axis=1)
    wrong = np.flatnonzero(inside & (expected != np.array(tables, np.int64)))
    if wrong.size:
        e = int(wrong[0])
        raise ValueError(f"edge {e}: its table has {tables[e]} entries, expected {expected[e]}")
