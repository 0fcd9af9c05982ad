"""BIL: best imaginary level."""

import numpy as np

from hetgym._kernels.jit import jit, step
from hetgym._types import FloatArray
from hetgym.planning import timeline
from hetgym.planning.ranks import least_cost_to_exit
from hetgym.planning.timeline import Timeline
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import Runtime


def bil(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """The ready operator that would lose most if the others chose first, on the device where its path ends earliest.

    The best imaginary level of an operator on a device is its run time there plus the time from then on to an exit if
    all that follows goes where that is shortest. Its earliest start there and this level make the best imaginary
    makespan, BIM. With k operators ready, each can hope for one of its k best devices: its priority is its k-th
    smallest BIM, the largest one if it has fewer; the operator of the largest priority goes next. It takes the device
    of the smallest BIM, to which ``cost * max(k / p - 1, 0)`` is added for p devices: where more are ready than there
    are devices, speed has more weight. Operators are appended. A chain is scheduled optimally.

    The paper has one transfer time for each edge; here a transfer has its time between the two devices. In ties the
    paper compares further BIMs; here they go to the smaller topological position, then to the smaller device.

    >>> from hetgym.workloads import textbook
    >>> bil(textbook("topcuoglu")).makespan
    84.0
    """
    level = problem.cost + least_cost_to_exit(problem)
    return timeline.filled(problem, runtime, lambda placed: _place(problem.arrays, placed, level))


# Before each round `queue[:count]` holds the operators whose predecessors are placed, in no order, and `arrival` the
# times at which their inputs can be on each device. A round places one of them and adds the successors that became
# ready. O(n r d) for r ready operators, d times as much where no more than d are ready.
@jit
def _place(p: ProblemArrays, t: Timeline, level: FloatArray) -> None:
    """Place all operators, given their best imaginary levels ``level``, [n, d] [s]."""
    n, d = p.cost.shape
    arrival, rising = np.empty((n, d)), np.empty(d)
    waiting, queue = np.empty(n, np.int32), np.empty(n, np.int32)
    count = 0
    for i in range(n):
        waiting[i] = p.predecessor_pointer[i + 1] - p.predecessor_pointer[i]
        if waiting[i] == 0:
            queue[count] = i
            count += 1
            arrival[i] = 0.0
    while count > 0:
        at, most = -1, 0.0
        for k in range(count):
            i = queue[k]
            priority = _priority(p, t, level, arrival, i, count, rising)
            if at < 0 or priority > most or (priority == most and p.position[i] < p.position[queue[at]]):
                at, most = k, priority
        operator = queue[at]
        best, least = -1, np.inf
        for device in range(d):
            cost = p.cost[operator, device]
            if cost < np.inf and timeline.accepts(p, t, operator, device):
                value = _imaginary(p, t, level, arrival, operator, device) + cost * max(count / d - 1.0, 0.0)
                if best < 0 or value < least:
                    best, least = device, value
        count -= 1
        queue[at] = queue[count]
        timeline.book(p, t, operator, best, timeline.start_by(p, t, arrival, operator, best, False))
        for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
            j = p.successor[edge]
            waiting[j] -= 1
            if waiting[j] == 0:
                queue[count] = j
                count += 1
                for device in range(d):
                    arrival[j, device] = timeline.data_ready(p, t, j, device)


@step
def _imaginary(
    p: ProblemArrays, t: Timeline, level: FloatArray, arrival: FloatArray, operator: int, device: int
) -> float:
    """Best imaginary makespan of a ready operator on a device [s]."""
    return float(timeline.start_by(p, t, arrival, operator, device, False) + level[operator, device])


# After each device `rising[:held]` holds the smallest of the values so far, at most k of them, in rising order.
@step
def _priority(
    p: ProblemArrays, t: Timeline, level: FloatArray, arrival: FloatArray, operator: int, k: int, rising: FloatArray
) -> float:
    """The k-th smallest best imaginary makespan of an operator, the largest if fewer devices can run it [s]."""
    held = 0
    for device in range(p.cost.shape[1]):
        if p.cost[operator, device] == np.inf:
            continue
        value = _imaginary(p, t, level, arrival, operator, device)
        if held < k:
            held += 1
        elif value >= rising[held - 1]:
            continue
        at = held - 1
        while at > 0 and rising[at - 1] > value:
            rising[at] = rising[at - 1]
            at -= 1
        rising[at] = value
    return float(rising[held - 1])
