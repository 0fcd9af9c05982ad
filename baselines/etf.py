"""ETF: earliest task first, which looks at starts and not at finishes."""

from hetgym.planning import ready_list
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Runtime


def etf(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """Of all ready operators and devices, the pair that can start earliest.

    Made for identical processors: how long the operator then runs plays no part, so on devices of different speeds it
    is a control that shows the loss from ignoring costs. Ties go to the larger static level (longest path of median
    run times to an exit), then to the smaller topological position, then to the smaller device. Operators are appended.

    >>> from hetgym.workloads import textbook
    >>> etf(textbook("topcuoglu")).makespan
    93.0
    """
    return ready_list.place_ready(problem, ready_list.ETF, runtime)
