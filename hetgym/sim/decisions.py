"""Decisions: runs whose operators are committed to devices during the run.

Until an operator is committed, it is unknown where its inputs will be needed, so data move when the decision is made. A
device runs its operators in the order in which they were committed. Changes are events: operators that are released
late, devices that slow down, devices that are lost.
"""

import numpy as np

from hetgym._kernels.interpreted import interpreted
from hetgym._kernels.jit import lean, step
from hetgym._types import FloatArray, IntArray
from hetgym.problem import ProblemArrays
from hetgym.sim.changes import lose, slow_down
from hetgym.sim.kernel import AGGREGATED, CACHED, State, Switches, new_state, settle, way_free
from hetgym.sim.loop import CHANGED, DECIDE, go_on
from hetgym.sim.progress import (
    CHANGE,
    EVENTS,
    QUEUED,
    RELEASE,
    WAITING,
    Progress,
    Sharing,
    clear,
    new_sharing,
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
) -> tuple[State, Progress, Sharing | None]:
    """A run at time 0, before the first decision.

    Args:
        switches: switches of the runtime, not work-conserving.
        factor: [n] noise, as a factor of each run time.
        release: [n] time at which each operator becomes known [s].
        changed: [c] device of each change.
        change: [c] its new slow-down, inf for a loss.
        moment: [c] time of each change [s].
    """
    s, run = new_state(p), online_progress(p, switches, factor, changed, change)
    sharing = new_sharing(p, switches)
    restart(p, s, run, sharing)
    late = np.flatnonzero(release > 0)
    if len(late) or len(moment):
        run.missing[late] += 1
        run.status[late] = WAITING
        run.tally[0] = np.count_nonzero(run.missing == 0)
        code = np.concatenate([RELEASE + p.position[late].astype(np.int64), CHANGE + np.arange(len(moment))])
        key = np.concatenate([release[late], moment])
        order = np.lexsort((code, key))  # a sorted array is a heap
        run.heaps.key[: len(key)], run.heaps.code[: len(key)] = key[order], code[order]
        run.heaps.size[EVENTS] = len(key)
    return s, run, sharing


@interpreted
@lean
def restart(p: ProblemArrays, s: State, run: Progress, sharing: Sharing | None) -> None:
    """Return a run without late operators and changes to time 0, before the first decision."""
    clear(p, s, run, sharing)
    for i in range(len(run.status)):
        run.missing[i] = s.waiting[i]
        if run.missing[i] == 0:
            open_up(run, i)
    for device in range(len(run.head)):
        run.head[device] = run.tail[device] = run.pulled[device] = device * len(run.status)


@lean
def decide(
    p: ProblemArrays, s: State, run: Progress, sharing: Sharing | None, operator: int, device: int, switches: Switches
) -> int:
    """As :func:`play`, for Python."""
    return play(p, s, run, sharing, operator, device, switches)


@step
def play(
    p: ProblemArrays, s: State, run: Progress, sharing: Sharing | None, operator: int, device: int, switches: Switches
) -> int:
    """Take a decision and simulate until the next one is due, or to the end.

    Args:
        operator: an open operator to commit; :data:`WAIT` to wait until an operator finishes or is
            released, or a device changes; or :data:`GO_ON`.
        device: the device that the operator is committed to; not read without an operator.

    Returns:
        :data:`~hetgym.sim.loop.DECIDE`, :data:`~hetgym.sim.loop.STUCK` or :data:`~hetgym.sim.loop.OVER`.
    """
    if operator >= 0:
        _commit(p, s, run, sharing, operator, device, switches)
        if run.tally[0] > 0:
            return DECIDE
    waited = operator == WAIT
    while True:
        outcome = go_on(p, s, run, sharing, switches, waited)
        if outcome != CHANGED:
            return outcome
        number = run.tally[2]
        if run.change[number] == np.inf:
            lose(p, s, run, sharing, run.changed[number])
        else:
            slow_down(p, s, run, sharing, run.changed[number], run.change[number])
        waited = False


