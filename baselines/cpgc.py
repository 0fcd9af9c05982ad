"""CPGC: critical-path greedy correction."""

from __future__ import annotations

import numpy as np

from hetgym._jit import lean, step
from hetgym._types import IntArray
from hetgym.baselines.cpop import path_placement
from hetgym.baselines.heft import heft
from hetgym.baselines.trivial import single_device
from hetgym.errors import ConfigError
from hetgym.planning import walk as walks
from hetgym.planning.list_scheduling import place_by_priority
from hetgym.planning.ranks import assigned_bottom_level, list_order, upward_rank
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule

RUNS = (1, 2, 3, 5, 8)
"""Lengths of the runs of chain operators that are moved together."""

OVERHEAD = 16
"""The set-up of a trial takes about as long as placing one in this many of the operators, and counts as such."""


def cpgc(problem: Problem, budget: int = 2_000_000) -> Schedule:
    """Schedule, find the chain of operators that the makespan waits for, move a piece of it, repeat.

    Starts from HEFT's placement, the best single device, and the mean critical path on one device.
    Each round decodes the placement by its own bottom levels with insertion, walks the realised
    critical chain back from the last finisher, and moves the run of 1, 2, 3, 5 or 8 chain operators
    to the other device that shortens the whole schedule most. The best result over the starts is
    returned; it is never worse than any start, so never worse than the best single device.

    Args:
        problem: the problem to schedule.
        budget: largest number of operators placed in trial schedules, over all starts: it bounds the time, the
            same on every machine.

    Raises:
        ConfigError: a negative budget.
    """
    if budget < 0:
        raise ConfigError(f"cpgc: budget is {budget}; it must not be negative")
    starts = [heft(problem), single_device(problem), _path_start(problem)]
    best = min(starts, key=lambda schedule: schedule.makespan)
    runs = np.array(RUNS, np.int32)
    left = budget
    for remaining, start in zip((3, 2, 1), starts, strict=True):
        assignment = start.assignment.copy()
        level = assigned_bottom_level(problem.arrays, assignment)
        walk = walks.new_walk(problem, assignment, list_order(problem.arrays, level))
        _correct(problem.arrays, walk, runs, left // remaining)
        left -= int(walk.counts[walks.PLACED])
        if walk.value[walks.BEST] < best.makespan * walks.TIE:
            best = walks.best_schedule(problem, walk)
    return best


def _path_start(problem: Problem) -> Schedule:
    """The mean critical path on the device that runs it fastest, the rest by earliest finish."""
    return place_by_priority(problem, upward_rank(problem), fixed=path_placement(problem))


# Each round tries every run of the critical chain on every other device, undoes each trial, and makes the best of
# them the walk's schedule. The makespan decreases with every round, so the loop ends: if no run shortens it, or when
# the target is reached. `best` is the makespan to beat; a trial that cannot do so is abandoned early.
@lean
def _correct(p: ProblemArrays, w: walks.Walk, runs: IntArray, target: int) -> None:
    """Correct the walk's schedule until nothing helps or the target is reached."""
    n, d = p.cost.shape
    while w.counts[walks.PLACED] < target:
        walks.find_chain(p, w)
        length = w.counts[walks.CHAIN]
        best, best_first, best_run, best_device = w.value[walks.CURRENT], 0, 0, 0
        for run in runs:
            for first in range(length - run + 1):
                for device in range(d):
                    if w.counts[walks.PLACED] >= target:
                        continue
                    count = _put_run(p, w, first, run, device)
                    if count == 0:
                        continue
                    w.counts[walks.PLACED] += 1 + n // OVERHEAD
                    makespan = walks.try_level_order(p, w, count, best)
                    if makespan < np.inf:
                        walks.undo_level_order(w, count)
                    if makespan < best * walks.TIE:
                        best, best_first, best_run, best_device = makespan, first, run, device
        if best_run == 0:
            break
        count = _put_run(p, w, best_first, best_run, best_device)
        makespan = walks.try_level_order(p, w, count, np.inf)
        walks.accept(p, w, -1, makespan)


@step
def _put_run(p: ProblemArrays, w: walks.Walk, first: int, run: int, device: int) -> int:
    """Put a run of the chain on a device; return the number of operators that move, 0 if one of them cannot."""
    for k in range(first, first + run):
        if p.cost[w.chain[k], device] == np.inf:
            return 0
    count = 0
    for k in range(first, first + run):
        count = walks.put(p, w, count, w.chain[k], device)
    return count
