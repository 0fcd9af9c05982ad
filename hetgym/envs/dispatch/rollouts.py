"""Roll-outs: the end of a running episode if list scheduling took all further decisions.

A roll-out continues the run with the present costs and without noise. As in the run itself, an operator
opens when its inputs have been produced, and requests them when it is committed. Transfers queue on
links, and a device runs its operators in the order of their commitments.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._kernels.jit import step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, IntArray
from hetgym.problem import ProblemArrays
from hetgym.sim.decisions import busy_until, done_after
from hetgym.sim.kernel import FREE, State, Switches, book_transfer, way_free
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
        many: [2] their number; the number of operators in ``order``.
        free: [d] time at which each device has finished the operators committed to it [s].
        link_free: [l] time from which each link is free [s].
        channel_free: [2, d] time from which each sending and receiving channel is free [s].
        last: [j] latest finish of each job's operators [s]; of jobs that are not known yet, their arrival.
        came: [j] arrival of each job [s].
        order: [n] operators in the order in which the roll-out committed them; as many count as it committed. Of the
            run: those that are left, by descending priority.
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
        run: [n, d] present run time of each operator that is left; inf where it cannot run [s].
        ready: [d] scratch: the time at which an operator's inputs can be on each device [s].
    """

    now: Course
    later: Course
    run: FloatArray
    ready: FloatArray


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

    return Rollouts(course(), course(), np.zeros((operators, devices)), np.zeros(devices))


ROLLOUTS = new_rollouts(1, 1, 1, np.zeros(1))
"""An example of the records that lanes hold."""


# The first loops write what is committed, with the finishes of queued operators as if each device ran them one after
# the other. The last loop needs these finishes. O(n d + e) and the queues.
@step
def survey(
    p: ProblemArrays, s: State, g: Progress, order: IntArray, release: FloatArray, job: IntArray, r: Rollouts
) -> None:
    """Write the state of a run, from which roll-outs begin; jobs that are not known yet are left out.

    Args:
        p: the problem.
        s: the state of the run.
        g: the run.
        order: [n] operators by descending priority.
        release: [n] time at which each operator becomes known [s].
        job: [n] job of each operator.
        r: written; ``later`` gets what is committed, too.
    """
    now, c = g.clock[0], r.now
    for i in range(len(order)):
        c.assignment[i] = r.later.assignment[i] = g.assignment[i]
        c.finish[i] = r.later.finish[i] = s.finish[i] if g.status[i] >= RUNNING else now
    for b in range(len(c.free)):
        free = busy_until(s, g, b)
        for k in range(g.head[b], g.tail[b]):
            free = done_after(p, s, g, g.queue[k], b, free)
            c.finish[g.queue[k]] = r.later.finish[g.queue[k]] = free
        c.free[b] = free
        c.channel_free[0, b], c.channel_free[1, b] = s.channel_free[0, b], s.channel_free[1, b]
    for k in range(len(s.link_free)):
        c.link_free[k] = s.link_free[k]
    c.many[0] = c.many[1] = 0
    for j in range(len(c.last)):
        c.last[j] = c.came[j]
    for i in order:
        if release[i] > now:
            continue
        c.last[job[i]] = max(c.last[job[i]], c.finish[i])
        if g.status[i] > OPEN:
            r.later.missing[i] = 0  # it never opens again, not even if an input is lost and made once more
            continue
        c.missing[i], c.opens[i] = 0, now
        for k in range(p.predecessor_pointer[i], p.predecessor_pointer[i + 1]):
            j = p.predecessor[k]
            if g.status[j] <= OPEN:
                c.missing[i] += 1
            else:
                c.opens[i] = max(c.opens[i], c.finish[j])
        for b in range(len(c.free)):
            r.run[i, b] = p.cost[i, b] * g.slowdown[b] if g.alive[b] else np.inf
        c.order[c.many[1]] = i
        c.many[1] += 1
        if c.missing[i] == 0:
            c.open[c.many[0]] = i
            c.many[0] += 1


# Each turn commits one operator, and writes its finish and device before any of its readers has a turn, so that nothing
# is read that an earlier roll-out left there. By rank, every operator that is left has its turn. By opening, ``open``
# holds the operators that have opened, in the order of their turns: what opens later never belongs before one that has
# had its turn, as it opens no earlier than a predecessor among these, which has a higher priority. Operators without a
# device, and those that read them, are left out. A turn costs O(d * in-degree), by opening O(out-degree) more.
@step
def play_on(
    p: ProblemArrays,
    position: IntArray,
    job: IntArray,
    bonus: FloatArray,
    optimistic: FloatArray,
    r: Rollouts,
    switches: Switches,
    operator: int,
    device: int,
    wait: float,
    by_rank: bool,
    limit: float,
) -> tuple[float, float]:
    """Take a decision and complete the run: each operator goes to the device with the least finish plus bonus.

    Args:
        p: the problem.
        position: [n] of each operator in descending priority.
        job: [n] job of each operator.
        bonus: [n, d] added to finish times when devices are compared [s].
        optimistic: [n, d] PEFT's optimistic cost to an exit [s].
        r: scratch, in which :func:`survey` has written the state of the run.
        switches: of the runtime.
        operator: the operator that is committed now; -1 to wait.
        device: its device; not read when waiting.
        wait: time until which open operators wait [s]; only read when waiting.
        by_rank: true to commit operators by descending priority, false to commit them in the order in which they open.
        limit: the roll-out ends as soon as jobs must take at least as long in the mean [s]; inf to play to the end.

    Returns:
        The mean time that jobs take, and the mean of finish plus optimistic cost over the operators that were
        committed [s]; inf if the limit broke.
    """
    now, c = r.now, r.later
    rewind(now, c)
    least = -np.inf if operator >= 0 else wait
    if not by_rank:
        _reopen(now, c, position, least)
    total, count, turn, first = 0.0, 0, 0, operator >= 0
    while first or turn < (now.many[1] if by_rank else c.many[0]):
        i = operator
        if not first:
            i = now.order[turn] if by_rank else c.open[turn]
            turn += 1
            if i == operator:
                continue
        asked = _opening(p, now, c, i, least) if by_rank else c.opens[i]
        chosen = -1
        if asked < np.inf:
            _inputs(p, c, switches, i, asked, r.ready)
            chosen = device if first else _best_device(r, c, bonus, i)
        first = False
        c.assignment[i] = chosen
        if chosen < 0:
            c.finish[i] = np.inf
            continue
        arrived = _book(p, c, switches, i, chosen, asked) if switches.communication != FREE else r.ready[chosen]
        finish = max(arrived, c.free[chosen]) + r.run[i, chosen]
        c.finish[i] = c.free[chosen] = finish
        if finish > c.last[job[i]]:
            c.last[job[i]] = finish
            if limit < np.inf and mean_time(c.last, c.came) >= limit:
                return np.inf, np.inf
        total += finish + optimistic[i, chosen]
        c.order[count] = i
        count += 1
        if not by_rank:
            _open_readers(p, c, position, i, finish)
    c.many[1] = count
    return mean_time(c.last, c.came), total / max(1, count)


