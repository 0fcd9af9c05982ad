"""Lower bounds on the makespan of any schedule."""

from __future__ import annotations

import numpy as np

from hetgym._types import FloatArray
from hetgym.errors import ConfigError, require
from hetgym.planning.ranks import least_cost_from_entry, least_cost_to_exit
from hetgym.problem import Problem


def critical_path_bound(problem: Problem) -> float:
    """Longest path when every operator runs on its fastest device and data move for free [s].

    It is also the denominator of the schedule length ratio (SLR).
    """
    fastest = problem.cost.min(axis=1)
    finish = np.zeros(problem.num_operators)
    pointer, node = problem.predecessors.pointer, problem.predecessors.node
    for i in problem.topological_order:
        inputs = finish[node[pointer[i] : pointer[i + 1]]]
        finish[i] = fastest[i] + (inputs.max() if len(inputs) else 0.0)
    return float(finish.max())


def communication_bound(problem: Problem) -> float:
    """Longest path when every operator and transfer takes its best pair of devices [s]."""
    through = least_cost_from_entry(problem) + problem.cost + least_cost_to_exit(problem)
    return float(through.min(axis=1).max())


def area_bound(problem: Problem) -> float:
    """Sum of all run times, each on its fastest device, divided by the number of devices [s]."""
    return float(problem.cost.min(axis=1).sum() / problem.num_devices)


def load_bound(problem: Problem) -> float:
    """All work spread over the devices as well as it can be, operators being divisible [s].

    The linear program min C, subject to sum_d x[i, d] = 1 and sum_i cost[i, d] x[i, d] <= C. Of the
    solver's answer only the weights that it gives to devices are used: any weights that sum to 1 give
    a valid bound, so the solver's tolerances cannot make it lie above the optimum.

    Raises:
        MissingExtra: SciPy is not installed.
    """
    return _load(problem.cost)


def combined_bound(problem: Problem, thresholds: int = 8) -> float:
    """The load bound of operators in the middle of the graph, plus the least times before and after them [s].

    The largest over thresholds a and b of a + b + :func:`load_bound` of the operators that cannot
    start before a and after whose end at least b must follow. Never less than the load bound.

    Args:
        problem: the problem to schedule.
        thresholds: largest number of values tried for each of a and b, spread over those that occur.

    Raises:
        ConfigError: fewer than one threshold.
        MissingExtra: SciPy is not installed.
    """
    if thresholds < 1:
        raise ConfigError(f"combined_bound: thresholds is {thresholds}; it must be 1 or more")
    possible = np.isfinite(problem.cost)
    earliest = np.where(possible, least_cost_from_entry(problem), np.inf).min(axis=1)
    remaining = np.where(possible, least_cost_to_exit(problem), np.inf).min(axis=1)
    whole = best = load_bound(problem)
    for a in _spread(earliest, thresholds):
        for b in _spread(remaining, thresholds):
            inside = (earliest >= a) & (remaining >= b)
            if a + b + whole > best and inside.any():
                best = max(best, a + b + _load(problem.cost[inside]))
    return best


def lower_bound(problem: Problem, linear: bool = False) -> float:
    """The largest of all bounds [s].

    Args:
        problem: the problem to schedule.
        linear: also the bounds that solve linear programs: tighter where devices are busy, slower, and
            in need of SciPy.

    Raises:
        MissingExtra: ``linear`` without SciPy.
    """
    bound = max(communication_bound(problem), critical_path_bound(problem), area_bound(problem))
    return max(bound, combined_bound(problem)) if linear else bound


def _spread(values: FloatArray, count: int) -> list[float]:
    """At most ``count`` of the distinct values, evenly by rank, the smallest among them."""
    distinct = np.unique(values)
    if len(distinct) <= count:
        return [float(value) for value in distinct]
    return [float(distinct[k * len(distinct) // count]) for k in range(count)]


def _load(cost: FloatArray) -> float:
    """The load bound of some operators, from the duals of the linear program."""
    optimize = require("scipy.optimize", "exact", "the load bound")
    sparse = require("scipy.sparse", "exact", "the load bound")
    n, d = cost.shape
    scale = float(cost.min(axis=1).max())
    if scale == 0.0:
        return 0.0
    operator, device = np.nonzero(np.isfinite(cost))
    count = len(operator)
    column = np.arange(count)
    entries = np.concatenate([cost[operator, device] / scale, np.full(d, -1.0)])
    place = np.concatenate([device, np.arange(d)]), np.concatenate([column, np.full(d, count)])
    loads = sparse.csr_matrix((entries, place), shape=(d, count + 1))
    shares = sparse.csr_matrix((np.ones(count), (operator, column)), shape=(n, count + 1))
    objective = np.zeros(count + 1)
    objective[count] = 1.0
    answer = optimize.linprog(
        objective, A_ub=loads, b_ub=np.zeros(d), A_eq=shares, b_eq=np.ones(n), bounds=(0, None), method="highs"
    )
    weight = np.ones(d)
    if answer.status == 0:
        weight = np.maximum(-np.asarray(answer.ineqlin.marginals, np.float64), 0.0)
    weight = weight / weight.sum() if weight.sum() > 0 else np.full(d, 1 / d)
    weighted = np.where(np.isfinite(cost), np.where(np.isfinite(cost), cost, 0.0) * weight, np.inf)
    return float(weighted.min(axis=1).sum())
