"""Timeline: list scheduling under the classic model, one operator at a time.

Start times follow HEFT's rules. *Insertion*: the first idle gap of the device that is long enough;
*append*: after the device's last operator. List schedulers, the decoding of placements and the
environments all place operators through these functions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._jit import jit, lean, step
from hetgym._types import FloatArray, IntArray
from hetgym.problem import ProblemArrays

NEAR = 32
"""Intervals at a device's end that are searched one by one before the others by bisection."""

BLOCK = 64
"""Intervals of a device that share an entry of :attr:`Timeline.widest`."""

ROUNDING = 1e-15
"""What rounding may add to an end, as a share of it: a few units in the last place."""


class Timeline(NamedTuple):
    """A partial schedule.

    Attributes:
        assignment: [n] device, -1 while not placed.
        start, finish: [n] times of placed operators [s].
        busy_from, busy_to: [d, n] the device's occupied intervals in order of time [s].
        operators: [d, n] what occupies them.
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
    """Allocate an empty timeline."""
    return Timeline(
        np.full(n, -1, np.int32), np.zeros(n), np.zeros(n), np.zeros((d, n)), np.zeros((d, n)),
        np.zeros((d, n), np.int32), np.zeros(d, np.int32), np.zeros((d, n // BLOCK + 1)),
    )  # fmt: skip


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
        t: where every operator has been placed.
        other: overwritten; times of operators that it does not hold are left as they were.
        turn: [n] when each operator was placed, counted from 0.
        first: operators of this turn and later ones are left out.
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
    """When the outputs of the operator's placed predecessors can be on a device [s]."""
    ready = 0.0
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        i = p.predecessor[k]
        a = t.assignment[i]  # on the same device a transfer takes no time: see the diagonals
        transfer = p.latency[a, device] + p.edge_bytes[p.predecessor_edge[k]] / p.bandwidth[a, device]
        ready = max(ready, t.finish[i] + transfer)
    return ready


@step
def earliest_start(t: Timeline, device: int, ready: float, duration: float, insertion: bool) -> float:
    """Earliest start on a device for an operator whose inputs are there at ``ready`` [s]."""
    count = t.intervals[device]
    end = t.busy_to[device, count - 1] if count > 0 else 0.0
    if not insertion or ready >= end:
        return max(ready, end)
    # Only gaps before intervals that begin at ready + duration or later are long enough; mostly these
    # are the last few, which are looked at from the end, without branches that are hard to guess.
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


@lean
def book(p: ProblemArrays, t: Timeline, operator: int, device: int, start: float) -> None:
    """Place an operator on a device from ``start`` on."""
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


@step
def place_within(
    p: ProblemArrays,
    t: Timeline,
    order: IntArray,
    fixed: IntArray,
    bonus: FloatArray,
    insertion: bool,
    tail: FloatArray,
    limit: float,
) -> tuple[float, int]:
    """As :func:`place_in_order`, but give up as soon as the makespan must exceed a limit.

    Args:
        p: the problem.
        t: filled in; what it already holds stays.
        order: operators in a topological order.
        fixed: [n] device that an operator must take, -1 where it is free to choose.
        bonus: [n, d] added to the finish time when devices are compared [s].
        insertion: whether idle gaps may be used.
        tail: [n, d] a lower bound on the time from an operator's finish on a device to the end [s].
        limit: largest makespan of interest [s]; inf to never give up.

    Returns:
        Finish of the last of these operators [s], inf where the limit broke; how many were placed.
    """
    d = p.cost.shape[1]
    makespan = 0.0
    placed = 0
    for operator in order:
        chosen = fixed[operator]
        best_device, best_start, best_key = d, 0.0, np.inf
        for device in range(max(chosen, 0), chosen + 1 if chosen >= 0 else d):
            duration = p.cost[operator, device]
            if duration == np.inf and chosen < 0:
                continue
            start = earliest_start(t, device, data_ready(p, t, operator, device), duration, insertion)
            key = start + duration + bonus[operator, device]
            if best_device == d or key < best_key:
                best_device, best_start, best_key = device, start, key
        book(p, t, operator, best_device, best_start)
        finish = best_start + p.cost[operator, best_device]
        makespan = max(makespan, finish)
        placed += 1
        if finish + tail[operator, best_device] > limit:
            return np.inf, placed
    return makespan, placed


