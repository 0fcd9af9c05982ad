"""CPOP: critical path on a processor."""

import numpy as np

from hetgym._types import IntArray
from hetgym.planning.critical import critical_path
from hetgym.planning.list_scheduling import fastest_device, place_by_priority
from hetgym.planning.ranks import downward_rank, upward_rank
from hetgym.planning.starts import started
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Runtime


def cpop(problem: Problem, runtime: str | Runtime = "classic", start: str = "plain") -> Schedule:
    """The critical path goes to the one device that runs it fastest, the rest by earliest finish.

    Args:
        start: ``"replay"`` and ``"contracted"`` improve the plan, see :func:`~hetgym.planning.starts.started`.

    >>> from hetgym.workloads import textbook
    >>> cpop(textbook("topcuoglu")).makespan
    86.0
    """
    return started(problem, start, runtime, _path_first)


def _path_first(problem: Problem, runtime: Runtime) -> Schedule:
    priority = upward_rank(problem) + downward_rank(problem)
    return place_by_priority(problem, priority, fixed=path_placement(problem), runtime=runtime)


def path_placement(problem: Problem) -> IntArray:
    """[n] the device that runs the critical path fastest, for those of its operators that it can run; -1 elsewhere."""
    path = critical_path(problem)
    device = fastest_device(problem, path)
    fixed = np.full(problem.num_operators, -1, np.int32)
    fixed[[i for i in path if np.isfinite(problem.cost[i, device])]] = device
    return fixed
