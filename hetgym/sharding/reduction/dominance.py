"""Dominance: a strategy goes if another one of the node is never dearer, whatever its neighbours choose.

The other one must also take no more memory in any original node that follows, so every plan that fits still fits
after the exchange. Goldstein's criterion (Biophysical Journal 66, 1994), with memory.
"""

from __future__ import annotations

import numpy as np

from hetgym._kernels.jit import jit
from hetgym._types import BoolArray, Int64Array
from hetgym.sharding.reduction.core import FORBIDDEN, Core, across, add


def undominated(core: Core, usages: Int64Array, usage_offsets: Int64Array, counted: BoolArray) -> BoolArray:
    """[s] False for strategies that another one of the node replaces.

    Args:
        usages, usage_offsets: those of the original problem.
        counted: [original nodes] True for those whose memory matters.
    """
    offsets, incident = core.incident()
    member_offsets, members = core.members()
    alive: BoolArray = _undominated(
        core.offsets, core.costs, core.ends, core.table_offsets, core.tables, offsets, incident,
        member_offsets, members, core.map_offsets, core.maps, usages, usage_offsets, counted,
    )  # fmt: skip
    return alive


PROBES = 16  # Choices of all neighbours that are looked at before all choices are


@jit
def _probe(
    offsets: Int64Array,
    costs: Int64Array,
    ends: Int64Array,
    table_offsets: Int64Array,
    tables: Int64Array,
    incident_offsets: Int64Array,
    incident: Int64Array,
    v: int,
    probe: Int64Array,
) -> None:
    """Cost of each strategy of a node for some choices of its neighbours."""
    width = offsets[v + 1] - offsets[v]
    for k in range(PROBES):
        probe[k, :width] = costs[offsets[v] : offsets[v + 1]]
        for i in range(incident_offsets[v], incident_offsets[v + 1]):
            e = incident[i]
            w, other, stride, step = across(offsets, ends, e, v)
            at = table_offsets[e] + (k * other // PROBES + i) % other * step
            for s in range(width):
                probe[k, s] = add(probe[k, s], tables[at + s * stride])


@jit
def _dearer(probe: Int64Array, r: int, s: int) -> bool:
    """True if some choice makes strategy r dearer than s."""
    dearer = False
    for k in range(PROBES):
        dearer |= probe[k, r] > probe[k, s]
    return dearer


@jit
def _undominated(
    offsets: Int64Array,
    costs: Int64Array,
    ends: Int64Array,
    table_offsets: Int64Array,
    tables: Int64Array,
    incident_offsets: Int64Array,
    incident: Int64Array,
    member_offsets: Int64Array,
    members: Int64Array,
    map_offsets: Int64Array,
    maps: Int64Array,
    usages: Int64Array,
    usage_offsets: Int64Array,
    counted: BoolArray,
) -> BoolArray:
    alive = np.ones(len(costs), np.bool_)
    widest = 0
    for v in range(len(offsets) - 1):
        widest = max(widest, offsets[v + 1] - offsets[v])
    fits = np.empty((widest, widest), np.bool_)
    probe = np.empty((PROBES, widest), np.int64)
    for v in range(len(offsets) - 1):
        width = offsets[v + 1] - offsets[v]
        fits[:width, :width] = True
        for i in range(member_offsets[v], member_offsets[v + 1]):
            m = members[i]
            if counted[m]:
                turn, base = map_offsets[m], usage_offsets[m]
                for r in range(width):
                    usage = usages[base + maps[turn + r]]
                    for s in range(width):
                        if usage > usages[base + maps[turn + s]]:
                            fits[r, s] = False
        _probe(offsets, costs, ends, table_offsets, tables, incident_offsets, incident, v, probe)
        for s in range(width):
            for r in range(width):
                if r == s or not fits[r, s] or not alive[offsets[v] + r] or _dearer(probe, r, s):
                    continue
                excess = costs[offsets[v] + r] - costs[offsets[v] + s]
                for i in range(incident_offsets[v], incident_offsets[v + 1]):
                    e = incident[i]
                    w, other, stride, step = across(offsets, ends, e, v)
                    worst = -FORBIDDEN
                    for t in range(other):
                        if alive[offsets[w] + t]:
                            mine = tables[table_offsets[e] + s * stride + t * step]
                            if mine < FORBIDDEN:
                                worst = max(worst, tables[table_offsets[e] + r * stride + t * step] - mine)
                    excess = min(excess + worst, FORBIDDEN)
                    if excess >= FORBIDDEN // 2:
                        break
                if excess <= 0:
                    alive[offsets[v] + s] = False
                    break
    return alive
