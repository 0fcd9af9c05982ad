"""Walks: local search by one change of a schedule at a time, evaluated from the first operator that it can affect.

A walk has a current schedule: a placement, an order in which insertion places the operators, and the timeline that the
two give. A trial copies the part of the timeline that the change cannot affect, places the rest anew, and stops as soon
as the makespan must exceed the limit of acceptance. The results equal those of a complete decoding, bit for bit.

Invariant, before and after each step of a search: ``now`` is the decoding of ``fixed`` in ``order``, ``turn`` is the
inverse of ``order``, ``level`` and ``tail`` are those of ``fixed``, and ``value[CURRENT]`` is the makespan of ``now``.
:func:`put` and :func:`shift` break it; :func:`accept` after a trial, or undoing the change, restores it.
"""

from typing import Annotated, NamedTuple

import numpy as np

from hetgym._kernels.blanks import blank
from hetgym._kernels.jit import lean, step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, Int64Array, IntArray
from hetgym.planning import critical, ranks, timeline
from hetgym.planning.decode import decode_in_order
from hetgym.planning.list_scheduling import place_in_order, place_within
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule

ROUNDING = 1.0 + 1e-12  # Factor by which a bound may exceed a limit because it adds the same times in another order
TIE = 1.0 - 1e-12  # A makespan is better than another if it is shorter than this share of it: by more than rounding

CURRENT, BEST = 0, 1  # in Walk.value
PLACED, CHAIN = 0, 1  # in Walk.count


@record
class Walk(NamedTuple):
    """The state of a local search."""

    now: timeline.Timeline  # the current schedule
    trial: timeline.Timeline  # the schedule that was tried last
    fixed: Annotated[IntArray, "n"]  # the placement of `now`, and of a trial while one is made
    # order, turn: the order in which operators are placed, and its inverse
    order: Annotated[IntArray, "n"]
    turn: Annotated[IntArray, "n"]
    level: Annotated[FloatArray, "n"]  # longest path to an exit under the placement of `now`, the operator included [s]
    tail: Annotated[FloatArray, "n, d"]  # the same without the operator, in the column of its device [s]
    bonus: Annotated[FloatArray, "n, d"]  # added to finish times when an operator is free to choose its device [s]
    bound: Annotated[FloatArray, "n, d"]  # a lower bound on that for any placement [s]
    # best_assignment, best_order: the best schedule of all
    best_assignment: Annotated[IntArray, "n"]
    best_order: Annotated[IntArray, "n"]
    chain: Annotated[IntArray, "n"]  # critical chain of `now`, of length `counts[CHAIN]`, which is -1 when out of date
    # moved, before: operators of a trial and the devices that they come from
    moved: Annotated[IntArray, "n"]
    before: Annotated[IntArray, "n"]
    # old_order, old_level, old_tail: copies with which a trial that changes the order is undone
    old_order: Annotated[IntArray, "n"]
    old_level: Annotated[FloatArray, "n"]
    old_tail: Annotated[FloatArray, "n"]
    value: Annotated[FloatArray, "2"]  # makespans of `now` and of the best schedule [s], see CURRENT and BEST
    counts: Annotated[Int64Array, "2"]  # operators placed so far, length of the chain, see PLACED and CHAIN


def new_walk(problem: Problem, assignment: IntArray, order: IntArray) -> Walk:
    """A walk whose current schedule is the decoding of a placement [n] in an order [n]."""
    given = {
        "now": timeline.new_timeline(problem),
        "trial": timeline.new_timeline(problem),
        "fixed": np.array(assignment, np.int32),
        "order": np.array(order, np.int32),
        "bound": np.array(ranks.least_cost_to_exit(problem)),
    }
    walk = blank(Walk, given, n=problem.num_operators, d=problem.num_devices)
    start(problem.arrays, walk)
    return walk


def best_schedule(problem: Problem, walk: Walk) -> Schedule:
    """The best schedule of a walk, decoded afresh."""
    return decode_in_order(problem, walk.best_assignment, walk.best_order)


@lean
def start(p: ProblemArrays, w: Walk) -> None:
    """Decode the walk's placement in its order completely, and discard any better schedule found before."""
    for k in range(len(w.order)):
        w.turn[w.order[k]] = k
    timeline.clear(w.now)
    w.value[CURRENT] = place_in_order(p, w.now, w.order, w.fixed, w.bonus, True)
    w.counts[PLACED] += len(w.order)
    w.counts[CHAIN] = -1
    update_levels(p, w, len(w.order) - 1)
    keep_best(w)


@step
def keep_best(w: Walk) -> None:
    """Save the current schedule as the best."""
    w.value[BEST] = w.value[CURRENT]
    for k in range(len(w.order)):
        w.best_assignment[k] = w.fixed[k]
        w.best_order[k] = w.order[k]


@step
def update_levels(p: ProblemArrays, w: Walk, last: int) -> None:
    """Bring the levels up to date after operators of turns up to ``last`` have moved."""
    for k in range(last, -1, -1):
        i = w.order[k]
        a = w.fixed[i]
        tail = tail_on(p, w, i, a)
        w.tail[i, a] = tail
        w.level[i] = p.cost[i, a] + tail


@step
def tail_on(p: ProblemArrays, w: Walk, operator: int, device: int) -> float:
    """Longest path from an operator's finish on a device to an exit, the rest being where it is [s]."""
    tail = 0.0
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        j = p.successor[edge]
        other = w.fixed[j]
        transfer = (
            0.0 if device == other else p.latency[device, other] + p.edge_bytes[edge] / p.bandwidth[device, other]
        )
        tail = max(tail, transfer + w.level[j])
    return tail


