"""The event loop: simulation with a clock, for runs in which the order of events matters.

A schedule is a run whose operators are all committed at time 0 (:func:`begin_schedule`); online, they are committed
during the run (:mod:`hetgym.sim.decisions`). Shared links, several streams, pulled transfers, fair sharing, dispatch by
priorities and decisions need the loop. Runs that need no clock go through :mod:`hetgym.sim.sweep`.

All events of one instant are processed before a decision is asked for and before any device takes an operator. Then
every device that can takes one operator. Events that operators of zero duration cause at the same instant are processed
before the next choice.

Transfers requested at one instant are booked in a fixed order:

- pushed transfers by their producer's position in its device's order, then by the reader's id, then by edge;
- transfers that a reader fetches when it is committed in the order of commitments, then of its inputs;
- pulled transfers by the reader's device, then by that device's order, then by source device.
"""

import numpy as np

from hetgym._kernels.heap import pop, push
from hetgym._kernels.jit import lean, step
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
    Sharing,
    clear,
    open_up,
)
from hetgym.sim.requests import pull, push_edge
from hetgym.sim.streams import Streams, ends_next, join, leave, settle_down

DECIDE, STUCK, OVER, CHANGED = range(4)
"""Reasons for which the loop stops: a decision is due, as operators are open; no further event will come although some
operators have not run, or the makespan must exceed the limit; all operators are done; the change numbered ``tally[2]``
is due."""


