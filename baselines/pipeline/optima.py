"""The best cut of a problem's blocks along their order, where a dynamic program finds it in short time."""

import numpy as np

from hetgym._kernels.jit import jit
from hetgym._types import FloatArray, Int64Array
from hetgym.baselines.pipeline.downset import prefixes, solve
from hetgym.pipeline.cuts import CutProblem, Stage
from hetgym.pipeline.objective import LATENCY, THROUGHPUT
from hetgym.pipeline.tables import counts_and_first

MAX_STEPS = 20_000_000  # Most steps of a dynamic program


def optimum(cuts: CutProblem) -> float:
    """Least value of any cut along the order of blocks; NaN where it is not known [s].

    It is known for the throughput, and for the latency of small pipelines, if a cut fits into memory.
    """
    if not cuts.within_memory:
        return np.nan
    problem, n = cuts.problem, len(cuts.names)
    sets, kinds = int(cuts.tables.free[0]) + 1, len(problem.kinds)
    steps = n * n * sets * kinds
    if cuts.objective.code == THROUGHPUT and steps <= MAX_STEPS:
        found, _ = solve(problem, cuts.blocks, prefixes(cuts.blocks), np.inf)
        cut: list[Stage] = []
        device = counts_and_first(problem)[1].tolist()
        for nodes, kind in found or ():
            cut.append(Stage(cut[-1].end if cut else 0, nodes.bit_length(), device[kind]))
            device[kind] += 1
        return cuts.evaluate(cut).value if cut else np.nan
    if cuts.objective.code == LATENCY and steps * n * n * kinds // 4 <= 10 * MAX_STEPS:
        return cuts.evaluate(least_latency(cuts)).value
    return np.nan


def least_latency(cuts: CutProblem) -> list[Stage]:
    """The cut with which N requests take least: L + (N - 1) X, L being the sum of the loads and X the largest.

    For each load that X can be, a dynamic program over blocks and sets of devices finds the least L. Some cut must fit
    into memory.
    """
    requests, counts = cuts.objective.turns, counts_and_first(cuts.problem)[0]
    load = stage_loads(cuts)
    limits = np.unique(load[np.isfinite(load)])
    n = load.shape[1] - 1
    least = least_sum(load, np.inf, counts)[0][n].min()
    best, chosen = np.inf, np.inf
    for limit in limits.tolist():
        if least + (requests - 1) * limit >= best:
            break
        total = least_sum(load, limit, counts)[0][n].min() + (requests - 1) * limit
        if total < best:
            best, chosen = total, limit
    value, begin, kind = least_sum(load, chosen, counts)
    return traced(cuts, begin, kind, int(np.argmin(value[n])))


def traced(cuts: CutProblem, begin: Int64Array, kind: Int64Array, members: int) -> list[Stage]:
    """The cut of all blocks onto a set of devices that the tables of :func:`least_sum` hold."""
    counts, first = counts_and_first(cuts.problem)
    free = [list(range(first[t], first[t] + counts[t])) for t in range(len(counts))]
    cut: list[Stage] = []
    end = len(cuts.names)
    while end > 0:
        start, last = int(begin[end, members]), int(kind[end, members])
        cut.append(Stage(start, end, int(free[last].pop(0))))
        members, end = members - int(cuts.tables.stride[last]), start
    return cut[::-1]


def stage_loads(cuts: CutProblem) -> FloatArray:
    """[k, n + 1, n + 1] seconds of a stage of blocks i to before j on a device of a kind; inf if they do not fit."""
    tables = cuts.tables
    counts, first = counts_and_first(cuts.problem)
    n = len(tables.wall) - 1
    i, j = np.arange(n + 1)[:, None], np.arange(n + 1)[None, :]
    load = np.full((len(counts), n + 1, n + 1), np.inf)
    for kind in np.flatnonzero(counts).tolist():
        d = first[kind]
        seconds = tables.forward[:, d]
        whole = np.concatenate([[0.0], np.cumsum(np.where(np.isfinite(seconds), seconds, 0.0))])
        paid = tables.comm if tables.pays[d] else 0.0
        fits = (i < j) & (j <= tables.wall[:, d][:, None])
        fits &= tables.size <= tables.capacity[d]
        load[kind] = np.where(fits, whole[None, :] - whole[:, None] + paid, np.inf)
    return load


def least_sum(load: FloatArray, limit: float, counts: Int64Array) -> tuple[FloatArray, Int64Array, Int64Array]:
    """Least sum of loads, none above a limit, of the first j blocks on exactly the devices of a set.

    Args:
        load: [k, n + 1, n + 1] seconds of blocks i to before j on a device of a kind; inf if they do not fit.
        limit: largest load [s].
        counts: [k] devices of each kind.

    Returns:
        [n + 1, sets] sums [s], first blocks of last stages, and their kinds.
    """
    shape = load.shape[1], int(np.prod(counts + 1))
    value, begin, kind = np.full(shape, np.inf), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    _fill_least_sum(load, limit, counts, value, begin, kind)
    return value, begin, kind


# Before the step of j and i, value[j, S] is the least sum of the first j blocks on exactly the devices of S whose
# last stage begins before i, and value[i] is done as i < j; begin and kind tell that last stage. Of equal cuts the
# first one found stays. Cost: O(n^2 * kinds * sets).
@jit
def _fill_least_sum(
    load: FloatArray, limit: float, counts: Int64Array, value: FloatArray, begin: Int64Array, kind: Int64Array
) -> None:
    """Fill in what :func:`least_sum` returns, [n + 1, sets] each; ``value`` is inf everywhere before."""
    value[0, 0] = 0.0
    for j in range(1, load.shape[1]):
        for i in range(j):
            stride = 1
            for which in range(len(counts)):
                here = load[which, i, j]
                if here <= limit and here < np.inf:
                    for members in range(value.shape[1]):
                        if members // stride % (counts[which] + 1) == 0:
                            continue
                        total = value[i, members - stride] + here
                        if total < value[j, members]:
                            value[j, members] = total
                            begin[j, members] = i
                            kind[j, members] = which
                stride *= counts[which] + 1
