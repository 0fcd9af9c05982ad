"""HCPT: heterogeneous critical parent trees."""

import numpy as np

from hetgym._kernels.jit import jit
from hetgym._types import FloatArray, IntArray
from hetgym.planning.critical import parents_first
from hetgym.planning.list_scheduling import place_by_priority
from hetgym.planning.ranks import downward_rank
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import Runtime

ROUNDING = 1e-9  # Share of the critical path within which times count as equal


def hcpt(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """Along the critical path, each operator after its unlisted ancestors, the latest-starting parents last.

    With mean costs and transfers, AEST is the earliest start of an operator (downward rank) and ALST the latest that
    delays no exit. Critical operators, where the two are equal, wait on a stack, those of smaller ALST above. While the
    top has a parent that is not listed, its unlisted parent of smallest ALST goes on top; then the top is listed.
    Operators are placed in that order where they finish first, gaps filled (the paper appends or inserts alike; the
    published 142 on the example of Arabnejad and Barbosa is with insertion).

    Ties, times that differ by rounding only among them, go to the smaller topological position.

    >>> from hetgym.workloads import textbook
    >>> hcpt(textbook("arabnejad-barbosa")).makespan
    142.0
    """
    p = problem.arrays
    earliest = downward_rank(problem)
    latest = _latest_start(p, earliest, problem.mean_cost, problem.mean_communication)
    tolerance = ROUNDING * float((earliest + problem.mean_cost).max())
    critical = np.flatnonzero(latest - earliest <= tolerance)
    place = _places(latest, tolerance)
    roots = critical[np.lexsort((p.position[critical], place[critical]))].astype(np.int32)
    target = np.repeat(np.arange(problem.num_operators), np.diff(p.predecessor_pointer))
    parents = p.predecessor[np.lexsort((p.position[p.predecessor], place[p.predecessor], target))]
    turn = np.empty(problem.num_operators)
    turn[parents_first(p, parents, roots)] = -np.arange(problem.num_operators)
    return place_by_priority(problem, turn, runtime=runtime)


def _places(value: FloatArray, tolerance: float) -> IntArray:
    """[n] places of values in rising order, the same for all that differ from their neighbours by rounding only."""
    order = np.argsort(value, kind="stable")
    place = np.zeros(len(value), np.int32)
    place[order[1:]] = np.cumsum(np.diff(value[order]) > tolerance)
    return place


@jit
def _latest_start(p: ProblemArrays, earliest: FloatArray, weight: FloatArray, communication: FloatArray) -> FloatArray:
    n = len(weight)
    latest = np.empty(n)
    for k in range(n - 1, -1, -1):
        i = p.topological_order[k]
        begin, end = p.successor_pointer[i], p.successor_pointer[i + 1]
        latest[i] = earliest[i]
        if begin < end:
            deadline = np.inf
            for edge in range(begin, end):
                deadline = min(deadline, latest[p.successor[edge]] - communication[edge])
            latest[i] = deadline - weight[i]
    return latest