@step
def begin_schedule(
    p: ProblemArrays,
    s: State,
    run: Progress,
    sharing: Sharing | None,
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
        assignment: [n] device of each operator.
        order, order_pointer: [n] operators, device after device, and [d + 1] starts; not read if work-conserving.
        priority: [n] larger first, ties by topological position; only read if work-conserving, and not by arrival.
    """
    clear(p, s, run, sharing)
    for i in range(len(run.status)):
        run.status[i] = QUEUED
        run.assignment[i] = assignment[i]
        run.queue[i] = order[i]
    for device in range(len(run.head)):
        first, last = order_pointer[device], order_pointer[device + 1]
        run.head[device] = run.pulled[device] = first
        run.tail[device] = last
        if p.asynchronous[device] and not switches.work_conserving:
            for k in range(first, last):
                run.issue[order[k]] = (k - first + 1) * switches.dispatch
    if switches.work_conserving:
        for i in range(len(run.status)):
            run.priority[i] = 0.0 if switches.by_arrival else priority[i]
            _announce(p, s, run, i, 0.0, switches)


# Invariant at the head of the loop: everything before ``now`` has happened; every running operator has a FINISH event
# at its finish, or, with several streams, the first of its device to finish has; every transfer under way, and every
# device that waits for a known time, has an event or is a flow. A turn processes the events of this instant, then
# books the transfers that they requested, in the order of requests and not of events, then ends the flows that are
# complete. If that makes an event due at the same instant (a flow without latency or bytes), the next turn processes
# it before any decision or launch. ``now`` never decreases. Events come from launches, requests, releases, changes,
# and one alarm for each due time of a device; so the loop ends. An event costs O(log n), a turn O(d).
@step
def go_on(p: ProblemArrays, s: State, run: Progress, sharing: Sharing | None, switches: Switches, waited: bool) -> int:
    """Simulate until a decision is due, a device changes, or the run ends.

    If it ``waited``, no decision is due until an operator finishes or is released.

    Returns:
        :data:`DECIDE`, :data:`STUCK`, :data:`OVER` or :data:`CHANGED`.
    """
    now = run.clock[0]
    while True:
        while run.heaps.size[EVENTS] > 0 and run.heaps.key[0] == now:
            event = pop(run.heaps, EVENTS)
            if event >= CHANGE:
                run.tally[2] = event - CHANGE
                return CHANGED
            if _occur(p, s, run, sharing, event, now, switches):
                waited = False
        _request(p, s, run, sharing, now, switches)
        if sharing is not None and switches.communication == FAIR:
            for k in range(fair.complete(p, s, sharing.flows, now)):
                _announce(p, s, run, sharing.flows.served[k], now, switches)
        if run.heaps.size[EVENTS] > 0 and run.heaps.key[0] <= now:
            continue
        if run.tally[0] > 0 and not waited:
            _share(p, s, run, sharing, now, switches)
            return DECIDE
        took = 0
        for device in range(len(run.running)):
            launched = _take(p, s, run, sharing, device, now, switches)
            if launched < 0:
                return STUCK
            took += launched
        if took > 0 and (switches.streams > 1 or run.heaps.key[0] == now):
            continue
        if run.tally[1] == len(run.status):
            return OVER
        _share(p, s, run, sharing, now, switches)
        following = run.heaps.key[0] if run.heaps.size[EVENTS] > 0 else np.inf
        if sharing is not None and switches.communication == FAIR:
            following = min(following, fair.next_completion(sharing.flows, now))
            if following < np.inf:
                fair.advance(sharing.flows, following - now)
        if following == np.inf:
            return STUCK
        now = following
        run.clock[0] = now


@lean
def run_schedules(
    p: ProblemArrays,
    s: State,
    run: Progress,
    sharing: Sharing | None,
    assignment: IntArray,
    order: IntArray,
    order_pointer: IntArray,
    priority: FloatArray,
    switches: Switches,
    makespan: FloatArray,
) -> int:
    """Run schedules one after the other: a row of every array for each, see :func:`begin_schedule`.

    Fills in the ``makespan`` of each [s], inf for a deadlock; returns the smallest number of operators that ran in one.
    """
    least = len(s.start)
    for row in range(len(makespan)):
        begin_schedule(p, s, run, sharing, assignment[row], order[row], order_pointer[row], priority[row], switches)
        go_on(p, s, run, sharing, switches, False)
        makespan[row] = makespan_of(s, run.tally[1])
        least = min(least, run.tally[1])
    return least


@step
def _occur(
    p: ProblemArrays, s: State, run: Progress, sharing: Sharing | None, event: int, now: float, switches: Switches
) -> bool:
    """Process an event; return true if it ends a wait for decisions: a finish or a release."""
    kind, number = event & ~NUMBER, event & NUMBER
    if kind == ALARM:  # wakes the loop; ``_take`` launches the operator
        return False
    if kind == FLOW:
        if sharing is not None:
            fair.begin(sharing.flows, number)
        return False
    operator = p.topological_order[number]
    if kind == ARRIVAL:
        push(run.heaps, CHOICE + run.assignment[operator], -run.priority[operator], number)
        return False
    if kind == BEGIN:
        if run.status[operator] != RUNNING or s.start[operator] != now:
            return False  # stale: it was taken back
        if sharing is not None and sharing.streams.stretch[operator] == 0.0:
            _begin(p, s, run, sharing.streams, operator, now)
        return False
    if kind == RELEASE:
        run.missing[operator] -= 1
        if run.missing[operator] == 0:
            open_up(run, operator)
        return True
    if run.status[operator] != RUNNING or s.finish[operator] != now:
        return False  # stale: the finish has moved, or the operator was taken back
    if sharing is not None and switches.streams > 1 and sharing.streams.stretch[operator] == 0.0:
        return False  # stale, too: it was taken back, and is being dispatched once more
    _finish(p, s, run, sharing, operator, now, switches)
    return True


@step
def _finish(
    p: ProblemArrays, s: State, run: Progress, sharing: Sharing | None, operator: int, now: float, switches: Switches
) -> None:
    """Free the device, and hand outputs to their readers.

    Readers that are not committed yet open once no predecessor is missing. Committed readers on the same device have
    the output at once. For those on other devices a transfer is requested, unless transfers are pulled.
    """
    run.status[operator] = DONE
    run.tally[1] += 1
    device = run.assignment[operator]
    run.running[device] -= 1
    if sharing is not None and switches.streams > 1:
        leave(sharing.streams, operator, device)
        beside = ends_next(p, s, sharing.streams, device)
        if beside >= 0 and s.finish[beside] == now:
            push(run.heaps, EVENTS, now, FINISH + p.position[beside])
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        if s.sent[edge] < np.inf:
            continue  # the operator ran again, and this reader got its data from the first run
        target = p.successor[edge]
        there = run.assignment[target]
        run.missing[target] -= 1
        if there < 0:
            if run.missing[target] == 0:
                open_up(run, target)
            continue
        if there == device:
            settle(p, s, edge, now, now)
            _announce(p, s, run, target, now, switches)
        elif switches.transfers != AGGREGATED:
            push(run.heaps, ASKED, float(run.slot[operator]), (int(target) << 32) | edge)
        if switches.transfers == AGGREGATED and switches.work_conserving and run.missing[target] == 0:
            push(run.heaps, CHOICE + len(run.running) + there, -run.priority[target], p.position[target])


@step
def _announce(p: ProblemArrays, s: State, run: Progress, operator: int, now: float, switches: Switches) -> None:
    """Offer an operator to its work-conserving device from the arrival of its last input on, once that is known."""
    if not switches.work_conserving or s.waiting[operator] != 0:
        return
    s.waiting[operator] = -1  # announced only once
    if switches.by_arrival:
        run.priority[operator] = -s.ready[operator]
    if s.ready[operator] > now:
        push(run.heaps, EVENTS, s.ready[operator], ARRIVAL + p.position[operator])
    else:
        push(run.heaps, CHOICE + run.assignment[operator], -run.priority[operator], p.position[operator])


@step
def _request(
    p: ProblemArrays, s: State, run: Progress, sharing: Sharing | None, now: float, switches: Switches
) -> None:
    """Start the transfers that committed readers can have now: pushed edges in their order, or pulls in turn."""
    while run.heaps.size[ASKED] > 0:
        edge = pop(run.heaps, ASKED) & 0xFFFFFFFF
        push_edge(p, s, run, sharing, edge, now, switches)
        _announce(p, s, run, p.successor[edge], now, switches)
    if switches.transfers != AGGREGATED:
        return
    for device in range(len(run.running)):
        callers = CHOICE + len(run.running) + device
        while run.heaps.size[callers] > 0:
            operator = p.topological_order[pop(run.heaps, callers)]
            pull(p, s, run, sharing, operator, now, switches)
            _announce(p, s, run, operator, now, switches)
        while not switches.work_conserving and run.pulled[device] < run.tail[device]:
            operator = run.queue[run.pulled[device]]
            if run.missing[operator] > 0:
                break
            run.pulled[device] += 1
            pull(p, s, run, sharing, operator, now, switches)


# Devices take operators by priority from a heap, or in their order: then the cursor `head` stays until the operator
# is due, with one alarm for each due time. A launch lowers the device's `load`, so that `least` is a bound on the
# makespan.
@step
def _take(
    p: ProblemArrays, s: State, run: Progress, sharing: Sharing | None, device: int, now: float, switches: Switches
) -> int:
    """Launch the operator that a device takes next, if it can now; 1 if so, -1 if the makespan exceeds the limit."""
    if run.running[device] >= switches.streams or (switches.partitions and _waits(p, run, device)):
        return 0
    ahead = False
    if switches.work_conserving:
        if run.heaps.size[CHOICE + device] == 0:
            return 0
        position = pop(run.heaps, CHOICE + device)
        operator = p.topological_order[position]
    else:
        if run.head[device] == run.tail[device]:
            return 0
        operator = run.queue[run.head[device]]
        if s.waiting[operator] > 0:
            return 0
        due = max(s.ready[operator], run.issue[operator])
        if due > now:
            if run.alarm[device] < due:
                run.alarm[device] = due
                push(run.heaps, EVENTS, due, ALARM + device)
            return 0
        run.head[device] += 1
        position = int(p.position[operator])
        ahead = p.asynchronous[device]
    run.slot[operator] = s.launched[device]
    factor = run.factor[operator] * run.slowdown[device]
    entry = _entry(p, s, run, operator, device, now) if switches.partitions else 0.0
    launch(p, s, operator, device, now, run.running[device], factor, ahead, entry, switches)
    run.status[operator] = RUNNING
    run.running[device] += 1
    if sharing is None or switches.streams == 1:
        push(run.heaps, EVENTS, s.finish[operator], FINISH + position)
    elif s.start[operator] > now:
        sharing.streams.stretch[operator] = 0.0
        push(run.heaps, EVENTS, s.start[operator], BEGIN + position)
    else:
        _begin(p, s, run, sharing.streams, operator, now)
    if run.limit[0] < np.inf:
        least = now + run.load[device]  # even without a pause, with several streams
        work = run.factor[operator] * p.cost[operator, device]
        run.load[device] -= work if switches.streams == 1 else work * p.occupancy[operator, device]
        if switches.streams == 1:
            least = s.finish[operator] + run.load[device]
        if max(least, s.finish[operator] + run.rest[operator]) > run.limit[0]:
            return -1
    return 1


@step
def _waits(p: ProblemArrays, run: Progress, device: int) -> bool:
    """True if a device waits for its turn, as another one of those that take turns runs."""
    if p.takes_turns[device]:
        for other in range(len(run.running)):
            if other != device and p.takes_turns[other] and run.running[other] > 0:
                return True
    return False


@step
def _entry(p: ProblemArrays, s: State, run: Progress, operator: int, device: int, now: float) -> float:
    """Time to enter the partition that an operator begins [s]; 0 if it belongs to the latest one.

    It begins one if another device made an input after the latest partition was entered; so does the first operator.
    """
    if p.partition_overhead[device] == 0.0:
        return 0.0
    latest = 0.0
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        if run.assignment[p.predecessor[k]] != device:
            latest = max(latest, s.finish[p.predecessor[k]])
    if latest <= run.entered[device]:
        return 0.0
    run.entered[device] = now
    return float(p.partition_overhead[device])


@step
def _begin(p: ProblemArrays, s: State, run: Progress, streams: Streams, operator: int, now: float) -> None:
    """Let an operator run beside others; one that takes no time ends in this instant."""
    join(streams, operator, run.assignment[operator])
    if s.finish[operator] == now:
        push(run.heaps, EVENTS, now, FINISH + p.position[operator])


@step
def _share(p: ProblemArrays, s: State, run: Progress, sharing: Sharing | None, now: float, switches: Switches) -> None:
    """Where what runs beside each other has changed, find out anew what finishes next, and when."""
    if sharing is None or switches.streams == 1:
        return
    for device in range(len(run.running)):
        if sharing.streams.stirred[device]:
            settle_down(p, s, sharing.streams, device, now)
            following = ends_next(p, s, sharing.streams, device)
            if following >= 0:
                push(run.heaps, EVENTS, s.finish[following], FINISH + p.position[following])
