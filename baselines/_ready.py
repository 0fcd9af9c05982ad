"""What the schedulers share that look at all ready operators before each step.

An operator is ready when its predecessors have been *placed*. Each step compares, for every ready
operator, its best device, and appends one of them to that device. Putting an operator on a device
makes that device no better for anyone else, so only the operators that wanted it look again.
"""

from __future__ import annotations

import numpy as np

from hetgym._jit import jit
from hetgym._types import FloatArray, IntArray, frozen
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import timeline
from hetgym.sim.batch import planned
from hetgym.sim.ranks import _longest_path_to_exit

DLS, ETF, MIN_MIN, MAX_MIN, SUFFERAGE = range(5)


def place_ready(problem: Problem, rule: int) -> Schedule:
    """Place the operators one after the other, at each step the one that a rule prefers of all that are ready.

    Args:
        problem: what is to be scheduled.
        rule: one of :data:`DLS`, :data:`ETF`, :data:`MIN_MIN`, :data:`MAX_MIN`, :data:`SUFFERAGE`.
    """
    placed = timeline.new_timeline(problem.num_operators, problem.num_devices)
    _place_ready(problem.arrays, placed, rule, static_level(problem), median_cost(problem))
    return planned(problem, placed)


def median_cost(problem: Problem) -> FloatArray:
    """[n] median run time over the devices that can run the operator [s]; of two in the middle, their mean."""
    possible = np.where(np.isfinite(problem.cost), problem.cost, np.nan)
    return frozen(np.nanmedian(possible, axis=1))


def static_level(problem: Problem) -> FloatArray:
    """[n] longest path of median run times from the operator to an exit, transfers left out [s].

    Source: Sih, Lee, IEEE TPDS 4(2), 1993, section III.
    """
    return frozen(_longest_path_to_exit(problem.arrays, median_cost(problem), frozen(np.zeros(problem.num_edges))))


@jit
def _place_ready(p: ProblemArrays, t: timeline.Timeline, rule: int, level: FloatArray, median: FloatArray) -> None:
    n, d = p.cost.shape
    arrival = np.empty((n, d))  # when the inputs of a ready operator can be on a device
    first = np.empty(n)  # value of the operator's best device
    second = np.empty(n)  # and of the next one
    choice = np.empty((n, 2), np.int32)  # which these are
    waiting = np.empty(n, np.int32)
    ready = np.empty(n, np.int32)
    count = 0
    for i in range(n):
        waiting[i] = p.predecessor_pointer[i + 1] - p.predecessor_pointer[i]
        if waiting[i] == 0:
            ready[count] = i
            count += 1
            _arrive(p, t, i, arrival)
            _rate(p, t, i, arrival, rule, level, median, first, second, choice)
    while count > 0:
        at = 0
        for k in range(1, count):
            if _before(p, rule, level, first, second, ready[k], ready[at]):
                at = k
        operator = ready[at]
        count -= 1
        ready[at] = ready[count]
        device = choice[operator, 0]
        start = timeline.earliest_start(t, device, arrival[operator, device], p.cost[operator, device], False)
        timeline.book(p, t, operator, device, start)
        for k in range(count):
            if choice[ready[k], 0] == device or choice[ready[k], 1] == device:
                _rate(p, t, ready[k], arrival, rule, level, median, first, second, choice)
        for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
            j = p.successor[edge]
            waiting[j] -= 1
            if waiting[j] == 0:
                ready[count] = j
                count += 1
                _arrive(p, t, j, arrival)
                _rate(p, t, j, arrival, rule, level, median, first, second, choice)


@jit
def _arrive(p: ProblemArrays, t: timeline.Timeline, operator: int, arrival: FloatArray) -> None:
    for device in range(p.cost.shape[1]):
        arrival[operator, device] = timeline.data_ready(p, t, operator, device)


@jit
def _rate(
    p: ProblemArrays, t: timeline.Timeline, operator: int, arrival: FloatArray, rule: int, level: FloatArray,
    median: FloatArray, first: FloatArray, second: FloatArray, choice: IntArray,
) -> None:  # fmt: skip
    """Find the two devices of smallest value; the first of equal ones."""
    first[operator], second[operator] = np.inf, np.inf
    choice[operator, 0], choice[operator, 1] = -1, -1
    for device in range(p.cost.shape[1]):
        cost = p.cost[operator, device]
        if cost == np.inf:
            continue
        value = timeline.earliest_start(t, device, arrival[operator, device], cost, False)
        if rule == DLS:
            value = -(level[operator] - value + (median[operator] - cost))
        elif rule != ETF:
            value += cost
        if choice[operator, 0] < 0 or value < first[operator]:
            second[operator], choice[operator, 1] = first[operator], choice[operator, 0]
            first[operator], choice[operator, 0] = value, device
        elif choice[operator, 1] < 0 or value < second[operator]:
            second[operator], choice[operator, 1] = value, device


@jit
def _before(
    p: ProblemArrays, rule: int, level: FloatArray, first: FloatArray, second: FloatArray, a: int, b: int
) -> bool:
    """Whether the rule takes operator a rather than b."""
    key_a, key_b = first[a], first[b]
    tie_a, tie_b = 0.0, 0.0
    if rule == MAX_MIN:
        key_a, key_b = -first[a], -first[b]
    elif rule == SUFFERAGE:
        key_a, key_b = first[a] - second[a], first[b] - second[b]
        tie_a, tie_b = first[a], first[b]
    elif rule == ETF:
        tie_a, tie_b = -level[a], -level[b]
    return (key_a, tie_a, p.position[a]) < (key_b, tie_b, p.position[b])
