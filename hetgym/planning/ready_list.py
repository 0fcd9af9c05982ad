"""Ready-list scheduling: before each step all ready operators are compared, and a rule picks one (DLS, ETF, Min-Min).

An operator is ready when its predecessors have been *placed*. Each step compares, for every ready
operator, its best device, and appends one of them to that device. Putting an operator on a device
makes that device no better for any other operator, so only the operators that preferred it are rated again. Where
transfers are booked, they may be in the way of any other operator's inputs, and all operators are rated again.
"""

from typing import NamedTuple

import numpy as np

from hetgym._kernels.jit import jit, lean, step, variant
from hetgym._types import FloatArray, IntArray, frozen
from hetgym.planning import timeline
from hetgym.planning.ranks import longest_path_to_exit
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import Runtime

DLS, ETF, MIN_MIN, MAX_MIN, SUFFERAGE, GDL = range(6)


def place_ready(problem: Problem, rule: int, runtime: str | Runtime = "classic") -> Schedule:
    """Place the operators one after the other, at each step the one that a rule prefers of all that are ready.

    Args:
        rule: one of :data:`DLS`, :data:`ETF`, :data:`MIN_MIN`, :data:`MAX_MIN`, :data:`SUFFERAGE`, :data:`GDL`.
        runtime: the runtime that will run the schedule; its transfers, contention and dispatch count in starts.

    Raises:
        OutOfMemory: the runtime enforces capacities, and no plan that fits was found.
    """
    level, gain = static_level(problem), median_cost(problem)[:, None] - problem.cost
    if rule == GDL:
        _add_descendant(problem.arrays, median_cost(problem), gain)
    return timeline.filled(problem, runtime, lambda placed: _place_ready(problem.arrays, placed, rule, level, gain))


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


@lean
def _add_descendant(p: ProblemArrays, median: FloatArray, gain: FloatArray) -> None:
    """Add to ``gain`` [n, d] what each device gains on the median where the descendant that gets most data is run next.

    That descendant runs on the same device or, after the transfer, on the other device where it finishes first.
    Of edges that carry equally much, the one to the smaller topological position is taken.

    Source: Sih, Lee, IEEE TPDS 4(2), 1993, section III (descendant consideration).
    """
    n, d = p.cost.shape
    for i in range(n):
        most = -1
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            if most >= 0 and p.edge_bytes[edge] == p.edge_bytes[most]:
                if p.position[p.successor[edge]] < p.position[p.successor[most]]:
                    most = edge
            elif most < 0 or p.edge_bytes[edge] > p.edge_bytes[most]:
                most = edge
        if most < 0:
            continue
        j = p.successor[most]
        for a in range(d):
            best = np.inf
            for other in range(d):
                transfer = 0.0 if a == other else p.latency[a, other] + p.edge_bytes[most] / p.bandwidth[a, other]
                best = min(best, transfer + p.cost[j, other])
            gain[i, a] += median[j] - best


class Ready(NamedTuple):
    """The ready operators, in rows by operator."""

    arrival: FloatArray  # [n, d] time at which an operator's inputs can be on a device [s]
    key: FloatArray  # [n, 2] value that the rule compares, smaller first, and the value that breaks ties
    choice: IntArray  # [n, 2] the operator's best device and the next one, -1 for none


