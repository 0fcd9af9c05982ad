"""Remainders: values of the best cuts of the remaining blocks, for every first block and set of remaining devices.

The value of a cut is the largest load X for the throughput, and L + (N - 1) X for the latency of N requests, where L is
the sum of the loads. A training step of N micro-batches takes about as long. For each of a few limits on X a dynamic
program from the last block backwards finds the cut of least L.
"""

from dataclasses import replace

import numpy as np

from hetgym._kernels.jit import jit
from hetgym._types import FloatArray, Int64Array, frozen
from hetgym.pipeline.cuts import CutProblem
from hetgym.pipeline.objective import THROUGHPUT, TRAINING
from hetgym.pipeline.tables import CutTables, counts_and_first

SLACK = (1.0, 1.01, 1.02, 1.035, 1.05, 1.075, 1.1, 1.15, 1.2, 1.3, 1.4, 1.6, 2.0, 3.0, np.inf)
"""Limits on the largest load, in units of its least value."""

MAX_STEPS = 100_000_000
"""Most steps of the dynamic program. With more, only the first and the last limit are used, or no tables are made."""


def with_remainders(cuts: CutProblem) -> CutProblem:
    """Add ``rest_sum`` and ``rest_load`` to the tables of a problem, unless computing them would take too long."""
    tables, code = cuts.tables, cuts.objective.code
    counts, first = counts_and_first(cuts.problem)
    n, rows = len(tables.wall) - 1, len(tables.capacity) if code == TRAINING else 1
    steps = n * n * int(np.prod(counts + 1)) * len(counts) * rows // 2
    slack: tuple[float, ...] = (1.0,) if code == THROUGHPUT else SLACK
    if steps * len(slack) > MAX_STEPS:
        slack = (1.0,) if code == THROUGHPUT else (1.0, np.inf)
    if steps * (len(slack) + 1) > MAX_STEPS:
        return cuts
    passes = 2.0 if code == TRAINING else 1.0
    total, load = _remainders(tables, counts, first, np.array([np.inf]), rows, passes, True)
    if code != THROUGHPUT:
        least = total[0, rows, int(tables.free[0]), 0]
        limits = np.array([least * share if share < np.inf else np.inf for share in slack])  # least may be 0
        total, load = _remainders(tables, counts, first, limits, rows, passes, False)
    return replace(cuts, tables=tables._replace(rest_sum=frozen(total), rest_load=frozen(load)))


def _remainders(
    tables: CutTables,
    counts: Int64Array,
    first: Int64Array,
    limits: FloatArray,
    rows: int,
    passes: float,
    bottleneck: bool,
) -> tuple[FloatArray, FloatArray]:
    """Values of the best cuts of blocks i to the end on the devices of a set.

    Args:
        counts: [k] devices of each kind.
        first: [k] a device of each kind.
        limits: [l] limits on the largest load [s].
        rows: largest number of stages for which there are separate rows; 1 if the number does not matter.
        passes: number of times that a stage's transfers are paid for.
        bottleneck: True to minimise the largest load, False to minimise the sum.

    Returns:
        Two tables [l, rows + 1, sets, n + 1]: the sum of the loads, or the largest load with ``bottleneck``; and the
        largest load [s]. Row q is for at most q stages, if there are separate rows. Loads in the sum do not include
        weight passes.
    """
    shape = len(limits), rows + 1, int(np.prod(counts + 1)), len(tables.wall)
    total, load = np.full(shape, np.inf), np.full(shape, np.inf)
    _fill_remainders(tables, total, load, counts, first, limits, passes, bottleneck)
    return total, load


# A dynamic program from the last block backwards. Invariant before the step of a row, a set and a block i: the tables
# hold the best cuts with one stage fewer on any set (or, without separate rows, those on smaller sets), and those of
# the same row and set for blocks behind i. The first stage of the remainder runs on a device of some kind in the set
# and takes blocks i to before e. e grows while the stage fits into memory, is within the limit and can still be better;
# `both` and `weight` are the sums of its passes so far. Of equal cuts the one found first is kept. Sets with one device
# fewer have smaller numbers, so their entries are complete. Cost: O(limits * rows * sets * kinds * n^2).
@jit
def _fill_remainders(
    tables: CutTables,
    total: FloatArray,
    load: FloatArray,
    counts: Int64Array,
    first: Int64Array,
    limits: FloatArray,
    passes: float,
    bottleneck: bool,
) -> None:
    """Fill in ``total`` and ``load``, what :func:`_remainders` returns; inf everywhere at first."""
    wall, size, stash = tables.wall, tables.size, tables.stash
    n, rows = len(wall) - 1, total.shape[1] - 1
    for k in range(len(limits)):
        limit = limits[k] * (1 + 1e-12)
        for row in range(rows + 1):
            for members in range(total.shape[2]):
                total[k, row, members, n] = load[k, row, members, n] = 0.0
        for row in range(1, rows + 1):
            keep = 0.0
            for p in range(row, rows + 1 if rows > 1 else 0):
                keep = max(keep, tables.peak[1, p, p - row])
            before = row - 1 if rows > 1 else row
            for members in range(total.shape[2]):
                for i in range(n - 1, -1, -1):
                    best, largest = np.inf, np.inf
                    if rows > 1:
                        best, largest = total[k, row - 1, members, i], load[k, row - 1, members, i]
                    stride = 1
                    for kind in range(len(counts)):
                        if members // stride % (counts[kind] + 1) > 0:
                            d, left = first[kind], members - stride
                            both, weight = 0.0, 0.0
                            for e in range(i + 1, wall[i, d] + 1):
                                if size[i, e] + keep * (stash[e] - stash[i]) > tables.capacity[d]:
                                    break
                                both += tables.forward[e - 1, d] + tables.backward[e - 1, d]
                                weight += tables.weight[e - 1, d]
                                if both + weight > limit or (bottleneck and both + weight >= best):
                                    break
                                alone = both + (passes * tables.comm[i, e] if tables.pays[d] > 0 else 0.0)
                                if alone + weight > limit:
                                    continue
                                here = max(alone + weight, load[k, before, left, e])
                                value = here if bottleneck else alone + total[k, before, left, e]
                                if value < best:
                                    best, largest = value, here
                        stride *= counts[kind] + 1
                    total[k, row, members, i], load[k, row, members, i] = best, largest
