"""Decoding: a placement, or a placement and an order, becomes a schedule under the classic model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hetgym._jit import jit
from hetgym._types import FloatArray, IntArray
from hetgym.errors import unknown_name
from hetgym.planning import list_scheduling, ranks, timeline
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim.simulation import simulate

DECODES = ("insertion", "append", "bottom-level")
"""Rules by which a placement becomes a schedule: insertion or appending in the order of upward ranks, or insertion
in the order of the placement's own bottom levels."""


def decode_placement(problem: Problem, assignment: IntArray, how: str = "insertion") -> Schedule:
    """Give a placement an order and times under the classic model.

    Args:
        problem: the problem.
        assignment: [n] device of each operator, each able to run it.
        how: one of :data:`DECODES`.

    Raises:
        UnknownName: no such decode.

    >>> from hetgym.workloads import textbook
    >>> problem = textbook("topcuoglu")
    >>> decode_placement(problem, problem.cost.argmin(axis=1)).makespan
    80.0
    """
    if how not in DECODES:
        raise unknown_name("decode", how, DECODES)
    placed = timeline.new_timeline(problem.num_operators, problem.num_devices)
    devices = np.array(assignment, np.int32)
    decode(problem.arrays, placed, devices, ranks.upward_rank(problem), DECODES.index(how))
    return timeline.planned(problem, placed)


def decode_in_order(problem: Problem, assignment: IntArray, order: IntArray, insertion: bool = True) -> Schedule:
    """Start operators in a given order, each on its device as early as it can.

    Args:
        problem: the problem.
        assignment: [n] device of each operator, each able to run it.
        order: [n] operators in a topological order.
        insertion: true if idle gaps may be used.
    """
    n, d = problem.num_operators, problem.num_devices
    placed = timeline.new_timeline(n, d)
    devices, turns = np.array(assignment, np.int32), np.array(order, np.int32)  # read-only ones would compile anew
    list_scheduling.place_in_order(problem.arrays, placed, turns, devices, np.zeros((n, d)), insertion)
    return timeline.planned(problem, placed)


def with_times(problem: Problem, schedule: Schedule) -> Schedule:
    """The same placement and device orders, every operator as early as the classic model lets it start."""
    trace = simulate(problem, Schedule(schedule.assignment, order=schedule.order), "classic")
    return replace(schedule, start=trace.start, finish=trace.finish)


def start_order(problem: Problem, schedule: Schedule, how: str) -> IntArray:
    """[n] operators in the order in which a schedule's placement is decoded.

    Args:
        problem: the problem.
        schedule: with start times.
        how: ``"order"``: by the schedule's own start times, in which insertion can only make it shorter;
            ``"insertion"``: by upward rank; ``"bottom-level"``: by the bottom levels of its placement.
    """
    if how == "insertion":
        return ranks.list_order(problem.arrays, np.array(ranks.upward_rank(problem)))
    if how == "bottom-level":
        level = ranks.assigned_bottom_level(problem.arrays, schedule.assignment.copy())
        return ranks.list_order(problem.arrays, level)
    assert schedule.start is not None and schedule.finish is not None
    return by_start(problem, schedule.start, schedule.finish)


def by_start(problem: Problem, start: FloatArray, finish: FloatArray) -> IntArray:
    """[n] operators by start, then finish, then topological position.

    Args:
        problem: the problem.
        start: [n] start of each operator [s].
        finish: [n] finish of each operator [s].
    """
    return np.lexsort((problem.arrays.position, finish, start)).astype(np.int32)


@jit
def decode(p: ProblemArrays, t: timeline.Timeline, assignment: IntArray, rank: FloatArray, how: int) -> float:
    """Give a placement its start times under the classic model, and return the makespan [s].

    Args:
        p: the problem.
        t: overwritten.
        assignment: [n] device of each operator.
        rank: [n] order of the operators for ``insertion`` and ``append``, larger first.
        how: position in :data:`DECODES`.
    """
    timeline.clear(t)
    priority = ranks.assigned_bottom_level(p, assignment) if how == 2 else rank
    return list_scheduling.place_fixed(p, t, ranks.list_order(p, priority), assignment, how != 1)


@jit
def decode_all(
    p: ProblemArrays, assignments: IntArray, rank: FloatArray, how: int, ordered: bool
) -> tuple[FloatArray, IntArray, IntArray]:
    """Decode a batch of placements.

    Args:
        p: the problem.
        assignments: [batch, n] devices.
        rank: [n] order of the operators for ``insertion`` and ``append``, larger first.
        how: position in :data:`DECODES`.
        ordered: true to return device orders.

    Returns:
        [batch] makespans [s]; [batch, n] device orders, one device after the other; [batch, d + 1] offsets of
        the devices in them. The last two have no rows unless ``ordered``.
    """
    n, d = p.cost.shape
    batch = len(assignments)
    t = timeline.new_timeline(n, d)
    makespans = np.empty(batch)
    orders = np.empty((batch if ordered else 0, n), np.int32)
    pointers = np.empty((batch if ordered else 0, d + 1), np.int32)
    order = ranks.list_order(p, rank)  # the same for all placements, unless their own bottom levels decide
    for b in range(batch):
        if how == 2:
            makespans[b] = decode(p, t, assignments[b], rank, how)
        else:
            timeline.clear(t)
            makespans[b] = list_scheduling.place_fixed(p, t, order, assignments[b], how != 1)
        if ordered:
            timeline.write_device_order(t, orders[b], pointers[b])
    return makespans, orders, pointers
