"""Timeline: a partial schedule under the classic model, to which operators are added one at a time.

Start times follow HEFT's rules. *Insertion*: the first idle gap of the device that is long enough;
*append*: after the device's last operator. List schedulers, the decoding of placements and the
environments all place operators through these functions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._jit import jit, lean, step
from hetgym._types import FloatArray, IntArray
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule

NEAR = 32
"""Intervals at a device's end that are searched one by one before the others by bisection."""

BLOCK = 64
"""Intervals of a device that share an entry of :attr:`Timeline.widest`."""

ROUNDING = 1e-15
"""Share of an end that rounding may add to it: a few units in the last place."""


class Timeline(NamedTuple):
    """A partial schedule.

    Attributes:
        assignment: [n] device, -1 while not placed.
        start, finish: [n] times of placed operators [s].
        busy_from, busy_to: [d, n] the device's occupied intervals in order of time [s].
        operators: [d, n] the operators that occupy them.
        intervals: [d] number of intervals. An operator that takes no time holds an empty one: it
            delays nobody, but nothing may run across it.
        widest: [d, n / BLOCK + 1] no gap before one of so many intervals is longer [s]: a bound that is
            never too small, by which searches skip them.
    """

    assignment: IntArray
    start: FloatArray
    finish: FloatArray
    busy_from: FloatArray
    busy_to: FloatArray
    operators: IntArray
    intervals: IntArray
    widest: FloatArray


