"""The event loop: simulation with a clock, for all that the order of events decides.

Shared links, several streams, pulled transfers, fair sharing and dispatch by priorities need one.
All that happens at one instant is seen before any device chooses; then every device that can takes
one operator, and what operators of no duration cause is seen before the next choice.

Transfers that are requested at one instant are booked in the order of their producers' positions in
their devices' orders, then of the readers' ids, then of the edges; pulled ones in the order of the
readers' devices, then of the devices' orders, then of the source devices.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np

from hetgym._jit import jit
from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.problem import ProblemArrays
from hetgym.sim import fair
from hetgym.sim.kernel import (
    AGGREGATED,
    CACHED,
    FAIR,
    State,
    Switches,
    copy_size,
    deliver_edge,
    issue_time,
    launch,
    reset,
    settle,
    shares_copy,
    transfer,
)

FINISH, READY, ISSUED, FLOW = 0, 1, 2, 3  # an operator ends; its inputs are there; a device may go on; a flow begins

Events = list[Any]  # heap of (time, kind, number)
Asked = list[Any]  # heap of edges to be pushed: (producer's slot, reader, edge)
Queue = list[Any]  # heap of operators: (-priority, position)


class Plan(NamedTuple):
    """The schedule: see :func:`run_events`."""

    assignment: IntArray
    order: IntArray
    order_pointer: IntArray
    priority: FloatArray
    factor: FloatArray


class Agenda(NamedTuple):
    """What an event loop keeps besides the state.

    Attributes:
        slot: [n] position of each launched operator in its device's order.
        arrived: [n] whether all inputs are there.
        running: [d] operators that run now.
        unfinished: [n] predecessors that have not finished, for transfers that are pulled.
        pulled: [d] operators of each fixed order whose inputs were asked for.
        message: [d] scratch: bytes from each source device.
        alarm: [d] until when each device waits for its host [s].
    """

    slot: IntArray
    arrived: BoolArray
    running: IntArray
    unfinished: IntArray
    pulled: IntArray
    message: FloatArray
    alarm: FloatArray


@jit
def run_events(
    p: ProblemArrays, s: State, assignment: IntArray, order: IntArray, order_pointer: IntArray, priority: FloatArray,
    factor: FloatArray, switches: Switches,
) -> int:  # fmt: skip
    """Run a schedule under any switches.

    Args:
        p: the problem.
        s: filled in.
        assignment: [n] device of each operator.
        order: [n] operators, device after device; not read if work-conserving.
        order_pointer: [d + 1] where each device's part begins; likewise.
        priority: [n] larger first, ties by topological position; only read if work-conserving.
        factor: [n] noise, as a factor of each run time.
        switches: of the runtime.

    Returns:
        Number of operators that ran: less than n if the orders deadlock.
    """
    n, d = p.cost.shape
    reset(p, s)
    plan = Plan(assignment, order, order_pointer, priority, factor)
    flows = fair.new_flows(p, switches.communication == FAIR)
    g = Agenda(
        np.zeros(n, np.int32), np.zeros(n, np.bool_), np.zeros(d, np.int32), s.waiting.copy(), np.zeros(d, np.int32),
        np.zeros(d), np.zeros(d),
    )  # fmt: skip
    events: Events = [(0.0, np.int32(0), np.int32(0))]
    asked: Asked = [(np.int32(0), np.int32(0), np.int32(0))]
    callers: Queue = [(0.0, np.int32(0))]  # operators whose inputs are to be pulled
    choice: list[Queue] = [[(0.0, np.int32(0))] for _ in range(d)]  # by device, operators that could start
    events.pop()
    asked.pop()
    callers.pop()
    for device in range(d):
        choice[device].pop()
    for i in range(n):
        if s.waiting[i] == 0:
            _announce(p, s, events, i)
    done = 0
    now = 0.0
    while True:
        _happen(p, s, g, flows, events, asked, callers, choice, plan, now, switches)
        took = 0
        for device in range(d):
            took += _take(p, s, g, events, choice, plan, device, now, switches)
        done += took
        if took > 0 and (switches.streams > 1 or events[0][0] == now):
            continue
        following = events[0][0] if len(events) > 0 else np.inf
        if switches.communication == FAIR:
            following = min(following, fair.next_completion(flows, now))
            if following < np.inf:
                fair.advance(flows, following - now)
        if following == np.inf:
            return done
        now = following


@jit
def _happen(
    p: ProblemArrays, s: State, g: Agenda, flows: fair.Flows, events: Events, asked: Asked, callers: Queue,
    choice: list[Queue], plan: Plan, now: float, switches: Switches,
) -> None:  # fmt: skip
    """Let everything happen that is due now, and what it causes at once."""
    while True:
        while len(events) > 0 and events[0][0] == now:
            _, kind, number = heapq.heappop(events)
            if kind == READY:
                operator = p.topological_order[number]
                g.arrived[operator] = True
                if switches.work_conserving:
                    heapq.heappush(choice[plan.assignment[operator]], (-plan.priority[operator], number))
            elif kind == FINISH:
                _finish(p, s, g, events, asked, callers, plan, p.topological_order[number], now, switches)
            elif kind == FLOW:
                fair.begin(flows, number)
        while len(asked) > 0:
            _, _, edge = heapq.heappop(asked)
            _push(p, s, events, flows, plan.assignment, edge, now, switches)
        if switches.transfers == AGGREGATED:
            _pull_due(p, s, g, events, flows, callers, plan, now, switches)
        if switches.communication == FAIR:
            served: list[Any] = [np.int32(0)]
            served.pop()
            fair.complete(p, s, flows, now, served)
            for operator in served:
                _announce(p, s, events, operator)
        if len(events) == 0 or events[0][0] > now:
            return


@jit
def _announce(p: ProblemArrays, s: State, events: Events, operator: int) -> None:
    """Raise the event that an operator's inputs are there, once the last arrival is known."""
    if s.waiting[operator] == 0:
        heapq.heappush(events, (s.ready[operator], np.int32(READY), p.position[operator]))
        s.waiting[operator] = -1


