"""FCP and FLB: list scheduling that tries two devices for an operator, whatever the number of devices.

Both rest on one observation. On identical devices, an operator can start earliest either on its *enabling device*, from
which its last input arrives, or on the device that becomes idle first.
"""

import numpy as np

from hetgym._kernels.heap import Heaps, first_key, new_heaps, pop, push
from hetgym._kernels.jit import jit, step
from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.planning import timeline
from hetgym.planning.decode import replanned
from hetgym.planning.ranks import upward_rank
from hetgym.planning.timeline import Timeline
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import Runtime


def fcp(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """The most urgent of a few ready operators, on its enabling device or on the one that becomes idle first.

    The most urgent has the largest upward rank. Only as many operators as there are devices are kept in order; the
    others wait in line until one of these has gone, those that became ready at the same time by their ranks. The
    enabling device is that of the predecessor from which the last input would arrive at mean transfer times. The paper
    is for identical devices and compares starts; here the operator goes where it finishes first. If it can run on
    neither of the two, it goes to the device that becomes idle first of those that can run it. Operators are appended.

    Ties go to the smaller topological position, and to the device that becomes idle first. Devices are chosen for
    ``classic``, whatever the runtime.

    >>> from hetgym.workloads import textbook
    >>> fcp(textbook("topcuoglu")).makespan
    98.0
    """
    n, d = problem.num_operators, problem.num_devices
    placed = timeline.new_timeline(problem)
    by_rank = _by_rank(problem)
    _place_urgent(problem.arrays, placed, by_rank, problem.mean_communication, new_heaps([min(n, d)]))
    return replanned(problem, timeline.planned(problem, placed), runtime)


def flb(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """Of all ready operators and devices, nearly always the pair that can start earliest: ETF at less cost.

    An operator whose last input arrives, at mean transfer times, before its enabling device is idle gains nothing from
    that device. Of these operators, the one whose inputs are there first is a candidate, on the device that becomes
    idle first of those that can run it. Of the others, each device that enables any has one candidate, the one whose
    inputs are there first. The candidate that starts earliest goes next. Operators are appended.

    Made for identical devices: how long an operator runs plays no part. Operators ready at the same time go by upward
    rank, then by topological position. Of candidates that start at the same time the first kind goes first, since its
    inputs arrive while devices are busy; then the smaller device. Devices are chosen for ``classic``.

    >>> from hetgym.workloads import textbook
    >>> flb(textbook("topcuoglu")).makespan
    96.0
    """
    n, d = problem.num_operators, problem.num_devices
    placed = timeline.new_timeline(problem)
    _place_earliest(problem.arrays, placed, _by_rank(problem), problem.mean_communication, new_heaps([n] * (2 * d + 1)))
    return replanned(problem, timeline.planned(problem, placed), runtime)


def _by_rank(problem: Problem) -> IntArray:
    """[n] operators by descending upward rank, then by topological position."""
    return np.lexsort((problem.arrays.position, -upward_rank(problem))).astype(np.int32)


# `line[first:last]` are the ready operators behind those on the heap, in the order in which they became ready. The heap
# holds the places of operators by rank; it is full while anything is in line. O(log p + p) for each operator and O(1)
# for each edge, but that operators which become ready together are sorted by insertion.
@jit
def _place_urgent(p: ProblemArrays, t: Timeline, by_rank: IntArray, communication: FloatArray, urgent: Heaps) -> None:
    """Place all operators by the rules of FCP.

    Args:
        by_rank: [n] operators in the order of their urgency.
        communication: [e] mean transfer times [s].
        urgent: an empty heap, with room for as many operators as are kept in order.
    """
    n = len(by_rank)
    place, line, waiting = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    first, last = 0, 0
    for k in range(n):
        i = by_rank[k]
        place[i] = k
        waiting[i] = p.predecessor_pointer[i + 1] - p.predecessor_pointer[i]
        if waiting[i] == 0:
            line[last] = k
            last += 1
    for _ in range(n):
        while first < last and urgent.size[0] < len(urgent.key):
            push(urgent, 0, 0.0, line[first])
            first += 1
        operator = by_rank[pop(urgent, 0)]
        device = _idle_first(p, t, operator)
        start = timeline.start_on(p, t, operator, device, False)
        enabling = _enabling(p, t, operator, communication)[0]
        if enabling >= 0 and enabling != device and p.cost[operator, enabling] < np.inf:
            other = timeline.start_on(p, t, operator, enabling, False)
            if other + p.cost[operator, enabling] < start + p.cost[operator, device]:
                device, start = enabling, other
        timeline.book(p, t, operator, device, start)
        begin = last
        for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
            j = p.successor[edge]
            waiting[j] -= 1
            if waiting[j] == 0:
                at = last
                while at > begin and line[at - 1] > place[j]:
                    line[at] = line[at - 1]
                    at -= 1
                line[at] = place[j]
                last += 1


# A ready operator stands on the last heap or, while its enabling device is not idle when its last input arrives, on
# two heaps of that device: 2 a by the arrival of its inputs there, 2 a + 1 by that of its last input at mean times. An
# operator that has left one of the two is left on the other until it comes first: its kind tells. O(p + log n) for
# each operator, and O(1) for each edge.
@jit
def _place_earliest(p: ProblemArrays, t: Timeline, by_rank: IntArray, communication: FloatArray, heaps: Heaps) -> None:
    """Place all operators by the rules of FLB.

    Args:
        by_rank: [n] operators in the order of their urgency.
        communication: [e] mean transfer times [s].
        heaps: empty, each with room for all operators; two for each device, and one more.
    """
    n, d = p.cost.shape
    free = 2 * d
    place, waiting = np.empty(n, np.int32), np.empty(n, np.int32)
    bound = np.zeros(n, np.bool_)  # ready, and on the heaps of its enabling device
    last_input = np.zeros(n)
    for k in range(n):
        i = by_rank[k]
        place[i] = k
        waiting[i] = p.predecessor_pointer[i + 1] - p.predecessor_pointer[i]
        if waiting[i] == 0:
            push(heaps, free, 0.0, k)
    for _ in range(n):
        device, operator, start = -1, -1, np.inf
        if heaps.size[free] > 0:
            operator = by_rank[heaps.code[heaps.first[free]]]
            device = _idle_first(p, t, operator)
            start = timeline.start_on(p, t, operator, device, False)
        for a in range(d):
            while heaps.size[2 * a] > 0 and not bound[by_rank[heaps.code[heaps.first[2 * a]]]]:
                pop(heaps, 2 * a)
            if heaps.size[2 * a] > 0:
                other = max(first_key(heaps, 2 * a), t.busy.latest[a])
                if device < 0 or other < start:
                    device, operator, start = a, by_rank[heaps.code[heaps.first[2 * a]]], other
        if bound[operator]:
            bound[operator] = False
        else:
            pop(heaps, free)
        timeline.book(p, t, operator, device, start)
        _release_bound(t, heaps, device, free, by_rank, bound, last_input)
        for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
            j = p.successor[edge]
            waiting[j] -= 1
            if waiting[j] == 0:
                a, last_input[j] = _enabling(p, t, j, communication)
                if last_input[j] < t.busy.latest[a] or p.cost[j, a] == np.inf:
                    push(heaps, free, last_input[j], place[j])
                else:
                    bound[j] = True
                    push(heaps, 2 * a, timeline.data_ready(p, t, j, a), place[j])
                    push(heaps, 2 * a + 1, last_input[j], place[j])


@step
def _release_bound(
    t: Timeline, heaps: Heaps, device: int, free: int, by_rank: IntArray, bound: BoolArray, last_input: FloatArray
) -> None:
    """Free the operators whose last input arrives before their enabling device is idle."""
    heap = 2 * device + 1
    while heaps.size[heap] > 0 and first_key(heaps, heap) < t.busy.latest[device]:
        k = pop(heaps, heap)
        i = by_rank[k]
        if bound[i]:
            bound[i] = False
            push(heaps, free, last_input[i], k)


@step
def _idle_first(p: ProblemArrays, t: Timeline, operator: int) -> int:
    """Of the devices that can run an operator, the one that becomes idle first; ties go to the faster, then smaller."""
    best = -1
    for device in range(p.cost.shape[1]):
        if p.cost[operator, device] == np.inf:
            continue
        if best < 0 or (t.busy.latest[device], p.cost[operator, device]) < (
            t.busy.latest[best],
            p.cost[operator, best],
        ):
            best = device
    return best


@step
def _enabling(p: ProblemArrays, t: Timeline, operator: int, communication: FloatArray) -> tuple[int, float]:
    """Device that sends the last input of an operator, and its arrival at mean times [s]; -1 and 0 without inputs.

    Ties go to the predecessor of smaller topological position.
    """
    source, last = -1, 0.0
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        i = p.predecessor[k]
        arrival = t.finish[i] + communication[p.predecessor_edge[k]]
        if source < 0 or arrival > last or (arrival == last and p.position[i] < p.position[source]):
            source, last = i, arrival
    return (t.assignment[source] if source >= 0 else -1), last
