"""Timeline: list scheduling under the classic model, one operator at a time.

Start times follow HEFT's rules. *Insertion*: the first idle gap of the device that is long enough;
*append*: after the device's last operator. List schedulers, the decoding of placements and the
environments all place operators through these functions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._jit import jit
from hetgym._types import FloatArray, IntArray
from hetgym.problem import ProblemArrays


class Timeline(NamedTuple):
    """A partial schedule.

    Attributes:
        assignment: [n] device, -1 while not placed.
        start, finish: [n] times of placed operators [s].
        busy_from, busy_to: [d, n] the device's occupied intervals in order of time [s].
        operators: [d, n] what occupies them.
        intervals: [d] number of intervals. An operator that takes no time holds an empty one: it
            delays nobody, but nothing may run across it.
    """

    assignment: IntArray
    start: FloatArray
    finish: FloatArray
    busy_from: FloatArray
    busy_to: FloatArray
    operators: IntArray
    intervals: IntArray


@jit
def new_timeline(n: int, d: int) -> Timeline:
    """Allocate an empty timeline."""
    return Timeline(
        np.full(n, -1, np.int32), np.zeros(n), np.zeros(n), np.zeros((d, n)), np.zeros((d, n)),
        np.zeros((d, n), np.int32), np.zeros(d, np.int32),
    )  # fmt: skip


@jit
def clear(t: Timeline) -> None:
    """Empty a timeline."""
    t.assignment[:] = -1
    t.intervals[:] = 0


@jit
def copy_into(t: Timeline, other: Timeline) -> None:
    """Make another timeline of the same size equal to this one."""
    other.assignment[:] = t.assignment
    other.start[:] = t.start
    other.finish[:] = t.finish
    for device in range(len(t.intervals)):
        count = t.intervals[device]
        other.intervals[device] = count
        other.busy_from[device, :count] = t.busy_from[device, :count]
        other.busy_to[device, :count] = t.busy_to[device, :count]
        other.operators[device, :count] = t.operators[device, :count]


@jit
def data_ready(p: ProblemArrays, t: Timeline, operator: int, device: int) -> float:
    """When the outputs of the operator's placed predecessors can be on a device [s]."""
    ready = 0.0
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        i = p.predecessor[k]
        a = t.assignment[i]
        arrival = t.finish[i]
        if a != device:
            arrival += p.latency[a, device] + p.edge_bytes[p.predecessor_edge[k]] / p.bandwidth[a, device]
        ready = max(ready, arrival)
    return ready


@jit
def earliest_start(t: Timeline, device: int, ready: float, duration: float, insertion: bool) -> float:
    """Earliest start on a device for an operator whose inputs are there at ``ready`` [s]."""
    count = t.intervals[device]
    end = t.busy_to[device, count - 1] if count > 0 else 0.0
    if not insertion or ready >= end:
        return max(ready, end)
    begin = t.busy_from[device]
    low, high = 0, count  # no gap before the first interval that begins at ready + duration or later is long enough
    while low < high:
        middle = (low + high) // 2
        if begin[middle] < ready + duration:
            low = middle + 1
        else:
            high = middle
    for k in range(low, count):
        start = max(ready, t.busy_to[device, k - 1]) if k > 0 else ready
        if start + duration <= begin[k]:
            return start
    return max(ready, end)


@jit
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
    t.intervals[device] += 1


@jit
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
    d = p.cost.shape[1]
    makespan = 0.0
    for operator in order:
        best_device, best_start, best_key = d, 0.0, np.inf
        for device in range(d):
            duration = p.cost[operator, device]
            if fixed[operator] >= 0:
                if device != fixed[operator]:
                    continue
            elif duration == np.inf:
                continue
            start = earliest_start(t, device, data_ready(p, t, operator, device), duration, insertion)
            key = start + duration + bonus[operator, device]
            if best_device == d or key < best_key:
                best_device, best_start, best_key = device, start, key
        book(p, t, operator, best_device, best_start)
        makespan = max(makespan, t.finish[operator])
    return makespan


@jit
def device_order(t: Timeline) -> tuple[IntArray, IntArray]:
    """Read the device orders off a complete timeline.

    Returns:
        [n] operators, device after device, each by start, finish and the turn in which it was
        placed; and [d + 1] where each device's part begins.
    """
    d = len(t.intervals)
    order = np.empty(len(t.assignment), np.int32)
    pointer = np.zeros(d + 1, np.int32)
    for device in range(d):
        count = t.intervals[device]
        pointer[device + 1] = pointer[device] + count
        order[pointer[device] : pointer[device + 1]] = t.operators[device, :count]
    return order, pointer
