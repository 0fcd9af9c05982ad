"""Roll-outs: the end of a running episode if list scheduling took all further decisions.

A roll-out continues the run with the present costs and without noise. As in the run itself, an operator
opens when its inputs have been produced, and requests them when it is committed. Transfers queue on
links, and a device runs its operators in the order of their commitments.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._jit import step
from hetgym._records import record
from hetgym._types import FloatArray, IntArray
from hetgym.problem import ProblemArrays
from hetgym.sim.decisions import busy_until, done_after
from hetgym.sim.kernel import State, Switches, book_transfer, way_free
from hetgym.sim.progress import OPEN, RUNNING, Progress
from hetgym.transfer import transfer_time


@record
class Course(NamedTuple):
    """The state of a roll-out.

    Attributes:
        finish: [n] finish of each committed operator [s].
        opens: [n] latest finish among its committed predecessors, at least the time at which the roll-out
            begins [s].
        missing: [n] number of predecessors that are not committed.
        assignment: [n] device, -1 while not committed.
        open: [n] operators that are not committed but whose predecessors all are; the first ``many[0]`` count.
        many: [2] their number; number of operators that the roll-out committed.
        free: [d] time at which each device has finished the operators committed to it [s].
        link_free: [l] time from which each link is free [s].
        channel_free: [2, d] time from which each sending and receiving channel is free [s].
        last: [j] latest finish of each job's operators [s]; of jobs that are not known yet, their arrival.
        came: [j] arrival of each job [s].
        order: [n] operators in the order in which the roll-out committed them; as many count as it committed.
    """

    finish: FloatArray
    opens: FloatArray
    missing: IntArray
    assignment: IntArray
    open: IntArray
    many: IntArray
    free: FloatArray
    link_free: FloatArray
    channel_free: FloatArray
    last: FloatArray
    came: FloatArray
    order: IntArray


@record
class Rollouts(NamedTuple):
    """Scratch of the roll-outs of one run.

    Attributes:
        now: the state of the run.
        later: the state of the roll-out.
    """

    now: Course
    later: Course


def new_rollouts(operators: int, devices: int, links: int, came: FloatArray) -> Rollouts:
    """Allocate for the roll-outs of one run whose jobs arrive at ``came`` [j]."""

    def course() -> Course:
        n, d = operators, devices
        missing, assignment, open_now = (np.zeros(n, np.int32) for _ in range(3))
        return Course(
            np.zeros(n),
            np.zeros(n),
            missing,
            assignment,
            open_now,
            np.zeros(2, np.int32),
            np.zeros(d),
            np.zeros(links),
            np.zeros((2, d)),
            came.copy(),
            came,
            np.zeros(n, np.int32),
        )

    return Rollouts(course(), course())


ROLLOUTS = new_rollouts(1, 1, 1, np.zeros(1))
"""An example of the records that lanes hold."""


# The first loops copy what is committed, with the finishes of queued operators as if each device ran them one after
# the other. The last loop needs these finishes: it sets ``opens`` and ``missing`` of operators that are not committed,
# and lists those without a missing predecessor in ``open``. O(n + e) and the queues.
@step
def survey(p: ProblemArrays, s: State, g: Progress, release: FloatArray, job: IntArray, c: Course) -> None:
    """Write the state of a run into a course; jobs that are not known yet are left out."""
    n, d = p.cost.shape
    now = g.clock[0]
    for i in range(n):
        c.assignment[i] = g.assignment[i]
        c.finish[i] = s.finish[i] if g.status[i] >= RUNNING else now
    for device in range(d):
        free = busy_until(s, g, device)
        for k in range(g.head[device], g.tail[device]):
            free = done_after(p, s, g, g.queue[k], device, free)
            c.finish[g.queue[k]] = free
        c.free[device] = free
        c.channel_free[0, device], c.channel_free[1, device] = s.channel_free[0, device], s.channel_free[1, device]
    for k in range(len(s.link_free)):
        c.link_free[k] = s.link_free[k]
    c.many[0] = 0
    for j in range(len(c.last)):
        c.last[j] = c.came[j]
    for i in range(n):
        c.missing[i], c.opens[i] = 0, now
        if release[i] > now:
            continue
        c.last[job[i]] = max(c.last[job[i]], c.finish[i])
        if g.status[i] > OPEN:
            continue
        for k in range(p.predecessor_pointer[i], p.predecessor_pointer[i + 1]):
            j = p.predecessor[k]
            if g.status[j] <= OPEN:
                c.missing[i] += 1
            else:
                c.opens[i] = max(c.opens[i], c.finish[j])
        if c.missing[i] == 0:
            c.open[c.many[0]] = i
            c.many[0] += 1


# Invariant at the head of the loop: ``open`` holds exactly the known operators that are not committed and whose
# predecessors all are, except those that no device left can run. Each turn takes one of them out and commits it to a
# device, which books its transfers and opens the readers that miss nothing more. So there are at most n turns. A turn
# costs O(open operators + d * in-degree + out-degree).
@step
def play_on(
    p: ProblemArrays,
    g: Progress,
    order: IntArray,
    job: IntArray,
    bonus: FloatArray,
    optimistic: FloatArray,
    r: Rollouts,
    switches: Switches,
    operator: int,
    device: int,
    wait: float,
    by_rank: bool,
) -> tuple[float, float]:
    """Take a decision and complete the run: each operator goes to the device with the least finish plus bonus.

    Args:
        p: the problem.
        g: the run.
        order: [n] position of each operator in descending priority.
        job: [n] job of each operator.
        bonus: [n, d] added to finish times when devices are compared [s].
        optimistic: [n, d] PEFT's optimistic cost to an exit [s].
        r: scratch, whose ``now`` :func:`survey` has filled in.
        switches: of the runtime.
        operator: the operator that is committed now; -1 to wait.
        device: its device; not read when waiting.
        wait: time until which open operators wait [s]; only read when waiting.
        by_rank: true to commit the open operator of highest priority first, false to commit operators in the
            order in which they open.

    Returns:
        The mean time that jobs take, and the mean of finish plus optimistic cost over the operators that were
        committed [s].
    """
    c, d = r.later, p.cost.shape[1]
    _copy(r.now, c)
    for k in range(c.many[0] if operator < 0 else 0):
        c.opens[c.open[k]] = max(c.opens[c.open[k]], wait)
    total, count = 0.0, 0
    while c.many[0] > 0:
        at = 0
        for k in range(1, c.many[0]):
            i, j = c.open[k], c.open[at]
            if operator >= 0 and count == 0:
                if i == operator:
                    at = k
            elif by_rank or c.opens[i] == c.opens[j]:
                if order[i] < order[j]:
                    at = k
            elif c.opens[i] < c.opens[j]:
                at = k
        i = c.open[at]
        c.many[0] -= 1
        c.open[at] = c.open[c.many[0]]
        chosen = device
        if operator < 0 or count > 0:
            chosen, least = -1, np.inf
            for other in range(d):
                duration = p.cost[i, other] * g.slowdown[other]
                if g.alive[other] and duration < np.inf:
                    value = max(_arrival(p, c, switches, i, other, False), c.free[other]) + duration + bonus[i, other]
                    if chosen < 0 or value < least:
                        chosen, least = other, value
            if chosen < 0:
                continue
        start = max(_arrival(p, c, switches, i, chosen, True), c.free[chosen])
        c.assignment[i] = chosen
        c.finish[i] = c.free[chosen] = start + p.cost[i, chosen] * g.slowdown[chosen]
        c.last[job[i]] = max(c.last[job[i]], c.finish[i])
        total += c.finish[i] + optimistic[i, chosen]
        c.order[count] = i
        count += 1
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            j = p.successor[edge]
            c.opens[j] = max(c.opens[j], c.finish[i])
            c.missing[j] -= 1
            if c.missing[j] == 0:
                c.open[c.many[0]] = j
                c.many[0] += 1
    c.many[1] = count
    return mean_time(c.last, c.came), total / max(1, count)


@step
def _arrival(p: ProblemArrays, c: Course, switches: Switches, operator: int, device: int, book: bool) -> float:
    """Time at which all inputs of an open operator are on a device, if they are requested when it opens [s].

    With ``book`` the transfers are booked on links and channels. Without, each transfer is estimated by itself, as in
    :func:`hetgym.sim.decisions.estimate`.
    """
    asked = c.opens[operator]
    ready = asked
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        a, edge = c.assignment[p.predecessor[k]], p.predecessor_edge[k]
        if a == device:
            continue
        size, links, channels = p.edge_bytes[edge], c.link_free, c.channel_free
        if book:
            _, arrived = book_transfer(p, switches.communication, links, channels, a, device, size, asked)
        else:
            free = way_free(p, switches.communication, links, channels, a, device, asked)
            arrived = free + transfer_time(p, a, device, size)
        ready = max(ready, arrived)
    return float(ready)


@step
def _copy(a: Course, b: Course) -> None:
    for i in range(len(a.finish)):
        b.finish[i], b.opens[i], b.missing[i], b.assignment[i] = a.finish[i], a.opens[i], a.missing[i], a.assignment[i]
    b.many[0] = a.many[0]
    for k in range(a.many[0]):
        b.open[k] = a.open[k]
    for device in range(len(a.free)):
        b.free[device] = a.free[device]
        b.channel_free[0, device], b.channel_free[1, device] = a.channel_free[0, device], a.channel_free[1, device]
    for k in range(len(a.link_free)):
        b.link_free[k] = a.link_free[k]
    for j in range(len(a.last)):
        b.last[j] = a.last[j]


@step
def mean_time(last: FloatArray, came: FloatArray) -> float:
    """Mean time from the jobs' arrivals [j] to their last finishes [j], all in seconds."""
    total = 0.0
    for j in range(len(last)):
        total += last[j] - came[j]
    return total / len(last)
