"""TRW-S: sequential tree-reweighted message passing, which bounds a problem without memory from below.

Kolmogorov, IEEE TPAMI 28(10), 2006. Messages may start from anything, so those of other prices do.
"""

from __future__ import annotations

from hetgym._kernels.jit import jit


@jit
def forward(model, theta, messages, choice, scratch):  # type: ignore[no-untyped-def]
    """Send messages to later nodes, and choose for each node in turn what is cheapest given the nodes before it.

    Args:
        theta: [s] priced costs of strategies.
        messages: what edges keep, at ``model.sides``: the message to the first node, and that to the second.
        choice: [n] for the result.
        scratch: [2, widest node].
    """
    for v in range(len(model.offsets) - 1):
        low = model.offsets[v]
        width = model.offsets[v + 1] - low
        total, mine = scratch[0, :width], scratch[1, :width]
        total[:] = theta[low : low + width]
        for e in range(model.first[v], model.first[v + 1]):
            total += messages[model.sides[2 * e] : model.sides[2 * e + 1]]
        mine[:] = total
        for i in range(model.second_offsets[v], model.second_offsets[v + 1]):
            e = model.second[i]
            total += messages[model.sides[2 * e + 1] : model.sides[2 * e + 2]]
            at = model.table_offsets[e] + choice[model.ends[e, 0]] * width
            mine += model.tables[at : at + width]
        choice[v] = mine.argmin()
        ahead, behind = model.first[v + 1] - model.first[v], model.second_offsets[v + 1] - model.second_offsets[v]
        total /= max(ahead, behind, 1)
        for e in range(model.first[v], model.first[v + 1]):
            mine[:] = total
            mine -= messages[model.sides[2 * e] : model.sides[2 * e + 1]]
            send(
                mine,
                model.tables[model.table_offsets[e] : model.table_offsets[e + 1]],
                messages[model.sides[2 * e + 1] : model.sides[2 * e + 2]],
            )


@jit
def backward(model, theta, messages, scratch):  # type: ignore[no-untyped-def]
    """Send messages to earlier nodes; the bound, arguments as for :func:`forward`."""
    bound = 0.0
    for v in range(len(model.offsets) - 2, -1, -1):
        low = model.offsets[v]
        width = model.offsets[v + 1] - low
        total, mine = scratch[0, :width], scratch[1, :width]
        total[:] = theta[low : low + width]
        for e in range(model.first[v], model.first[v + 1]):
            total += messages[model.sides[2 * e] : model.sides[2 * e + 1]]
        for i in range(model.second_offsets[v], model.second_offsets[v + 1]):
            e = model.second[i]
            total += messages[model.sides[2 * e + 1] : model.sides[2 * e + 2]]
        least = total.min()
        bound += least
        total -= least
        ahead, behind = model.first[v + 1] - model.first[v], model.second_offsets[v + 1] - model.second_offsets[v]
        total /= max(ahead, behind, 1)
        for i in range(model.second_offsets[v], model.second_offsets[v + 1]):
            e = model.second[i]
            mine[:] = total
            mine -= messages[model.sides[2 * e + 1] : model.sides[2 * e + 2]]
            bound += send(
                mine,
                model.turned[model.table_offsets[e] : model.table_offsets[e + 1]],
                messages[model.sides[2 * e] : model.sides[2 * e + 1]],
            )
    return bound


@jit
def send(mine, table, message):  # type: ignore[no-untyped-def]
    """Write the message that a node sends over an edge, less its least entry, which is returned.

    Args:
        mine: [p] what the node has to say about its own strategies.
        table: [p * q] of the edge, with the receiver's strategies running fastest.
        message: [q] for the result.
    """
    q = len(message)
    for t in range(q):
        message[t] = mine[0] + table[t]
    for s in range(1, len(mine)):
        row = table[s * q : s * q + q]
        value = mine[s]
        for t in range(q):
            message[t] = min(message[t], value + row[t])
    least = message.min()
    for t in range(q):
        message[t] -= least
    return least
