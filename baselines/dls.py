"""DLS: dynamic level scheduling."""

from __future__ import annotations

from hetgym.planning import ready as _ready
from hetgym.planning.registry import register
from hetgym.problem import Problem
from hetgym.schedule import Schedule


@register(
    "dls", kind="list", citation="Sih, Lee, IEEE TPDS 4(2), 1993", complexity="O(n r + e p), r ready at a time"
)  # fmt: skip
def dls(problem: Problem) -> Schedule:
    """Of all ready operators and devices, the pair of the highest dynamic level.

    The dynamic level of operator i on device d is its static level (longest path of median run times
    to an exit, transfers left out), less its start there, plus what the device is faster than the
    median: ``SL(i) - max(inputs arrive, device free) + (median(i) - cost[i, d])``. Operators are
    appended. It is taken anew after every placement.

    Ties go to the smaller topological position, then to the smaller device.

    Args:
        problem: what is to be scheduled.

    >>> from hetgym.workloads import textbook
    >>> dls(textbook("topcuoglu")).makespan
    91.0
    """
    return _ready.place_ready(problem, _ready.DLS)
