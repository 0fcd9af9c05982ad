"""The best cut that can be played, where a dynamic program finds it in short time."""

from __future__ import annotations

import numpy as np

from hetgym._jit import jit
from hetgym._types import FloatArray
from hetgym.baselines.pipeline.downset import placement, prefixes, solve
from hetgym.envs.pipeline.stages import LATENCY, THROUGHPUT, Context, Index, Piece, Rules, Tables, evaluate
from hetgym.pipeline import PipelineProblem
from hetgym.pipeline.contraction import Contraction

MAX_STEPS = 20_000_000
"""Most steps of a dynamic program."""


def optimum(context: Context, rules: Rules) -> float:
    """Least value of any cut along the order of blocks; NaN where it is not known [s].

    It is known for the throughput, and for the latency of small pipelines, if a cut fits into memory.
    """
    if not (rules.optimal and context.within):
        return np.nan
    problem, n = context.problem, len(context.names)
    sets, kinds = int(context.tables.free[0]) + 1, len(problem.kinds)
    steps = n * n * sets * kinds
    if rules.code == THROUGHPUT and steps <= MAX_STEPS:
        return throughput(problem, context.bound)
    if rules.code == LATENCY and steps * n * n * kinds // 4 <= 10 * MAX_STEPS:
        return evaluate(context, rules, latency(context.tables, problem, rules.turns)).value
    return np.nan


def throughput(problem: PipelineProblem, small: Contraction) -> float:
    """The least max-load of a cut; see :func:`~hetgym.baselines.pipeline.contiguous_dp` [s]."""
    plan, _ = solve(problem, small, prefixes(small), np.inf)
    return problem.max_load(placement(problem, small, plan))


def latency(tables: Tables, problem: PipelineProblem, requests: int) -> list[Piece]:
    """The cut with which N requests take least: L + (N - 1) X, L being the sum of the loads and X the largest.

    For each load that X can be, a dynamic program over blocks and sets of devices finds the least L.

    Args:
        tables: of the problem.
        problem: some cut of it fits into memory.
        requests: N.
    """
    counts = np.array([k.count for k in problem.kinds], np.int64)
    present = np.flatnonzero(counts)
    first = np.array([int(np.argmax(tables.kind == t)) if counts[t] else 0 for t in range(len(counts))], np.int64)
    n = len(tables.wall) - 1
    load = np.full((len(counts), n + 1, n + 1), np.inf)
    for t in present.tolist():
        d = first[t]
        seconds = tables.forward[:, d]
        whole = np.concatenate([[0.0], np.cumsum(np.where(np.isfinite(seconds), seconds, 0.0))])
        paid = tables.comm if tables.pays[d] else 0.0
        i, j = np.arange(n + 1)[:, None], np.arange(n + 1)[None, :]
        fits = (i < j) & (j <= tables.wall[:, d][:, None])
        fits &= tables.size[None, :] - tables.size[:, None] <= tables.capacity[d]
        load[t] = np.where(fits, whole[None, :] - whole[:, None] + paid, np.inf)
    loads = np.unique(load[np.isfinite(load)])
    least = _least_sum(load, np.inf, counts)[0][n].min()
    best, chosen = np.inf, np.inf
    for limit in loads.tolist():
        if least + (requests - 1) * limit >= best:
            break
        total = _least_sum(load, limit, counts)[0][n].min() + (requests - 1) * limit
        if total < best:
            best, chosen = total, limit
    value, begin, kind = _least_sum(load, chosen, counts)
    strides = np.cumprod([1, *(counts + 1)])[:-1]
    free = [np.flatnonzero(tables.kind == t).tolist() for t in range(len(counts))]
    pieces: list[Piece] = []
    members, end = int(np.argmin(value[n])), n
    while end > 0:
        start, last = int(begin[end, members]), int(kind[end, members])
        pieces.append((start, end, free[last].pop(0)))
        members, end = members - int(strides[last]), start
    return pieces[::-1]


@jit
def _least_sum(load: FloatArray, limit: float, counts: Index) -> tuple[FloatArray, Index, Index]:
    """Least sum of loads, none above a limit, of the first j blocks on exactly the devices of a set.

    Args:
        load: [k, n + 1, n + 1] of blocks i to before j on a device of a kind; inf if they do not fit [s].
        limit: largest load [s].
        counts: [k] devices of each kind.

    Returns:
        [n + 1, sets] sums, first blocks of last stages, and their kinds.
    """
    n = load.shape[1] - 1
    sets = 1
    for count in counts:
        sets *= count + 1
    value = np.full((n + 1, sets), np.inf)
    begin = np.zeros((n + 1, sets), np.int64)
    kind = np.zeros((n + 1, sets), np.int64)
    value[0, 0] = 0.0
    for j in range(1, n + 1):
        for i in range(j):
            stride = 1
            for t in range(len(counts)):
                here = load[t, i, j]
                if here <= limit and here < np.inf:
                    for members in range(sets):
                        if members // stride % (counts[t] + 1) == 0:
                            continue
                        total = value[i, members - stride] + here
                        if total < value[j, members]:
                            value[j, members] = total
                            begin[j, members] = i
                            kind[j, members] = t
                stride *= counts[t] + 1
    return value, begin, kind