# Before each round `queue[:count]` holds the operators whose predecessors are placed, in no order, and their rows hold
# their current keys and best devices. A round places the operator of the smallest keys (ties to the smaller topological
# position), rates again those whose best device it took (for rules that look at two devices also the second best), and
# adds the successors that became ready. n rounds of O(r) comparisons for r ready operators, and O(d) for each that is
# rated again: all of them where transfers are booked, O(n r d) searches for gaps.
@jit
def _place_ready(p: ProblemArrays, t: timeline.Timeline, rule: int, level: FloatArray, gain: FloatArray) -> None:
    n, d = p.cost.shape
    ready = Ready(np.empty((n, d)), np.empty((n, 2)), np.empty((n, 2), np.int32))
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
            _rate(p, t, ready, i, rule, level, gain)
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
        timeline.book(p, t, operator, device, timeline.start_by(p, t, ready.arrival, operator, device, False))
        for k in range(count):
            i = queue[k]
            if _stale(t, ready.choice, i, device, rule):
                _rate(p, t, ready, i, rule, level, gain)
        for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
            j = p.successor[edge]
            waiting[j] -= 1
            if waiting[j] == 0:
                queue[count] = j
                count += 1
                _arrive(p, t, j, ready.arrival)
                _rate(p, t, ready, j, rule, level, gain)


# Where transfers are booked, `_arrive_booked` stands in for this function.
@step
def _arrive(p: ProblemArrays, t: timeline.Timeline, operator: int, arrival: FloatArray) -> None:
    """Write the time at which an operator's inputs can be on each device."""
    for device in range(p.cost.shape[1]):
        arrival[operator, device] = timeline.data_ready(p, t, operator, device)


@variant(_arrive, timeline.carries_bookings)
def _arrive_booked(p: ProblemArrays, t: timeline.Timeline, operator: int, arrival: FloatArray) -> None:
    pass  # it changes with every booking


# Where transfers are booked, `_stale_booked` stands in for this function.
@step
def _stale(t: timeline.Timeline, choice: IntArray, operator: int, device: int, rule: int) -> bool:
    """True if a ready operator must be rated again now that a device has taken another one."""
    if choice[operator, 0] == device:
        return True
    return bool(rule in (SUFFERAGE, GDL) and choice[operator, 1] == device)


@variant(_stale, timeline.carries_bookings)
def _stale_booked(t: timeline.Timeline, choice: IntArray, operator: int, device: int, rule: int) -> bool:
    return True


# After each device: best is the smallest value so far and second the next one (inf without one), each with its device.
# The value is the start for ETF, minus the dynamic level for DLS and GDL, and the completion for the other rules. O(d).
@step
def _rate(
    p: ProblemArrays, t: timeline.Timeline, ready: Ready, operator: int, rule: int, level: FloatArray, gain: FloatArray
) -> None:
    """Find an operator's two devices of smallest value, the first of equal ones, and its keys under the rule.

    Devices without room for its weights are considered only if none has room.
    """
    best, second = np.inf, np.inf
    first_device, second_device = -1, -1
    for device in range(p.cost.shape[1]):
        if p.cost[operator, device] == np.inf or not timeline.fits(t, operator, device):
            continue
        value = _value(p, t, ready.arrival, operator, device, rule, level, gain)
        if first_device < 0 or value < best:
            second, second_device = best, first_device
            best, first_device = value, device
        elif second_device < 0 or value < second:
            second, second_device = value, device
    if first_device < 0:
        first_device = timeline.roomiest(p, t, operator)
        best = _value(p, t, ready.arrival, operator, first_device, rule, level, gain)
    key, choice = ready.key[operator], ready.choice[operator]
    choice[0], choice[1] = first_device, second_device
    key[0], key[1] = best, 0.0
    if rule == ETF:
        key[1] = -level[operator]
    elif rule == MAX_MIN:
        key[0] = -best
    elif rule == SUFFERAGE:
        key[0], key[1] = best - second, best
    elif rule == GDL:
        key[0], key[1] = best + (best - second), best


@step
def _value(
    p: ProblemArrays,
    t: timeline.Timeline,
    arrival: FloatArray,
    operator: int,
    device: int,
    rule: int,
    level: FloatArray,
    gain: FloatArray,
) -> float:
    """What a rule compares devices by; smaller is better."""
    start = timeline.start_by(p, t, arrival, operator, device, False)
    if rule in (DLS, GDL):
        return float(-(level[operator] - start + gain[operator, device]))
    return float(start if rule == ETF else start + p.cost[operator, device])
