"""Lookahead HEFT: a device is judged by what it does to the operator's children."""

import numpy as np

from hetgym._kernels.jit import jit, step, variant
from hetgym._types import FloatArray, IntArray
from hetgym.planning import timeline
from hetgym.planning.ranks import list_order, upward_rank
from hetgym.planning.starts import started
from hetgym.planning.timeline import Timeline
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import Runtime


def lookahead_heft(problem: Problem, runtime: str | Runtime = "classic", start: str = "plain") -> Schedule:
    """HEFT that looks one level ahead: the device on which the last child of the operator could finish first.

    Operators come by upward rank. For each device the operator is placed there on trial, then its children by
    descending upward rank, each where it finishes first, gaps filled. A child waits for inputs from the operator and
    from those placed before it, not from other children, though these occupy devices. The latest finish of a child is
    the device's key, the operator's own finish if it has none. Ties go to the smaller device.

    Args:
        start: ``"replay"`` and ``"contracted"`` improve the plan, see :func:`~hetgym.planning.starts.started`.

    >>> from hetgym.workloads import textbook
    >>> lookahead_heft(textbook("topcuoglu")).makespan
    76.0
    """
    return started(problem, start, runtime, _looking_ahead)


def _looking_ahead(problem: Problem, runtime: Runtime) -> Schedule:
    p = problem.arrays
    rank = upward_rank(problem)
    source = problem.edge_source
    edges = np.lexsort((p.position[p.successor], -rank[p.successor], source)).astype(np.int32)
    return timeline.filled(problem, runtime, lambda placed: _place(p, placed, list_order(p, rank), edges))


# Before each iteration `t` holds the operators before this one, and `arrival` the times at which what those send can be
# on each device. An iteration books the operator and its children on trial for every device and takes them back, then
# books it for good. O(e p^2) in all, gaps aside.
@jit
def _place(p: ProblemArrays, t: Timeline, order: IntArray, edges: IntArray) -> None:
    """Place operators in an order.

    Args:
        order: [n] operators in a topological order.
        edges: [e] edge ids by source, then in the order in which their targets are tried.
    """
    n, d = p.cost.shape
    arrival = np.zeros((n, d))  # when all inputs from placed predecessors can be on a device
    trial = np.empty(n, np.int32)
    for operator in order:
        best, best_start, best_key = -1, 0.0, np.inf
        for device in range(d):
            cost = p.cost[operator, device]
            if cost == np.inf or not timeline.fits(t, operator, device):
                continue
            start = timeline.start_by(p, t, arrival, operator, device, True)
            key = start + cost
            if p.successor_pointer[operator] < p.successor_pointer[operator + 1]:
                timeline.book(p, t, operator, device, start)
                key = _try_children(p, t, operator, arrival, edges, trial, best_key)
                timeline.take_back(p, t, operator)
            if best < 0 or key < best_key:
                best, best_start, best_key = device, start, key
        if best < 0:
            best = timeline.roomiest(p, t, operator)
            best_start = timeline.start_by(p, t, arrival, operator, best, True)
        timeline.book(p, t, operator, best, best_start)
        for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
            child = p.successor[edge]
            for device in range(d):
                arrival[child, device] = max(arrival[child, device], _arrive(p, t, operator, edge, device))


# Before each turn of the first loop, children whose edges lie before k are booked on t and listed in trial[:count], and
# last is the latest of their finishes. All of them are taken back in the end, so t is unchanged on return. The loop
# ends early when last exceeds the limit. O(d * edges) for each child, and the search for a gap.
@step
def _try_children(
    p: ProblemArrays, t: Timeline, operator: int, arrival: FloatArray, edges: IntArray, trial: IntArray, limit: float
) -> float:
    """Latest finish of an operator's children if each is placed where it finishes first [s].

    If it exceeds ``limit``, the result may be any value above ``limit``.
    """
    d = p.cost.shape[1]
    last = 0.0
    count = 0
    end = p.successor_pointer[operator + 1]
    k = p.successor_pointer[operator]
    while k < end and last <= limit:
        child = p.successor[edges[k]]
        after = k + 1  # edges to one child are consecutive
        while after < end and p.successor[edges[after]] == child:
            after += 1
        best, best_start, best_finish = -1, 0.0, np.inf
        for device in range(d):
            cost = p.cost[child, device]
            if cost == np.inf:
                continue
            start = _child_start(p, t, arrival, operator, child, edges[k:after], device)
            if best < 0 or start + cost < best_finish:
                best, best_start, best_finish = device, start, start + cost
        timeline.book(p, t, child, best, best_start)
        trial[count] = child
        count += 1
        last = max(last, best_finish)
        k = after
    for k in range(count - 1, -1, -1):
        timeline.take_back(p, t, trial[k])
    return last


@step
def _arrive(p: ProblemArrays, t: Timeline, operator: int, edge: int, device: int) -> float:
    """Arrival of a placed operator's output on a device over one edge [s]."""
    a = t.assignment[operator]
    delay = 0.0 if a == device else p.latency[a, device] + p.edge_bytes[edge] / p.bandwidth[a, device]
    return float(t.finish[operator] + delay)


# Where transfers are booked, `_child_start_booked` stands in for this function.
@step
def _child_start(
    p: ProblemArrays, t: Timeline, arrival: FloatArray, operator: int, child: int, edges: IntArray, device: int
) -> float:
    """Earliest start of a child, by the inputs known so far and those that it has from the operator [s]."""
    ready = arrival[child, device]
    for edge in edges:
        ready = max(ready, _arrive(p, t, operator, edge, device))
    return timeline.earliest_start(t, device, ready, p.cost[child, device], True)


@variant(_child_start, timeline.carries_bookings)
def _child_start_booked(
    p: ProblemArrays, t: Timeline, arrival: FloatArray, operator: int, child: int, edges: IntArray, device: int
) -> float:
    return timeline.start_on(p, t, child, device, True)
