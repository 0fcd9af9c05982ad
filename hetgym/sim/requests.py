"""Requests: the transfers of a run with a clock.

A transfer is requested as soon as its producer has finished and its reader is committed to a device. If the reader was
committed before, the producer *pushes*; if the producer finished before, the reader *fetches*. Where transfers are
aggregated the reader *pulls* all its inputs at once.
"""

import numpy as np

from hetgym._kernels.heap import push
from hetgym._kernels.jit import step
from hetgym.problem import ProblemArrays
from hetgym.sim import fair
from hetgym.sim.fair import Flows
from hetgym.sim.kernel import CACHED, FAIR, State, Switches, book_transfer, copy_size, settle, shares_copy
from hetgym.sim.progress import EVENTS, FLOW, Progress, Sharing


@step
def push_edge(
    p: ProblemArrays, s: State, run: Progress, sharing: Sharing | None, edge: int, now: float, switches: Switches
) -> None:
    """Send one output of an operator that just finished to another device.

    With cached transfers one copy, of the largest size, serves all readers that are committed to the device; it is
    booked under the first of their edges.
    """
    copy, size = -1, float(p.edge_bytes[edge])
    if switches.transfers == CACHED:
        operator = p.edge_source[edge]
        leader = shares_copy(p, run.assignment, edge, p.successor_pointer[operator])
        if leader < edge:
            copy = leader
        else:
            size = copy_size(p, run.assignment, edge, p.successor_pointer[operator + 1])
    _send(p, s, run, sharing, edge, copy, size, now, switches)


@step
def fetch_edge(
    p: ProblemArrays, s: State, run: Progress, sharing: Sharing | None, edge: int, now: float, switches: Switches
) -> None:
    """Request one input, produced on another device, for an operator that was just committed."""
    copy = -1
    if switches.transfers == CACHED:
        copy = find_copy(p, s, run, edge, run.assignment[p.successor[edge]])
    _send(p, s, run, sharing, edge, copy, float(p.edge_bytes[edge]), now, switches)


@step
def find_copy(p: ProblemArrays, s: State, run: Progress, edge: int, device: int) -> int:
    """An edge whose transfer took this edge's tensor to the device already, or will; -1 if there is none."""
    source = p.edge_source[edge]
    for other in range(p.successor_pointer[source], p.successor_pointer[source + 1]):
        if (
            other != edge
            and p.edge_tensor[other] == p.edge_tensor[edge]
            and run.assignment[p.successor[other]] == device
            and s.sent[other] < np.inf
            and p.edge_bytes[other] >= p.edge_bytes[edge]
        ):
            return other
    return -1


@step
def _send(
    p: ProblemArrays,
    s: State,
    run: Progress,
    sharing: Sharing | None,
    edge: int,
    copy: int,
    size: float,
    now: float,
    switches: Switches,
) -> None:
    """Take a tensor to the device of an edge's reader.

    Args:
        copy: an edge whose transfer already brings the tensor, -1 if there is none.
        size: bytes of the new transfer if there is none.
    """
    if copy >= 0 and s.arrived[copy] < np.inf:
        settle(p, s, edge, s.sent[copy], s.arrived[copy])
        return
    if copy >= 0 and sharing is not None:
        s.sent[edge] = s.sent[copy]
        fair.join(sharing.flows, copy, edge)
        return
    a, b = run.assignment[p.edge_source[edge]], run.assignment[p.successor[edge]]
    if sharing is not None and switches.communication == FAIR:
        s.sent[edge] = now
        _open_flow(p, run, sharing.flows, edge, a, b, size, now)
    else:
        sent, arrived = book_transfer(p, switches.communication, s.link_free, s.channel_free, a, b, size, now)
        settle(p, s, edge, sent, arrived)


@step
def _open_flow(
    p: ProblemArrays, run: Progress, flows: Flows, edge: int, a: int, b: int, size: float, now: float
) -> None:
    """Let a flow begin when its latency is over."""
    flows.size[edge] = size
    flows.route[edge] = a * p.cost.shape[1] + b
    push(run.heaps, EVENTS, now + p.latency[a, b], FLOW + edge)


# A first pass over the inputs adds up the bytes of each source device's message, in the order of the inputs,
# which determines the rounding. Then each source device with something to send, by number, gets one
# transfer, and a pass over the inputs settles the edges that it serves: at most d further passes.
@step
def pull(
    p: ProblemArrays, s: State, run: Progress, sharing: Sharing | None, operator: int, now: float, switches: Switches
) -> None:
    """Request the inputs of a committed operator: one message from each other device that holds any."""
    device = run.assignment[operator]
    first, last = p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]
    for a in range(len(run.message)):
        run.message[a] = -1.0
    for k in range(first, last):
        a = run.assignment[p.predecessor[k]]
        if a != device:
            run.message[a] = max(0.0, run.message[a]) + p.edge_bytes[p.predecessor_edge[k]]
    for a in range(len(run.message)):
        if run.message[a] < 0.0:
            continue
        leader = -1
        sent, arrived = now, now
        if switches.communication != FAIR:
            sent, arrived = book_transfer(
                p, switches.communication, s.link_free, s.channel_free, a, device, run.message[a], now
            )
        for k in range(first, last):
            edge = p.predecessor_edge[k]
            if run.assignment[p.predecessor[k]] != a:
                continue
            if sharing is None or switches.communication != FAIR:
                settle(p, s, edge, sent, arrived)
                continue
            s.sent[edge] = now
            if leader < 0:
                leader = edge
                _open_flow(p, run, sharing.flows, edge, a, device, run.message[a], now)
            else:
                fair.join(sharing.flows, leader, edge)