@jit
def _finish(
    p: ProblemArrays, s: State, g: Agenda, events: Events, asked: Asked, callers: Queue, plan: Plan, operator: int,
    now: float, switches: Switches,
) -> None:  # fmt: skip
    """Free the device, hand outputs to readers on it, and ask for the transfers of the others."""
    device = plan.assignment[operator]
    g.running[device] -= 1
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        target = p.successor[edge]
        if plan.assignment[target] == device:
            settle(p, s, edge, now, now)
            _announce(p, s, events, target)
        elif switches.transfers != AGGREGATED:
            heapq.heappush(asked, (g.slot[operator], target, np.int32(edge)))
        g.unfinished[target] -= 1
        if switches.transfers == AGGREGATED and switches.work_conserving and g.unfinished[target] == 0:
            heapq.heappush(callers, (-plan.priority[target], p.position[target]))


@jit
def _push(
    p: ProblemArrays, s: State, events: Events, flows: fair.Flows, assignment: IntArray, edge: int, now: float,
    switches: Switches,
) -> None:  # fmt: skip
    """Send one edge of a finished operator to another device."""
    operator = p.edge_source[edge]
    a, b = assignment[operator], assignment[p.successor[edge]]
    if switches.communication != FAIR:
        first, last = p.successor_pointer[operator], p.successor_pointer[operator + 1]
        deliver_edge(p, s, assignment, edge, first, last, a, now, switches)
        _announce(p, s, events, p.successor[edge])
        return
    s.sent[edge] = now
    size = p.edge_bytes[edge]
    if switches.transfers == CACHED:
        leader = shares_copy(p, assignment, edge, p.successor_pointer[operator])
        if leader < edge:
            flows.next[edge] = flows.next[leader]
            flows.next[leader] = edge
            return
        size = copy_size(p, assignment, edge, p.successor_pointer[operator + 1])
    _open_flow(p, events, flows, edge, a, b, size, now)


