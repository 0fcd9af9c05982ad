"""The event loop: simulation with a clock, for runs in which the order of events matters.

A schedule is a run whose operators are all committed at time 0 (:func:`begin_schedule`); online, they
are committed during the run (:mod:`hetgym.sim.decisions`). Shared links, several streams, pulled
transfers, fair sharing, dispatch by priorities and decisions need the loop. Runs that need no clock go
through :mod:`hetgym.sim.sweep`.

All events of one instant are processed before a decision is asked for and before any device takes an
operator. Then every device that can takes one operator. Events that operators of zero duration cause at
the same instant are processed before the next choice.

Transfers requested at one instant are booked in a fixed order:

- pushed transfers by their producer's position in its device's order, then by the reader's id, then by edge;
- transfers that a reader fetches when it is committed in the order of commitments, then of its inputs;
- pulled transfers by the reader's device, then by that device's order, then by source device.
"""

from __future__ import annotations

import numpy as np

from hetgym._kernels.heap import pop, push
from hetgym._kernels.jit import inlined, lean
from hetgym._types import FloatArray, IntArray
from hetgym.problem import ProblemArrays
from hetgym.sim import fair
from hetgym.sim.kernel import AGGREGATED, FAIR, State, Switches, launch, makespan_of, settle
from hetgym.sim.progress import (
    ALARM,
    ARRIVAL,
    ASKED,
    BEGIN,
    CHANGE,
    CHOICE,
    DONE,
    EVENTS,
    FINISH,
    FLOW,
    NUMBER,
    QUEUED,
    RELEASE,
    RUNNING,
    Progress,
    clear,
    open_up,
)
from hetgym.sim.requests import pull, push_edge
from hetgym.sim.sharing import ends_next, join, leave, settle_down

DECIDE, STUCK, OVER, CHANGED = range(4)
"""Reasons for which the loop stops: a decision is due, as operators are open; no further event will come although some
operators have not run, or the makespan must exceed the limit; all operators are done; the change numbered ``tally[2]``
is due."""


@inlined
def begin_schedule(
    p: ProblemArrays,
    s: State,
    g: Progress,
    flows: fair.Flows,
    assignment: IntArray,
    order: IntArray,
    order_pointer: IntArray,
    priority: FloatArray,
    switches: Switches,
) -> None:
    """Set a run to time 0 and commit all operators, which are known from the start.

    The host of an accelerator runs ahead of it: it has issued the k-th operator of its order after k times
    the dispatch time. A CPU is its own host and issues an operator when it takes it.

    Args:
        p: the problem.
        s: the state.
        g: the run.
        flows: under fair sharing.
        assignment: [n] device of each operator.
        order: [n] operators, device after device; not read if work-conserving.
        order_pointer: [d + 1] start of each device's part; not read if work-conserving.
        priority: [n] larger first, ties by topological position; only read if work-conserving, and not by arrival.
        switches: of the runtime.
    """
    clear(p, s, g, flows)
    for i in range(len(g.status)):
        g.status[i] = QUEUED
        g.assignment[i] = assignment[i]
        g.queue[i] = order[i]
    for device in range(len(g.head)):
        first, last = order_pointer[device], order_pointer[device + 1]
        g.head[device] = g.pulled[device] = first
        g.tail[device] = last
        if p.asynchronous[device] and not switches.work_conserving:
            for k in range(first, last):
                g.issue[order[k]] = (k - first + 1) * switches.dispatch
    if switches.work_conserving:
        for i in range(len(g.status)):
            g.priority[i] = 0.0 if switches.by_arrival else priority[i]
            _announce(p, s, g, i, 0.0, switches)


