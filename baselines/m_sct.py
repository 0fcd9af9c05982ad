"""Baechi's placer m-SCT: a linear program says which child should follow its parent on the same device."""

from typing import Any

import numpy as np

from hetgym._types import FloatArray, IntArray
from hetgym.baselines.baechi import earliest_start_first
from hetgym.errors import ConfigError, ProblemError, require
from hetgym.planning.timeline import with_times
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime


def m_sct(problem: Problem, threshold: float = 0.5, runtime: str | Runtime = "classic") -> Schedule:
    """Small communication times: as m-etf, but a device waits for the favourite child of what it ran last.

    Another operator may go ahead of the favourite only when its inputs can already be on every device. Between equal
    starts the favourite on its parent's device comes first; further ties as in ``m-etf``. The waiting decides places
    and orders; the operators then start as soon as they can. The linear program knows the classic model only.

    Args:
        threshold: share of its price, between 0 and 1, below which the linear program must put an edge for its target
            to be the favourite of its source.

    Raises:
        ConfigError: a threshold out of range.
        ProblemError: an operator for which no device has room.
        OutOfMemory: the same, or no plan that fits was found, where the runtime enforces capacities.
        MissingExtra: scipy is not installed.
    """
    if not 0 <= threshold <= 1:
        raise ConfigError(f"m-sct: threshold is {threshold}; it must lie between 0 and 1")
    switches = as_runtime(runtime)
    plan = earliest_start_first(problem, favourites(problem, threshold), switches)
    return with_times(problem, plan, switches)  # without the waiting


def favourites(problem: Problem, threshold: float = 0.5) -> IntArray:
    """[n] each operator's favourite successor, -1 for none.

    Edges that the relaxation made cheaper than the threshold, the cheapest first, then by the position of
    target and source; one favourite an operator, in both directions.
    """
    source, target, x = relaxation(problem)
    position = problem.arrays.position
    favourite = np.full(problem.num_operators, -1, np.int32)
    taken = np.zeros(problem.num_operators, np.bool_)
    for k in np.lexsort((position[source], position[target], x)).tolist():
        if x[k] < threshold and favourite[source[k]] < 0 and not taken[target[k]]:
            favourite[source[k]] = target[k]
            taken[target[k]] = True
    return favourite


def relaxation(problem: Problem) -> tuple[IntArray, IntArray, FloatArray]:
    """Solve the linear relaxation of scheduling with small communication times.

    Minimise M with s[j] >= s[i] + p[i] + c[i, j] x[i, j], s[i] + p[i] <= M, 0 <= x <= 1; of the edges that leave an
    operator, and of those that enter it, at most one may be free. p and c are means over devices and their pairs.

    Returns:
        Source, target and x, rounded to nine digits, of every pair of operators with an edge.

    Source: Hanen, Munier, *An approximation algorithm for scheduling dependent tasks on m processors with
    small communication delays*, 1995.
    """
    optimize: Any = require("scipy.optimize", "exact", "m-sct")
    sparse: Any = require("scipy.sparse", "exact", "m-sct")
    n = problem.num_operators
    pairs, of_edge = np.unique(
        np.stack([problem.edge_source, problem.edge_target], axis=1), axis=0, return_inverse=True
    )
    source, target = pairs[:, 0].astype(np.int32), pairs[:, 1].astype(np.int32)
    e = len(pairs)
    if e == 0:
        return source, target, np.zeros(0)
    communication = np.zeros(e)
    np.maximum.at(communication, of_edge.reshape(-1), problem.mean_communication)
    scale = float(problem.mean_cost.mean()) or 1.0  # solvers compare with absolute tolerances
    cost, communication = problem.mean_cost / scale, communication / scale
    row = np.arange(e)  # variables: s, then x, then M
    leaving, entering = np.bincount(source, minlength=n), np.bincount(target, minlength=n)
    blocks = [
        _matrix(sparse, (e, n + e + 1), (row, source, 1.0), (row, target, -1.0), (row, n + row, communication)),
        _matrix(sparse, (n, n + e + 1), (np.arange(n), np.arange(n), 1.0), (np.arange(n), n + e, -1.0)),
        _matrix(sparse, (n, n + e + 1), (source, n + row, -1.0)),
        _matrix(sparse, (n, n + e + 1), (target, n + row, -1.0)),
    ]
    upper = np.concatenate([-cost[source], -cost, 1.0 - leaving, 1.0 - entering])
    goal = np.zeros(n + e + 1)
    goal[-1] = 1.0
    bounds = np.stack([np.zeros(n + e + 1), np.full(n + e + 1, np.inf)], axis=1)
    bounds[n : n + e, 1] = 1.0
    result = optimize.linprog(goal, sparse.vstack(blocks, format="csr"), upper, bounds=bounds, method="highs-ds")
    if result.status != 0:
        raise ProblemError(f"problem {problem.name!r}: the linear program of m-sct failed ({result.message})")
    return source, target, np.round(np.asarray(result.x, np.float64)[n : n + e], 9)


def _matrix(sparse: Any, shape: tuple[int, int], *entries: tuple[Any, Any, Any]) -> Any:
    """A sparse matrix from (rows, columns, values) that broadcast against each other."""
    parts = [np.broadcast_arrays(*entry) for entry in entries]
    rows, columns, values = (np.concatenate([part[k] for part in parts]) for k in range(3))
    return sparse.coo_array((values.astype(np.float64), (rows, columns)), shape=shape)
