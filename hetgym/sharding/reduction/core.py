"""The arrays that reductions work on: nodes, edges, and where the nodes of the original problem went."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetgym._kernels.jit import jit
from hetgym._types import BoolArray, Int64Array

FORBIDDEN = 1 << 60
"""Cost of a pair of strategies, or of a strategy, that must not be chosen; every sum of others is smaller."""


@dataclass
class Core:
    """What is left of a sharding problem.

    ``costs`` may be negative once tables are folded into them. ``owner`` and ``maps`` lead back: strategy s of node i
    means strategy ``maps[map_offsets[v] + s]`` of every original node v with ``owner[v] == i``. An original node
    without an owner has a single strategy left.
    """

    offsets: Int64Array  # [n + 1]
    costs: Int64Array  # [s]
    ends: Int64Array  # [m, 2]
    table_offsets: Int64Array  # [m + 1]
    tables: Int64Array
    owner: Int64Array  # [original nodes]
    map_offsets: Int64Array  # [original nodes]
    maps: Int64Array
    constant: int = 0  # cost of every choice, beside those of nodes and edges

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.offsets) - 1

    def incident(self) -> tuple[Int64Array, Int64Array]:
        """[n + 1] offsets, and the edges of each node."""
        return grouped(self.ends.reshape(-1), self.nodes, 2)

    def members(self) -> tuple[Int64Array, Int64Array]:
        """[n + 1] offsets, and the original nodes that follow each node."""
        kept = np.flatnonzero(self.owner >= 0)
        offsets, order = grouped(self.owner[kept], self.nodes)
        return offsets, kept[order]


def grouped(keys: Int64Array, count: int, share: int = 1) -> tuple[Int64Array, Int64Array]:
    """Positions of equal keys: [count + 1] offsets, and for each key its positions, divided by ``share``, in order."""
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(keys, minlength=count), out=offsets[1:])
    return offsets, np.argsort(keys, kind="stable") // share


def merged(core: Core, group: Int64Array, turn_offsets: Int64Array, turns: Int64Array) -> Core:
    """Merge nodes into groups, and edges that join the same groups.

    Args:
        group: [n] group of each node; groups are numbered by their first node.
        turn_offsets, turns: strategy s of a group means strategy ``turns[turn_offsets[v] + s]`` of its node v.
    """
    first = np.unique(group, return_index=True)[1]
    widths = np.diff(core.offsets)[first]
    offsets = np.concatenate([[0], np.cumsum(widths)])
    costs = np.zeros(offsets[-1], np.int64)
    _add_nodes(group, offsets, core.offsets, core.costs, turn_offsets, turns, costs)
    if not len(core.ends):
        ends, table_offsets, tables = core.ends, core.table_offsets, core.tables
    else:
        low, high = group[core.ends].min(axis=1), group[core.ends].max(axis=1)
        inside = low == high
        keys, target = np.unique(low[~inside] * len(first) + high[~inside], return_inverse=True)
        ends = np.stack([keys // len(first), keys % len(first)], axis=1)
        table_offsets = np.concatenate([[0], np.cumsum(widths[ends[:, 0]] * widths[ends[:, 1]])])
        goal = np.full(len(core.ends), -1, np.int64)
        goal[~inside] = target
        tables = np.zeros(table_offsets[-1], np.int64)
        _add_tables(
            goal, table_offsets, tables, group, offsets, costs, core.ends, core.offsets, core.table_offsets,
            core.tables, turn_offsets, turns,
        )  # fmt: skip
    owner, map_offsets, maps = _followed(core, group, offsets, turn_offsets, turns)
    return Core(offsets, costs, ends, table_offsets, tables, owner, map_offsets, maps, core.constant)


def _followed(
    core: Core, group: Int64Array, offsets: Int64Array, turn_offsets: Int64Array, turns: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Owners and maps of the original nodes once groups own them."""
    owned = core.owner >= 0
    owner = np.where(owned, group[core.owner], -1)
    widths = np.where(owned, np.diff(offsets)[owner], 1)
    map_offsets = np.cumsum(widths) - widths
    maps = np.empty(widths.sum(), np.int64)
    _compose(core.owner, core.map_offsets, core.maps, turn_offsets, turns, map_offsets, widths, maps)
    return owner, map_offsets, maps


