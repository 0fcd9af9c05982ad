"""What happens in a simulation: the state, and what a launch, a transfer and a delivery do to it.

Operators are *launched* on a device; when they finish, their outputs are *sent* to the devices that
read them. Both ways of walking through a schedule are built from these functions: :func:`run_order`
here, which needs no clock, and :mod:`hetgym.sim.events`, which has one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._jit import inlined, lean, step
from hetgym._types import FloatArray, IntArray
from hetgym.problem import ProblemArrays

FREE, FIFO, FAIR, ENDPOINT = 0, 1, 2, 3  # positions in runtime.COMMUNICATION
PER_EDGE, CACHED, AGGREGATED = 0, 1, 2  # positions in runtime.TRANSFERS


class Switches(NamedTuple):
    """A runtime as the kernel sees it; see :class:`hetgym.sim.Runtime`.

    Attributes:
        communication: position in ``runtime.COMMUNICATION``.
        transfers: position in ``runtime.TRANSFERS``.
        dispatch: host time for each launched operator [s].
        streams: operators that may run at the same time on a device.
        overlap: slow-down of an operator for each one that runs beside it when it starts.
        work_conserving: whether a free device may take any operator whose inputs have arrived.
    """

    communication: int
    transfers: int
    dispatch: float
    streams: int
    overlap: float
    work_conserving: bool


class State(NamedTuple):
    """What a simulation fills in.

    Attributes:
        start, finish: [n] of each operator [s].
        sent, arrived: [e] start and end of each edge's transfer [s]; equal when it stays local.
        ready: [n] arrival of the operator's last input so far [s].
        waiting: [n] inputs whose arrival is not known yet.
        launched: [d] operators launched so far.
        free: [d] when each device is free; with several streams, not used [s].
        link_free: [l] when each link is free [s].
        channel_free: [2, d] when each device's sending and receiving channel is free [s].
        stack: [n + 1] scratch: operators that may run next, where no clock is needed.
    """

    start: FloatArray
    finish: FloatArray
    sent: FloatArray
    arrived: FloatArray
    ready: FloatArray
    waiting: IntArray
    launched: IntArray
    free: FloatArray
    link_free: FloatArray
    channel_free: FloatArray
    stack: IntArray


def new_state(p: ProblemArrays) -> State:
    """Allocate the state of one simulation."""
    n, d = p.cost.shape
    e = len(p.successor)
    return State(
        np.zeros(n), np.zeros(n), np.zeros(e), np.zeros(e), np.zeros(n), np.zeros(n, np.int32), np.zeros(d, np.int32),
        np.zeros(d), np.zeros(len(p.link_bandwidth)), np.zeros((2, d)),
        np.zeros(n + 1, np.int32),
    )  # fmt: skip


@step
def reset(p: ProblemArrays, s: State) -> None:
    """Return a state to time 0."""
    for device in range(len(s.free)):
        s.launched[device] = 0
        s.free[device] = 0.0
        s.channel_free[0, device] = 0.0
        s.channel_free[1, device] = 0.0
    for link in range(len(s.link_free)):
        s.link_free[link] = 0.0
    for i in range(len(s.waiting)):
        s.ready[i] = 0.0
        s.waiting[i] = p.predecessor_pointer[i + 1] - p.predecessor_pointer[i]


@inlined
def issue_time(p: ProblemArrays, s: State, device: int, switches: Switches) -> float:
    """When the host has issued the next operator of a device's fixed order.

    The host of an accelerator runs ahead of it, one operator after the other; a CPU is its own host
    and issues when it gets there.
    """
    if p.asynchronous[device]:
        return float((s.launched[device] + 1) * switches.dispatch)
    return 0.0


@inlined
def launch(
    p: ProblemArrays, s: State, operator: int, device: int, now: float, beside: int, factor: float, ahead: bool,
    switches: Switches,
) -> None:  # fmt: skip
    """Start an operator.

    Args:
        p: the problem.
        s: the state.
        operator: what is launched.
        device: where.
        now: when the device takes it [s].
        beside: operators that run on the device at this moment.
        factor: noise, as a factor of the run time.
        ahead: whether a host issued it ahead of time, so that the device does not wait for that.
        switches: of the runtime.
    """
    start = now if ahead else now + switches.dispatch
    s.start[operator] = start
    s.finish[operator] = start + p.cost[operator, device] * factor * (1.0 + switches.overlap * beside)
    s.free[device] = s.finish[operator]
    s.launched[device] += 1


@inlined
def way_free(
    p: ProblemArrays, communication: int, link_free: FloatArray, channel_free: FloatArray, a: int, b: int, now: float
) -> float:
    """When everything that a transfer holds is free [s]; not for fair sharing.

    Args:
        p: the problem.
        communication: :data:`FREE`, :data:`FIFO` or :data:`ENDPOINT`.
        link_free: [links] when each link is free [s].
        channel_free: [2, d] when each device may send, and receive [s].
        a: device that sends.
        b: device that receives.
        now: not before this [s].
    """
    free = now
    if communication == FIFO:
        route = a * p.cost.shape[1] + b
        for k in range(p.route_pointer[route], p.route_pointer[route + 1]):
            free = max(free, link_free[p.route_link[k]])
    elif communication == ENDPOINT:
        free = max(free, channel_free[0, a], channel_free[1, b])
    return free


@inlined
def transfer(
    p: ProblemArrays, s: State, a: int, b: int, size: float, request: float, communication: int
) -> tuple[float, float]:
    """Book a transfer between two devices on everything that it holds; not for fair sharing.

    Args:
        p: the problem.
        s: the state.
        a: device that sends.
        b: device that receives.
        size: bytes.
        request: when it is asked for [s].
        communication: :data:`FREE`, :data:`FIFO` or :data:`ENDPOINT`.

    Returns:
        Its start and its end [s].
    """
    duration = p.latency[a, b] + size / p.bandwidth[a, b]
    sent = way_free(p, communication, s.link_free, s.channel_free, a, b, request)
    if communication == FIFO:
        route = a * p.cost.shape[1] + b
        for k in range(p.route_pointer[route], p.route_pointer[route + 1]):
            s.link_free[p.route_link[k]] = sent + duration
    elif communication == ENDPOINT:
        s.channel_free[0, a] = sent + duration
        s.channel_free[1, b] = sent + duration
    return sent, sent + duration


@inlined
def settle(p: ProblemArrays, s: State, edge: int, sent: float, arrived: float) -> None:
    """Note an edge's transfer, and that one input more of its reader is known."""
    target = p.successor[edge]
    s.sent[edge] = sent
    s.arrived[edge] = arrived
    s.ready[target] = max(s.ready[target], arrived)
    s.waiting[target] -= 1


