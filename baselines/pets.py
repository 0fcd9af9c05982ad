"""PETS: performance effective task scheduling, level by level."""

import numpy as np

from hetgym._kernels.jit import jit
from hetgym._types import FloatArray
from hetgym.graph import topology
from hetgym.planning.list_scheduling import place_by_priority
from hetgym.planning.starts import started
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import Runtime


def pets(problem: Problem, runtime: str | Runtime = "classic", start: str = "plain") -> Schedule:
    """Level by level, in each level the operators first that compute and send most after the most urgent input.

    An operator's level is its longest hop count from an entry, its rank the sum of its mean cost, of the mean transfers
    to all its successors, and of the highest rank among its predecessors. Inside a level the larger rank goes first,
    then the smaller mean cost, then the smaller topological position; each goes where it finishes first, gaps filled.

    The paper rounds ranks to whole numbers, which would make the result depend on the unit of time; here they are not
    rounded. On both textbook examples the order is the same.

    Args:
        start: ``"replay"`` and ``"contracted"`` improve the plan, see :func:`~hetgym.planning.starts.started`.

    >>> from hetgym.workloads import textbook
    >>> pets(textbook("arabnejad-barbosa")).makespan
    147.0
    """
    return started(problem, start, runtime, _by_level)


def _by_level(problem: Problem, runtime: Runtime) -> Schedule:
    level = topology.depths(problem.successors, problem.topological_order)
    rank = _rank(problem.arrays, problem.mean_cost, problem.mean_communication)
    order = np.lexsort((problem.arrays.position, problem.mean_cost, -rank, level))
    turn = np.empty(problem.num_operators)
    turn[order] = -np.arange(problem.num_operators)
    return place_by_priority(problem, turn, runtime=runtime)


@jit
def _rank(p: ProblemArrays, weight: FloatArray, communication: FloatArray) -> FloatArray:
    rank = np.zeros(len(weight))  # highest rank of the predecessors until the operator's own turn
    for i in p.topological_order:
        rank[i] += weight[i]
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            rank[i] += communication[edge]
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            j = p.successor[edge]
            rank[j] = max(rank[j], rank[i])
    return rank