def restricted(core: Core, alive: BoolArray) -> Core:
    """Remove the strategies that are not alive; every node keeps at least one."""
    if alive.all():
        return core
    count = np.concatenate([[0], np.cumsum(alive)])
    offsets = count[core.offsets]
    kept = np.flatnonzero(alive)
    turns = kept - np.repeat(core.offsets[:-1], np.diff(offsets))
    widths = np.diff(offsets)
    table_offsets = np.concatenate([[0], np.cumsum(widths[core.ends[:, 0]] * widths[core.ends[:, 1]])])
    tables = np.empty(table_offsets[-1], np.int64)
    _copy_tables(core.ends, core.offsets, core.table_offsets, core.tables, offsets, turns, table_offsets, tables)
    nodes = np.arange(core.nodes)
    owner, map_offsets, maps = _followed(core, nodes, offsets, offsets[:-1], turns)
    return Core(offsets, core.costs[kept], core.ends, table_offsets, tables, owner, map_offsets, maps, core.constant)


@jit
def _add_nodes(
    group: Int64Array,
    offsets: Int64Array,
    old_offsets: Int64Array,
    old_costs: Int64Array,
    turn_offsets: Int64Array,
    turns: Int64Array,
    costs: Int64Array,
) -> None:
    for v in range(len(group)):
        g = group[v]
        for s in range(offsets[g + 1] - offsets[g]):
            costs[offsets[g] + s] = add(costs[offsets[g] + s], old_costs[old_offsets[v] + turns[turn_offsets[v] + s]])


@jit
def add(one: int, other: int) -> int:
    """The sum of two costs; what is forbidden stays so."""
    return FORBIDDEN if one >= FORBIDDEN or other >= FORBIDDEN else one + other


@jit
def across(offsets: Int64Array, ends: Int64Array, e: int, v: int) -> tuple[int, int, int, int]:
    """The other node of an edge, its number of strategies, and the strides of this and of that node in the table."""
    if ends[e, 0] == v:
        w = ends[e, 1]
        other = offsets[w + 1] - offsets[w]
        return w, other, other, 1
    w = ends[e, 0]
    return w, offsets[w + 1] - offsets[w], 1, offsets[v + 1] - offsets[v]


@jit
def _add_tables(
    goal: Int64Array,
    table_offsets: Int64Array,
    tables: Int64Array,
    group: Int64Array,
    offsets: Int64Array,
    costs: Int64Array,
    ends: Int64Array,
    old_offsets: Int64Array,
    old_table_offsets: Int64Array,
    old: Int64Array,
    turn_offsets: Int64Array,
    turns: Int64Array,
) -> None:
    """Add each table to that of its goal, or to the costs of the group that holds both of its nodes."""
    for e in range(len(ends)):
        u, v = ends[e]
        q = old_offsets[v + 1] - old_offsets[v]
        table = old[old_table_offsets[e] : old_table_offsets[e + 1]]
        gu, gv = group[u], group[v]
        to_u, to_v = turns[turn_offsets[u] :], turns[turn_offsets[v] :]
        p = offsets[gu + 1] - offsets[gu]
        if goal[e] < 0:
            for s in range(p):
                costs[offsets[gu] + s] = add(costs[offsets[gu] + s], table[to_u[s] * q + to_v[s]])
            continue
        target = tables[table_offsets[goal[e]] : table_offsets[goal[e] + 1]]
        r = offsets[gv + 1] - offsets[gv]
        for s in range(p):
            row = to_u[s] * q
            for t in range(r):
                at = s * r + t if gu < gv else t * p + s
                target[at] = add(target[at], table[row + to_v[t]])


@jit
def _compose(
    owner: Int64Array,
    map_offsets: Int64Array,
    maps: Int64Array,
    turn_offsets: Int64Array,
    turns: Int64Array,
    new_offsets: Int64Array,
    widths: Int64Array,
    new_maps: Int64Array,
) -> None:
    for v in range(len(owner)):
        old, new = map_offsets[v], new_offsets[v]
        if owner[v] < 0:
            new_maps[new] = maps[old]
        else:
            start = turn_offsets[owner[v]]
            for s in range(widths[v]):
                new_maps[new + s] = maps[old + turns[start + s]]


@jit
def _copy_tables(
    ends: Int64Array,
    old_offsets: Int64Array,
    old_table_offsets: Int64Array,
    old: Int64Array,
    offsets: Int64Array,
    turns: Int64Array,
    table_offsets: Int64Array,
    tables: Int64Array,
) -> None:
    for e in range(len(ends)):
        u, v = ends[e]
        q = old_offsets[v + 1] - old_offsets[v]
        at = table_offsets[e]
        for s in turns[offsets[u] : offsets[u + 1]]:
            row = old_table_offsets[e] + s * q
            for t in turns[offsets[v] : offsets[v + 1]]:
                tables[at] = old[row + t]
                at += 1