@step
def shares_copy(p: ProblemArrays, assignment: IntArray, edge: int, first: int) -> int:
    """The earliest edge from ``first`` on that carries this edge's tensor to the same device."""
    for k in range(first, edge):
        if p.edge_tensor[k] == p.edge_tensor[edge] and assignment[p.successor[k]] == assignment[p.successor[edge]]:
            return k
    return edge


@step
def copy_size(p: ProblemArrays, assignment: IntArray, edge: int, last: int) -> float:
    """Bytes of the one copy that serves all readers of this edge's tensor on its target device."""
    size = float(p.edge_bytes[edge])
    for k in range(edge + 1, last):
        if p.edge_tensor[k] == p.edge_tensor[edge] and assignment[p.successor[k]] == assignment[p.successor[edge]]:
            size = max(size, p.edge_bytes[k])
    return size


@inlined
def deliver_edge(
    p: ProblemArrays, s: State, assignment: IntArray, edge: int, first: int, last: int, a: int, request: float,
    switches: Switches,
) -> None:  # fmt: skip
    """Push one edge of a finished operator whose edges are ``first .. last``."""
    b = assignment[p.successor[edge]]
    if switches.communication == FREE and switches.transfers == PER_EDGE:  # takes no time on one device, either
        sent, arrived = transfer(p, s, a, b, p.edge_bytes[edge], request, FREE)
        settle(p, s, edge, sent, arrived)
        return
    if a == b:
        settle(p, s, edge, request, request)
        return
    size = p.edge_bytes[edge]
    if switches.transfers == CACHED:
        leader = shares_copy(p, assignment, edge, first)
        if leader < edge:
            settle(p, s, edge, s.sent[leader], s.arrived[leader])
            return
        size = copy_size(p, assignment, edge, last)
    sent, arrived = transfer(p, s, a, b, size, request, switches.communication)
    settle(p, s, edge, sent, arrived)