@step
def rewind(now: Course, c: Course) -> None:
    """Set devices, links and jobs to those of the run; what it has committed is there already."""
    for device in range(len(now.free)):
        c.free[device] = now.free[device]
        c.channel_free[0, device], c.channel_free[1, device] = now.channel_free[0, device], now.channel_free[1, device]
    for k in range(len(now.link_free)):
        c.link_free[k] = now.link_free[k]
    for j in range(len(now.last)):
        c.last[j] = now.last[j]


@step
def _reopen(now: Course, c: Course, position: IntArray, least: float) -> None:
    """Queue the open operators of the run, which open at ``least`` [s] or later, and note what the others miss."""
    for k in range(now.many[1]):
        i = now.order[k]
        c.opens[i], c.missing[i] = now.opens[i], now.missing[i]
    c.many[0] = 0
    for k in range(now.many[0]):
        i = now.open[k]
        c.opens[i] = max(c.opens[i], least)
        _queue(c, position, i)


@step
def _queue(c: Course, position: IntArray, operator: int) -> None:
    """Put an operator that opens behind all that open before it, or at the same time and have a higher priority."""
    k = c.many[0]
    c.many[0] += 1
    while k > 0:
        before = c.open[k - 1]
        if c.opens[before] < c.opens[operator]:
            break
        if c.opens[before] == c.opens[operator] and position[before] < position[operator]:
            break
        c.open[k] = before
        k -= 1
    c.open[k] = operator


@step
def _opening(p: ProblemArrays, now: Course, c: Course, operator: int, least: float) -> float:
    """Time at which an operator opens whose predecessors have had their turns [s]; inf if one has no device."""
    asked = now.opens[operator]
    if now.missing[operator] == 0:
        return float(max(asked, least))
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        asked = max(asked, c.finish[p.predecessor[k]])
    return float(asked)


@step
def _open_readers(p: ProblemArrays, c: Course, position: IntArray, operator: int, finish: float) -> None:
    """Open the readers of an operator that has been committed and ends at ``finish`` [s] if they miss nothing more."""
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        j = p.successor[edge]
        c.opens[j] = max(c.opens[j], finish)
        c.missing[j] -= 1
        if c.missing[j] == 0:
            _queue(c, position, j)


@step
def _inputs(p: ProblemArrays, c: Course, switches: Switches, operator: int, asked: float, ready: FloatArray) -> None:
    """Write when all inputs of an operator can be on each device [s], which requests them when it opens.

    Each transfer is estimated by itself, as in :func:`hetgym.sim.decisions.estimate`.
    """
    for b in range(len(ready)):
        ready[b] = asked
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        a, size = c.assignment[p.predecessor[k]], p.edge_bytes[p.predecessor_edge[k]]
        if switches.communication == FREE:  # no transfer waits, and one to the same device takes no time
            for b in range(len(ready)):
                ready[b] = max(ready[b], asked + transfer_time(p, a, b, size))
            continue
        for b in range(len(ready)):
            if a != b:
                free = way_free(p, switches.communication, c.link_free, c.channel_free, a, b, asked)
                ready[b] = max(ready[b], free + transfer_time(p, a, b, size))


@step
def _best_device(r: Rollouts, c: Course, bonus: FloatArray, operator: int) -> int:
    """The device with the least finish plus bonus for an operator whose inputs are known; -1 if none can run it."""
    chosen, least = -1, np.inf
    for b in range(len(r.ready)):
        value = max(r.ready[b], c.free[b]) + r.run[operator, b] + bonus[operator, b]
        if value < least:
            chosen, least = b, value
    return chosen


@step
def _book(p: ProblemArrays, c: Course, switches: Switches, operator: int, device: int, asked: float) -> float:
    """Book the transfers of an operator's inputs to a device, requested when it opens; the last arrival [s]."""
    ready = asked
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        a, size = c.assignment[p.predecessor[k]], p.edge_bytes[p.predecessor_edge[k]]
        if a != device:
            links, channels = c.link_free, c.channel_free
            _, arrived = book_transfer(p, switches.communication, links, channels, a, device, size, asked)
            ready = max(ready, arrived)
    return float(ready)


@step
def mean_time(last: FloatArray, came: FloatArray) -> float:
    """Mean time from the jobs' arrivals [j] to their last finishes [j], all in seconds."""
    total = 0.0
    for j in range(len(last)):
        total += last[j] - came[j]
    return total / len(last)
