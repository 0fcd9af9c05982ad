"""BSA: bubble scheduling and allocation, which spreads a serial schedule from device to device."""

import numpy as np

from hetgym._kernels.jit import jit
from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.planning import timeline
from hetgym.planning.capacity import fitted
from hetgym.planning.critical import critical_path, parents_first
from hetgym.planning.list_scheduling import fastest_device
from hetgym.planning.ranks import list_order, upward_rank
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime


def bsa(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """All operators on one device, from which they migrate to its neighbours where they finish earlier.

    The operators are put in a series: along the critical path, each after its ancestors, those of larger upward rank
    first; then the others by upward rank. The device that runs the critical path fastest is the first pivot and
    gets all operators; those that it cannot run get the device that runs them fastest. Then every device is the pivot
    once, neighbours of earlier pivots first. Along the series, each operator of the pivot moves to the neighbour
    where it finishes first if that is earlier than on the pivot. Whatever is behind it in the series bubbles up: it
    starts as early as its device and its inputs let it, gaps filled. Neighbours are the devices to which the
    pivot has the shortest routes, counted in links.

    The paper also moves operators that finish no earlier to the device that sends their last input; here they stay. It
    looks at finishes with all operators in place; here at those with what comes before in the series, so that a turn of
    a pivot takes one walk along it. Ties go to the smaller topological position and to the smaller device. Where
    capacities are enforced, an operator whose device has no room for its weights may move, too.

    >>> from hetgym.workloads import textbook
    >>> bsa(textbook("topcuoglu")).makespan
    91.0
    """
    p, switches = problem.arrays, as_runtime(runtime)
    path = critical_path(problem)
    first = fastest_device(problem, path)
    start = np.where(np.isfinite(problem.cost[:, first]), first, np.argmin(problem.cost, axis=1)).astype(np.int32)
    series = _series(problem, path)
    pivots, neighbour = neighbours(problem.route_pointer, problem.num_devices, first)

    def place(room: FloatArray) -> Schedule:
        device = start
        for pivot in pivots:
            placed = timeline.new_timeline(problem, switches, room)
            _migrate(p, placed, series, device, pivot, neighbour)
            device = placed.assignment
        return timeline.planned(problem, placed, switches)

    return fitted(problem, switches, place)


def _series(problem: Problem, path: list[int]) -> IntArray:
    """[n] all operators in the order in which they are placed."""
    p, rank = problem.arrays, upward_rank(problem)
    target = np.repeat(np.arange(problem.num_operators), np.diff(p.predecessor_pointer))
    parents = p.predecessor[np.lexsort((p.position[p.predecessor], -rank[p.predecessor], target))]
    return parents_first(p, parents, np.concatenate([np.array(path, np.int32), list_order(p, rank)]))


def neighbours(route_pointer: IntArray, d: int, first: int) -> tuple[list[int], BoolArray]:
    """Devices breadth first over neighbours, those last that cannot be reached; and [d, d], true for neighbours.

    Neighbours are those to which a device has its shortest routes.

    Args:
        route_pointer: [d * d + 1] offsets of the routes, see :class:`~hetgym.problem.Routes`.
        first: the device to begin with.
    """
    links = np.diff(route_pointer).reshape(d, d) + np.where(np.eye(d, dtype=np.bool_), np.inf, 0.0)
    neighbour = (links == links.min(axis=1, keepdims=True)) & ~np.eye(d, dtype=np.bool_)
    order = [first]
    for a in order:
        order += [b for b in np.flatnonzero(neighbour[a]).tolist() if b not in order]
    return order + [a for a in range(d) if a not in order], neighbour


# Before each iteration `t` holds the operators before this one in the series. O(e p), gaps aside.
@jit
def _migrate(
    p: ProblemArrays, t: timeline.Timeline, series: IntArray, device: IntArray, pivot: int, neighbour: BoolArray
) -> None:
    """Place all operators anew, those of the pivot there or on a neighbour.

    Args:
        series, device: [n] the operators, none before its predecessors, and the device of each.
        pivot: the device whose operators may move.
        neighbour: [d, d] true where a device is a neighbour of another one.
    """
    d = p.cost.shape[1]
    for i in series:
        a = device[i]
        best = a if timeline.fits(t, i, a) else -1
        start = timeline.start_on(p, t, i, a, True) if best >= 0 else np.inf
        if best < 0 or a == pivot:
            for target in range(d):
                if (
                    target == a
                    or p.cost[i, target] == np.inf
                    or not (best < 0 or neighbour[a, target])
                    or not timeline.fits(t, i, target)
                ):
                    continue
                other = timeline.start_on(p, t, i, target, True)
                if best < 0 or other + p.cost[i, target] < start + p.cost[i, best]:
                    best, start = target, other
        if best < 0:
            best = timeline.roomiest(p, t, i)
            start = timeline.start_on(p, t, i, best, True)
        timeline.book(p, t, i, best, start)
