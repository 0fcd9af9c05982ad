"""The event loop of a run whose decisions are made while it goes on.

Until an operator is committed to a device nobody knows where its inputs will be needed, so data move
when the decision is made. Devices run what was committed to them in that order. Changes come as
events: operators that are released late, devices that slow down, devices that are lost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._jit import inlined, lean
from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.problem import ProblemArrays
from hetgym.sim import fair
from hetgym.sim.events import ALARM, FINISH, FLOW, NUMBER, READY, open_flow, pull
from hetgym.sim.heap import Heap, new_heap, pop, push
from hetgym.sim.kernel import (
    AGGREGATED,
    CACHED,
    FAIR,
    State,
    Switches,
    launch,
    settle,
    transfer,
    way_free,
)

CHANGE = 4 << 40
"""Kind of event, beside those of :mod:`hetgym.sim.events`: a device changes; after all others of a moment."""

WAITING, OPEN, QUEUED, RUNNING, DONE = 0, 1, 2, 3, 4
"""Of an operator: misses inputs or is not released; may be committed; is committed; runs; has run."""

DECIDE, STUCK, OVER = 0, 1, 2
"""Why the loop stopped: operators are open; they are but nothing will happen; all are done."""


class Live(NamedTuple):
    """What such a run keeps besides the state.

    Attributes:
        status: [n] of each operator.
        missing: [n] inputs that were not made yet, and one more until it is released.
        owed: [e] whether an edge is among them.
        assignment: [n] device, -1 while not committed.
        issue: [n] when the host has issued the operator [s].
        queue: [d, n] what was committed to each device, in turn.
        head, tail: [d] the part of it that has not started.
        running: [d] operators that run now.
        host: [d] until when each device's host is busy [s].
        alarm: [d] until when each device waits for its next operator [s].
        slowdown: [d] factor of run times that start or go on now.
        alive: [d] whether a device exists.
        factor: [n] noise, as a factor of each run time.
        changed: [c] device of each change.
        change: [c] its new slow-down, inf for a loss.
        clock: [1] the time [s].
        tally: [2] operators that are open, and that are done.
        message: [d] scratch.
        events: one heap, by time.
    """

    status: IntArray
    missing: IntArray
    owed: BoolArray
    assignment: IntArray
    issue: FloatArray
    queue: IntArray
    head: IntArray
    tail: IntArray
    running: IntArray
    host: FloatArray
    alarm: FloatArray
    slowdown: FloatArray
    alive: BoolArray
    factor: FloatArray
    changed: IntArray
    change: FloatArray
    clock: FloatArray
    tally: IntArray
    message: FloatArray
    events: Heap


def new_live(p: ProblemArrays, streams: int, factor: FloatArray, changed: IntArray, change: FloatArray) -> Live:
    """Allocate for one run; :func:`begin` fills it in."""
    n, d = p.cost.shape
    e = len(p.successor)
    losses = int(np.isinf(change).sum())  # after each, everything may have to run once more
    room = (1 + losses) * (3 * n + e) + len(change) * (1 + min(streams, n)) + 1
    return Live(
        np.zeros(n, np.int32), np.zeros(n, np.int32), np.ones(e, np.bool_), np.full(n, -1, np.int32), np.zeros(n),
        np.zeros((d, n), np.int32), np.zeros(d, np.int32), np.zeros(d, np.int32), np.zeros(d, np.int32),
        np.zeros(d), np.zeros(d), np.ones(d), np.ones(d, np.bool_), factor, changed, change,
        np.zeros(1), np.zeros(2, np.int32), np.zeros(d), new_heap(1, room),
    )  # fmt: skip


@lean
def begin(p: ProblemArrays, s: State, g: Live, release: FloatArray, moment: FloatArray) -> None:
    """Set a run, freshly allocated, to time 0.

    Args:
        p: the problem.
        s: the state.
        g: the run.
        release: [n] when each operator becomes known [s].
        moment: [c] when each change happens [s].
    """
    for edge in range(len(s.sent)):
        s.sent[edge] = np.inf
        s.arrived[edge] = np.inf
    for i in range(len(g.status)):
        inputs = p.predecessor_pointer[i + 1] - p.predecessor_pointer[i]
        s.waiting[i] = inputs
        g.missing[i] = inputs
        if release[i] > 0.0:
            g.missing[i] += 1
            push(g.events, 0, release[i], READY + p.position[i])
        elif inputs == 0:
            _open(g, i)
    for k in range(len(moment)):
        push(g.events, 0, moment[k], CHANGE + k)


@lean
def advance(p: ProblemArrays, s: State, g: Live, flows: fair.Flows, switches: Switches, waited: bool) -> int:
    """Go on until somebody has to decide.

    Args:
        p: the problem.
        s: the state.
        g: the run.
        flows: under fair sharing.
        switches: of the runtime.
        waited: whether what is open now shall wait until an operator finishes or is released, or a
            device changes.

    Returns:
        :data:`DECIDE`, :data:`STUCK` or :data:`OVER`.
    """
    now = g.clock[0]
    while True:
        if _happen(p, s, g, flows, now, switches):
            waited = False
        if g.tally[0] > 0 and not waited:
            return DECIDE
        took = 0
        for device in range(len(g.running)):
            took += _take(p, s, g, device, now, switches)
        if took > 0 and (switches.streams > 1 or g.events.key[0, 0] == now):
            continue
        following = g.events.key[0, 0] if g.events.size[0] > 0 else np.inf
        if switches.communication == FAIR:
            following = min(following, fair.next_completion(flows, now))
            if following < np.inf:
                fair.advance(flows, following - now)
        if following == np.inf or g.tally[1] == len(g.status):
            return OVER if g.tally[1] == len(g.status) else STUCK
        now = following
        g.clock[0] = now


@lean
def commit(
    p: ProblemArrays, s: State, g: Live, flows: fair.Flows, operator: int, device: int, switches: Switches
) -> None:
    """Commit an open operator to a device, and ask for its inputs."""
    now = g.clock[0]
    g.status[operator] = QUEUED
    g.tally[0] -= 1
    g.assignment[operator] = device
    g.queue[device, g.tail[device]] = operator
    g.tail[device] += 1
    g.issue[operator] = 0.0
    if p.asynchronous[device]:
        g.host[device] = max(g.host[device], now) + switches.dispatch
        g.issue[operator] = g.host[device]
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        i, edge = p.predecessor[k], p.predecessor_edge[k]
        if g.assignment[i] == device:
            settle(p, s, edge, s.finish[i], s.finish[i])
        elif switches.transfers != AGGREGATED:
            _fetch(p, s, g, flows, i, edge, device, now, switches)
    if switches.transfers == AGGREGATED:
        pull(p, s, g.message, g.events, flows, g.assignment, operator, now, switches)


@lean
def estimate(
    p: ProblemArrays, s: State, g: Live, operator: int, switches: Switches, arrival: FloatArray, start: FloatArray,
    finish: FloatArray,
) -> None:  # fmt: skip
    """Guess when an open operator would run on each device, if it were committed now.

    Each transfer is reckoned by itself on the links as they are booked, and each device as running
    what is queued on it one after the other.

    Args:
        p: the problem.
        s: the state.
        g: the run.
        operator: what is open.
        switches: of the runtime.
        arrival: [d] filled in: when its last input would be there [s]; inf where it cannot run.
        start: [d] likewise, when it would start [s].
        finish: [d] likewise, when it would finish [s].
    """
    now = g.clock[0]
    for device in range(len(g.running)):
        if not g.alive[device] or p.cost[operator, device] == np.inf:
            arrival[device] = start[device] = finish[device] = np.inf
            continue
        ready = now
        for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
            i, edge = p.predecessor[k], p.predecessor_edge[k]
            a = g.assignment[i]
            if a == device:
                continue
            copy = _copy(p, s, g, i, edge, device) if switches.transfers == CACHED else -1
            if copy >= 0:
                ready = max(ready, s.arrived[copy] if s.arrived[copy] < np.inf else now)
                continue
            free = way_free(p, switches.communication, s.link_free, s.channel_free, a, device, now)
            ready = max(ready, free + (p.latency[a, device] + p.edge_bytes[edge] / p.bandwidth[a, device]))
        free = max(now, s.free[device]) if g.running[device] > 0 else now
        for k in range(g.head[device], g.tail[device]):
            queued = g.queue[device, k]
            free = max(free, s.ready[queued]) + p.cost[queued, device] * g.slowdown[device]
        arrival[device] = ready
        start[device] = max(ready, free)
        finish[device] = start[device] + p.cost[operator, device] * g.slowdown[device]


@inlined
def _open(g: Live, operator: int) -> None:
    g.status[operator] = OPEN
    g.tally[0] += 1


@inlined
def _happen(p: ProblemArrays, s: State, g: Live, flows: fair.Flows, now: float, switches: Switches) -> bool:
    """Let everything happen that is due now; return whether that is news for who decides."""
    news = False
    while True:
        while g.events.size[0] > 0 and g.events.key[0, 0] == now:
            event = pop(g.events, 0)
            kind, number = event & ~NUMBER, event & NUMBER
            if kind == FINISH:
                operator = p.topological_order[number]
                if g.status[operator] == RUNNING and s.finish[operator] == now:  # else it was put off or taken back
                    _finish(p, g, operator)
                    news = True
            elif kind == READY:
                news = True
                operator = p.topological_order[number]
                g.missing[operator] -= 1
                if g.missing[operator] == 0:
                    _open(g, operator)
            elif kind == FLOW:
                fair.begin(flows, number)
            elif kind == CHANGE:
                news = True
                if g.change[number] == np.inf:
                    _lose(p, s, g, g.changed[number], now)
                else:
                    _slow_down(s, g, p, g.changed[number], g.change[number], now)
        if switches.communication == FAIR:
            fair.complete(p, s, flows, now)
        if g.events.size[0] == 0 or g.events.key[0, 0] > now:
            return news


@inlined
def _finish(p: ProblemArrays, g: Live, operator: int) -> None:
    g.status[operator] = DONE
    g.tally[1] += 1
    g.running[g.assignment[operator]] -= 1
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        if g.owed[edge]:
            target = p.successor[edge]
            g.owed[edge] = False
            g.missing[target] -= 1
            if g.missing[target] == 0:
                _open(g, target)


@inlined
def _copy(p: ProblemArrays, s: State, g: Live, source: int, edge: int, device: int) -> int:
    """An edge that took this edge's tensor to the device already, or is about to; -1 without one."""
    for other in range(p.successor_pointer[source], p.successor_pointer[source + 1]):
        if (
            other != edge
            and p.edge_tensor[other] == p.edge_tensor[edge]
            and g.assignment[p.successor[other]] == device
            and s.sent[other] < np.inf
            and p.edge_bytes[other] >= p.edge_bytes[edge]
        ):
            return other
    return -1


