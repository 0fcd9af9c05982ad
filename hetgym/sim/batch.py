"""evaluate: makespans of many placements or schedules, without keeping what happened."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from hetgym._jit import jit
from hetgym._types import FloatArray, IntArray
from hetgym.errors import InvalidSchedule, OutOfMemory, unknown_name
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule, validate
from hetgym.sim import ranks, timeline
from hetgym.sim.run import Setting, new_workspace, run, setting
from hetgym.sim.runtime import PRESETS, Runtime
from hetgym.sim.runtime import runtime as as_runtime
from hetgym.sim.simulation import dispatch_order, simulate

LEAST_BATCH = 32
"""Fewest candidates for which a thread of their own pays."""

DECODES = ("insertion", "append", "bottom-level")
"""How a placement becomes a schedule: HEFT's insertion or appending in the order of upward ranks, or
insertion in the order of the placement's own bottom levels."""


@jit
def decode(
    p: ProblemArrays, t: timeline.Timeline, assignment: IntArray, rank: FloatArray, how: int, bonus: FloatArray
) -> float:
    """Give a placement its start times under the classic model, and return the makespan [s].

    Args:
        p: the problem.
        t: overwritten.
        assignment: [n] device of each operator.
        rank: [n] order of the operators for ``insertion`` and ``append``, larger first.
        how: position in :data:`DECODES`.
        bonus: [n, d] zeros.
    """
    timeline.clear(t)
    priority = ranks.assigned_bottom_level(p, assignment) if how == 2 else rank
    return timeline.place_in_order(p, t, ranks.list_order(p, priority), assignment, bonus, how != 1)


def decode_placement(problem: Problem, assignment: IntArray, how: str = "insertion") -> Schedule:
    """Give a placement an order and times under the classic model.

    Args:
        problem: what is to be run.
        assignment: [n] device of each operator, each able to run it.
        how: one of :data:`DECODES`.

    Raises:
        UnknownName: no such decode.
    """
    if how not in DECODES:
        raise unknown_name("decode", how, DECODES)
    n, d = problem.num_operators, problem.num_devices
    placed = timeline.new_timeline(n, d)
    devices = np.array(assignment, np.int32)
    decode(problem.arrays, placed, devices, ranks.upward_rank(problem), DECODES.index(how), np.zeros((n, d)))
    return planned(problem, placed)


def planned(problem: Problem, placed: timeline.Timeline) -> Schedule:
    """The schedule that a complete timeline holds."""
    order, pointer = timeline.device_order(placed)
    return Schedule(
        placed.assignment,
        order=[order[pointer[d] : pointer[d + 1]] for d in range(problem.num_devices)],
        start=placed.start,
        finish=placed.finish,
    )


@jit
def _evaluate(
    p: ProblemArrays, assignments: IntArray, rank: FloatArray, how: int, planned_is_true: bool, setting: Setting
) -> FloatArray:
    n, d = p.cost.shape
    t = timeline.new_timeline(n, d)
    w = new_workspace(p, setting)
    bonus = np.zeros((n, d))
    makespans = np.empty(len(assignments))
    priority = np.empty(n)
    falling = -np.arange(n).astype(np.float64)
    turn = ranks.list_order(p, rank)  # the same for all placements, unless their own bottom levels decide
    for b in range(len(assignments)):
        if how == 2:
            makespans[b] = decode(p, t, assignments[b], rank, how, bonus)
        else:
            timeline.clear(t)
            makespans[b] = timeline.place_in_order(p, t, turn, assignments[b], bonus, how != 1)
        if not planned_is_true:
            order, pointer = timeline.device_order(t)
            priority[order] = falling
            run(p, w, assignments[b], order, pointer, priority, setting)
            makespans[b] = w.state.finish.max()
    return makespans


