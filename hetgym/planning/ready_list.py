"""Ready-list scheduling: before each step all ready operators are compared, and a rule picks one (DLS, ETF, Min-Min).

An operator is ready when its predecessors have been *placed*. Each step compares, for every ready
operator, its best device, and appends one of them to that device. Putting an operator on a device
makes that device no better for any other operator, so only the operators that preferred it are rated again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._jit import jit, step
from hetgym._types import FloatArray, IntArray, frozen
from hetgym.planning import timeline
from hetgym.planning.ranks import longest_path_to_exit
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule

DLS, ETF, MIN_MIN, MAX_MIN, SUFFERAGE = range(5)


def place_ready(problem: Problem, rule: int) -> Schedule:
    """Place the operators one after the other, at each step the one that a rule prefers of all that are ready.

    Args:
        problem: the problem to schedule.
        rule: one of :data:`DLS`, :data:`ETF`, :data:`MIN_MIN`, :data:`MAX_MIN`, :data:`SUFFERAGE`.
    """
    placed = timeline.new_timeline(problem)
    _place_ready(problem.arrays, placed, rule, static_level(problem), median_cost(problem))
    return timeline.planned(problem, placed)


def median_cost(problem: Problem) -> FloatArray:
    """[n] median run time over the devices that can run the operator [s]; of two in the middle, their mean."""
    rising, every = np.sort(problem.cost, axis=1), np.arange(problem.num_operators)
    count = np.isfinite(problem.cost).sum(axis=1)
    return frozen((rising[every, (count - 1) // 2] + rising[every, count // 2]) / 2)


def static_level(problem: Problem) -> FloatArray:
    """[n] longest path of median run times from the operator to an exit, transfers left out [s].

    Source: Sih, Lee, IEEE TPDS 4(2), 1993, section III.
    """
    return frozen(longest_path_to_exit(problem.arrays, median_cost(problem), frozen(np.zeros(problem.num_edges))))


class Ready(NamedTuple):
    """The ready operators, in rows by operator.

    Attributes:
        arrival: [n, d] time at which an operator's inputs can be on a device [s].
        key: [n, 2] value that the rule compares, smaller first, and the value that breaks ties.
        choice: [n, 2] the operator's best device and the next one, -1 for none.
    """

    arrival: FloatArray
    key: FloatArray
    choice: IntArray


# Before each round `queue[:count]` holds the operators whose predecessors are placed, in no order, and their rows hold
# their current keys and best devices. A round places the operator of the smallest keys (ties to the smaller topological
# position), rates again those whose best device it took (for Sufferage also the second best), and adds the successors
# that became ready. n rounds of O(r) comparisons for r ready operators, and O(d) for each that is rated again.
@jit
def _place_ready(p: ProblemArrays, t: timeline.Timeline, rule: int, level: FloatArray, median: FloatArray) -> None:
    n, d = p.cost.shape
    ready = Ready(np.empty((n, d)), np.empty((n, 2)), np.empty((n, 2), np.int32))
    free = np.zeros(d)  # end of each device's last operator
    key, position = ready.key, p.position
    waiting = np.empty(n, np.int32)
    queue = np.empty(n, np.int32)
    count = 0
    for i in range(n):
        waiting[i] = p.predecessor_pointer[i + 1] - p.predecessor_pointer[i]
        if waiting[i] == 0:
            queue[count] = i
            count += 1
            _arrive(p, t, i, ready.arrival)
            _rate(p, ready, i, free, rule, level, median)
    while count > 0:
        at = 0
        for k in range(1, count):
            a, b = queue[k], queue[at]
            if key[a, 0] != key[b, 0]:
                if key[a, 0] < key[b, 0]:
                    at = k
            elif key[a, 1] < key[b, 1] or (key[a, 1] == key[b, 1] and position[a] < position[b]):
                at = k
        operator = queue[at]
        count -= 1
        queue[at] = queue[count]
        device = ready.choice[operator, 0]
        timeline.book(p, t, operator, device, max(ready.arrival[operator, device], free[device]))
        free[device] = t.finish[operator]
        for k in range(count):
            i = queue[k]
            if ready.choice[i, 0] == device or (rule == SUFFERAGE and ready.choice[i, 1] == device):
                _rate(p, ready, i, free, rule, level, median)
        for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
            j = p.successor[edge]
            waiting[j] -= 1
            if waiting[j] == 0:
                queue[count] = j
                count += 1
                _arrive(p, t, j, ready.arrival)
                _rate(p, ready, j, free, rule, level, median)


@step
def _arrive(p: ProblemArrays, t: timeline.Timeline, operator: int, arrival: FloatArray) -> None:
    """Write the time at which an operator's inputs can be on each device."""
    for device in range(p.cost.shape[1]):
        arrival[operator, device] = timeline.data_ready(p, t, operator, device)


# After each device: best is the smallest value so far and second the next one (inf without one), each with its device.
# The value is the start for ETF, minus the dynamic level for DLS, and the completion for the other rules. O(d).
@step
def _rate(
    p: ProblemArrays, ready: Ready, operator: int, free: FloatArray, rule: int, level: FloatArray, median: FloatArray
) -> None:
    """Find an operator's two devices of smallest value, the first of equal ones, and its keys under the rule."""
    cost, arrival = p.cost[operator], ready.arrival[operator]
    best, second = np.inf, np.inf
    first_device, second_device = -1, -1
    for device in range(len(cost)):
        if cost[device] == np.inf:
            continue
        value = max(arrival[device], free[device])
        if rule == DLS:
            value = -(level[operator] - value + (median[operator] - cost[device]))
        elif rule != ETF:
            value += cost[device]
        if first_device < 0 or value < best:
            second, second_device = best, first_device
            best, first_device = value, device
        elif second_device < 0 or value < second:
            second, second_device = value, device
    key, choice = ready.key[operator], ready.choice[operator]
    choice[0], choice[1] = first_device, second_device
    key[0], key[1] = best, 0.0
    if rule == ETF:
        key[1] = -level[operator]
    elif rule == MAX_MIN:
        key[0] = -best
    elif rule == SUFFERAGE:
        key[0], key[1] = best - second, best