@inlined
def _fetch(
    p: ProblemArrays, s: State, g: Live, flows: fair.Flows, source: int, edge: int, device: int, now: float,
    switches: Switches,
) -> None:  # fmt: skip
    """Bring one input of a committed operator to its device."""
    a = g.assignment[source]
    copy = _copy(p, s, g, source, edge, device) if switches.transfers == CACHED else -1
    if copy >= 0 and s.arrived[copy] < np.inf:
        settle(p, s, edge, s.sent[copy], s.arrived[copy])
    elif copy >= 0:
        s.sent[edge] = s.sent[copy]
        fair.join(flows, copy, edge)
    elif switches.communication == FAIR:
        s.sent[edge] = now
        open_flow(p, g.events, flows, edge, a, device, p.edge_bytes[edge], now)
    else:
        sent, arrived = transfer(p, s, a, device, p.edge_bytes[edge], now, switches.communication)
        settle(p, s, edge, sent, arrived)


@inlined
def _take(p: ProblemArrays, s: State, g: Live, device: int, now: float, switches: Switches) -> int:
    """Start the next operator of a device's queue, if that is possible now; return how many."""
    if g.running[device] >= switches.streams or g.head[device] == g.tail[device]:
        return 0
    operator = g.queue[device, g.head[device]]
    if s.waiting[operator] > 0:
        return 0
    due = max(s.ready[operator], g.issue[operator])
    if due > now:
        if g.alarm[device] < due:
            g.alarm[device] = due
            push(g.events, 0, due, ALARM + device)
        return 0
    g.head[device] += 1
    factor = g.factor[operator] * g.slowdown[device]
    launch(p, s, operator, device, now, g.running[device], factor, p.asynchronous[device], switches)
    g.status[operator] = RUNNING
    g.running[device] += 1
    push(g.events, 0, s.finish[operator], FINISH + p.position[operator])
    return 1


