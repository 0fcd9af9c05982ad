"""Decisions: runs whose operators are committed to devices while they go on.

Until an operator is committed to a device nobody knows where its inputs will be needed, so data move
when the decision is made. Devices run what was committed to them in that order. Changes come as
events: operators that are released late, devices that slow down, devices that are lost.
"""

from __future__ import annotations

import numpy as np

from hetgym._jit import inlined, lean, step
from hetgym._transfer import transfer_time
from hetgym._types import FloatArray
from hetgym.problem import ProblemArrays
from hetgym.sim import fair
from hetgym.sim.changes import lose, slow_down
from hetgym.sim.heap import push
from hetgym.sim.kernel import AGGREGATED, CACHED, State, Switches, settle, way_free
from hetgym.sim.loop import CHANGED, DECIDE, go_on
from hetgym.sim.progress import CHANGE, EVENTS, QUEUED, RELEASE, Progress, clear, open_up
from hetgym.sim.requests import fetch_edge, find_copy, pull

WAIT, GO_ON = -1, -2
"""Decisions that commit nothing: to wait with all operators that are open, and to go on to the first decision."""


@lean
def begin(p: ProblemArrays, s: State, g: Progress, flows: fair.Flows, release: FloatArray, moment: FloatArray) -> None:
    """Set a run whose operators are committed while it goes on to time 0.

    Args:
        p: the problem.
        s: the state.
        g: the run.
        flows: under fair sharing.
        release: [n] when each operator becomes known [s].
        moment: [c] when each change happens [s].
    """
    clear(p, s, g, flows)
    n = len(g.status)
    for device in range(len(g.head)):
        g.head[device] = g.tail[device] = g.pulled[device] = device * n
    for i in range(n):
        if release[i] > 0.0:
            g.missing[i] += 1
            push(g.heaps, EVENTS, release[i], RELEASE + p.position[i])
        elif g.missing[i] == 0:
            open_up(g, i)
    for k in range(len(moment)):
        push(g.heaps, EVENTS, moment[k], CHANGE + k)


@step
def advance(p: ProblemArrays, s: State, g: Progress, flows: fair.Flows, switches: Switches, waited: bool) -> int:
    """Go on until somebody has to decide, or to the end.

    Args:
        p: the problem.
        s: the state.
        g: the run.
        flows: under fair sharing.
        switches: of the runtime.
        waited: whether operators that are open now shall wait until an operator finishes or is released,
            or a device changes.

    Returns:
        :data:`~hetgym.sim.loop.DECIDE`, :data:`~hetgym.sim.loop.STUCK` or :data:`~hetgym.sim.loop.OVER`.
    """
    while True:
        outcome = go_on(p, s, g, flows, switches, waited)
        if outcome != CHANGED:
            return int(outcome)
        number = g.tally[2]
        if g.change[number] == np.inf:
            lose(p, s, g, g.changed[number])
        else:
            slow_down(p, s, g, g.changed[number], g.change[number])
        waited = False


@step
def commit(
    p: ProblemArrays, s: State, g: Progress, flows: fair.Flows, operator: int, device: int, switches: Switches
) -> None:
    """Commit an open operator to a device, and ask for its inputs."""
    now = g.clock[0]
    g.status[operator] = QUEUED
    g.tally[0] -= 1
    g.assignment[operator] = device
    g.queue[g.tail[device]] = operator
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
            fetch_edge(p, s, g, flows, edge, now, switches)
    if switches.transfers == AGGREGATED:
        g.pulled[device] = g.tail[device]
        pull(p, s, g, flows, operator, now, switches)


@lean
def decide(
    p: ProblemArrays, s: State, g: Progress, flows: fair.Flows, operator: int, device: int, switches: Switches
) -> int:
    """Take a decision and go on to the next one, or to the end.

    Args:
        p: the problem.
        s: the state.
        g: the run.
        flows: under fair sharing.
        operator: an open operator to commit; or :data:`WAIT` or :data:`GO_ON`.
        device: the device that it is committed to.
        switches: of the runtime.

    Returns:
        As :func:`advance`.
    """
    if operator >= 0:
        commit(p, s, g, flows, operator, device, switches)
        if g.tally[0] > 0:
            return DECIDE
    return int(advance(p, s, g, flows, switches, operator == WAIT))


@inlined
def busy_until(s: State, g: Progress, device: int) -> float:
    """When a device has done what runs on it [s]; the present if nothing does."""
    now = g.clock[0]
    return float(max(now, s.free[device]) if g.running[device] > 0 else now)


@inlined
def done_after(p: ProblemArrays, s: State, g: Progress, operator: int, device: int, free: float) -> float:
    """When a device would have done a queued operator if it were free for it from ``free`` on [s]."""
    return float(max(free, s.ready[operator]) + p.cost[operator, device] * g.slowdown[device])


@inlined
def backlog(p: ProblemArrays, s: State, g: Progress, device: int) -> float:
    """When a device would have done all that is committed to it, one operator after the other [s]."""
    free = busy_until(s, g, device)
    for k in range(g.head[device], g.tail[device]):
        free = done_after(p, s, g, g.queue[k], device, free)
    return free


@lean
def estimate(
    p: ProblemArrays,
    s: State,
    g: Progress,
    operator: int,
    switches: Switches,
    arrival: FloatArray,
    start: FloatArray,
    finish: FloatArray,
) -> None:
    """Guess when an open operator would run on each device, if it were committed now.

    Each transfer is reckoned by itself on the links as they are booked, and each device as running
    what is queued on it one after the other.

    Args:
        p: the problem.
        s: the state.
        g: the run.
        operator: the operator, which is open.
        switches: of the runtime.
        arrival: [d] filled in: when its last input would be there [s]; inf where it cannot run.
        start: [d] filled in: when it would start [s]; inf where it cannot run.
        finish: [d] filled in: when it would finish [s]; inf where it cannot run.
    """
    now = g.clock[0]
    for device in range(len(g.running)):
        if not g.alive[device] or p.cost[operator, device] == np.inf:
            arrival[device] = start[device] = finish[device] = np.inf
            continue
        ready = now
        for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
            edge = p.predecessor_edge[k]
            a = g.assignment[p.predecessor[k]]
            if a == device:
                continue
            copy = find_copy(p, s, g, edge, device) if switches.transfers == CACHED else -1
            if copy >= 0:
                ready = max(ready, s.arrived[copy] if s.arrived[copy] < np.inf else now)
                continue
            free = way_free(p, switches.communication, s.link_free, s.channel_free, a, device, now)
            ready = max(ready, free + transfer_time(p, a, device, p.edge_bytes[edge]))
        arrival[device] = ready
        start[device] = max(ready, backlog(p, s, g, device))
        finish[device] = start[device] + p.cost[operator, device] * g.slowdown[device]