@step
def _commit(
    p: ProblemArrays, s: State, run: Progress, sharing: Sharing | None, operator: int, device: int, switches: Switches
) -> None:
    """Commit an open operator to a device, and request its inputs."""
    now = run.clock[0]
    run.status[operator] = QUEUED
    run.tally[0] -= 1
    run.assignment[operator] = device
    run.queue[run.tail[device]] = operator
    run.tail[device] += 1
    run.issue[operator] = 0.0
    if p.asynchronous[device]:
        run.host[device] = max(run.host[device], now) + switches.dispatch
        run.issue[operator] = run.host[device]
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        i, edge = p.predecessor[k], p.predecessor_edge[k]
        if run.assignment[i] == device:
            settle(p, s, edge, s.finish[i], s.finish[i])
        elif switches.transfers != AGGREGATED:
            fetch_edge(p, s, run, sharing, edge, now, switches)
    if switches.transfers == AGGREGATED:
        run.pulled[device] = run.tail[device]
        pull(p, s, run, sharing, operator, now, switches)


@step
def busy_until(s: State, run: Progress, device: int) -> float:
    """Time at which a device finishes what it runs [s]; the current time if it runs nothing."""
    now = run.clock[0]
    return float(max(now, s.free[device]) if run.running[device] > 0 else now)


@step
def done_after(p: ProblemArrays, s: State, run: Progress, operator: int, device: int, free: float) -> float:
    """Time at which a device that is free from ``free`` on would finish a queued operator [s]."""
    return float(max(free, s.ready[operator]) + p.cost[operator, device] * run.slowdown[device])


@step
def backlog(p: ProblemArrays, s: State, run: Progress, device: int) -> float:
    """Time at which a device would finish all operators committed to it, one after the other [s]."""
    free = busy_until(s, run, device)
    for k in range(run.head[device], run.tail[device]):
        free = done_after(p, s, run, run.queue[k], device, free)
    return free


@lean
def look(
    p: ProblemArrays,
    s: State,
    run: Progress,
    operator: int,
    switches: Switches,
    arrival: FloatArray,
    start: FloatArray,
    finish: FloatArray,
) -> None:
    """As :func:`estimate`, for Python."""
    estimate(p, s, run, operator, switches, arrival, start, finish)


# For each device independently: ``ready`` is the latest arrival over the inputs looked at so far, and at least the
# current time. Transfers of the same operator do not delay each other here, and nothing is booked; the state does not
# change. O(d (inputs + queued operators)), with cached transfers also the search for a copy of each input.
@step
def estimate(
    p: ProblemArrays,
    s: State,
    run: Progress,
    operator: int,
    switches: Switches,
    arrival: FloatArray,
    start: FloatArray,
    finish: FloatArray,
) -> None:
    """Estimate the start and the finish of an open operator on each device if it were committed now.

    Each transfer is estimated by itself, given the current bookings of the links. Each device is assumed to run its
    queued operators one after the other. Fills in ``arrival`` of the last input, ``start`` and ``finish``, [d] each
    [s]; inf where the operator cannot run.
    """
    now = run.clock[0]
    for device in range(len(run.running)):
        if not run.alive[device] or p.cost[operator, device] == np.inf:
            arrival[device] = start[device] = finish[device] = np.inf
            continue
        ready = now
        for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
            edge = p.predecessor_edge[k]
            a = run.assignment[p.predecessor[k]]
            if a == device:
                continue
            copy = find_copy(p, s, run, edge, device) if switches.transfers == CACHED else -1
            if copy >= 0:
                ready = max(ready, s.arrived[copy] if s.arrived[copy] < np.inf else now)
                continue
            free = way_free(p, switches.communication, s.link_free, s.channel_free, a, device, now)
            ready = max(ready, free + transfer_time(p, a, device, p.edge_bytes[edge]))
        arrival[device] = ready
        start[device] = max(ready, backlog(p, s, run, device))
        finish[device] = start[device] + p.cost[operator, device] * run.slowdown[device]