# The trial is `now` up to turn `first`. From there to `last` operators are placed with the bound that holds for any
# placement of the rest, behind that with the exact tails of `now`, which no change can have touched. Operators before
# `first` may finish last, so the makespan is that of the whole timeline.
@step
def try_from(p: ProblemArrays, w: Walk, first: int, last: int, limit: float) -> float:
    """Makespan of the changed placement or order [s], inf if it is more than the limit.

    Args:
        w: with the change made in ``fixed`` (-1 leaves the device to finish time plus ``bonus``), or in
            ``order`` and ``turn``.
        first: turn before which nothing changes.
        last: turn after which nothing changes.
        limit: largest makespan of interest [s].
    """
    timeline.copy_prefix(w.now, w.trial, w.turn, first)
    slack = limit * ROUNDING
    changed, rest = w.order[first : last + 1], w.order[last + 1 :]
    makespan, placed = place_within(p, w.trial, changed, w.fixed, w.bonus, True, w.bound, slack)
    w.counts[PLACED] += placed
    if makespan < np.inf:
        makespan, placed = place_within(p, w.trial, rest, w.fixed, w.bonus, True, w.tail, slack)
        w.counts[PLACED] += placed
    if makespan == np.inf:
        return np.inf
    makespan = timeline.end(w.trial)
    return makespan if makespan <= limit else np.inf


@step
def accept(p: ProblemArrays, w: Walk, last: int, makespan: float) -> None:
    """Make the schedule that was tried the current one; the change affected no turn after ``last``."""
    timeline.copy_into(w.trial, w.now)
    update_levels(p, w, last)
    w.value[CURRENT] = makespan
    w.counts[CHAIN] = -1
    if makespan < w.value[BEST] * TIE:
        keep_best(w)


@step
def put(p: ProblemArrays, w: Walk, count: int, operator: int, device: int) -> int:
    """Put an operator on a device in the next trial, as its change number ``count``; return the number of changes."""
    if w.fixed[operator] == device or p.cost[operator, device] == np.inf:
        return count
    w.moved[count] = operator
    w.before[count] = w.fixed[operator]
    w.fixed[operator] = device
    return count + 1


@step
def take_back(w: Walk, count: int) -> None:
    """Undo the first ``count`` changes of the placement."""
    for k in range(count - 1, -1, -1):
        w.fixed[w.moved[k]] = w.before[k]


@step
def shift(w: Walk, source: int, target: int) -> None:
    """Give the operator of one turn another turn; those between move up or down by one."""
    shift_turns(w.order, w.turn, source, target)


@step
def shift_turns(order: IntArray, turn: IntArray, source: int, target: int) -> None:
    """As :func:`shift`, for an order [n] and its inverse [n]."""
    operator = order[source]
    step = 1 if target > source else -1
    k = source
    while k != target:
        order[k] = order[k + step]
        turn[order[k]] = k
        k += step
    order[target] = operator
    turn[operator] = target


@step
def turns_between(p: ProblemArrays, turn: IntArray, operator: int) -> tuple[int, int]:
    """The first and the last turn that an operator can have between its predecessors and its successors."""
    low, high = 0, len(turn) - 1
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        low = max(low, turn[p.predecessor[k]] + 1)
    for k in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        high = min(high, turn[p.successor[k]] - 1)
    return low, high


@step
def find_chain(p: ProblemArrays, w: Walk) -> None:
    """Bring the critical chain up to date."""
    if w.counts[CHAIN] < 0:
        w.counts[CHAIN] = critical.find_chain(p, w.now, w.chain)


# The changes alter levels only of operators of turns up to `last`, and the old levels of all operators are saved, so
# that undoing is a copy. After sorting, `first` is the first turn whose operator or whose device changed: before it the
# order is the old one, as `try_from` demands. Costs O(e + n + inversions), and the trial.
@step
def try_level_order(p: ProblemArrays, w: Walk, count: int, limit: float) -> float:
    """As :func:`try_from`, with the order by the changed placement's own levels; refused changes are undone.

    Args:
        w: with ``count`` changes of the placement made by :func:`put`.
        count: number of changes.
        limit: largest makespan of interest [s].
    """
    n = len(w.order)
    last = 0
    for k in range(n):
        i = w.order[k]
        w.old_order[k], w.old_level[k], w.old_tail[k] = i, w.level[k], w.tail[k, w.fixed[k]]
    for k in range(count):
        i = w.moved[k]
        last = max(last, w.turn[i])
        w.old_tail[i] = w.tail[i, w.before[k]]
    update_levels(p, w, last)
    sort_by_level(p, w)
    first = 0
    while first < n and w.order[first] == w.old_order[first]:
        first += 1
    for k in range(count):
        first = min(first, w.turn[w.moved[k]])
    makespan = try_from(p, w, first, first - 1, limit)
    if makespan == np.inf:
        undo_level_order(w, count)
    return makespan


@step
def undo_level_order(w: Walk, count: int) -> None:
    """Undo a trial of :func:`try_level_order` that was within the limit but is not accepted."""
    take_back(w, count)
    for k in range(len(w.order)):
        w.order[k], w.level[k], w.tail[k, w.fixed[k]] = w.old_order[k], w.old_level[k], w.old_tail[k]
        w.turn[w.order[k]] = k


@step
def sort_by_level(p: ProblemArrays, w: Walk) -> None:
    """Sort the order by descending level, ties by topological position: few operators are out of place."""
    for k in range(1, len(w.order)):
        i = w.order[k]
        m = k
        while m > 0:
            j = w.order[m - 1]
            if w.level[j] > w.level[i] or (w.level[j] == w.level[i] and p.position[j] < p.position[i]):
                break
            w.order[m] = j
            m -= 1
        w.order[m] = i
    for k in range(len(w.order)):
        w.turn[w.order[k]] = k
