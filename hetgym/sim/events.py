"""The event loop: simulation with a clock, for all that the order of events decides.

Shared links, several streams, pulled transfers, fair sharing and dispatch by priorities need one.
All that happens at one instant is seen before any device chooses; then every device that can takes
one operator, and what operators of no duration cause is seen before the next choice.

Transfers that are requested at one instant are booked in the order of their producers' positions in
their devices' orders, then of the readers' ids, then of the edges; pulled ones in the order of the
readers' devices, then of the devices' orders, then of the source devices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._jit import inlined, lean, step
from hetgym._types import FloatArray, IntArray
from hetgym.problem import ProblemArrays
from hetgym.sim import fair
from hetgym.sim.heap import Heap, new_heap, pop, push
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
    makespan_of,
    reset,
    settle,
    shares_copy,
    transfer,
)

FINISH, READY, ALARM, FLOW = 0, 1 << 40, 2 << 40, 3 << 40
"""Kinds of events, added to the number that they concern: an operator (by position) ends, its inputs are
there, a device may go on, a flow (by edge) begins. Those of one moment come in this order."""

NUMBER = (1 << 40) - 1


class Plan(NamedTuple):
    """A schedule as the kernel sees it.

    Attributes:
        assignment: [n] device of each operator.
        order: [n] operators, device after device; not read if work-conserving.
        order_pointer: [d + 1] where each device's part begins; likewise.
        priority: [n] larger first, ties by topological position; only read if work-conserving.
        factor: [n] noise, as a factor of each run time.
    """

    assignment: IntArray
    order: IntArray
    order_pointer: IntArray
    priority: FloatArray
    factor: FloatArray


class Agenda(NamedTuple):
    """What an event loop keeps besides the state.

    Attributes:
        slot: [n] position of each launched operator in its device's order.
        running: [d] operators that run now.
        unfinished: [n] predecessors that have not finished, for transfers that are pulled.
        pulled: [d] operators of each fixed order whose inputs were asked for.
        message: [d] scratch: bytes from each source device.
        alarm: [d] until when each device waits for the next operator of its fixed order [s].
        events: one heap, by time.
        asked: one heap, edges to be pushed by producer's slot, then ``reader << 32 | edge``.
        callers: a heap for each device, positions of operators whose inputs are to be pulled, by falling priority.
        choice: a heap for each device, positions of operators that could start, by falling priority.
    """

    slot: IntArray
    running: IntArray
    unfinished: IntArray
    pulled: IntArray
    message: FloatArray
    alarm: FloatArray
    events: Heap
    asked: Heap
    callers: Heap
    choice: Heap


def new_agenda(p: ProblemArrays, needed: bool) -> Agenda:
    """Allocate what an event loop needs; next to nothing where there is none."""
    n, d = p.cost.shape
    e = len(p.successor)
    if not needed:
        n, e = 0, 0
    return Agenda(
        np.zeros(n, np.int32), np.zeros(d, np.int32), np.zeros(n, np.int32), np.zeros(d, np.int32),
        np.zeros(d), np.zeros(d),
        new_heap(1, 3 * n + e + 1), new_heap(1, e + 1), new_heap(d, n + 1), new_heap(d, n + 1),
    )  # fmt: skip


@inlined
def _clear(p: ProblemArrays, s: State, g: Agenda, plan: Plan, switches: Switches) -> None:
    """Return an agenda to time 0, when the operators without inputs are ready."""
    g.events.size[0] = 0
    g.asked.size[0] = 0
    for device in range(len(g.running)):
        g.running[device] = 0
        g.pulled[device] = 0
        g.alarm[device] = 0.0
        g.callers.size[device] = 0
        g.choice.size[device] = 0
    for i in range(len(g.unfinished)):
        g.unfinished[i] = s.waiting[i]
        _announce(p, s, g, plan, i, 0.0, switches)


@step
def run_events(p: ProblemArrays, s: State, g: Agenda, flows: fair.Flows, plan: Plan, switches: Switches) -> int:
    """Run a schedule under any switches.

    Args:
        p: the problem.
        s: filled in.
        g: overwritten.
        flows: overwritten; without room if transfers do not share fairly.
        plan: the schedule.
        switches: of the runtime.

    Returns:
        Number of operators that ran: less than n if the orders deadlock.
    """
    reset(p, s)
    fair.clear(flows)
    _clear(p, s, g, plan, switches)
    done = 0
    now = 0.0
    while True:
        _happen(p, s, g, flows, plan, now, switches)
        took = 0
        for device in range(len(g.running)):
            took += _take(p, s, g, plan, device, now, switches)
        done += took
        if took > 0 and (switches.streams > 1 or g.events.key[0, 0] == now):
            continue
        following = g.events.key[0, 0] if g.events.size[0] > 0 else np.inf
        if switches.communication == FAIR:
            following = min(following, fair.next_completion(flows, now))
            if following < np.inf:
                fair.advance(flows, following - now)
        if following == np.inf:
            return done
        now = following


@lean
def run_all_events(
    p: ProblemArrays, s: State, g: Agenda, flows: fair.Flows, assignment: IntArray, order: IntArray,
    order_pointer: IntArray, priority: FloatArray, factor: FloatArray, switches: Switches, makespan: FloatArray,
) -> int:  # fmt: skip
    """As :func:`run_events` for a batch: a row of every array of the plan but ``factor`` for each.

    The ``makespan`` of each [s] is filled in, inf for a deadlock. Returns the fewest operators that ran.
    """
    least = len(s.start)
    for b in range(len(makespan)):
        plan = Plan(assignment[b], order[b], order_pointer[b], priority[b], factor)
        done = run_events(p, s, g, flows, plan, switches)
        makespan[b] = makespan_of(s, done)
        least = min(least, done)
    return least


@inlined
def _happen(
    p: ProblemArrays, s: State, g: Agenda, flows: fair.Flows, plan: Plan, now: float, switches: Switches
) -> None:
    """Let everything happen that is due now, and what it causes at once."""
    while True:
        while g.events.size[0] > 0 and g.events.key[0, 0] == now:
            event = pop(g.events, 0)
            kind, number = event & ~NUMBER, event & NUMBER
            if kind == FINISH:
                _finish(p, s, g, plan, p.topological_order[number], now, switches)
            elif kind == READY:
                operator = p.topological_order[number]
                push(g.choice, plan.assignment[operator], -plan.priority[operator], number)
            elif kind == FLOW:
                fair.begin(flows, number)
        while g.asked.size[0] > 0:
            _push(p, s, g, flows, plan, pop(g.asked, 0) & 0xFFFFFFFF, now, switches)
        if switches.transfers == AGGREGATED:
            _pull_due(p, s, g, flows, plan, now, switches)
        if switches.communication == FAIR:
            for k in range(fair.complete(p, s, flows, now)):
                _announce(p, s, g, plan, flows.served[k], now, switches)
        if g.events.size[0] == 0 or g.events.key[0, 0] > now:
            return


@inlined
def _announce(p: ProblemArrays, s: State, g: Agenda, plan: Plan, operator: int, now: float, switches: Switches) -> None:
    """Let a work-conserving device choose an operator from when its inputs are there, once that is known."""
    if not switches.work_conserving or s.waiting[operator] != 0:
        return
    s.waiting[operator] = -1
    if s.ready[operator] > now:
        push(g.events, 0, s.ready[operator], READY + p.position[operator])
    else:
        push(g.choice, plan.assignment[operator], -plan.priority[operator], p.position[operator])


@inlined
def _finish(p: ProblemArrays, s: State, g: Agenda, plan: Plan, operator: int, now: float, switches: Switches) -> None:
    """Free the device, hand outputs to readers on it, and ask for the transfers of the others."""
    device = plan.assignment[operator]
    g.running[device] -= 1
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        target = p.successor[edge]
        g.unfinished[target] -= 1
        if plan.assignment[target] == device:
            settle(p, s, edge, now, now)
            _announce(p, s, g, plan, target, now, switches)
        elif switches.transfers != AGGREGATED:
            push(g.asked, 0, float(g.slot[operator]), (int(target) << 32) | edge)
        if switches.transfers == AGGREGATED and switches.work_conserving and g.unfinished[target] == 0:
            push(g.callers, plan.assignment[target], -plan.priority[target], p.position[target])


@inlined
def _push(
    p: ProblemArrays, s: State, g: Agenda, flows: fair.Flows, plan: Plan, edge: int, now: float, switches: Switches
) -> None:
    """Send one edge of a finished operator to another device."""
    operator = p.edge_source[edge]
    a, b = plan.assignment[operator], plan.assignment[p.successor[edge]]
    if switches.communication != FAIR:
        first, last = p.successor_pointer[operator], p.successor_pointer[operator + 1]
        deliver_edge(p, s, plan.assignment, edge, first, last, a, now, switches)
        _announce(p, s, g, plan, p.successor[edge], now, switches)
        return
    s.sent[edge] = now
    size = p.edge_bytes[edge]
    if switches.transfers == CACHED:
        leader = shares_copy(p, plan.assignment, edge, p.successor_pointer[operator])
        if leader < edge:
            fair.join(flows, leader, edge)
            return
        size = copy_size(p, plan.assignment, edge, p.successor_pointer[operator + 1])
    open_flow(p, g.events, flows, edge, a, b, size, now)


@inlined
def open_flow(
    p: ProblemArrays, events: Heap, flows: fair.Flows, edge: int, a: int, b: int, size: float, now: float
) -> None:
    """Let a flow begin when its latency is over."""
    flows.size[edge] = size
    flows.route[edge] = a * p.cost.shape[1] + b
    push(events, 0, now + p.latency[a, b], FLOW + edge)


@inlined
def _pull_due(
    p: ProblemArrays, s: State, g: Agenda, flows: fair.Flows, plan: Plan, now: float, switches: Switches
) -> None:
    """Pull the inputs of operators whose predecessors have all finished, in their turn."""
    for device in range(p.cost.shape[1]):
        while g.callers.size[device] > 0:
            operator = p.topological_order[pop(g.callers, device)]
            pull(p, s, g.message, g.events, flows, plan.assignment, operator, now, switches)
            _announce(p, s, g, plan, operator, now, switches)
        while not switches.work_conserving:
            cursor = plan.order_pointer[device] + g.pulled[device]
            if cursor == plan.order_pointer[device + 1] or g.unfinished[plan.order[cursor]] > 0:
                break
            g.pulled[device] += 1
            pull(p, s, g.message, g.events, flows, plan.assignment, plan.order[cursor], now, switches)


@inlined
def pull(
    p: ProblemArrays, s: State, message: FloatArray, events: Heap, flows: fair.Flows, assignment: IntArray,
    operator: int, now: float, switches: Switches,
) -> None:  # fmt: skip
    """Ask every other device for all inputs that it holds, in one message each.

    Args:
        p: the problem.
        s: the state.
        message: [d] overwritten.
        events: where flows are announced.
        flows: likewise, under fair sharing.
        assignment: [n] device of each operator.
        operator: the reader.
        now: when it asks [s].
        switches: of the runtime.
    """
    b = assignment[operator]
    first, last = p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]
    for a in range(len(message)):
        message[a] = -1.0
    for k in range(first, last):
        a = assignment[p.predecessor[k]]
        if a != b:
            message[a] = max(0.0, message[a]) + p.edge_bytes[p.predecessor_edge[k]]
    for a in range(p.cost.shape[1]):
        if message[a] < 0.0:
            continue
        leader = -1
        sent, arrived = now, now
        if switches.communication != FAIR:
            sent, arrived = transfer(p, s, a, b, message[a], now, switches.communication)
        for k in range(first, last):
            edge = p.predecessor_edge[k]
            if assignment[p.predecessor[k]] != a:
                continue
            if switches.communication != FAIR:
                settle(p, s, edge, sent, arrived)
            elif leader < 0:
                leader = edge
                s.sent[edge] = now
                open_flow(p, events, flows, edge, a, b, message[a], now)
            else:
                s.sent[edge] = now
                fair.join(flows, leader, edge)


@inlined
def _take(p: ProblemArrays, s: State, g: Agenda, plan: Plan, device: int, now: float, switches: Switches) -> int:
    """Launch the operator that a device takes next, if it can take one now; return how many."""
    if g.running[device] >= switches.streams:
        return 0
    ahead = False
    if switches.work_conserving:
        if g.choice.size[device] == 0:
            return 0
        position = pop(g.choice, device)
        operator = p.topological_order[position]
    else:
        cursor = plan.order_pointer[device] + s.launched[device]
        if cursor == plan.order_pointer[device + 1] or s.waiting[plan.order[cursor]] > 0:
            return 0
        operator = plan.order[cursor]
        due = max(s.ready[operator], issue_time(p, s, device, switches))
        if due > now:
            if g.alarm[device] < due:
                g.alarm[device] = due
                push(g.events, 0, due, ALARM + device)
            return 0
        position = int(p.position[operator])
        ahead = p.asynchronous[device]
    g.slot[operator] = s.launched[device]
    launch(p, s, operator, device, now, g.running[device], plan.factor[operator], ahead, switches)
    g.running[device] += 1
    push(g.events, 0, s.finish[operator], FINISH + position)
    return 1