@jit
def _open_flow(
    p: ProblemArrays, events: Events, flows: fair.Flows, edge: int, a: int, b: int, size: float, now: float
) -> None:
    """Let a flow begin when its latency is over."""
    flows.size[edge] = size
    flows.route[edge] = a * p.cost.shape[1] + b
    heapq.heappush(events, (now + p.latency[a, b], np.int32(FLOW), np.int32(edge)))


@jit
def _pull_due(
    p: ProblemArrays, s: State, g: Agenda, events: Events, flows: fair.Flows, callers: Queue, plan: Plan, now: float,
    switches: Switches,
) -> None:  # fmt: skip
    """Pull the inputs of operators whose predecessors have all finished, in their turn."""
    while len(callers) > 0:
        _, position = heapq.heappop(callers)
        _pull(p, s, g, events, flows, plan.assignment, p.topological_order[position], now, switches)
    if switches.work_conserving:
        return
    for device in range(p.cost.shape[1]):
        while True:
            cursor = plan.order_pointer[device] + g.pulled[device]
            if cursor == plan.order_pointer[device + 1] or g.unfinished[plan.order[cursor]] > 0:
                break
            g.pulled[device] += 1
            _pull(p, s, g, events, flows, plan.assignment, plan.order[cursor], now, switches)


@jit
def _pull(
    p: ProblemArrays, s: State, g: Agenda, events: Events, flows: fair.Flows, assignment: IntArray, operator: int,
    now: float, switches: Switches,
) -> None:  # fmt: skip
    """Ask every other device for all inputs that it holds, in one message each."""
    b = assignment[operator]
    first, last = p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]
    g.message[:] = -1.0
    for k in range(first, last):
        a = assignment[p.predecessor[k]]
        if a != b:
            g.message[a] = max(0.0, g.message[a]) + p.edge_bytes[p.predecessor_edge[k]]
    for a in range(p.cost.shape[1]):
        if g.message[a] < 0.0:
            continue
        leader = -1
        sent, arrived = now, now
        if switches.communication != FAIR:
            sent, arrived = transfer(p, s, a, b, g.message[a], now, switches.communication)
        for k in range(first, last):
            edge = p.predecessor_edge[k]
            if assignment[p.predecessor[k]] != a:
                continue
            if switches.communication != FAIR:
                settle(p, s, edge, sent, arrived)
            elif leader < 0:
                leader = edge
                s.sent[edge] = now
                _open_flow(p, events, flows, edge, a, b, g.message[a], now)
            else:
                s.sent[edge] = now
                flows.next[edge] = flows.next[leader]
                flows.next[leader] = edge
    _announce(p, s, events, operator)


@jit
def _take(
    p: ProblemArrays, s: State, g: Agenda, events: Events, choice: list[Queue], plan: Plan, device: int, now: float,
    switches: Switches,
) -> int:  # fmt: skip
    """Launch the operator that a device takes next, if it can take one now; return how many."""
    if g.running[device] >= switches.streams:
        return 0
    ahead = False
    if switches.work_conserving:
        if len(choice[device]) == 0:
            return 0
        _, position = heapq.heappop(choice[device])
        operator = p.topological_order[position]
    else:
        cursor = plan.order_pointer[device] + s.launched[device]
        if cursor == plan.order_pointer[device + 1] or not g.arrived[plan.order[cursor]]:
            return 0
        issued = issue_time(p, s, device, switches)
        if issued > now:
            if g.alarm[device] < issued:
                g.alarm[device] = issued
                heapq.heappush(events, (issued, np.int32(ISSUED), np.int32(device)))
            return 0
        operator = plan.order[cursor]
        position = p.position[operator]
        ahead = p.asynchronous[device]
    g.slot[operator] = s.launched[device]
    launch(p, s, operator, device, now, g.running[device], plan.factor[operator], ahead, switches)
    g.running[device] += 1
    heapq.heappush(events, (s.finish[operator], np.int32(FINISH), position))
    return 1