@inlined
def _slow_down(s: State, g: Live, p: ProblemArrays, device: int, factor: float, now: float) -> None:
    """Let a device take another factor of all run times from now on; what runs goes on at the new speed."""
    ratio = factor / g.slowdown[device]
    g.slowdown[device] = factor
    for k in range(g.head[device] if g.alive[device] else 0):
        operator = g.queue[device, k]
        if g.status[operator] == RUNNING:
            since = max(now, s.start[operator])
            s.finish[operator] = since + (s.finish[operator] - since) * ratio
            s.free[device] = max(now, s.finish[operator])
            push(g.events, 0, s.finish[operator], FINISH + p.position[operator])


@inlined
def _lose(p: ProblemArrays, s: State, g: Live, device: int, now: float) -> None:
    """Take a device away with all that is on it.

    What is queued or runs there must be committed anew; so must what waits elsewhere for data under
    way from there. Results that somebody still has to fetch from it are made again.
    """
    if not g.alive[device]:
        return
    g.alive[device] = False
    g.running[device] = 0
    for i in range(len(g.status)):
        if (g.status[i] == QUEUED or g.status[i] == RUNNING) and g.assignment[i] == device:
            _take_back(p, s, g, i)
    g.tail[device] = g.head[device]
    for other in range(len(g.running)):
        kept = g.head[other]
        for k in range(g.head[other], g.tail[other]):
            operator = g.queue[other, k]
            if _comes_from(p, s, g, operator, device, now):
                _take_back(p, s, g, operator)
            else:
                g.queue[other, kept] = operator
                kept += 1
        g.tail[other] = kept
    for k in range(len(g.status) - 1, -1, -1):
        i = p.topological_order[k]
        if g.status[i] == DONE and g.assignment[i] == device:
            _make_again(p, s, g, i)
    for i in range(len(g.status)):
        if g.status[i] == WAITING and g.missing[i] == 0:
            _open(g, i)


