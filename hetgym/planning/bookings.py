"""Bookings: the transfers of a partial schedule, each with its time on every link or channel that it holds.

A :class:`~hetgym.planning.timeline.Timeline` for another runtime than ``classic`` carries bookings. A transfer takes
the first gap from its request on in which everything that it holds is idle. It is requested when its producer finishes
or, where transfers are aggregated, when all predecessors of its reader have finished. So an earlier request may
overtake a booking, as it does in a simulation, but delays none. What the runtime's queues make of it, only a simulation
tells: planned times are simulated at the end. Fair sharing is estimated as if links served one transfer at a time.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from hetgym._kernels.jit import step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, IntArray
from hetgym.planning import intervals
from hetgym.planning.intervals import Intervals, new_intervals
from hetgym.problem import Problem, ProblemArrays
from hetgym.sim import Runtime
from hetgym.sim.kernel import AGGREGATED, CACHED
from hetgym.sim.runtime import TRANSFERS
from hetgym.transfer import transfer_time
from hetgym.weights import SharedWeights, present


@record
class Bookings(NamedTuple):
    """The transfers of the operators that a timeline holds.

    Attributes:
        pointer: [d * d + 1] a transfer from device a to b holds ``held[pointer[a * d + b] .. [a * d + b + 1]]``.
        held: [r] numbers of links or channels; none where transfers never wait.
        busy: the times at which they are busy, by the (first) edge that a transfer serves.
        sent: [e] begin of the transfer that serves an edge [s]; -1 if none was booked for it.
        arrived: [e] its end [s].
        asked: [k] scratch: incoming edges of one operator by the time of their requests; [d] with ``message``.
        message: [d] scratch: bytes from each device to one reader, -1 for none.
        until: [l] scratch: end of the transfers of one operator on each link or channel [s].
        transfers: [1] position in ``runtime.TRANSFERS``.
        dispatch: [1] host time for each launched operator [s].
        weight: [n] weights of each operator [byte]; ``shared``: those of them that other operators read, too.
        room: [d] room that is left for weights on each device [byte]; may be negative.
    """

    pointer: IntArray
    held: IntArray
    busy: Intervals
    sent: FloatArray
    arrived: FloatArray
    asked: IntArray
    message: FloatArray
    until: FloatArray
    transfers: IntArray
    dispatch: FloatArray
    weight: FloatArray
    shared: SharedWeights
    room: FloatArray


@record
class Nothing(NamedTuple):
    """In place of bookings under the classic model: transfers take their time and never wait.

    Attributes:
        nothing: [0].
    """

    nothing: IntArray


NOTHING = cast(Bookings, Nothing(np.zeros(0, np.int32)))
"""What the timelines of the classic model carry."""


def new_bookings(problem: Problem, runtime: Runtime, room: FloatArray | None = None) -> Bookings:
    """Allocate for a problem and a runtime; nothing is booked.

    Args:
        problem: the problem.
        runtime: the runtime that will run the schedule.
        room: [d] room for weights on each device [byte]; unlimited by default.
    """
    p = problem.arrays
    n, d = p.cost.shape
    e = len(p.successor)
    pointer, held, rows = np.zeros(d * d + 1, np.int32), np.zeros(0, np.int32), 0
    if runtime.communication == "endpoint":
        pairs = [(a, b) for a in range(d) for b in range(d)]
        routes = [[a, d + b] if a != b else [] for a, b in pairs]
        pointer[1:] = np.cumsum([len(route) for route in routes])
        held, rows = np.array([k for route in routes for k in route], np.int32), 2 * d
    elif runtime.communication != "free":
        pointer, held, rows = np.array(p.route_pointer), np.array(p.route_link), len(p.link_bandwidth)
    most = int(np.diff(p.predecessor_pointer).max(initial=0))
    return Bookings(
        pointer=pointer,
        held=held,
        busy=new_intervals(e, rows),
        sent=np.full(e, -1.0),
        arrived=np.zeros(e),
        asked=np.zeros(most, np.int32),
        message=np.zeros(d),
        until=np.zeros(rows),
        transfers=np.array([TRANSFERS.index(runtime.transfers)], np.int32),
        dispatch=np.array([runtime.dispatch]),
        weight=np.array(problem.weight_bytes),
        shared=problem.shared_weights,
        room=np.full(d, np.inf) if room is None else np.array(room, np.float64),
    )


@step
def clear(k: Bookings) -> None:
    """Forget all transfers."""
    k.sent[:] = -1.0
    intervals.clear(k.busy)


# Inputs are sorted by insertion: operators have few. After each one `ready` is the latest arrival so far, and until[]
# the end of the operator's own transfers on each link, behind which its next one there goes: so the answer is the same
# whether they are booked or only looked at.
@step
def bring(
    p: ProblemArrays, k: Bookings, assignment: IntArray, finish: FloatArray, operator: int, device: int, book: bool
) -> float:
    """Time at which all inputs of an operator from predecessors that are placed can be on a device [s].

    Args:
        p: the problem.
        k: the bookings; they change only with ``book``.
        assignment: [n] devices of the operators that are placed.
        finish: [n] finishes of the operators that are placed [s].
        operator: the operator.
        device: the device.
        book: true to book the transfers.
    """
    if k.transfers[0] == AGGREGATED:
        return _pull(p, k, assignment, finish, operator, device, book)
    count = 0
    for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        edge, at = p.predecessor_edge[m], count
        if assignment[p.predecessor[m]] < 0:
            if book:
                k.sent[edge] = -1.0
            continue
        request = finish[p.predecessor[m]]
        count += 1
        while at > 0 and finish[p.edge_source[k.asked[at - 1]]] > request:
            k.asked[at] = k.asked[at - 1]
            at -= 1
        k.asked[at] = edge
    ready = 0.0
    for m in range(count):
        edge = k.asked[m]
        i = p.edge_source[edge]
        a, arrived = assignment[i], finish[i]
        if a != device:
            copy = _copy_on(p, k, assignment, edge, device) if k.transfers[0] == CACHED else -1
            if copy >= 0:
                arrived = k.arrived[copy]
                if book:
                    k.sent[edge] = -1.0
                    k.arrived[edge] = arrived
            else:
                duration = transfer_time(p, a, device, p.edge_bytes[edge])
                sent = _first_gap(p, k, a, device, arrived, duration)
                arrived = sent + duration
                _hold(p, k, a, device, edge, sent, arrived, book)
                if book:
                    k.sent[edge] = sent
                    k.arrived[edge] = arrived
        ready = max(ready, arrived)
    for m in range(count):
        _let_go(p, k, assignment[p.edge_source[k.asked[m]]], device)
    return ready


@step
def _pull(
    p: ProblemArrays, k: Bookings, assignment: IntArray, finish: FloatArray, operator: int, device: int, book: bool
) -> float:
    """As :func:`bring`, where each other device sends one message once all predecessors have finished."""
    request = 0.0
    for a in range(len(k.message)):
        k.message[a] = -1.0
    for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        i = p.predecessor[m]
        a = assignment[i]
        if a < 0:
            if book:
                k.sent[p.predecessor_edge[m]] = -1.0
            continue
        request = max(request, finish[i])
        if a != device:
            k.message[a] = max(0.0, k.message[a]) + p.edge_bytes[p.predecessor_edge[m]]
    ready = request
    for a in range(len(k.message)):
        if k.message[a] < 0.0:
            continue
        duration = transfer_time(p, a, device, k.message[a])
        sent = _first_gap(p, k, a, device, request, duration)
        ready = max(ready, sent + duration)
        first = -1
        for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
            if assignment[p.predecessor[m]] == a:
                edge = p.predecessor_edge[m]
                if book:
                    k.sent[edge] = sent if first < 0 else -1.0
                    k.arrived[edge] = sent + duration
                first = edge if first < 0 else first
        _hold(p, k, a, device, first, sent, sent + duration, book)
    for a in range(len(k.message)):
        if k.message[a] >= 0.0:
            _let_go(p, k, a, device)
    return ready


@step
def take_back(p: ProblemArrays, k: Bookings, assignment: IntArray, operator: int) -> None:
    """Undo the transfers booked for an operator, which is still placed."""
    device = assignment[operator]
    for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        edge, a = p.predecessor_edge[m], assignment[p.predecessor[m]]
        if a != device and k.sent[edge] >= 0.0:
            route = a * p.cost.shape[1] + device
            for r in range(k.pointer[route], k.pointer[route + 1]):
                intervals.remove(k.busy, k.held[r], edge, k.sent[edge], k.arrived[edge])


@step
def need(k: Bookings, assignment: IntArray, operator: int, device: int) -> float:
    """Weights that a device must hold more of with an operator: without those that others there read [byte]."""
    return float(k.weight[operator] - present(k.shared, assignment, operator, device, len(k.weight)))


@step
def copy_into(k: Bookings, other: Bookings) -> None:
    """Make other bookings for the same problem and runtime equal to these."""
    intervals.copy_into(k.busy, other.busy)
    for device in range(len(k.room)):
        other.room[device] = k.room[device]
    for edge in range(len(k.sent)):
        other.sent[edge] = k.sent[edge]
        other.arrived[edge] = k.arrived[edge]


@step
def _copy_on(p: ProblemArrays, k: Bookings, assignment: IntArray, edge: int, device: int) -> int:
    """An edge whose transfer takes this edge's tensor to the device already; -1 if there is none."""
    source = p.edge_source[edge]
    for other in range(p.successor_pointer[source], p.successor_pointer[source + 1]):
        if other != edge and p.edge_tensor[other] == p.edge_tensor[edge] and assignment[p.successor[other]] == device:
            return other
    return -1