@jit
def new_timeline(n: int, d: int) -> Timeline:
    """Allocate an empty timeline for n operators and d devices."""
    return Timeline(
        assignment=np.full(n, -1, np.int32),
        start=np.zeros(n),
        finish=np.zeros(n),
        busy_from=np.zeros((d, n)),
        busy_to=np.zeros((d, n)),
        operators=np.zeros((d, n), np.int32),
        intervals=np.zeros(d, np.int32),
        widest=np.zeros((d, n // BLOCK + 1)),
    )


def planned(problem: Problem, placed: Timeline, scheduler: str = "") -> Schedule:
    """The schedule that a complete timeline holds: placement, device orders and times.

    Args:
        problem: the problem.
        placed: holds all of its operators.
        scheduler: name that the schedule carries.
    """
    order, pointer = device_order(placed)
    return Schedule(
        placed.assignment,
        order=[order[pointer[d] : pointer[d + 1]] for d in range(problem.num_devices)],
        start=placed.start,
        finish=placed.finish,
        scheduler=scheduler,
    )


def of_schedule(problem: Problem, schedule: Schedule) -> Timeline:
    """The timeline of a schedule that has start times: the inverse of :func:`planned`."""
    assert schedule.start is not None
    placed = new_timeline(problem.num_operators, problem.num_devices)
    for device, row in enumerate(schedule.device_order(problem)):
        for i in row.tolist():
            book(problem.arrays, placed, i, device, float(schedule.start[i]))
    return placed


@step
def clear(t: Timeline) -> None:
    """Empty a timeline."""
    t.assignment[:] = -1
    t.intervals[:] = 0


@step
def copy_into(t: Timeline, other: Timeline) -> None:
    """Make another timeline of the same size equal to this one."""
    for i in range(len(t.assignment)):  # loops: slices of so few numbers would cost more than what they copy
        other.assignment[i] = t.assignment[i]
        other.start[i] = t.start[i]
        other.finish[i] = t.finish[i]
    for device in range(len(t.intervals)):
        other.intervals[device] = t.intervals[device]
        for k in range(t.intervals[device]):
            other.busy_from[device, k] = t.busy_from[device, k]
            other.busy_to[device, k] = t.busy_to[device, k]
            other.operators[device, k] = t.operators[device, k]
        _forget_gaps(other, device)


@step
def copy_prefix(t: Timeline, other: Timeline, turn: IntArray, first: int) -> None:
    """Make another timeline hold what this complete one held before the turn of its ``first`` operator.

    Args:
        t: a complete timeline.
        other: overwritten; times of operators that it does not hold are left as they were.
        turn: [n] the operators' places in the order in which they were placed, from 0.
        first: turn of the first operator that is left out.
    """
    for device in range(len(t.intervals)):
        count = 0
        for k in range(t.intervals[device]):
            operator = t.operators[device, k]
            if turn[operator] < first:
                begin, end = t.busy_from[device, k], t.busy_to[device, k]
                other.busy_from[device, count] = begin
                other.busy_to[device, count] = end
                other.operators[device, count] = operator
                other.assignment[operator] = device
                other.start[operator] = begin
                other.finish[operator] = end
                count += 1
        other.intervals[device] = count
        _forget_gaps(other, device)


@step
def _forget_gaps(t: Timeline, device: int) -> None:
    """Bound the gaps of a device by nothing."""
    for block in range(t.intervals[device] // BLOCK + 1):
        t.widest[device, block] = np.inf


@lean
def data_ready(p: ProblemArrays, t: Timeline, operator: int, device: int) -> float:
    """The time at which the outputs of the operator's predecessors, all of them placed, can be on a device [s]."""
    ready = 0.0
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        i = p.predecessor[k]
        a = t.assignment[i]  # on the same device a transfer takes no time: see the diagonals
        transfer = p.latency[a, device] + p.edge_bytes[p.predecessor_edge[k]] / p.bandwidth[a, device]
        ready = max(ready, t.finish[i] + transfer)
    return ready


# The gap before interval k runs from busy_to[k - 1] (0 for k = 0) to busy_from[k]. Both bounds rise with k, so
# only gaps before intervals that begin at ready + duration or later can take the operator: a suffix of the list.
# Backward scan, over at most NEAR intervals: `found` is the earliest start in the gaps before intervals k + 1 and
# later, or behind the last one. If the suffix reaches further back, bisection leaves `low` at its first interval,
# and the forward scan over low .. near - 1 returns the first gap that fits, which precedes all that were found.
# A block is skipped if its widest gap is shorter than the duration; a block that was scanned whole gets its exact
# widest gap, so bounds that `book` left too large are repaired on the way. O(NEAR + log k + blocks) typically.
@step
def earliest_start(t: Timeline, device: int, ready: float, duration: float, insertion: bool) -> float:
    """Earliest start of an operator on a device [s].

    Args:
        t: the timeline; only :attr:`Timeline.widest` may change.
        device: the device tried.
        ready: time at which the operator's inputs are there [s].
        duration: run time on the device [s].
        insertion: whether idle gaps may be used.
    """
    count = t.intervals[device]
    end = t.busy_to[device, count - 1] if count > 0 else 0.0
    if not insertion or ready >= end:
        return max(ready, end)
    found = max(ready, end)
    near = max(count - NEAR, 0)
    k = count - 1
    while k >= near and t.busy_from[device, k] >= ready + duration:
        before = t.busy_to[device, k - 1] if k > 0 else 0.0
        start = max(ready, before)
        found = start if start + duration <= t.busy_from[device, k] else found
        k -= 1
    if k >= near:
        return found
    low, high = 0, near
    while low < high:
        middle = (low + high) // 2
        if t.busy_from[device, middle] < ready + duration:
            low = middle + 1
        else:
            high = middle
    short = duration - ROUNDING * end  # what fits into a gap is at least so long
    while low < near:
        block = low // BLOCK
        stop = min((block + 1) * BLOCK, near)
        if t.widest[device, block] >= short:
            widest = 0.0
            for k in range(low, stop):
                before = t.busy_to[device, k - 1] if k > 0 else 0.0
                start = max(ready, before)
                if start + duration <= t.busy_from[device, k]:
                    return start
                widest = max(widest, t.busy_from[device, k] - before)
            if stop - low == BLOCK:
                t.widest[device, block] = widest
        low = stop
    return found


@step
def start_on(p: ProblemArrays, t: Timeline, operator: int, device: int, insertion: bool) -> float:
    """Earliest start of an operator on a device, its predecessors being placed [s]."""
    return earliest_start(t, device, data_ready(p, t, operator, device), p.cost[operator, device], insertion)


# Intervals are sorted by (start, finish). Those behind the new one move up by one place, from the last on, until
# interval k - 1 does not lie behind it. Gaps then change in three places: before the new interval, before the one
# behind it (which can only get shorter), and at the edge of each later block, into which the last interval of the
# block before has moved. The bounds in `widest` may stay too large, never too small.
@lean
def book(p: ProblemArrays, t: Timeline, operator: int, device: int, start: float) -> None:
    """Place an operator on a device.

    Args:
        p: the problem.
        t: gets the operator.
        operator: not placed yet.
        device: able to run it, and idle for as long as it runs.
        start: its start [s].
    """
    finish = start + p.cost[operator, device]
    t.assignment[operator] = device
    t.start[operator] = start
    t.finish[operator] = finish
    k = t.intervals[device]
    while k > 0 and (t.busy_from[device, k - 1], t.busy_to[device, k - 1]) > (start, finish):
        t.busy_from[device, k] = t.busy_from[device, k - 1]
        t.busy_to[device, k] = t.busy_to[device, k - 1]
        t.operators[device, k] = t.operators[device, k - 1]
        k -= 1
    t.busy_from[device, k] = start
    t.busy_to[device, k] = finish
    t.operators[device, k] = operator
    count = t.intervals[device]
    t.intervals[device] = count + 1
    if count % BLOCK == 0:
        t.widest[device, count // BLOCK] = 0.0
    _widen(t, device, k)
    for first in range((k // BLOCK + 1) * BLOCK, count + 1, BLOCK):
        _widen(t, device, first)  # which was in the block before


# Intervals behind the operator's move down by one place. The gap before its old place k gets longer, and into each
# block from k's on comes the first interval of the block behind: those bounds are raised.
@step
def take_back(t: Timeline, operator: int) -> None:
    """Undo the booking of an operator."""
    device = t.assignment[operator]
    t.assignment[operator] = -1
    t.intervals[device] -= 1
    count = t.intervals[device]
    k = count
    while t.operators[device, k] != operator:
        k -= 1
    for m in range(k, count):
        t.busy_from[device, m] = t.busy_from[device, m + 1]
        t.busy_to[device, m] = t.busy_to[device, m + 1]
        t.operators[device, m] = t.operators[device, m + 1]
    if k < count:
        _widen(t, device, k)
    for last in range((k // BLOCK + 1) * BLOCK - 1, count, BLOCK):
        _widen(t, device, last)  # which was in the block after


@step
def _widen(t: Timeline, device: int, k: int) -> None:
    """Let the bound of an interval's block hold for the gap before it."""
    gap = t.busy_from[device, k] - (t.busy_to[device, k - 1] if k > 0 else 0.0)
    t.widest[device, k // BLOCK] = max(t.widest[device, k // BLOCK], gap)


@jit
def device_order(t: Timeline) -> tuple[IntArray, IntArray]:
    """Read the device orders off a complete timeline.

    Returns:
        [n] operators, device after device, those of a device by start, finish and the turn in which they
        were placed; and [d + 1] offsets: device a has ``order[pointer[a] : pointer[a + 1]]``.
    """
    order = np.empty(len(t.assignment), np.int32)
    pointer = np.empty(len(t.intervals) + 1, np.int32)
    write_device_order(t, order, pointer)
    return order, pointer


@step
def write_device_order(t: Timeline, order: IntArray, pointer: IntArray) -> None:
    """As :func:`device_order`, into arrays ``order`` [n] and ``pointer`` [d + 1]."""
    count = 0
    for device in range(len(t.intervals)):
        pointer[device] = count
        for k in range(t.intervals[device]):
            order[count] = t.operators[device, k]
            count += 1
    pointer[len(t.intervals)] = count


@step
def end(t: Timeline) -> float:
    """Finish of the last operator that a timeline holds [s]; 0 if it holds none."""
    last = 0.0
    for device in range(len(t.intervals)):
        if t.intervals[device] > 0:
            last = max(last, t.busy_to[device, t.intervals[device] - 1])
    return last
