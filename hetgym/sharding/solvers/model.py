"""A reduced problem as kernels read it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._kernels.jit import jit
from hetgym._kernels.records import record
from hetgym._types import FloatArray, Int64Array
from hetgym.sharding.reduction import Reduced
from hetgym.sharding.reduction.core import FORBIDDEN, grouped

HIGH = float(FORBIDDEN >> 1)
"""Costs from here on have a forbidden pair in them. A float holds them to 64 units, all others up to 2^53 exactly."""


@record
class Model(NamedTuple):
    """Nodes and edges of a reduced problem, and the memory of its strategies.

    The first node of an edge has the lower number, and edges are in order of their first nodes.
    """

    offsets: Int64Array  # [n + 1] strategies of each node
    costs: FloatArray  # [s]
    ends: Int64Array  # [m, 2]
    first: Int64Array  # [n + 1] the edges of which a node is the first
    second_offsets: Int64Array  # [n + 1] the edges of which a node is the second ...
    second: Int64Array  # [m] ... which are these
    table_offsets: Int64Array  # [m + 1]
    tables: FloatArray  # the second node's strategy runs fastest
    turned: FloatArray  # the first node's strategy runs fastest
    sides: Int64Array  # [2 m + 1] offsets of what an edge keeps for each strategy of its first and of its second node
    slack: Int64Array  # [t] memory that is left at each time
    row_offsets: Int64Array  # [n + 1] rows of each node, as in hetgym.sharding.reduction.memory.Memory
    begins: Int64Array  # [j]
    ends_of_rows: Int64Array  # [j]
    usage_offsets: Int64Array  # [j]
    usages: Int64Array


def model_of(reduced: Reduced) -> Model:
    """The model of a reduced problem."""
    core, memory = reduced.core, reduced.memory
    m = len(core.ends)
    first = np.concatenate([[0], np.cumsum(np.bincount(core.ends[:, 0], minlength=core.nodes))]).astype(np.int64)
    second_offsets, second = grouped(core.ends[:, 1], core.nodes)
    widths = np.diff(core.offsets)
    sides = np.concatenate([[0], np.cumsum(widths[core.ends].reshape(-1))]).astype(np.int64)
    tables = core.tables.astype(np.float64)
    turned = np.empty(len(tables))
    _turn(core.ends, core.offsets, core.table_offsets, tables, turned)
    assert (np.diff(core.ends[:, 0]) >= 0).all() and (core.ends[:, 0] < core.ends[:, 1]).all()
    return Model(
        core.offsets, core.costs.astype(np.float64), core.ends.reshape(m, 2), first, second_offsets, second,
        core.table_offsets, tables, turned, sides, memory.slack, memory.offsets, memory.begins, memory.ends,
        memory.usage_offsets, memory.usages,
    )  # fmt: skip


@jit
def _turn(
    ends: Int64Array, offsets: Int64Array, table_offsets: Int64Array, tables: FloatArray, turned: FloatArray
) -> None:
    for e in range(len(ends)):
        p, q = offsets[ends[e, 0] + 1] - offsets[ends[e, 0]], offsets[ends[e, 1] + 1] - offsets[ends[e, 1]]
        for s in range(p):
            for t in range(q):
                turned[table_offsets[e] + t * p + s] = tables[table_offsets[e] + s * q + t]


@jit
def cost_of(model: Model, choice: Int64Array) -> float:
    """Cost of a choice, beside the constant; at least HIGH if a pair is forbidden."""
    total = 0.0
    for v in range(len(model.offsets) - 1):
        total += model.costs[model.offsets[v] + choice[v]]
    for e in range(len(model.ends)):
        u, v = model.ends[e, 0], model.ends[e, 1]
        width = model.offsets[v + 1] - model.offsets[v]
        total += model.tables[model.table_offsets[e] + choice[u] * width + choice[v]]
    return total


@jit
def add_usage(model: Model, choice: Int64Array, used: Int64Array) -> None:
    """[t] memory that a choice takes beyond the least; `used` has one more entry than there are times."""
    for t in range(len(used)):
        used[t] = 0
    for v in range(len(model.offsets) - 1):
        for j in range(model.row_offsets[v], model.row_offsets[v + 1]):
            usage = model.usages[model.usage_offsets[j] + choice[v]]
            used[model.begins[j]] += usage
            used[model.ends_of_rows[j]] -= usage
    for t in range(1, len(used)):
        used[t] += used[t - 1]


@jit
def fits(used: Int64Array, slack: Int64Array) -> bool:
    """True if no more is used than there is at any time."""
    enough = True
    for t in range(len(slack)):
        enough &= used[t] <= slack[t]
    return enough


@jit
def priced(model: Model, prices: FloatArray, share: float, theta: FloatArray) -> None:
    """Costs of strategies with the memory that they take, at a share of the prices.

    Args:
        prices: [t + 1] sums of the prices at all earlier times.
    """
    for v in range(len(model.offsets) - 1):
        low, high = model.offsets[v], model.offsets[v + 1]
        for s in range(low, high):
            theta[s] = model.costs[s]
        if share > 0.0:
            for j in range(model.row_offsets[v], model.row_offsets[v + 1]):
                price = share * (prices[model.ends_of_rows[j]] - prices[model.begins[j]])
                if price > 0.0:
                    at = model.usage_offsets[j]
                    for s in range(high - low):
                        theta[low + s] += price * model.usages[at + s]


@jit
def add_row(value: FloatArray, low: int, width: int, table: FloatArray, at: int) -> None:
    """Add a row of a table to the values of a node's strategies, which begin at `low`."""
    for s in range(width):
        value[low + s] += table[at + s]


@jit
def lowest(value: FloatArray, low: int, width: int) -> int:
    """The first of a node's strategies with the least value."""
    best = 0
    for s in range(1, width):
        if value[low + s] < value[low + best]:
            best = s
    return best
