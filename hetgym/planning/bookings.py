"""Bookings: the transfers of a partial schedule, each with its time on every link or channel that it holds.

A :class:`~hetgym.planning.timeline.Timeline` for a runtime other than ``classic`` carries bookings. A transfer takes
the first gap after its request in which every link that it holds is idle. It is requested when its producer finishes
or, where transfers are aggregated, when all predecessors of its reader have finished. So an earlier request may
overtake a booking, as it does in a simulation, but delays none. Only a simulation tells how the runtime's queues treat
it: planned times are simulated at the end. Fair sharing is estimated as if links served one transfer at a time.
"""

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
    """The transfers of the operators that a timeline holds."""

    pointer: IntArray  # [d * d + 1] a transfer from device a to b holds `held[pointer[a * d + b] .. [a * d + b + 1]]`.
    held: IntArray  # [r] numbers of links or channels; none where transfers never wait
    busy: Intervals  # the times at which they are busy, by the (first) edge that a transfer serves
    sent: FloatArray  # [e] begin of the transfer that serves an edge [s]; -1 if none was booked for it
    arrived: FloatArray  # [e] its end [s]
    asked: IntArray  # [k] scratch: incoming edges of one operator by the time of their requests; [d] with `message`
    message: FloatArray  # [d] scratch: bytes from each device to one reader, -1 for none
    until: FloatArray  # [l] scratch: end of the transfers of one operator on each link or channel [s]
    transfers: IntArray  # [1] position in `runtime.TRANSFERS`
    dispatch: FloatArray  # [1] host time for each launched operator [s]
    weight: FloatArray  # [n] weights of each operator [byte]; `shared`: those of them that other operators read, too
    shared: SharedWeights
    room: FloatArray  # [d] room that is left for weights on each device [byte]; may be negative


@record
class Nothing(NamedTuple):
    """In place of bookings under the classic model: transfers take their time and never wait."""

    nothing: IntArray  # [0]


NOTHING = cast(Bookings, Nothing(np.zeros(0, np.int32)))  # What the timelines of the classic model carry


