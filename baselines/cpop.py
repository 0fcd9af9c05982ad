"""CPOP: critical path on a processor."""

from __future__ import annotations

import numpy as np

from hetgym._types import FloatArray
from hetgym.planning.list_scheduling import place_by_priority
from hetgym.planning.ranks import downward_rank, upward_rank
from hetgym.planning.registry import register
from hetgym.problem import Problem
from hetgym.schedule import Schedule


@register(
    "cpop",
    kind="list",
    citation="Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002",
    complexity="O(e p + n log n), gaps aside",
)
def cpop(problem: Problem) -> Schedule:
    """The critical path goes to the one device that runs it fastest, the rest by earliest finish.

    >>> from hetgym.workloads import textbook
    >>> cpop(textbook("topcuoglu")).makespan
    86.0
    """
    priority = upward_rank(problem) + downward_rank(problem)
    path = critical_path(problem, priority)
    fixed = np.full(problem.num_operators, -1, np.int32)
    device = path_device(problem, path)
    for operator in path:
        if np.isfinite(problem.cost[operator, device]):
            fixed[operator] = device
    return place_by_priority(problem, priority, fixed=fixed)


def critical_path(problem: Problem, priority: FloatArray) -> list[int]:
    """Walk from the entry of highest priority along the successors of highest priority.

    The paper compares priorities for equality; taking the largest gives the same path and is safe
    with rounded numbers.

    Returns:
        Operator ids from an entry to an exit.
    """
    position = problem.arrays.position
    entries = np.flatnonzero(np.diff(problem.predecessors.pointer) == 0)
    path = [min(entries.tolist(), key=lambda i: (-priority[i], position[i]))]
    pointer, node = problem.successors.pointer, problem.successors.node
    while pointer[path[-1]] < pointer[path[-1] + 1]:
        successors = node[pointer[path[-1]] : pointer[path[-1] + 1]].tolist()
        path.append(min(successors, key=lambda i: (-priority[i], position[i])))
    return path


def path_device(problem: Problem, path: list[int]) -> int:
    """The device that runs most of the path, and among those runs it in the least time."""
    costs = problem.cost[path]
    placeable = np.isfinite(costs)
    total = np.where(placeable, costs, 0.0).sum(axis=0)
    return int(np.lexsort((total, -placeable.sum(axis=0)))[0])
