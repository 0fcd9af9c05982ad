"""Min-Min, Max-Min, Duplex, Sufferage: batch-mode mapping, applied to the operators that are ready.

All but Duplex determine for each ready operator the device on which it would complete first if appended,
and differ in the operator that goes next. Completion times are computed anew after every placement.
"""

from functools import partial

from hetgym.planning import ready_list
from hetgym.planning.capacity import those_that_fit
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Runtime


def min_min(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """Of all ready operators, the one that can be completed first goes next, where it is.

    Ties go to the smaller topological position, then to the smaller device.

    >>> from hetgym.workloads import textbook
    >>> min_min(textbook("arabnejad-barbosa")).makespan
    122.0
    """
    return ready_list.place_ready(problem, ready_list.MIN_MIN, runtime)


def max_min(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """Of all ready operators, the one whose earliest completion is latest goes next, to that device.

    Long operators go first, so that short ones fill what is left. Ties go to the smaller topological
    position, then to the smaller device.

    >>> from hetgym.workloads import textbook
    >>> max_min(textbook("arabnejad-barbosa")).makespan
    124.0
    """
    return ready_list.place_ready(problem, ready_list.MAX_MIN, runtime)


def duplex(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """The better of Min-Min and Max-Min; of equally long schedules that of Min-Min.

    >>> from hetgym.workloads import textbook
    >>> duplex(textbook("arabnejad-barbosa")).makespan
    122.0
    """
    plans = those_that_fit(partial(half, problem, runtime) for half in (min_min, max_min))
    return min(plans, key=lambda plan: plan.makespan)


def sufferage(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """Of all ready operators, the one goes next that would suffer most from not getting its best device.

    The loss is its second-best completion minus its best; that of an operator that only one device can run is
    infinite. Ties go to the earlier completion, then to the smaller topological position, then to the smaller
    device. Every decision places one operator, as Min-Min does; the paper lets one for each device go in a round.

    >>> from hetgym.workloads import textbook
    >>> sufferage(textbook("arabnejad-barbosa")).makespan
    138.0
    """
    return ready_list.place_ready(problem, ready_list.SUFFERAGE, runtime)