def evaluate(
    problem: Problem,
    candidates: npt.ArrayLike | Sequence[Schedule],
    runtime: str | Runtime = "classic",
    decode: str = "insertion",
) -> FloatArray:
    """Makespans of many placements, or of many schedules.

    Args:
        problem: what is to be run.
        candidates: placements [B, n] (device of each operator), or schedules.
        runtime: a preset's name, or the switches.
        decode: how a placement gets its order, one of :data:`DECODES`; schedules bring their own.

    Returns:
        [B] makespans [s].

    Raises:
        InvalidSchedule: a placement of the wrong shape, on a device that does not exist, or of an
            operator on a device that cannot run it; or an illegal schedule.
        UnknownName: no such decode or runtime.

    Work is spread over the processor's cores; the numbers do not depend on how many there are. What
    exceeds a device's memory in a runtime that enforces it has makespan inf.

    >>> problem = Problem.from_arrays([[2.0, 3.0], [4.0, 1.0]], [(0, 1, 5.0)], bandwidth=10.0)
    >>> evaluate(problem, [[0, 0], [0, 1], [1, 1]])
    array([6. , 3.5, 4. ])
    """
    switches = as_runtime(runtime)
    if isinstance(candidates, Sequence) and any(isinstance(item, Schedule) for item in candidates):
        schedules = [item for item in candidates if isinstance(item, Schedule)]
        if len(schedules) < len(candidates):
            raise InvalidSchedule("candidates are either placements or schedules, not both")
        return _evaluate_schedules(problem, schedules, switches)
    if decode not in DECODES:
        raise unknown_name("decode", decode, DECODES)
    assignments = _check(problem, candidates)
    if switches.memory == "enforce":
        return np.array([_within_memory(problem, decode_placement(problem, a, decode), switches) for a in assignments])
    rank, how = ranks.upward_rank(problem), DECODES.index(decode)
    ready, exact = setting(problem, switches), switches == PRESETS["classic"]
    return _in_parts(
        len(assignments), lambda part: _evaluate(problem.arrays, assignments[part], rank, how, exact, ready)
    )


@jit
def _run_all(
    p: ProblemArrays, assignments: IntArray, orders: IntArray, pointers: IntArray, priorities: FloatArray, how: Setting
) -> FloatArray:
    w = new_workspace(p, how)
    makespans = np.empty(len(assignments))
    for b in range(len(assignments)):
        run(p, w, assignments[b], orders[b], pointers[b], priorities[b], how)
        makespans[b] = w.state.finish.max()
    return makespans


def _run_part(
    p: ProblemArrays, assignments: IntArray, orders: IntArray, pointers: IntArray, priorities: FloatArray, how: Setting,
    part: slice,
) -> FloatArray:  # fmt: skip
    return _run_all(p, assignments[part], orders[part], pointers[part], priorities[part], how)


def _evaluate_schedules(problem: Problem, schedules: Sequence[Schedule], switches: Runtime) -> FloatArray:
    """Makespans of schedules, those by priorities and those by orders each in one go."""
    makespans = np.empty(len(schedules))
    if switches.memory == "enforce":
        return np.array([_within_memory(problem, schedule, switches) for schedule in schedules])
    for by_priority in (False, True):
        chosen = [k for k, schedule in enumerate(schedules) if (schedule.priority is not None) == by_priority]
        if not chosen:
            continue
        for k in chosen:
            validate(problem, schedules[k])
        assignments = np.stack([schedules[k].assignment for k in chosen])
        orders, pointers, priorities = (
            np.stack(column) for column in zip(*(dispatch_order(problem, schedules[k]) for k in chosen), strict=True)
        )
        how = setting(problem, switches, by_priority)
        work = partial(_run_part, problem.arrays, assignments, orders, pointers, priorities, how)
        makespans[chosen] = _in_parts(len(chosen), work)
    return makespans


def _in_parts(count: int, work: Callable[[slice], FloatArray]) -> FloatArray:
    """Spread a batch over threads, which kernels let run side by side; a small one is not worth it."""
    threads = min(os.cpu_count() or 1, count // LEAST_BATCH)
    if threads < 2:
        return work(slice(0, count))
    ends = [count * k // threads for k in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate(list(pool.map(work, (slice(a, b) for a, b in pairwise(ends)))))


def _within_memory(problem: Problem, schedule: Schedule, switches: Runtime) -> float:
    try:
        return simulate(problem, schedule, switches).makespan
    except OutOfMemory:
        return np.inf


def _check(problem: Problem, candidates: object) -> IntArray:
    try:
        table = np.asarray(candidates, np.float64)
    except (TypeError, ValueError) as cause:
        raise InvalidSchedule(f"placements are not a table of device numbers ({cause})") from cause
    n, d = problem.num_operators, problem.num_devices
    if table.ndim != 2 or table.shape[1] != n:
        raise InvalidSchedule(f"placements have shape {table.shape}, expected [batch, {n}]")
    legal = (table >= 0) & (table < d) & (table == np.floor(table))
    devices = np.where(legal, table, 0).astype(np.int32)
    legal &= np.isfinite(problem.cost[np.arange(n), devices])
    if not legal.all():
        row, operator = (int(i) for i in np.argwhere(~legal)[0])
        raise InvalidSchedule(
            f"placement {row} puts operator {operator} ({problem.operator_names[operator]!r}) on device "
            f"{table[row, operator]:g}, which does not exist or cannot run it"
        )
    return np.ascontiguousarray(devices)  # any other layout would compile the kernels anew
