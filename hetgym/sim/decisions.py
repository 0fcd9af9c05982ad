"""Decisions: runs whose operators are committed to devices while they go on.

Until an operator is committed to a device, it is unknown where its inputs will be needed, so data move
when the decision is made. A device runs its operators in the order in which they were committed.
Changes are events: operators that are released late, devices that slow down, devices that are lost.
"""

from __future__ import annotations

import numpy as np

from hetgym._kernels.jit import inlined, lean, step
from hetgym._types import FloatArray, IntArray
from hetgym.problem import ProblemArrays
from hetgym.sim import fair
from hetgym.sim.changes import lose, slow_down
from hetgym.sim.kernel import AGGREGATED, CACHED, FAIR, State, Switches, new_state, settle, way_free
from hetgym.sim.loop import CHANGED, DECIDE, go_on
from hetgym.sim.progress import (
    CHANGE,
    EVENTS,
    QUEUED,
    RELEASE,
    WAITING,
    Progress,
    clear,
    online_progress,
    open_up,
)
from hetgym.sim.requests import fetch_edge, find_copy, pull
from hetgym.transfer import transfer_time

WAIT, GO_ON = -1, -2
"""Decisions that commit nothing: leave all open operators waiting, or start the run up to its first decision."""


def new_run(
    p: ProblemArrays,
    switches: Switches,
    factor: FloatArray,
    release: FloatArray,
    changed: IntArray,
    change: FloatArray,
    moment: FloatArray,
) -> tuple[State, Progress, fair.Flows]:
    """A run at time 0, before the first decision.

    Args:
        p: the problem.
        switches: of the runtime, not work-conserving.
        factor: [n] noise, as a factor of each run time.
        release: [n] time at which each operator becomes known [s].
        changed: [c] device of each change.
        change: [c] its new slow-down, inf for a loss.
        moment: [c] time of each change [s].
    """
    s, g = new_state(p), online_progress(p, switches, factor, changed, change)
    flows = fair.new_flows(p, switches.communication == FAIR)
    restart(p, s, g, flows)
    late = np.flatnonzero(release > 0)
    if len(late) or len(moment):
        g.missing[late] += 1
        g.status[late] = WAITING
        g.tally[0] = np.count_nonzero(g.missing == 0)
        code = np.concatenate([RELEASE + p.position[late].astype(np.int64), CHANGE + np.arange(len(moment))])
        key = np.concatenate([release[late], moment])
        order = np.lexsort((code, key))  # a sorted array is a heap
        g.heaps.key[: len(key)], g.heaps.code[: len(key)] = key[order], code[order]
        g.heaps.size[EVENTS] = len(key)
    return s, g, flows


@lean
def restart(p: ProblemArrays, s: State, g: Progress, flows: fair.Flows) -> None:
    """Return a run without late operators and changes to time 0, before the first decision."""
    clear(p, s, g, flows)
    for i in range(len(g.status)):
        g.missing[i] = s.waiting[i]
        if g.missing[i] == 0:
            open_up(g, i)
    for device in range(len(g.head)):
        g.head[device] = g.tail[device] = g.pulled[device] = device * len(g.status)


@lean
def decide(
    p: ProblemArrays, s: State, g: Progress, flows: fair.Flows, operator: int, device: int, switches: Switches
) -> int:
    """As :func:`play`, for Python."""
    return play(p, s, g, flows, operator, device, switches)


@step
def play(
    p: ProblemArrays, s: State, g: Progress, flows: fair.Flows, operator: int, device: int, switches: Switches
) -> int:
    """Take a decision and simulate until the next one is due, or to the end.

    Args:
        p: the problem.
        s: the state.
        g: the run.
        flows: under fair sharing.
        operator: an open operator to commit; :data:`WAIT` to wait until an operator finishes or is
            released, or a device changes; or :data:`GO_ON`.
        device: the device that the operator is committed to; not read without an operator.
        switches: of the runtime.

    Returns:
        :data:`~hetgym.sim.loop.DECIDE`, :data:`~hetgym.sim.loop.STUCK` or :data:`~hetgym.sim.loop.OVER`.
    """
    if operator >= 0:
        _commit(p, s, g, flows, operator, device, switches)
        if g.tally[0] > 0:
            return DECIDE
    waited = operator == WAIT
    while True:
        outcome = go_on(p, s, g, flows, switches, waited)
        if outcome != CHANGED:
            return outcome
        number = g.tally[2]
        if g.change[number] == np.inf:
            lose(p, s, g, g.changed[number])
        else:
            slow_down(p, s, g, g.changed[number], g.change[number])
        waited = False


@inlined
def _commit(
    p: ProblemArrays, s: State, g: Progress, flows: fair.Flows, operator: int, device: int, switches: Switches
) -> None:
    """Commit an open operator to a device, and request its inputs."""
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


@step
def busy_until(s: State, g: Progress, device: int) -> float:
    """Time at which a device finishes what it runs [s]; the current time if it runs nothing."""
    now = g.clock[0]
    return float(max(now, s.free[device]) if g.running[device] > 0 else now)


@step
def done_after(p: ProblemArrays, s: State, g: Progress, operator: int, device: int, free: float) -> float:
    """Time at which a device that is free from ``free`` on would finish a queued operator [s]."""
    return float(max(free, s.ready[operator]) + p.cost[operator, device] * g.slowdown[device])


@step
def backlog(p: ProblemArrays, s: State, g: Progress, device: int) -> float:
    """Time at which a device would finish all operators committed to it, one after the other [s]."""
    free = busy_until(s, g, device)
    for k in range(g.head[device], g.tail[device]):
        free = done_after(p, s, g, g.queue[k], device, free)
    return free


@lean
def look(
    p: ProblemArrays,
    s: State,
    g: Progress,
    operator: int,
    switches: Switches,
    arrival: FloatArray,
    start: FloatArray,
    finish: FloatArray,
) -> None:
    """As :func:`estimate`, for Python."""
    estimate(p, s, g, operator, switches, arrival, start, finish)


# For each device independently: ``ready`` is the latest arrival over the inputs looked at so far, and at
# least the current time. Transfers of the same operator do not delay each other here, and nothing is
# booked; the state does not change. O(d (inputs + queued operators)), with cached transfers also the
# search for a copy of each input.
@step
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
    """Estimate the start and the finish of an open operator on each device if it were committed now.

    Each transfer is estimated by itself, given the current bookings of the links. Each device is assumed
    to run its queued operators one after the other.

    Args:
        p: the problem.
        s: the state.
        g: the run.
        operator: the operator, which is open.
        switches: of the runtime.
        arrival: [d] filled in: arrival of its last input [s]; inf where it cannot run.
        start: [d] filled in: its start [s]; inf where it cannot run.
        finish: [d] filled in: its finish [s]; inf where it cannot run.
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
