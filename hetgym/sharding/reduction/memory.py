"""Memory over time, for nodes that stand for many: only the times at which the limit can be exceeded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hetgym._kernels.jit import jit
from hetgym._types import BoolArray, Int64Array
from hetgym.sharding.problem import ShardingProblem
from hetgym.sharding.reduction.core import Core


@dataclass(frozen=True, eq=False)
class Memory:
    """Memory of strategies beyond the least that their nodes take, in rows.

    Row j belongs to one node, and lasts from time ``begins[j]`` up to, but not including, ``ends[j]``. Strategy s of
    the node takes ``usages[usage_offsets[j] + s]``. A choice fits if at every time its rows add up to no more than the
    slack.
    """

    slack: Int64Array  # [t] limit minus what every choice takes; negative if no choice fits
    moments: Int64Array  # [t] the original time of each
    offsets: Int64Array  # [n + 1] the rows of each node
    begins: Int64Array  # [j]
    ends: Int64Array  # [j]
    usage_offsets: Int64Array  # [j]
    usages: Int64Array

    @property
    def times(self) -> int:
        """Number of times."""
        return len(self.slack)


def memory_of(problem: ShardingProblem, core: Core) -> Memory:
    """The memory that strategies of a core take, by the original nodes that follow them."""
    _, members = core.members()
    owner = core.owner[members]
    extent = _extent(members, core.owner, core.offsets, core.map_offsets, core.maps, problem.usages, problem.offsets)
    moments, slack = _tight(problem, core, members, extent)
    begins, ends = problem.intervals[members].T
    begins, ends = (np.searchsorted(moments, times) for times in problem.intervals[members].T)
    rows = np.flatnonzero((ends > begins) & (extent[:, 1] > extent[:, 0]))
    widths = np.diff(core.offsets)[owner[rows]]
    usage_offsets = np.concatenate([[0], np.cumsum(widths)])
    usages = np.empty(usage_offsets[-1], np.int64)
    _excess(
        members[rows], extent[rows, 0], core.map_offsets, core.maps, problem.usages, problem.offsets,
        usage_offsets, usages,
    )  # fmt: skip
    places = zip(owner[rows].tolist(), begins[rows].tolist(), ends[rows].tolist(), strict=True)
    found = _added(zip(places, [usages[low:high] for low, high in pairwise(usage_offsets.tolist())], strict=True))
    while True:
        count = len(found)
        found = _joined(found)
        begun, ended = (np.array(sorted(place[k] for place in found), np.int64) for k in (1, 2))
        kept = _needed(begun, ended, slack)
        if kept.all() and len(found) == count:
            break
        moments, slack = moments[kept], slack[kept]
        number = np.concatenate([[0], np.cumsum(kept)]).tolist()
        moved = (((node, number[begin], number[end]), usage) for (node, begin, end), usage in found.items())
        found = _added((place, usage) for place, usage in moved if place[1] < place[2])
    ordered = sorted(found.items(), key=lambda item: item[0])
    table = np.array([place for place, _ in ordered], np.int64).reshape(-1, 3)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(table[:, 0], minlength=core.nodes))])
    usage_offsets = np.concatenate([[0], np.cumsum(np.diff(core.offsets)[table[:, 0]])])
    usages = np.concatenate([usage for _, usage in ordered]) if ordered else np.zeros(0, np.int64)
    return Memory(slack, moments, offsets, table[:, 1].copy(), table[:, 2].copy(), usage_offsets, usages)


Place = tuple[int, int, int]  # Node, begin and end of a row


def _added(rows: Iterable[tuple[Place, Int64Array]]) -> dict[Place, Int64Array]:
    """Rows of one place as their sum."""
    found: dict[Place, Int64Array] = {}
    for place, usage in rows:
        found[place] = found[place] + usage if place in found else usage
    return found


def _joined(rows: dict[Place, Int64Array]) -> dict[Place, Int64Array]:
    """Rows of one node with equal usage that follow each other as one."""
    begins: dict[tuple[int, int, bytes], list[tuple[int, Int64Array]]] = {}  # node, end and usage of rows
    for (node, begin, end), usage in sorted(rows.items(), key=lambda item: item[0][1]):
        key = usage.tobytes()
        before = begins.get((node, begin, key))
        first = before.pop()[0] if before else begin
        begins.setdefault((node, end, key), []).append((first, usage))
    return _added(((node, first, end), usage) for (node, end, _), found in begins.items() for first, usage in found)


def _tight(
    problem: ShardingProblem, core: Core, members: Int64Array, extent: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Times at which the limit may be exceeded, and what is left there once every node takes its least."""
    if problem.limit is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    alone = np.flatnonzero(core.owner < 0)
    low, high = np.zeros(problem.nodes, np.int64), np.zeros(problem.nodes, np.int64)
    low[members], high[members] = extent.T
    low[alone] = high[alone] = problem.usages[problem.offsets[alone] + core.maps[core.map_offsets[alone]]]
    moments, order, last = problem.profile_order
    least, most = (np.cumsum(np.concatenate([usage, -usage])[order])[last] for usage in (low, high))
    tight = most > problem.limit
    return moments[tight], problem.limit - least[tight]


@jit
def _needed(begins: Int64Array, ends: Int64Array, slack: Int64Array) -> BoolArray:
    """[t] False for times whose rows all last at a neighbouring time with no more slack; rows in order of time."""
    kept = np.ones(len(slack), np.bool_)
    times = np.arange(len(slack))
    begun, ended = np.searchsorted(begins, times, "right"), np.searchsorted(ends, times, "right")
    stack = np.empty(len(slack), np.int64)
    height = 0
    for t in range(len(slack)):
        while height > 0:
            before = stack[height - 1]
            if ended[t] == ended[before] and slack[before] >= slack[t]:
                kept[before] = False
                height -= 1
                continue
            if begun[t] == begun[before] and slack[t] >= slack[before]:
                kept[t] = False
            break
        if kept[t]:
            stack[height] = t
            height += 1
    return kept


@jit
def _extent(
    members: Int64Array,
    owner: Int64Array,
    offsets: Int64Array,
    map_offsets: Int64Array,
    maps: Int64Array,
    usages: Int64Array,
    usage_offsets: Int64Array,
) -> Int64Array:
    """[k, 2] least and most memory of each member."""
    found = np.empty((len(members), 2), np.int64)
    for k in range(len(members)):
        m = members[k]
        low, high = np.int64(2**63 - 1), np.int64(0)
        for s in range(offsets[owner[m] + 1] - offsets[owner[m]]):
            usage = usages[usage_offsets[m] + maps[map_offsets[m] + s]]
            low, high = min(low, usage), max(high, usage)
        found[k, 0], found[k, 1] = low, high
    return found


@jit
def _excess(
    members: Int64Array,
    least: Int64Array,
    map_offsets: Int64Array,
    maps: Int64Array,
    usages: Int64Array,
    usage_offsets: Int64Array,
    row_offsets: Int64Array,
    target: Int64Array,
) -> None:
    for j in range(len(members)):
        m = members[j]
        for s in range(row_offsets[j + 1] - row_offsets[j]):
            target[row_offsets[j] + s] = usages[usage_offsets[m] + maps[map_offsets[m] + s]] - least[j]
