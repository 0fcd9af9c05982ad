"""Timeline: a partial schedule under the classic model, to which operators are added one at a time.

Start times follow HEFT's rules. *Insertion*: the first idle gap of the device that is long enough;
*append*: after the device's last operator. List schedulers, the decoding of placements and the
environments all place operators through these functions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._jit import lean, step
from hetgym._records import record
from hetgym._types import FloatArray, IntArray
from hetgym.planning import intervals
from hetgym.planning.intervals import Intervals, new_intervals
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule


@record
class Timeline(NamedTuple):
    """A partial schedule.

    Attributes:
        assignment: [n] device, -1 while not placed.
        start, finish: [n] times of placed operators [s].
        busy: occupied intervals of each device; see :class:`~hetgym.planning.intervals.Intervals`.
    """

    assignment: IntArray
    start: FloatArray
    finish: FloatArray
    busy: Intervals


def new_timeline(n: int, d: int) -> Timeline:
    """Allocate an empty timeline for n operators and d devices."""
    return Timeline(
        assignment=np.full(n, -1, np.int32),
        start=np.zeros(n),
        finish=np.zeros(n),
        busy=new_intervals(n, d),
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
    for row in schedule.device_order(problem):
        operators = np.array(row, np.int32)
        _book_all(problem.arrays, placed, operators, np.array(schedule.assignment, np.int32), np.array(schedule.start))
    return placed


@lean
def _book_all(p: ProblemArrays, t: Timeline, operators: IntArray, assignment: IntArray, start: FloatArray) -> None:
    for i in operators:
        book(p, t, i, assignment[i], start[i])


@lean
def append(p: ProblemArrays, t: Timeline, operator: int, device: int, now: float) -> None:
    """Place an operator on a device that is idle from ``now`` on [s], as soon as its inputs are there."""
    book(p, t, operator, device, max(now, data_ready(p, t, operator, device)))


@step
def clear(t: Timeline) -> None:
    """Empty a timeline."""
    t.assignment[:] = -1
    intervals.clear(t.busy)


@step
def copy_into(t: Timeline, other: Timeline) -> None:
    """Make another timeline of the same size equal to this one."""
    for i in range(len(t.assignment)):  # loops, as slices of so few numbers would cost more than the copy
        other.assignment[i] = t.assignment[i]
        other.start[i] = t.start[i]
        other.finish[i] = t.finish[i]
    intervals.copy_into(t.busy, other.busy)


@step
def copy_prefix(t: Timeline, other: Timeline, turn: IntArray, first: int) -> None:
    """Make another timeline hold what this complete one held before the turn of its ``first`` operator.

    Args:
        t: a complete timeline.
        other: overwritten; devices and times of operators that it does not hold have no meaning.
        turn: [n] the operators' places in the order in which they were placed, from 0.
        first: turn of the first operator that is left out.
    """
    intervals.copy_prefix(t.busy, other.busy, turn, first)
    for i in range(len(turn)):  # all of them: a branch that cannot be foreseen would cost more
        other.assignment[i] = t.assignment[i]
        other.start[i] = t.start[i]
        other.finish[i] = t.finish[i]


@step
def data_ready(p: ProblemArrays, t: Timeline, operator: int, device: int) -> float:
    """The time at which the outputs of the operator's predecessors, all of them placed, can be on a device [s]."""
    ready = 0.0
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        i = p.predecessor[k]
        a = t.assignment[i]  # on the same device a transfer takes no time: see the diagonals
        transfer = p.latency[a, device] + p.edge_bytes[p.predecessor_edge[k]] / p.bandwidth[a, device]
        ready = max(ready, t.finish[i] + transfer)
    return ready


@step
def earliest_start(t: Timeline, device: int, ready: float, duration: float, insertion: bool) -> float:
    """Earliest start of an operator on a device [s].

    Args:
        t: the timeline; only bounds of its gaps may change.
        device: the device tried.
        ready: arrival of the operator's last input [s].
        duration: run time on the device [s].
        insertion: true if idle gaps may be used.
    """
    if insertion:
        return intervals.earliest_gap(t.busy, device, ready, duration)
    return max(ready, intervals.last_end(t.busy, device))


@step
def start_on(p: ProblemArrays, t: Timeline, operator: int, device: int, insertion: bool) -> float:
    """Earliest start of an operator on a device, its predecessors being placed [s]."""
    return earliest_start(t, device, data_ready(p, t, operator, device), p.cost[operator, device], insertion)


@step
def book(p: ProblemArrays, t: Timeline, operator: int, device: int, start: float) -> None:
    """Place an operator on a device.

    Args:
        p: the problem.
        t: the timeline; updated.
        operator: the operator, not placed yet.
        device: a device that can run it and is idle for its duration.
        start: its start [s].
    """
    finish = start + p.cost[operator, device]
    t.assignment[operator] = device
    t.start[operator] = start
    t.finish[operator] = finish
    intervals.insert(t.busy, device, operator, start, finish)


@step
def take_back(t: Timeline, operator: int) -> None:
    """Undo the booking of an operator."""
    intervals.remove(t.busy, t.assignment[operator], operator, t.start[operator], t.finish[operator])
    t.assignment[operator] = -1


def device_order(t: Timeline) -> tuple[IntArray, IntArray]:
    """Read the device orders off a complete timeline.

    Returns:
        [n] operators, device after device, those of a device by start, finish and the turn in which they
        were placed; and [d + 1] offsets: device a has ``order[pointer[a] : pointer[a + 1]]``.
    """
    order = np.empty(len(t.assignment), np.int32)
    pointer = np.empty(len(t.busy.size) + 1, np.int32)
    write_device_order(t, order, pointer)
    return order, pointer


@lean
def write_device_order(t: Timeline, order: IntArray, pointer: IntArray) -> None:
    """As :func:`device_order`, into arrays ``order`` [n] and ``pointer`` [d + 1]."""
    count = 0
    for device in range(len(t.busy.size)):
        pointer[device] = count
        count = intervals.write_operators(t.busy, device, order, count)
    pointer[len(t.busy.size)] = count


@step
def end(t: Timeline) -> float:
    """Finish of the last operator that a timeline holds [s]; 0 if it holds none."""
    last = 0.0
    for device in range(len(t.busy.size)):
        last = max(last, intervals.last_end(t.busy, device))
    return last
