"""MCT, MET, OLB: immediate-mode mapping, one operator after the other as they come.

Operators come in topological order (Kahn's, smallest number first); each is appended to a device at once, and none is
compared with another. This reading of "first in, first out" needs no clock.
"""

import numpy as np

from hetgym._kernels.jit import jit
from hetgym._types import FloatArray
from hetgym.planning import timeline
from hetgym.planning.list_scheduling import place_by_priority
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import Runtime


def _by_turn(problem: Problem) -> FloatArray:
    return -problem.arrays.position.astype(np.float64)


def mct(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """Minimum completion time: each operator in its turn where it completes first, appended.

    >>> from hetgym.workloads import textbook
    >>> mct(textbook("topcuoglu")).makespan
    88.0
    """
    return place_by_priority(problem, _by_turn(problem), insertion=False, runtime=runtime)


def met(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """Minimum execution time: each operator where it runs fastest, however busy that device is.

    >>> from hetgym.workloads import textbook
    >>> met(textbook("topcuoglu")).makespan
    82.0
    """
    fastest = np.argmin(problem.cost, axis=1).astype(np.int32)
    return place_by_priority(problem, _by_turn(problem), fixed=fastest, insertion=False, runtime=runtime)


def olb(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """Opportunistic load balancing: each operator in its turn on the device that is free first.

    Neither the operator's cost there nor its transfers are looked at. Ties go to the smaller device.

    >>> from hetgym.workloads import textbook
    >>> olb(textbook("topcuoglu")).makespan
    114.0
    """
    return timeline.filled(problem, runtime, lambda placed: _balance(problem.arrays, placed))


@jit
def _balance(p: ProblemArrays, t: timeline.Timeline) -> None:
    d = p.cost.shape[1]
    free = np.zeros(d)
    for operator in p.topological_order:
        first = -1
        for device in range(d):
            if p.cost[operator, device] == np.inf or not timeline.accepts(p, t, operator, device):
                continue
            if first < 0 or free[device] < free[first]:
                first = device
        timeline.book(p, t, operator, first, timeline.start_on(p, t, operator, first, False))
        free[first] = t.finish[operator]