@lean
def place_in_order(
    p: ProblemArrays, t: Timeline, order: IntArray, fixed: IntArray, bonus: FloatArray, insertion: bool
) -> float:
    """Place operators one after the other, each where it finishes first.

    Args:
        p: the problem.
        t: filled in; what it already holds stays.
        order: operators in a topological order.
        fixed: [n] device that an operator must take, -1 where it is free to choose.
        bonus: [n, d] added to the finish time when devices are compared [s]; ties go to the smaller
            device.
        insertion: whether idle gaps may be used.

    Returns:
        Finish of the last of these operators [s].
    """
    makespan, _ = place_within(p, t, order, fixed, bonus, insertion, bonus, np.inf)
    return makespan


@step
def place_fixed(p: ProblemArrays, t: Timeline, order: IntArray, fixed: IntArray, insertion: bool) -> float:
    """As :func:`place_in_order` where every operator has its device: the same, in fewer steps."""
    makespan = 0.0
    for operator in order:
        device = fixed[operator]
        ready = data_ready(p, t, operator, device)
        start = earliest_start(t, device, ready, p.cost[operator, device], insertion)
        book(p, t, operator, device, start)
        makespan = max(makespan, t.finish[operator])
    return makespan


@jit
def device_order(t: Timeline) -> tuple[IntArray, IntArray]:
    """Read the device orders off a complete timeline.

    Returns:
        [n] operators, device after device, each by start, finish and the turn in which it was
        placed; and [d + 1] where each device's part begins.
    """
    order = np.empty(len(t.assignment), np.int32)
    pointer = np.empty(len(t.intervals) + 1, np.int32)
    write_device_order(t, order, pointer)
    return order, pointer


@step
def write_device_order(t: Timeline, order: IntArray, pointer: IntArray) -> None:
    """As :func:`device_order`, into arrays."""
    count = 0
    for device in range(len(t.intervals)):
        pointer[device] = count
        for k in range(t.intervals[device]):
            order[count] = t.operators[device, k]
            count += 1
    pointer[len(t.intervals)] = count


@step
def end(t: Timeline) -> float:
    """When the last of the operators that a timeline holds has finished [s]."""
    last = 0.0
    for device in range(len(t.intervals)):
        if t.intervals[device] > 0:
            last = max(last, t.busy_to[device, t.intervals[device] - 1])
    return last


@lean
def critical_chain(p: ProblemArrays, t: Timeline, chain: IntArray) -> int:
    """Operators that the makespan of a complete timeline waits for.

    Walks back from the last finisher through predecessors whose data arrive just when the operator
    starts (the smallest id), else through the operator that leaves its device just then.

    Args:
        p: the problem.
        t: holds all operators.
        chain: [n] filled in, first to last.

    Returns:
        Length of the chain.
    """
    n = len(t.start)
    operator = np.int32(0)
    for i in range(n):
        later = t.finish[i] > t.finish[operator]
        if later or (t.finish[i] == t.finish[operator] and p.position[i] > p.position[operator]):
            operator = np.int32(i)
    count = 0
    while True:
        chain[count] = operator
        count += 1
        start, device = t.start[operator], t.assignment[operator]
        before = -1
        for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
            i = p.predecessor[k]
            arrival = t.finish[i]
            if t.assignment[i] != device:
                a = t.assignment[i]
                arrival += p.latency[a, device] + p.edge_bytes[p.predecessor_edge[k]] / p.bandwidth[a, device]
            if arrival == start and (before < 0 or i < before):
                before = i
        if before < 0 and start > 0.0:
            low, high = 0, t.intervals[device]  # the last interval that begins before this one does
            while low < high:
                middle = (low + high) // 2
                if t.busy_from[device, middle] < start:
                    low = middle + 1
                else:
                    high = middle
            if low > 0 and t.busy_to[device, low - 1] == start:
                before = t.operators[device, low - 1]
        if before < 0:
            break
        operator = np.int32(before)
    for k in range(count // 2):
        chain[k], chain[count - 1 - k] = chain[count - 1 - k], chain[k]
    return count