# Invariant at the head of the loop: everything before ``now`` has happened; every running operator has a FINISH event
# at its finish, or, with several streams, the first of its device to finish has; every transfer under way, and every
# device that waits for a known time, has an event or is a flow. A turn processes the events of this instant, then
# books the transfers that they requested, in the order of requests and not of events, then ends the flows that are
# complete. If that makes an event due at the same instant (a flow without latency or bytes), the next turn processes
# it before any decision or launch. ``now`` never decreases. Events come from launches, requests, releases, changes,
# and one alarm for each due time of a device; so the loop ends. An event costs O(log n), a turn O(d).
@inlined
def go_on(p: ProblemArrays, s: State, g: Progress, flows: fair.Flows, switches: Switches, waited: bool) -> int:
    """Simulate until a decision is due, a device changes, or the run ends.

    Args:
        p: the problem.
        s: the state.
        g: the run.
        flows: under fair sharing.
        switches: of the runtime.
        waited: true if no decision is due until an operator finishes or is released.

    Returns:
        :data:`DECIDE`, :data:`STUCK`, :data:`OVER` or :data:`CHANGED`.
    """
    now = g.clock[0]
    while True:
        while g.heaps.size[EVENTS] > 0 and g.heaps.key[0] == now:
            event = pop(g.heaps, EVENTS)
            if event >= CHANGE:
                g.tally[2] = event - CHANGE
                return CHANGED
            if _occur(p, s, g, flows, event, now, switches):
                waited = False
        _request(p, s, g, flows, now, switches)
        if switches.communication == FAIR:
            for k in range(fair.complete(p, s, flows, now)):
                _announce(p, s, g, flows.served[k], now, switches)
        if g.heaps.size[EVENTS] > 0 and g.heaps.key[0] <= now:
            continue
        if g.tally[0] > 0 and not waited:
            _share(p, s, g, now, switches)
            return DECIDE
        took = 0
        for device in range(len(g.running)):
            launched = _take(p, s, g, device, now, switches)
            if launched < 0:
                return STUCK
            took += launched
        if took > 0 and (switches.streams > 1 or g.heaps.key[0] == now):
            continue
        if g.tally[1] == len(g.status):
            return OVER
        _share(p, s, g, now, switches)
        following = g.heaps.key[0] if g.heaps.size[EVENTS] > 0 else np.inf
        if switches.communication == FAIR:
            following = min(following, fair.next_completion(flows, now))
            if following < np.inf:
                fair.advance(flows, following - now)
        if following == np.inf:
            return STUCK
        now = following
        g.clock[0] = now


@lean
def run_schedules(
    p: ProblemArrays,
    s: State,
    g: Progress,
    flows: fair.Flows,
    assignment: IntArray,
    order: IntArray,
    order_pointer: IntArray,
    priority: FloatArray,
    switches: Switches,
    makespan: FloatArray,
) -> int:
    """Run schedules one after the other: a row of every array for each, see :func:`begin_schedule`.

    The ``makespan`` of each [s] is filled in, inf for a deadlock. Returns the smallest number of operators
    that ran in one of them.
    """
    least = len(s.start)
    for b in range(len(makespan)):
        begin_schedule(p, s, g, flows, assignment[b], order[b], order_pointer[b], priority[b], switches)
        go_on(p, s, g, flows, switches, False)
        makespan[b] = makespan_of(s, g.tally[1])
        least = min(least, g.tally[1])
    return least


@inlined
def _occur(
    p: ProblemArrays, s: State, g: Progress, flows: fair.Flows, event: int, now: float, switches: Switches
) -> bool:
    """Process an event; return true if it ends a wait for decisions: a finish or a release."""
    kind, number = event & ~NUMBER, event & NUMBER
    if kind == ALARM:  # wakes the loop; ``_take`` launches the operator
        return False
    if kind == FLOW:
        fair.begin(flows, number)
        return False
    operator = p.topological_order[number]
    if kind == ARRIVAL:
        push(g.heaps, CHOICE + g.assignment[operator], -g.priority[operator], number)
        return False
    if kind == BEGIN:
        if g.status[operator] == RUNNING and g.sharing.stretch[operator] == 0.0 and s.start[operator] == now:
            _begin(p, s, g, operator, now)
        return False
    if kind == RELEASE:
        g.missing[operator] -= 1
        if g.missing[operator] == 0:
            open_up(g, operator)
        return True
    if g.status[operator] != RUNNING or s.finish[operator] != now:
        return False  # stale: the finish has moved, or the operator was taken back
    if switches.streams > 1 and g.sharing.stretch[operator] == 0.0:
        return False  # stale, too: it was taken back, and is being dispatched once more
    _finish(p, s, g, operator, now, switches)
    return True


@inlined
def _finish(p: ProblemArrays, s: State, g: Progress, operator: int, now: float, switches: Switches) -> None:
    """Free the device, and hand outputs to their readers.

    Readers that are not committed yet open once no predecessor is missing. Committed readers on the same
    device have the output at once. For those on other devices a transfer is requested, unless transfers
    are pulled.
    """
    g.status[operator] = DONE
    g.tally[1] += 1
    device = g.assignment[operator]
    g.running[device] -= 1
    if switches.streams > 1:
        leave(g.sharing, operator, device)
        beside = ends_next(p, s, g.sharing, device)
        if beside >= 0 and s.finish[beside] == now:
            push(g.heaps, EVENTS, now, FINISH + p.position[beside])
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        if s.sent[edge] < np.inf:
            continue  # the operator ran again, and this reader got its data from the first run
        target = p.successor[edge]
        there = g.assignment[target]
        g.missing[target] -= 1
        if there < 0:
            if g.missing[target] == 0:
                open_up(g, target)
            continue
        if there == device:
            settle(p, s, edge, now, now)
            _announce(p, s, g, target, now, switches)
        elif switches.transfers != AGGREGATED:
            push(g.heaps, ASKED, float(g.slot[operator]), (int(target) << 32) | edge)
        if switches.transfers == AGGREGATED and switches.work_conserving and g.missing[target] == 0:
            push(g.heaps, CHOICE + len(g.running) + there, -g.priority[target], p.position[target])


