"""Arc consistency: strategies without an allowed partner on some edge go, until every strategy has one on each.

Mohr & Henderson, Artificial Intelligence 28(2), 1986: each strategy counts its partners, and a strategy that goes
lowers the counts of its partners only, so the work is that of reading every table twice.
"""

from __future__ import annotations

import numpy as np

from hetgym._kernels.jit import jit
from hetgym._types import BoolArray, Int64Array
from hetgym.sharding.reduction.core import FORBIDDEN, Core


def supported(core: Core) -> BoolArray:
    """[s] True for strategies that may be part of an allowed choice; a node without any has none."""
    offsets, incident = core.incident()
    widths = np.diff(core.offsets)
    sides = widths[core.ends].reshape(-1)
    counts = np.concatenate([[0], np.cumsum(sides)])
    alive: BoolArray = _supported(
        core.offsets, core.costs, core.ends, core.table_offsets, core.tables, offsets, incident, counts
    )
    return alive


@jit
def _supported(
    offsets: Int64Array,
    costs: Int64Array,
    ends: Int64Array,
    table_offsets: Int64Array,
    tables: Int64Array,
    incident_offsets: Int64Array,
    incident: Int64Array,
    sides: Int64Array,
) -> BoolArray:
    """``sides[2e]`` and ``sides[2e + 1]`` are where the counts of the two nodes of edge e begin."""
    count = np.zeros(sides[-1], np.int32)
    for e in range(len(ends)):
        p, q = sides[2 * e + 1] - sides[2 * e], sides[2 * e + 2] - sides[2 * e + 1]
        for s in range(p):
            for t in range(q):
                if tables[table_offsets[e] + s * q + t] < FORBIDDEN:
                    count[sides[2 * e] + s] += 1
                    count[sides[2 * e + 1] + t] += 1
    alive = np.ones(len(costs), np.bool_)
    gone, of_node = np.empty(len(costs), np.int64), np.empty(len(costs), np.int64)
    waiting = 0
    for v in range(len(offsets) - 1):
        for s in range(offsets[v], offsets[v + 1]):
            dead = costs[s] >= FORBIDDEN
            for i in range(incident_offsets[v], incident_offsets[v + 1]):
                e = incident[i]
                side = sides[2 * e + (ends[e, 0] != v)]
                dead |= count[side + s - offsets[v]] == 0
            if dead:
                alive[s] = False
                gone[waiting], of_node[waiting] = s, v
                waiting += 1
    while waiting > 0:
        waiting -= 1
        v, s = of_node[waiting], gone[waiting] - offsets[of_node[waiting]]
        for i in range(incident_offsets[v], incident_offsets[v + 1]):
            e = incident[i]
            second = ends[e, 0] != v
            w = ends[e, 0] if second else ends[e, 1]
            q = sides[2 * e + 2] - sides[2 * e + 1]
            side = sides[2 * e] if second else sides[2 * e + 1]
            for t in range(offsets[w + 1] - offsets[w]):
                at = t * q + s if second else s * q + t
                if tables[table_offsets[e] + at] < FORBIDDEN:
                    count[side + t] -= 1
                    if count[side + t] == 0 and alive[offsets[w] + t]:
                        alive[offsets[w] + t] = False
                        gone[waiting], of_node[waiting] = offsets[w] + t, w
                        waiting += 1
    return alive
