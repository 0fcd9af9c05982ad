"""HBMCT: hybrid of ranks and balanced minimum completion time."""

from typing import Annotated, NamedTuple

import numpy as np

from hetgym._kernels.blanks import blank
from hetgym._kernels.jit import jit, step
from hetgym._types import FloatArray, IntArray
from hetgym.planning import timeline
from hetgym.planning.decode import replanned
from hetgym.planning.ranks import list_order, upward_rank
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import Runtime

ROUNDING = 1e-9  # Share of the latest finish by which a move must shorten it: less may be rounding


def hbmct(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """Groups of independent operators, each balanced over the devices before the next one.

    In the order of upward ranks, a group ends before the first operator that reads from one of its members. The
    operators of a group start on the devices where they run fastest. Then, while that makes both devices end before
    the latest one does now, an operator of the device that ends last moves to another one. A device runs its operators
    of the group in the order in which their inputs arrive there, behind the groups before.

    The paper does not say which of several operators moves: here the one after whose move the later one of the two
    devices ends first. Ties go to the larger rank, the smaller topological position, the smaller device. Devices are
    chosen for ``classic``, whatever the runtime.

    >>> from hetgym.workloads import textbook
    >>> hbmct(textbook("topcuoglu")).makespan
    76.0
    """
    n, d = problem.num_operators, problem.num_devices
    placed = timeline.new_timeline(problem)
    order = list_order(problem.arrays, upward_rank(problem))
    rows = blank(Rows, {"turn": np.argsort(order).astype(np.int32)}, n=n, d=d, m=n + 1)
    _place(problem.arrays, placed, order, rows)
    return replanned(problem, timeline.planned(problem, placed), runtime)


class Rows(NamedTuple):
    """The operators of one group on each device, in the order in which it runs them."""

    turn: IntArray  # [n] place of each operator in the order of ranks
    arrival: Annotated[FloatArray, "n, d"]  # time at which an operator's inputs can be on a device [s]
    member: Annotated[IntArray, "d, n"]  # operators by their arrivals, then by rank
    size: Annotated[IntArray, "d"]  # number of operators of each device
    before: Annotated[FloatArray, "d, m"]  # end of the device before its k-th operator [s]
    work: Annotated[FloatArray, "d, m"]  # run times of the k-th operator and those behind it [s]
    # [d, n + 1] the end of the device is `max(x + work[k], ends[k])` if it is free for its k-th operator at x [s]
    ends: Annotated[FloatArray, "d, m"]


# Each round takes the group that begins at `first`. Moves end, as each one shortens the device that ended last and
# makes no other one as long. For k operators of a group O(k (p log k + 1)) a move, and k moves at most in practice.
@jit
def _place(p: ProblemArrays, t: timeline.Timeline, order: IntArray, rows: Rows) -> None:
    """Place all operators in an ``order`` [n], by descending rank and none before its predecessors."""
    n, d = p.cost.shape
    group = np.full(n, -1, np.int32)
    first = 0
    while first < n:
        last = first
        while last < n and not _reads(p, group, order[last], first):
            group[order[last]] = first
            last += 1
        rows.size[:] = 0
        for k in range(first, last):
            i = order[k]
            best = 0
            for device in range(d):
                rows.arrival[i, device] = timeline.data_ready(p, t, i, device)
                if p.cost[i, device] < p.cost[i, best]:
                    best = device
            _insert(rows, i, best, _place_of(rows, i, best))
        for device in range(d):
            _sum_up(p, t, rows, device)
        while _move(p, t, rows):
            pass
        for device in range(d):
            for k in range(rows.size[device]):
                i = rows.member[device, k]
                timeline.book(p, t, i, device, max(rows.before[device, k], rows.arrival[i, device]))
        first = last


@step
def _reads(p: ProblemArrays, group: IntArray, operator: int, number: int) -> bool:
    """True if an operator reads from a member of a group."""
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        if group[p.predecessor[k]] == number:
            return True
    return False


@step
def _place_of(rows: Rows, operator: int, device: int) -> int:
    """Number of the device's operators that come before an operator, by bisection."""
    low, high = 0, rows.size[device]
    while low < high:
        middle = (low + high) // 2
        other = rows.member[device, middle]
        if (rows.arrival[other, device], rows.turn[other]) < (rows.arrival[operator, device], rows.turn[operator]):
            low = middle + 1
        else:
            high = middle
    return low


@step
def _insert(rows: Rows, operator: int, device: int, at: int) -> None:
    """Let a device run an operator, as its ``at``-th."""
    for k in range(rows.size[device], at, -1):
        rows.member[device, k] = rows.member[device, k - 1]
    rows.member[device, at] = operator
    rows.size[device] += 1


@step
def _sum_up(p: ProblemArrays, t: timeline.Timeline, rows: Rows, device: int) -> None:
    """Fill in the times of a device."""
    size = rows.size[device]
    rows.before[device, 0] = t.busy.latest[device]
    for k in range(size):
        i = rows.member[device, k]
        start = max(rows.before[device, k], rows.arrival[i, device])
        rows.before[device, k + 1] = start + p.cost[i, device]
    rows.work[device, size], rows.ends[device, size] = 0.0, 0.0
    for k in range(size - 1, -1, -1):
        i = rows.member[device, k]
        rows.work[device, k] = p.cost[i, device] + rows.work[device, k + 1]
        rows.ends[device, k] = max(rows.arrival[i, device] + rows.work[device, k], rows.ends[device, k + 1])


@step
def _end(rows: Rows, device: int, k: int, free: float) -> float:
    """End of a device that is free for its k-th operator at some time [s]."""
    return float(max(free + rows.work[device, k], rows.ends[device, k]))


@step
def _move(p: ProblemArrays, t: timeline.Timeline, rows: Rows) -> bool:
    """Move an operator of the device that ends last to another one; false if no move helps."""
    d = p.cost.shape[1]
    late = 0
    for device in range(d):
        if rows.before[device, rows.size[device]] > rows.before[late, rows.size[late]]:
            late = device
    limit = rows.before[late, rows.size[late]] * (1.0 - ROUNDING)
    from_turn, to_turn, target, moved, least = -1, -1, -1, -1, np.inf
    for k in range(rows.size[late]):
        i = rows.member[late, k]
        without = _end(rows, late, k + 1, rows.before[late, k])
        if without >= limit:
            continue
        for device in range(d):
            if device == late or p.cost[i, device] == np.inf:
                continue
            at = _place_of(rows, i, device)
            after = max(rows.before[device, at], rows.arrival[i, device]) + p.cost[i, device]
            end = max(without, _end(rows, device, at, after))
            if end < limit and (end < least or (end == least and rows.turn[i] < rows.turn[moved])):
                from_turn, to_turn, target, moved, least = k, at, device, i, end
    if target < 0:
        return False
    for k in range(from_turn, rows.size[late] - 1):
        rows.member[late, k] = rows.member[late, k + 1]
    rows.size[late] -= 1
    _insert(rows, moved, target, to_turn)
    _sum_up(p, t, rows, late)
    _sum_up(p, t, rows, target)
    return True
