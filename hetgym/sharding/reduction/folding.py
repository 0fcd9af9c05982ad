"""Folding: nodes with one strategy, and tables that are a row term plus a column term, become costs of other nodes."""

from __future__ import annotations

import numpy as np

from hetgym._kernels.jit import jit
from hetgym._types import BoolArray, Int64Array
from hetgym.sharding.reduction.core import FORBIDDEN, Core


def folded(core: Core) -> Core:
    """Remove such tables, then the nodes with one strategy; the same core if there are none."""
    costs = core.costs.copy()
    kept = _fold_tables(core.offsets, core.ends, core.table_offsets, core.tables, costs)
    single = np.diff(core.offsets) == 1
    if kept.all() and not single.any():
        return core
    sizes = np.diff(core.table_offsets)
    tables = core.tables[np.repeat(kept, sizes)]
    table_offsets = np.concatenate([[0], np.cumsum(sizes[kept])])
    number = np.cumsum(~single) - 1
    number[single] = -1
    widths = np.diff(core.offsets)[~single]
    owner = np.where(core.owner >= 0, number[core.owner], -1)
    return Core(
        np.concatenate([[0], np.cumsum(widths)]),
        costs[np.repeat(~single, np.diff(core.offsets))],
        number[core.ends[kept]],
        table_offsets,
        tables,
        owner,
        core.map_offsets,
        core.maps,
        core.constant + int(costs[core.offsets[:-1][single]].sum()),
    )


@jit
def _fold_tables(
    offsets: Int64Array, ends: Int64Array, table_offsets: Int64Array, tables: Int64Array, costs: Int64Array
) -> BoolArray:
    """[m] False for tables that are the sum of a term for each row and one for each column, which costs then hold."""
    kept = np.ones(len(ends), np.bool_)
    for e in range(len(ends)):
        u, v = ends[e]
        p, q = offsets[u + 1] - offsets[u], offsets[v + 1] - offsets[v]
        table = tables[table_offsets[e] : table_offsets[e + 1]]
        modular = True
        for at in range(p * q):
            modular &= table[at] < FORBIDDEN
        for s in range(1, p):
            difference = table[s * q] - table[0]
            for t in range(1, q):
                modular &= table[s * q + t] - table[t] == difference
            if not modular:
                break
        if modular:
            kept[e] = False
            for s in range(p):
                costs[offsets[u] + s] += table[s * q]
            for t in range(q):
                costs[offsets[v] + t] += table[t] - table[0]
    return kept