@step
def run_order(
    p: ProblemArrays, s: State, assignment: IntArray, order: IntArray, order_pointer: IntArray, factor: FloatArray,
    switches: Switches,
) -> int:  # fmt: skip
    """Run every device's operators in a fixed order, one at a time, in O(n + e) and without a clock.

    An operator may run once its inputs are settled and the one before it on its device has run.
    That needs no clock as long as all requests for a link come from one device in its order:
    transfers that are pushed, over links that pairs of devices do not share.

    Args:
        p: the problem.
        s: filled in.
        assignment: [n] device of each operator.
        order: [n] operators, device after device.
        order_pointer: [d + 1] where each device's part begins.
        factor: [n] noise, as a factor of each run time.
        switches: of the runtime.

    Returns:
        Number of operators that ran: less than n if the orders deadlock.
    """
    reset(p, s)
    top = 0
    for device in range(p.cost.shape[1]):
        first, last = order_pointer[device], order_pointer[device + 1]
        for cursor in range(first + 1, last):
            s.waiting[order[cursor]] += 1  # for the operator before it
        if first < last:
            top = _stack(s, order[first], top)
    done = 0
    while top > 0:
        top -= 1
        done += 1
        operator = int(s.stack[top])
        device = assignment[operator]
        now = max(s.ready[operator], s.free[device], issue_time(p, s, device, switches))
        launch(p, s, operator, device, now, 0, factor[operator], p.asynchronous[device], switches)
        first, last = p.successor_pointer[operator], p.successor_pointer[operator + 1]
        for edge in range(first, last):
            deliver_edge(p, s, assignment, edge, first, last, device, s.finish[operator], switches)
            top = _stack(s, p.successor[edge], top)
        cursor = order_pointer[device] + s.launched[device]
        if cursor < order_pointer[device + 1]:
            s.waiting[order[cursor]] -= 1
            top = _stack(s, order[cursor], top)
    return done


@inlined
def _stack(s: State, operator: int, top: int) -> int:
    """Put an operator on the stack if it may run; without a branch, which would be guessed wrong too often."""
    s.stack[top] = operator
    return top + int(s.waiting[operator] == 0)


@lean
def run_orders(
    p: ProblemArrays, s: State, assignment: IntArray, order: IntArray, order_pointer: IntArray, factor: FloatArray,
    switches: Switches, makespan: FloatArray,
) -> int:  # fmt: skip
    """As :func:`run_order` for a batch: a row of ``assignment``, ``order`` and ``order_pointer`` for each.

    The ``makespan`` of each [s] is filled in, inf for a deadlock. Returns the fewest operators that ran.
    """
    least = len(s.start)
    for b in range(len(makespan)):
        done = run_order(p, s, assignment[b], order[b], order_pointer[b], factor, switches)
        makespan[b] = makespan_of(s, done)
        least = min(least, done)
    return least


@step
def makespan_of(s: State, done: int) -> float:
    """The last finish of all operators [s]; inf if not all are done."""
    if done < len(s.finish):
        return np.inf
    last = 0.0
    for i in range(len(s.finish)):
        last = max(last, s.finish[i])
    return last
