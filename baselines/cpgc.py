"""CPGC: critical-path greedy correction."""

from __future__ import annotations

import numpy as np

from hetgym._jit import jit
from hetgym._types import IntArray
from hetgym.baselines.cpop import critical_path, path_device
from hetgym.baselines.heft import heft
from hetgym.baselines.registry import register
from hetgym.baselines.trivial import single_device
from hetgym.errors import ConfigError
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import batch, timeline
from hetgym.sim.batch import planned
from hetgym.sim.ranks import downward_rank, list_order, upward_rank

_BOTTOM_LEVEL = batch.DECODES.index("bottom-level")
RUNS = (1, 2, 3, 5, 8)
"""Lengths of the runs of chain operators that are moved together."""


@register(
    "cpgc",
    kind="search",
    citation="Shang, Jiang, Li, Zhu, J. Comput. Appl. 43(9), 2023; correction after DUET (Zhang, Hu, Li, IPDPS 2021)",
    complexity="O(rounds chain p (e p + n log n))",
)
def cpgc(problem: Problem, budget: int = 10_000_000) -> Schedule:
    """Schedule, find the chain of operators that the makespan waits for, move a piece of it, repeat.

    Starts from HEFT's placement, the best single device, and the mean critical path on one device.
    Each round decodes the placement by its own bottom levels with insertion, walks the realised
    critical chain back from the last finisher, and moves the run of 1, 2, 3, 5 or 8 chain operators
    to the other device that shortens the whole schedule most. The best result over the starts is
    returned; it is never worse than any start, so never worse than the best single device.

    Args:
        problem: what is to be scheduled.
        budget: most operators placed in trial schedules, over all starts: it bounds the time, the
            same on every machine.

    Raises:
        ConfigError: a negative budget.
    """
    if budget < 0:
        raise ConfigError(f"cpgc: budget is {budget}; it must not be negative")
    n, d = problem.num_operators, problem.num_devices
    trials = budget // n
    starts = [heft(problem), single_device(problem), _critical_path_start(problem)]
    best = min(starts, key=lambda schedule: schedule.makespan)
    runs = np.array(RUNS, np.int32)
    for remaining, start in zip((3, 2, 1), starts, strict=True):
        assignment = start.assignment.copy()
        trials -= _correct(problem.arrays, assignment, runs, trials // remaining, _BOTTOM_LEVEL)
        placed = timeline.new_timeline(n, d)
        rank = np.zeros(n)
        makespan = batch.decode(problem.arrays, placed, assignment, rank, _BOTTOM_LEVEL, np.zeros((n, d)))
        if makespan < best.makespan:
            best = planned(problem, placed)
    return best


def _critical_path_start(problem: Problem) -> Schedule:
    """The mean critical path on the device that runs it fastest, the rest by earliest finish."""
    rank = upward_rank(problem)
    path = critical_path(problem, rank + downward_rank(problem))
    fixed = np.full(problem.num_operators, -1, np.int32)
    device = path_device(problem, path)
    fixed[[i for i in path if np.isfinite(problem.cost[i, device])]] = device
    placed = timeline.new_timeline(problem.num_operators, problem.num_devices)
    bonus = np.zeros((problem.num_operators, problem.num_devices))
    timeline.place_in_order(problem.arrays, placed, list_order(problem.arrays, rank), fixed, bonus, True)
    return planned(problem, placed)


@jit
def _correct(p: ProblemArrays, assignment: IntArray, runs: IntArray, trials: int, how: int) -> int:
    """Improve a placement in place; return how many trial schedules that took.

    How to decode comes as a number, for a literal would compile a variant of the decoder.
    """
    n, d = p.cost.shape
    t = timeline.new_timeline(n, d)
    bonus = np.zeros((n, d))
    rank = np.zeros(n)
    trial = assignment.copy()
    used = 1
    makespan = batch.decode(p, t, assignment, rank, how, bonus)
    while used < trials:
        chain = critical_chain(p, t)
        best, best_from, best_length, best_device = makespan, 0, 0, 0
        for length in runs:
            for first in range(len(chain) - length + 1):
                for device in range(d):
                    if used >= trials or not _move(p, assignment, trial, chain[first : first + length], device):
                        continue
                    used += 1
                    result = batch.decode(p, t, trial, rank, how, bonus)
                    if result < best:
                        best, best_from, best_length, best_device = result, first, length, device
                    for operator in chain[first : first + length]:
                        trial[operator] = assignment[operator]
        if best_length == 0:
            break
        for operator in chain[best_from : best_from + best_length]:
            assignment[operator] = best_device
            trial[operator] = best_device
        makespan = batch.decode(p, t, assignment, rank, how, bonus)
    return used


@jit
def _move(p: ProblemArrays, assignment: IntArray, trial: IntArray, run: IntArray, device: int) -> bool:
    """Put a run on a device in the trial placement; False if that is impossible or changes nothing."""
    changed = False
    for operator in run:
        if p.cost[operator, device] == np.inf:
            return False
        changed |= assignment[operator] != device
    if changed:
        for operator in run:
            trial[operator] = device
    return changed


@jit
def critical_chain(p: ProblemArrays, t: timeline.Timeline) -> IntArray:
    """Operators that the makespan waits for, first to last.

    Walks back from the last finisher through predecessors whose data arrive just when the operator
    starts (the smallest id), else through the operator that leaves its device just then.
    """
    n = len(t.start)
    chain = np.empty(n, np.int32)
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
            for i in range(n):
                if t.assignment[i] == device and t.finish[i] == start and t.start[i] < start:
                    before = i
                    break
        if before < 0:
            break
        operator = np.int32(before)
    return chain[:count][::-1].copy()
