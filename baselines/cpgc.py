"""CPGC: critical-path greedy correction."""

from functools import partial

import numpy as np

from hetgym._kernels.jit import lean, step
from hetgym._types import FloatArray, IntArray
from hetgym.baselines.cpop import path_placement
from hetgym.baselines.heft import heft
from hetgym.baselines.trivial import single_device
from hetgym.errors import ConfigError
from hetgym.planning import capacity
from hetgym.planning.decode import decode_placement
from hetgym.planning.list_scheduling import place_by_priority
from hetgym.planning.ranks import assigned_bottom_level, list_order, upward_rank
from hetgym.planning.timeline import with_times
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.search import course as courses
from hetgym.search import regions
from hetgym.search import walk as walks
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime
from hetgym.sim.kernel import Switches, keeps_order

RUNS = (1, 2, 3, 5, 8)  # Lengths of the runs of chain operators that are moved together

OVERHEAD = 16
"""The set-up of a trial is charged as placing one in this many of the operators, which takes about as long."""


def cpgc(problem: Problem, budget: int = 2_000_000, runtime: str | Runtime = "classic") -> Schedule:
    """Schedule, find the chain of operators that the makespan waits for, move a piece of it, repeat.

    Starts from HEFT's placement, the best single device, and the mean critical path on one device. Each round decodes
    the placement by its own bottom levels with insertion, walks the realised critical chain back from the last
    finisher, and moves the run of 1, 2, 3, 5 or 8 chain operators to the other device that shortens the whole schedule
    most. The best result over the starts is returned, never worse than any start.

    Under a runtime other than ``classic`` the starts are plans for it, and trials are priced by simulation. Moves do
    not change the order, so a round may instead put an operator of the chain first or last among those of the chain
    that follow each other on its device. Where nothing helps, the placement is decoded by its bottom levels, and
    corrected again as long as that shortens the plan.

    Args:
        budget: largest number of operators placed in trial schedules, over all starts.

    Raises:
        ConfigError: a negative budget.
    """
    if budget < 0:
        raise ConfigError(f"cpgc: budget is {budget}; it must not be negative")
    switches = as_runtime(runtime)
    if not switches.is_classic:
        return _for_runtime(problem, budget, switches)
    starts = [heft(problem), single_device(problem), _path_start(problem)]
    best = min(starts, key=lambda schedule: schedule.makespan)
    runs, left = np.array(RUNS, np.int32), budget
    for remaining, start in zip((3, 2, 1), starts, strict=True):
        assignment = start.assignment.copy()
        level = assigned_bottom_level(problem.arrays, assignment)
        walk = walks.new_walk(problem, assignment, list_order(problem.arrays, level))
        _correct(problem.arrays, walk, runs, left // remaining)
        left -= int(walk.counts[walks.PLACED])
        if walk.value[walks.BEST] < best.makespan * walks.TIE:
            best = walks.best_schedule(problem, walk)
    return best


def _path_start(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """The mean critical path on the device that runs it fastest, the rest by earliest finish."""
    return place_by_priority(problem, upward_rank(problem), fixed=path_placement(problem), runtime=runtime)


STARTS = (heft, single_device, _path_start)


def _for_runtime(problem: Problem, budget: int, runtime: Runtime) -> Schedule:
    """As :func:`cpgc` under a runtime other than ``classic``."""
    starts = capacity.those_that_fit(partial(start, problem, runtime=runtime) for start in STARTS)
    best = min(starts, key=lambda schedule: schedule.makespan)
    for k, start in enumerate(starts):
        share = budget // (len(starts) - k)
        plan, left = _corrected(problem, start, runtime, share)
        while left > 0:
            decoded = partial(decode_placement, problem, plan.assignment, "bottom-level", runtime)
            again = capacity.those_that_fit([decoded], plan)[-1]
            again, left = _corrected(problem, again, runtime, left)
            if not again.makespan < plan.makespan:
                break
            plan = again
        best = min(best, plan, key=lambda schedule: schedule.makespan)
        budget -= share - left
    return best


def _corrected(problem: Problem, start: Schedule, runtime: Runtime, budget: int) -> tuple[Schedule, int]:
    """The correction of a schedule, or the schedule where none fits; and what is left of the budget."""
    switches, runs = courses.switches_of(problem, runtime), np.array(RUNS, np.int32)
    line = courses.new_course(problem, runtime, start.assignment, courses.turns_of(problem, start))

    def place(room: FloatArray) -> Schedule:
        line.room[:] = room
        courses.renew_best(line)
        _correct_course(problem.arrays, line, runs, budget, switches)
        return with_times(problem, courses.best_plan(problem, line), runtime)

    plans = capacity.those_that_fit([partial(capacity.fitted, problem, runtime, place)], start)
    return min(plans, key=lambda schedule: schedule.makespan), budget - int(line.counts[courses.PLACED])


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


# As :func:`_correct`, on a course: a trial is a run on another device, or another turn of one operator.
@lean
def _correct_course(p: ProblemArrays, course: courses.Course, runs: IntArray, target: int, switches: Switches) -> None:
    """Correct the plan of a course until nothing helps or the target is reached."""
    d = p.cost.shape[1]
    while course.counts[courses.PLACED] < target:
        courses.find_chain(p, course)
        length = course.counts[courses.CHAIN]
        best, best_first, best_run, best_device = course.value[courses.CURRENT] * walks.TIE, 0, 0, 0
        for run in runs:
            for first in range(length - run + 1):
                for device in range(d):
                    if course.counts[courses.PLACED] >= target:
                        continue
                    lacked = courses.lacking(course)
                    count = _move_run(p, course, first, run, device, switches)
                    if count == 0:
                        continue
                    course.counts[courses.PLACED] += 1
                    if courses.lacking(course) <= lacked:
                        begin, end = regions.span(p, course, count)
                        makespan = courses.price(p, course, begin, end, best, switches)
                        if makespan < best:
                            best, best_first, best_run, best_device = makespan, first, run, device
                    courses.take_back(course, count)
        best_source, best_to = 0, 0
        for place in range(length if keeps_order(switches) else 0):
            for way in range(2):
                source, to = regions.chain_turn(p, course, place, way == 0)
                if source == to or not regions.overtakes(course, source, to) or course.counts[courses.PLACED] >= target:
                    continue
                course.counts[courses.PLACED] += 1
                courses.shift(course, source, to)
                makespan = courses.price(p, course, min(source, to), max(source, to), best, switches)
                courses.shift(course, to, source)
                if makespan < best:
                    best, best_run, best_source, best_to = makespan, 0, source, to
        if best_run > 0:
            count = _move_run(p, course, best_first, best_run, best_device, switches)
            begin, end = regions.span(p, course, count)
        elif best_source != best_to:
            courses.shift(course, best_source, best_to)
            begin, end = min(best_source, best_to), max(best_source, best_to)
        else:
            break
        courses.price(p, course, begin, end, np.inf, switches)
        courses.keep(p, course, begin, end, switches)
        courses.sort(p, course, switches)


@step
def _move_run(p: ProblemArrays, course: courses.Course, first: int, run: int, device: int, switches: Switches) -> int:
    """As :func:`_put_run`, on a course."""
    for k in range(first, first + run):
        if p.cost[course.chain[k], device] == np.inf:
            return 0
    count = 0
    for k in range(first, first + run):
        if course.assignment[course.chain[k]] != device:
            courses.put(p, course, count, course.chain[k], device, switches)
            count += 1
    return count


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