@inlined
def _announce(p: ProblemArrays, s: State, g: Progress, operator: int, now: float, switches: Switches) -> None:
    """Offer an operator to its work-conserving device from the arrival of its last input on, once that is known."""
    if not switches.work_conserving or s.waiting[operator] != 0:
        return
    s.waiting[operator] = -1  # announced only once
    if switches.by_arrival:
        g.priority[operator] = -s.ready[operator]
    if s.ready[operator] > now:
        push(g.heaps, EVENTS, s.ready[operator], ARRIVAL + p.position[operator])
    else:
        push(g.heaps, CHOICE + g.assignment[operator], -g.priority[operator], p.position[operator])


@inlined
def _request(p: ProblemArrays, s: State, g: Progress, flows: fair.Flows, now: float, switches: Switches) -> None:
    """Start the transfers that committed readers can have now: pushed edges in their order, or pulls in turn."""
    while g.heaps.size[ASKED] > 0:
        edge = pop(g.heaps, ASKED) & 0xFFFFFFFF
        push_edge(p, s, g, flows, edge, now, switches)
        _announce(p, s, g, p.successor[edge], now, switches)
    if switches.transfers != AGGREGATED:
        return
    for device in range(len(g.running)):
        callers = CHOICE + len(g.running) + device
        while g.heaps.size[callers] > 0:
            operator = p.topological_order[pop(g.heaps, callers)]
            pull(p, s, g, flows, operator, now, switches)
            _announce(p, s, g, operator, now, switches)
        while not switches.work_conserving and g.pulled[device] < g.tail[device]:
            operator = g.queue[g.pulled[device]]
            if g.missing[operator] > 0:
                break
            g.pulled[device] += 1
            pull(p, s, g, flows, operator, now, switches)


@inlined
def _take(p: ProblemArrays, s: State, g: Progress, device: int, now: float, switches: Switches) -> int:
    """Launch the operator that a device takes next, if it can take one now.

    Returns:
        The number launched, 0 or 1; or -1 if the makespan must exceed the limit.
    """
    if g.running[device] >= switches.streams:
        return 0
    ahead = False
    if switches.work_conserving:
        if g.heaps.size[CHOICE + device] == 0:
            return 0
        position = pop(g.heaps, CHOICE + device)
        operator = p.topological_order[position]
    else:
        if g.head[device] == g.tail[device]:
            return 0
        operator = g.queue[g.head[device]]
        if s.waiting[operator] > 0:
            return 0
        due = max(s.ready[operator], g.issue[operator])
        if due > now:
            if g.alarm[device] < due:
                g.alarm[device] = due
                push(g.heaps, EVENTS, due, ALARM + device)
            return 0
        g.head[device] += 1
        position = int(p.position[operator])
        ahead = p.asynchronous[device]
    g.slot[operator] = s.launched[device]
    factor = g.factor[operator] * g.slowdown[device]
    launch(p, s, operator, device, now, g.running[device], factor, ahead, switches)
    g.status[operator] = RUNNING
    g.running[device] += 1
    if switches.streams == 1:
        push(g.heaps, EVENTS, s.finish[operator], FINISH + position)
    elif s.start[operator] > now:
        g.sharing.stretch[operator] = 0.0
        push(g.heaps, EVENTS, s.start[operator], BEGIN + position)
    else:
        _begin(p, s, g, operator, now)
    if g.limit[0] < np.inf:
        least = now + g.load[device]  # even without a pause, with several streams
        work = g.factor[operator] * p.cost[operator, device]
        g.load[device] -= work if switches.streams == 1 else work * p.occupancy[operator, device]
        if switches.streams == 1:
            least = s.finish[operator] + g.load[device]
        if max(least, s.finish[operator] + g.rest[operator]) > g.limit[0]:
            return -1
    return 1


@inlined
def _begin(p: ProblemArrays, s: State, g: Progress, operator: int, now: float) -> None:
    """Let an operator run beside others; one that takes no time ends in this instant."""
    join(g.sharing, operator, g.assignment[operator])
    if s.finish[operator] == now:
        push(g.heaps, EVENTS, now, FINISH + p.position[operator])


@inlined
def _share(p: ProblemArrays, s: State, g: Progress, now: float, switches: Switches) -> None:
    """Where what runs beside each other has changed, find out anew what finishes next, and when."""
    if switches.streams == 1:
        return
    for device in range(len(g.running)):
        if g.sharing.stirred[device]:
            settle_down(p, s, g.sharing, device, now)
            following = ends_next(p, s, g.sharing, device)
            if following >= 0:
                push(g.heaps, EVENTS, s.finish[following], FINISH + p.position[following])