@inlined
def _comes_from(p: ProblemArrays, s: State, g: Live, operator: int, device: int, now: float) -> bool:
    """Whether a committed operator waits for data under way from a device."""
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        if g.assignment[p.predecessor[k]] == device and s.arrived[p.predecessor_edge[k]] > now:
            return True
    return False


@inlined
def _take_back(p: ProblemArrays, s: State, g: Live, operator: int) -> None:
    """Undo a commitment; what was fetched for it is fetched again later."""
    g.status[operator] = WAITING
    g.assignment[operator] = -1
    s.ready[operator] = 0.0
    s.waiting[operator] = p.predecessor_pointer[operator + 1] - p.predecessor_pointer[operator]
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        s.sent[p.predecessor_edge[k]] = np.inf
        s.arrived[p.predecessor_edge[k]] = np.inf


@inlined
def _make_again(p: ProblemArrays, s: State, g: Live, operator: int) -> None:
    """Let a finished operator, whose result is lost, run again if anybody still has to fetch that."""
    needed = False
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        target = p.successor[edge]
        if g.status[target] == WAITING or g.status[target] == OPEN:
            if g.status[target] == OPEN:
                g.status[target] = WAITING
                g.tally[0] -= 1
            g.owed[edge] = True
            g.missing[target] += 1
            needed = True
    if needed:
        g.tally[1] -= 1
        _take_back(p, s, g, operator)
