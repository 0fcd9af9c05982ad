"""HEFT: heterogeneous earliest finish time."""

from hetgym.planning.list_scheduling import place_by_priority
from hetgym.planning.ranks import upward_rank
from hetgym.planning.starts import started
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Runtime


def heft(
    problem: Problem, insertion: bool = True, runtime: str | Runtime = "classic", start: str = "plain"
) -> Schedule:
    """Upward rank first, each operator where it finishes first, idle gaps filled.

    Under a runtime whose links carry one transfer at a time this is the Basic Algorithm of contention-aware list
    scheduling (Sinnen, Sousa, IEEE TPDS 16(6), 2005), except that a transfer holds all links of its route together.

    Args:
        insertion: False appends to each device's end instead.
        start: ``"replay"`` and ``"contracted"`` improve the plan, see :func:`~hetgym.planning.starts.started`.

    >>> from hetgym.workloads import textbook
    >>> heft(textbook("topcuoglu")).makespan
    80.0
    """

    def place(part: Problem, switches: Runtime) -> Schedule:
        return place_by_priority(part, upward_rank(part), insertion=insertion, runtime=switches)

    return started(problem, start, runtime, place)
