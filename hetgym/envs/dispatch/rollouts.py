"""Roll-outs: the end of a running episode if list scheduling took all further decisions.

A roll-out continues the run with the present costs and without noise. As in the run itself, an operator
opens when its inputs have been produced, and requests them when it is committed. Transfers queue on
links, and a device runs its operators in the order of their commitments.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from hetgym._kernels.blanks import blank, example
from hetgym._kernels.jit import step
from hetgym._kernels.records import reader, record
from hetgym._types import FloatArray, IntArray
from hetgym.envs.dispatch.service import END, FIRST, LINE, LIVE, Service, mean_time
from hetgym.envs.dispatch.state import DispatchTables
from hetgym.problem import ProblemArrays
from hetgym.sim.decisions import busy_until, done_after
from hetgym.sim.kernel import FREE, State, Switches, book_transfer, way_free
from hetgym.sim.progress import OPEN, RUNNING, Progress
from hetgym.transfer import transfer_time


@record
class Course(NamedTuple):
    """The state of a roll-out."""

    finish: Annotated[FloatArray, "n"]  # finish of each committed operator [s]
    # latest finish among its committed predecessors, at least the time at which the roll-out begins [s]
    opens: Annotated[FloatArray, "n"]
    missing: Annotated[IntArray, "n"]  # number of predecessors that are not committed
    assignment: Annotated[IntArray, "n"]  # device, -1 while not committed
    # operators that are not committed but whose predecessors all are; the first `many[0]` count
    open: Annotated[IntArray, "n"]
    many: Annotated[IntArray, "2"]  # their number; the number of operators in `order`
    free: Annotated[FloatArray, "d"]  # time at which each device has finished the operators committed to it [s]
    link_free: Annotated[FloatArray, "l"]  # time from which each link is free [s]
    channel_free: Annotated[FloatArray, "2, d"]  # time from which each sending and receiving channel is free [s]
    # latest finish of each job's operators [s]; only written for jobs that are known and may not have ended
    last: Annotated[FloatArray, "j"]
    # operators in the order in which the roll-out committed them; as many count as it committed. Of the run: those that
    # are left, by descending priority.
    order: Annotated[IntArray, "n"]


@record
class Rollouts(NamedTuple):
    """Scratch of the roll-outs of one run."""

    now: Course  # the state of the run
    later: Course  # the state of the roll-out
    run: Annotated[FloatArray, "n, d"]  # present run time of each operator that is left; inf where it cannot run [s]
    ready: Annotated[FloatArray, "d"]  # scratch: the time at which an operator's inputs can be on each device [s]


def new_rollouts(operators: int, devices: int, links: int, jobs: int) -> Rollouts:
    """Allocate for the roll-outs of one run."""
    return blank(Rollouts, n=operators, d=devices, l=links, j=jobs)


ROLLOUTS = example(Rollouts)  # An example of the records that lanes hold
read_rollouts = reader(ROLLOUTS)


# The first loops write what is committed and may be read, with the finishes of queued operators as if each device ran
# them one after the other. The others need these finishes. O((d + in-degree) live operators) and the queues.
@step
def survey(p: ProblemArrays, tables: DispatchTables, s: State, run: Progress, rollouts: Rollouts) -> None:
    """Write the state of a run, from which roll-outs begin; jobs that are not known yet are left out.

    Args:
        tables: with the service up to date.
        rollouts: written; ``later`` gets what is committed, too.
    """
    service = tables.service
    now, course, tally = run.clock[0], rollouts.now, service.tally
    for k in range(tally[LIVE]):
        i = service.live[k]
        _note(s, run, rollouts, i)
        for entry in range(p.predecessor_pointer[i], p.predecessor_pointer[i + 1]):
            _note(s, run, rollouts, p.predecessor[entry])
    for device in range(len(course.free)):
        free = busy_until(s, run, device)
        for k in range(run.head[device], run.tail[device]):
            free = done_after(p, s, run, run.queue[k], device, free)
            course.finish[run.queue[k]] = rollouts.later.finish[run.queue[k]] = free
        course.free[device] = free
        course.channel_free[0, device] = s.channel_free[0, device]
        course.channel_free[1, device] = s.channel_free[1, device]
    for k in range(len(s.link_free)):
        course.link_free[k] = s.link_free[k]
    course.many[0] = course.many[1] = 0
    for j in range(tally[FIRST], tally[END]):
        course.last[j] = service.ended[j]
    for k in range(tally[LIVE]):
        i = service.live[k]
        j = service.job[i]
        course.last[j] = max(course.last[j], course.finish[i])
        if run.status[i] > OPEN:
            rollouts.later.missing[i] = 0  # it never opens again, not even if an input is lost and made once more
    for turn in range(tally[LINE]):
        i = service.line[turn]
        course.missing[i], course.opens[i] = 0, now
        for k in range(p.predecessor_pointer[i], p.predecessor_pointer[i + 1]):
            j = p.predecessor[k]
            if run.status[j] <= OPEN:
                course.missing[i] += 1
            else:
                course.opens[i] = max(course.opens[i], course.finish[j])
        for device in range(len(course.free)):
            rollouts.run[i, device] = p.cost[i, device] * run.slowdown[device] if run.alive[device] else np.inf
        course.order[course.many[1]] = i
        course.many[1] += 1
        if course.missing[i] == 0:
            course.open[course.many[0]] = i
            course.many[0] += 1


@step
def _note(s: State, run: Progress, rollouts: Rollouts, operator: int) -> None:
    """Write where an operator is, and when it finishes if it has begun."""
    finish = s.finish[operator] if run.status[operator] >= RUNNING else run.clock[0]
    rollouts.now.finish[operator] = rollouts.later.finish[operator] = finish
    rollouts.now.assignment[operator] = rollouts.later.assignment[operator] = run.assignment[operator]


# Each turn commits one operator, and writes its finish and device before any of its readers has a turn, so that nothing
# is read that an earlier roll-out left there. By rank, every operator that is left has its turn. By opening, ``open``
# holds the operators that have opened, in the order of their turns: what opens later never belongs before one that has
# had its turn, as it opens no earlier than a predecessor among these, which has a higher priority. Operators without a
# device, and those that read them, are left out. A turn costs O(d * in-degree), by opening O(out-degree) more.
@step
def play_on(
    p: ProblemArrays,
    tables: DispatchTables,
    rollouts: Rollouts,
    switches: Switches,
    operator: int,
    device: int,
    wait: float,
    by_rank: bool,
    limit: float,
) -> tuple[float, float]:
    """Take a decision and complete the run: each operator goes to the device with the least finish plus bonus.

    Args:
        rollouts: scratch, in which :func:`survey` has written the state of the run.
        operator: the operator that is committed now; -1 to wait.
        wait: time until which open operators wait [s]; only read when waiting.
        by_rank: true to commit operators by descending priority, false to commit them in the order in which they open.
        limit: the roll-out ends as soon as jobs must take at least as long in the mean [s]; inf to play to the end.

    Returns:
        The mean time that jobs take, and the mean of finish plus optimistic cost over the operators that were
        committed [s]; inf if the limit broke.
    """
    service = tables.service
    now, course, job, position = rollouts.now, rollouts.later, service.job, service.turn
    rewind(now, course, service)
    least = -np.inf if operator >= 0 else wait
    if not by_rank:
        _reopen(now, course, position, least)
    total, count, turn, first = 0.0, 0, 0, operator >= 0
    while first or turn < (now.many[1] if by_rank else course.many[0]):
        i = operator
        if not first:
            i = now.order[turn] if by_rank else course.open[turn]
            turn += 1
            if i == operator:
                continue
        asked = _opening(p, now, course, i, least) if by_rank else course.opens[i]
        chosen = -1
        if asked < np.inf:
            _inputs(p, course, switches, i, asked, rollouts.ready)
            chosen = device if first else _best_device(rollouts, course, tables.bonus, i)
        first = False
        course.assignment[i] = chosen
        if chosen < 0:
            course.finish[i] = np.inf
            continue
        arrived = rollouts.ready[chosen]
        if switches.communication != FREE:
            arrived = _book(p, course, switches, i, chosen, asked)
        finish = max(arrived, course.free[chosen]) + rollouts.run[i, chosen]
        course.finish[i] = course.free[chosen] = finish
        if finish > course.last[job[i]]:
            course.last[job[i]] = finish
            if limit < np.inf and mean_time(service, course.last, service.past[1]) >= limit:
                return np.inf, np.inf
        total += finish + tables.optimistic[i, chosen]
        course.order[count] = i
        count += 1
        if not by_rank:
            _open_readers(p, course, position, i, finish)
    course.many[1] = count
    return mean_time(service, course.last, service.past[1]), total / max(1, count)


@step
def rewind(now: Course, course: Course, service: Service) -> None:
    """Set devices, links and jobs to those of the run; what it has committed is there already."""
    for device in range(len(now.free)):
        course.free[device] = now.free[device]
        course.channel_free[0, device] = now.channel_free[0, device]
        course.channel_free[1, device] = now.channel_free[1, device]
    for k in range(len(now.link_free)):
        course.link_free[k] = now.link_free[k]
    for j in range(service.tally[FIRST], service.tally[END]):
        course.last[j] = now.last[j]


@step
def _reopen(now: Course, course: Course, position: IntArray, least: float) -> None:
    """Queue the open operators of the run, which open at ``least`` [s] or later, and note what the others miss."""
    for k in range(now.many[1]):
        i = now.order[k]
        course.opens[i], course.missing[i] = now.opens[i], now.missing[i]
    course.many[0] = 0
    for k in range(now.many[0]):
        i = now.open[k]
        course.opens[i] = max(course.opens[i], least)
        _queue(course, position, i)


@step
def _queue(course: Course, position: IntArray, operator: int) -> None:
    """Put an operator that opens behind all that open before it, or at the same time and have a higher priority."""
    k = course.many[0]
    course.many[0] += 1
    while k > 0:
        before = course.open[k - 1]
        if course.opens[before] < course.opens[operator]:
            break
        if course.opens[before] == course.opens[operator] and position[before] < position[operator]:
            break
        course.open[k] = before
        k -= 1
    course.open[k] = operator


@step
def _opening(p: ProblemArrays, now: Course, course: Course, operator: int, least: float) -> float:
    """Time at which an operator opens whose predecessors have had their turns [s]; inf if one has no device."""
    asked = now.opens[operator]
    if now.missing[operator] == 0:
        return float(max(asked, least))
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        asked = max(asked, course.finish[p.predecessor[k]])
    return float(asked)


@step
def _open_readers(p: ProblemArrays, course: Course, position: IntArray, operator: int, finish: float) -> None:
    """Open the readers of an operator that has been committed and ends at ``finish`` [s] if they miss nothing more."""
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        j = p.successor[edge]
        course.opens[j] = max(course.opens[j], finish)
        course.missing[j] -= 1
        if course.missing[j] == 0:
            _queue(course, position, j)


@step
def _inputs(
    p: ProblemArrays, course: Course, switches: Switches, operator: int, asked: float, ready: FloatArray
) -> None:
    """Write when all inputs of an operator can be on each device [s], which requests them when it opens.

    Each transfer is estimated by itself, as in :func:`hetgym.sim.decisions.estimate`.
    """
    for device in range(len(ready)):
        ready[device] = asked
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        source, size = course.assignment[p.predecessor[k]], p.edge_bytes[p.predecessor_edge[k]]
        if switches.communication == FREE:  # no transfer waits, and one to the same device takes no time
            for device in range(len(ready)):
                ready[device] = max(ready[device], asked + transfer_time(p, source, device, size))
            continue
        for device in range(len(ready)):
            if source != device:
                free = way_free(p, switches.communication, course.link_free, course.channel_free, source, device, asked)
                ready[device] = max(ready[device], free + transfer_time(p, source, device, size))


@step
def _best_device(rollouts: Rollouts, course: Course, bonus: FloatArray, operator: int) -> int:
    """The device with the least finish plus bonus for an operator whose inputs are known; -1 if none can run it."""
    chosen, least = -1, np.inf
    for device in range(len(rollouts.ready)):
        begin = max(rollouts.ready[device], course.free[device])
        value = begin + rollouts.run[operator, device] + bonus[operator, device]
        if value < least:
            chosen, least = device, value
    return chosen


@step
def _book(p: ProblemArrays, course: Course, switches: Switches, operator: int, device: int, asked: float) -> float:
    """Book the transfers of an operator's inputs to a device, requested when it opens; the last arrival [s]."""
    ready = asked
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        source, size = course.assignment[p.predecessor[k]], p.edge_bytes[p.predecessor_edge[k]]
        if source != device:
            links, channels = course.link_free, course.channel_free
            _, arrived = book_transfer(p, switches.communication, links, channels, source, device, size, asked)
            ready = max(ready, arrived)
    return float(ready)
