"""DLS and GDL: dynamic level scheduling."""

from hetgym.planning import ready_list
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Runtime


def dls(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """Of all ready operators and devices, the pair of the highest dynamic level.

    The dynamic level of operator i on device d is its static level (longest path of median run times to an exit), minus
    its start there, plus the time by which the device is faster than the median:
    ``SL(i) - max(inputs arrive, device free) + (median(i) - cost[i, d])``. Levels are computed anew after every
    placement. Operators are appended. Where transfers wait, inputs arrive when the links of their routes are idle.

    Ties go to the smaller topological position, then to the smaller device.

    >>> from hetgym.workloads import textbook
    >>> dls(textbook("topcuoglu")).makespan
    91.0
    """
    return ready_list.place_ready(problem, ready_list.DLS, runtime)


def gdl(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """DLS with generalised dynamic levels: with a look at one descendant, and scarce operators first.

    Two terms are added to the level of :func:`dls`. *Descendant consideration*: the median run time of the descendant
    that gets the most data from the operator, minus the least time that it takes on the same device or, transfer
    included, on another one. *Resource scarcity*: the level on the operator's best device minus that on its next
    best, which says what is lost if it does not get the best; it depends on the operator alone, so it decides
    which operator comes next, and the level on which device. An operator that only one device can run comes first.

    The paper leaves open which descendant counts among equal ones: here the one of the smaller topological position.
    Ties go to the higher level, then to the smaller topological position, then to the smaller device.

    >>> from hetgym.workloads import textbook
    >>> gdl(textbook("topcuoglu")).makespan
    82.0
    """
    return ready_list.place_ready(problem, ready_list.GDL, runtime)