def new_bookings(problem: Problem, runtime: Runtime, room: FloatArray | None = None) -> Bookings:
    """Allocate for a problem and a runtime; nothing is booked.

    Args:
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
def clear(bookings: Bookings) -> None:
    """Forget all transfers."""
    bookings.sent[:] = -1.0
    intervals.clear(bookings.busy)


# Inputs are sorted by insertion: operators have few. After each one `ready` is the latest arrival so far, and until[]
# the end of the operator's own transfers on each link, behind which its next one there goes: so the answer is the same
# whether they are booked or only looked at.
@step
def bring(
    p: ProblemArrays,
    bookings: Bookings,
    assignment: IntArray,
    finish: FloatArray,
    operator: int,
    device: int,
    book: bool,
) -> float:
    """Time at which all inputs of an operator from predecessors that are placed can be on a device [s].

    Args:
        assignment, finish: [n] devices and finishes [s] of the operators that are placed.
        book: true to book the transfers.
    """
    if bookings.transfers[0] == AGGREGATED:
        return _pull(p, bookings, assignment, finish, operator, device, book)
    count = 0
    for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        edge, at = p.predecessor_edge[m], count
        if assignment[p.predecessor[m]] < 0:
            if book:
                bookings.sent[edge] = -1.0
            continue
        request = finish[p.predecessor[m]]
        count += 1
        while at > 0 and finish[p.edge_source[bookings.asked[at - 1]]] > request:
            bookings.asked[at] = bookings.asked[at - 1]
            at -= 1
        bookings.asked[at] = edge
    ready = 0.0
    for m in range(count):
        edge = bookings.asked[m]
        i = p.edge_source[edge]
        a, arrived = assignment[i], finish[i]
        if a != device:
            copy = _copy_on(p, assignment, edge, device) if bookings.transfers[0] == CACHED else -1
            if copy >= 0:
                arrived = bookings.arrived[copy]
                if book:
                    bookings.sent[edge] = -1.0
                    bookings.arrived[edge] = arrived
            else:
                duration = transfer_time(p, a, device, p.edge_bytes[edge])
                sent = _first_gap(p, bookings, a, device, arrived, duration)
                arrived = sent + duration
                _hold(p, bookings, a, device, edge, sent, arrived, book)
                if book:
                    bookings.sent[edge] = sent
                    bookings.arrived[edge] = arrived
        ready = max(ready, arrived)
    for m in range(count):
        _let_go(p, bookings, assignment[p.edge_source[bookings.asked[m]]], device)
    return ready


# `message[a]` is first the bytes that device a sends, -1 if none. Each message is booked, or looked at, under the first
# edge that it serves, and the others point to its end. O(d in-degree), apart from the gaps.
@step
def _pull(
    p: ProblemArrays,
    bookings: Bookings,
    assignment: IntArray,
    finish: FloatArray,
    operator: int,
    device: int,
    book: bool,
) -> float:
    """As :func:`bring`, where each other device sends one message once all predecessors have finished."""
    request = 0.0
    for a in range(len(bookings.message)):
        bookings.message[a] = -1.0
    for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        i = p.predecessor[m]
        a = assignment[i]
        if a < 0:
            if book:
                bookings.sent[p.predecessor_edge[m]] = -1.0
            continue
        request = max(request, finish[i])
        if a != device:
            bookings.message[a] = max(0.0, bookings.message[a]) + p.edge_bytes[p.predecessor_edge[m]]
    ready = request
    for a in range(len(bookings.message)):
        if bookings.message[a] < 0.0:
            continue
        duration = transfer_time(p, a, device, bookings.message[a])
        sent = _first_gap(p, bookings, a, device, request, duration)
        ready = max(ready, sent + duration)
        first = -1
        for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
            if assignment[p.predecessor[m]] == a:
                edge = p.predecessor_edge[m]
                if book:
                    bookings.sent[edge] = sent if first < 0 else -1.0
                    bookings.arrived[edge] = sent + duration
                first = edge if first < 0 else first
        _hold(p, bookings, a, device, first, sent, sent + duration, book)
    for a in range(len(bookings.message)):
        if bookings.message[a] >= 0.0:
            _let_go(p, bookings, a, device)
    return ready


@step
def take_back(p: ProblemArrays, bookings: Bookings, assignment: IntArray, operator: int) -> None:
    """Undo the transfers booked for an operator, which is still placed."""
    device = assignment[operator]
    for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        edge, a = p.predecessor_edge[m], assignment[p.predecessor[m]]
        if a != device and bookings.sent[edge] >= 0.0:
            route = a * p.cost.shape[1] + device
            for r in range(bookings.pointer[route], bookings.pointer[route + 1]):
                intervals.remove(bookings.busy, bookings.held[r], edge, bookings.sent[edge], bookings.arrived[edge])


@step
def need(bookings: Bookings, assignment: IntArray, operator: int, device: int) -> float:
    """Weights that a device must hold more of with an operator: without those that others there read [byte]."""
    return float(
        bookings.weight[operator] - present(bookings.shared, assignment, operator, device, len(bookings.weight))
    )


@step
def copy_into(bookings: Bookings, other: Bookings) -> None:
    """Make other bookings for the same problem and runtime equal to these."""
    intervals.copy_into(bookings.busy, other.busy)
    for device in range(len(bookings.room)):
        other.room[device] = bookings.room[device]
    for edge in range(len(bookings.sent)):
        other.sent[edge] = bookings.sent[edge]
        other.arrived[edge] = bookings.arrived[edge]


@step
def _copy_on(p: ProblemArrays, assignment: IntArray, edge: int, device: int) -> int:
    """An edge whose transfer takes this edge's tensor to the device already; -1 if there is none."""
    source = p.edge_source[edge]
    for other in range(p.successor_pointer[source], p.successor_pointer[source + 1]):
        if other != edge and p.edge_tensor[other] == p.edge_tensor[edge] and assignment[p.successor[other]] == device:
            return other
    return -1


# `sent` only rises, and each round in which it rises passes an interval, so the loop ends.
@step
def _first_gap(p: ProblemArrays, bookings: Bookings, a: int, b: int, request: float, duration: float) -> float:
    """First time from a request on at which all that a transfer holds is idle for its duration [s]."""
    route = a * p.cost.shape[1] + b
    first, last = bookings.pointer[route], bookings.pointer[route + 1]
    sent = request
    for r in range(first, last):
        sent = max(sent, bookings.until[bookings.held[r]])
    before = -1.0
    while before < sent:
        before = sent
        for r in range(first, last):
            sent = max(sent, intervals.earliest_gap(bookings.busy, bookings.held[r], sent, duration))
        if last - first < 2:
            break
    return sent


@step
def _hold(
    p: ProblemArrays, bookings: Bookings, a: int, b: int, edge: int, sent: float, arrived: float, book: bool
) -> None:
    """Note a transfer, so that the operator's next one goes behind it; with ``book`` book it."""
    route = a * p.cost.shape[1] + b
    for r in range(bookings.pointer[route], bookings.pointer[route + 1]):
        bookings.until[bookings.held[r]] = arrived
        if book:
            intervals.insert(bookings.busy, bookings.held[r], edge, sent, arrived)


@step
def _let_go(p: ProblemArrays, bookings: Bookings, a: int, b: int) -> None:
    """Forget the ends that :func:`_hold` noted."""
    route = a * p.cost.shape[1] + b
    for r in range(bookings.pointer[route], bookings.pointer[route + 1]):
        bookings.until[bookings.held[r]] = 0.0
