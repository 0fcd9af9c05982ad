"""DLS: dynamic level scheduling."""

from __future__ import annotations

from hetgym.planning import ready_list
from hetgym.problem import Problem
from hetgym.schedule import Schedule


def dls(problem: Problem) -> Schedule:
    """Of all ready operators and devices, the pair of the highest dynamic level.

    The dynamic level of operator i on device d is its static level (longest path of median run times
    to an exit, without transfers), minus its start there, plus the time by which the device is faster than
    the median: ``SL(i) - max(inputs arrive, device free) + (median(i) - cost[i, d])``. Operators are
    appended. Levels are computed anew after every placement.

    Ties go to the smaller topological position, then to the smaller device.

    Args:
        problem: the problem to schedule.

    >>> from hetgym.workloads import textbook
    >>> dls(textbook("topcuoglu")).makespan
    91.0
    """
    return ready_list.place_ready(problem, ready_list.DLS)
