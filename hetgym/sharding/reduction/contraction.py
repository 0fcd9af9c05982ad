"""Contraction: nodes that follow another one, because each strategy has exactly one allowed partner there, merge."""

from __future__ import annotations

import numpy as np

from hetgym._kernels.jit import jit
from hetgym._types import BoolArray, Int64Array
from hetgym.sharding.reduction.core import FORBIDDEN, Core, merged


def contracted(core: Core) -> Core:
    """Merge all nodes that are joined by edges whose allowed pairs are a bijection; the same core if there are none."""
    partner, follows = _bijections(core.offsets, core.ends, core.table_offsets, core.tables)
    if not follows.any():
        return core
    offsets, incident = core.incident()
    group, turns = _groups(core.offsets, core.ends, offsets, incident, follows, core.table_offsets, partner)
    return merged(core, group, core.offsets[:-1], turns)


@jit
def _bijections(
    offsets: Int64Array, ends: Int64Array, table_offsets: Int64Array, tables: Int64Array
) -> tuple[Int64Array, BoolArray]:
    """Partners of both nodes' strategies where they are unique on both sides, at the edge's place; [m] whether."""
    partner = np.empty(len(tables) + 1, np.int64)
    follows = np.zeros(len(ends), np.bool_)
    for e in range(len(ends)):
        u, v = ends[e]
        p, q = offsets[u + 1] - offsets[u], offsets[v + 1] - offsets[v]
        if p != q or p == 1:
            continue
        at = table_offsets[e]
        unique = True
        for s in range(p):
            found = -1
            for t in range(q):
                if tables[at + s * q + t] < FORBIDDEN:
                    unique &= found < 0
                    found = t
            partner[at + s] = found
            unique &= found >= 0
        for s in range(p):
            for r in range(s):
                unique &= partner[at + s] != partner[at + r]
            if not unique:
                break
        follows[e] = unique
    return partner, follows


@jit
def _groups(
    offsets: Int64Array,
    ends: Int64Array,
    incident_offsets: Int64Array,
    incident: Int64Array,
    follows: BoolArray,
    table_offsets: Int64Array,
    partner: Int64Array,
) -> tuple[Int64Array, Int64Array]:
    """Group of each node, and which of its strategies each strategy of the group's first node means."""
    n = len(offsets) - 1
    group = np.full(n, -1, np.int64)
    turns = np.empty(offsets[n], np.int64)
    queue = np.empty(n, np.int64)
    groups = 0
    for root in range(n):
        if group[root] >= 0:
            continue
        group[root] = groups
        for s in range(offsets[root + 1] - offsets[root]):
            turns[offsets[root] + s] = s
        head, tail = 0, 1
        queue[0] = root
        while head < tail:
            v = queue[head]
            head += 1
            for i in range(incident_offsets[v], incident_offsets[v + 1]):
                e = incident[i]
                second = ends[e, 0] != v
                w = ends[e, 0] if second else ends[e, 1]
                if not follows[e] or group[w] >= 0:
                    continue
                group[w] = groups
                width = offsets[w + 1] - offsets[w]
                pairs = partner[table_offsets[e] : table_offsets[e] + width]
                for s in range(width):
                    mine = turns[offsets[v] + s]
                    if second:
                        for t in range(width):
                            if pairs[t] == mine:
                                turns[offsets[w] + s] = t
                    else:
                        turns[offsets[w] + s] = pairs[mine]
                queue[tail] = w
                tail += 1
        groups += 1
    return group, turns
