"""TRW-S: sequential tree-reweighted message passing, which bounds a problem without memory from below.

Kolmogorov, IEEE TPAMI 28(10), 2006. Messages may start from anything, so those of other prices do.
"""

from __future__ import annotations

from hetgym._kernels.jit import jit
from hetgym._types import FloatArray, Int64Array
from hetgym.sharding.solvers.model import Model, add_row, lowest


@jit
def forward(model: Model, theta: FloatArray, messages: FloatArray, choice: Int64Array, scratch: FloatArray) -> None:
    """Send messages to later nodes, and choose for each node in turn what is cheapest given the nodes before it.

    Args:
        theta: [s] priced costs of strategies.
        messages: for each edge the message to its first node, then that to its second; they begin at ``model.sides``.
        choice: [n] for the result.
        scratch: [2 * widest node].
    """
    half = len(scratch) // 2
    for v in range(len(model.offsets) - 1):
        low, width = model.offsets[v], model.offsets[v + 1] - model.offsets[v]
        for s in range(width):
            scratch[s] = theta[low + s]
        for e in range(model.first[v], model.first[v + 1]):
            add_row(scratch, 0, width, messages, model.sides[2 * e])
        for s in range(width):
            scratch[half + s] = scratch[s]
        for i in range(model.second_offsets[v], model.second_offsets[v + 1]):
            e = model.second[i]
            add_row(scratch, 0, width, messages, model.sides[2 * e + 1])
            add_row(scratch, half, width, model.tables, model.table_offsets[e] + choice[model.ends[e, 0]] * width)
        choice[v] = lowest(scratch, half, width)
        ahead, behind = model.first[v + 1] - model.first[v], model.second_offsets[v + 1] - model.second_offsets[v]
        share = 1.0 / max(ahead, behind, 1)
        for e in range(model.first[v], model.first[v + 1]):
            for s in range(width):
                scratch[half + s] = share * scratch[s] - messages[model.sides[2 * e] + s]
            send(
                scratch,
                half,
                width,
                model.tables,
                model.table_offsets[e],
                messages,
                model.sides[2 * e + 1],
                model.sides[2 * e + 2],
            )


@jit
def backward(model: Model, theta: FloatArray, messages: FloatArray, scratch: FloatArray) -> float:
    """Send messages to earlier nodes; the bound, arguments as for :func:`forward`."""
    half, bound = len(scratch) // 2, 0.0
    for v in range(len(model.offsets) - 2, -1, -1):
        low, width = model.offsets[v], model.offsets[v + 1] - model.offsets[v]
        for s in range(width):
            scratch[s] = theta[low + s]
        for e in range(model.first[v], model.first[v + 1]):
            add_row(scratch, 0, width, messages, model.sides[2 * e])
        for i in range(model.second_offsets[v], model.second_offsets[v + 1]):
            add_row(scratch, 0, width, messages, model.sides[2 * model.second[i] + 1])
        least = scratch[lowest(scratch, 0, width)]
        bound += least
        ahead, behind = model.first[v + 1] - model.first[v], model.second_offsets[v + 1] - model.second_offsets[v]
        share = 1.0 / max(ahead, behind, 1)
        for i in range(model.second_offsets[v], model.second_offsets[v + 1]):
            e = model.second[i]
            for s in range(width):
                scratch[half + s] = share * (scratch[s] - least) - messages[model.sides[2 * e + 1] + s]
            bound += send(
                scratch,
                half,
                width,
                model.turned,
                model.table_offsets[e],
                messages,
                model.sides[2 * e],
                model.sides[2 * e + 1],
            )
    return bound


@jit
def send(
    mine: FloatArray, low: int, width: int, table: FloatArray, at: int, messages: FloatArray, begin: int, end: int
) -> float:
    """Write the message that a node sends over an edge, less its least entry, which is returned.

    Args:
        mine: what the node has to say about its own strategies, from `low` on.
        table: that of the edge from `at` on, with the receiver's strategies running fastest.
        messages: the message is written from `begin` to `end`.
    """
    q = end - begin
    for t in range(q):
        messages[begin + t] = mine[low] + table[at + t]
    for s in range(1, width):
        value, row = mine[low + s], at + s * q
        for t in range(q):
            cost = value + table[row + t]
            messages[begin + t] = cost if cost < messages[begin + t] else messages[begin + t]
    least = float(messages[begin])
    for t in range(begin + 1, end):
        least = messages[t] if messages[t] < least else least
    for t in range(begin, end):
        messages[t] -= least
    return least