# `sent` only rises, and each round in which it rises passes an interval, so the loop ends.
@step
def _first_gap(p: ProblemArrays, k: Bookings, a: int, b: int, request: float, duration: float) -> float:
    """First time from a request on at which all that a transfer holds is idle for its duration [s]."""
    route = a * p.cost.shape[1] + b
    first, last = k.pointer[route], k.pointer[route + 1]
    sent = request
    for r in range(first, last):
        sent = max(sent, k.until[k.held[r]])
    before = -1.0
    while before < sent:
        before = sent
        for r in range(first, last):
            sent = max(sent, intervals.earliest_gap(k.busy, k.held[r], sent, duration))
        if last - first < 2:
            break
    return sent


@step
def _hold(p: ProblemArrays, k: Bookings, a: int, b: int, edge: int, sent: float, arrived: float, book: bool) -> None:
    """Note a transfer, so that the operator's next one goes behind it; with ``book`` book it."""
    route = a * p.cost.shape[1] + b
    for r in range(k.pointer[route], k.pointer[route + 1]):
        k.until[k.held[r]] = arrived
        if book:
            intervals.insert(k.busy, k.held[r], edge, sent, arrived)


@step
def _let_go(p: ProblemArrays, k: Bookings, a: int, b: int) -> None:
    """Forget the ends that :func:`_hold` noted."""
    route = a * p.cost.shape[1] + b
    for r in range(k.pointer[route], k.pointer[route + 1]):
        k.until[k.held[r]] = 0.0
