"""Roll-outs: what becomes of a run that goes on, if list scheduling took all further decisions.

The run is played on with the costs as they are now and without noise. As in the run itself an operator
is open when its inputs are made, and asks for them when it is committed; transfers queue on links, and
devices do what is committed to them in turn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._jit import step
from hetgym._types import FloatArray, IntArray
from hetgym.problem import ProblemArrays
from hetgym.sim.decisions import busy_until, done_after
from hetgym.sim.kernel import State, Switches, book_transfer, way_free
from hetgym.sim.progress import OPEN, RUNNING, Progress
from hetgym.transfer import transfer_time


class Course(NamedTuple):
    """How far a run has come.

    Attributes:
        finish: [n] of each operator that is committed [s].
        opens: [n] when its last input is made, of those known [s].
        missing: [n] inputs that are not committed.
        assignment: [n] device, -1 while not committed.
        open: [n] operators whose inputs are all committed, and that are not.
        many: [1] how many these are.
        free: [d] when each device is done with what is committed to it [s].
        link_free: [l] when each link is free [s].
        channel_free: [2, d] likewise of each sending and receiving channel.
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


class Rollouts(NamedTuple):
    """Scratch of the roll-outs of one run.

    Attributes:
        now: where the run stands.
        later: where a roll-out stands.
    """

    now: Course
    later: Course


def new_rollouts(operators: int, devices: int, links: int) -> Rollouts:
    """Allocate for the roll-outs of one run."""

    def course() -> Course:
        n, d = operators, devices
        missing, assignment, open_now = (np.zeros(n, np.int32) for _ in range(3))
        return Course(
            np.zeros(n),
            np.zeros(n),
            missing,
            assignment,
            open_now,
            np.zeros(1, np.int32),
            np.zeros(d),
            np.zeros(links),
            np.zeros((2, d)),
        )

    return Rollouts(course(), course())


ROLLOUTS = new_rollouts(1, 1, 1)
"""A record of the kind that lanes hold."""


@step
def survey(p: ProblemArrays, s: State, g: Progress, release: FloatArray, c: Course) -> None:
    """Write down where a run stands; jobs that are not known yet do not exist."""
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
    for i in range(n):
        c.missing[i], c.opens[i] = 0, now
        if g.status[i] > OPEN or release[i] > now:
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


@step
def play_on(
    p: ProblemArrays,
    g: Progress,
    order: IntArray,
    bonus: FloatArray,
    optimistic: FloatArray,
    r: Rollouts,
    switches: Switches,
    operator: int,
    device: int,
    wait: float,
    by_rank: bool,
) -> tuple[float, float]:
    """Take a decision and play the run to its end: each operator goes where its finish plus the bonus is least.

    Args:
        p: the problem.
        g: the run.
        order: [n] position of each operator by falling priority.
        bonus: [n, d] added to finish times when devices are compared [s].
        optimistic: [n, d] PEFT's optimistic cost to an exit [s].
        r: scratch, surveyed.
        switches: of the runtime.
        operator: what is committed now; -1 to wait.
        device: where.
        wait: until when, if so [s].
        by_rank: whether operators are committed by priority as far as the graph allows, and not as they open.

    Returns:
        The makespan, and the mean of finish plus optimistic cost of what was committed [s].
    """
    c, d = r.later, p.cost.shape[1]
    _copy(r.now, c)
    last = g.clock[0]
    for other in range(d):
        last = max(last, c.free[other])
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
        last = max(last, c.finish[i])
        total += c.finish[i] + optimistic[i, chosen]
        count += 1
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            j = p.successor[edge]
            c.opens[j] = max(c.opens[j], c.finish[i])
            c.missing[j] -= 1
            if c.missing[j] == 0:
                c.open[c.many[0]] = j
                c.many[0] += 1
    return last, total / max(1, count)


@step
def _arrival(p: ProblemArrays, c: Course, switches: Switches, operator: int, device: int, book: bool) -> float:
    """When the inputs of an open operator are on a device, asked for when it opens; all of them, or the last, booked.

    Without ``book`` each transfer is reckoned by itself, as :func:`hetgym.sim.decisions.estimate` does.
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
