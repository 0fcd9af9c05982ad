"""Remainders: how well the blocks that are left can be cut, for every block and every set of devices that is left.

The value of a cut is the largest load X for the throughput, and L + (N - 1) X for the latency of N requests,
L being the sum of the loads. A training step of N micro-batches takes about that. For each of a few limits on
X a dynamic program from the last block backwards finds the cut of least L.
"""

from __future__ import annotations

import numpy as np

from hetgym._jit import jit
from hetgym._types import FloatArray, frozen
from hetgym.envs.pipeline.stages import THROUGHPUT, TRAINING, Index, Rules, Tables
from hetgym.pipeline import PipelineProblem

SLACK = (1.0, 1.01, 1.02, 1.035, 1.05, 1.075, 1.1, 1.15, 1.2, 1.3, 1.4, 1.6, 2.0, 3.0, np.inf)
"""Limits on the largest load, in units of its least value."""

MAX_STEPS = 100_000_000
"""Most steps of the dynamic program; above, no limits but the first and the last are tried, or nothing is known."""


def with_remainders(tables: Tables, problem: PipelineProblem, rules: Rules) -> Tables:
    """Tables with ``rest_sum`` and ``rest_load``, empty if working them out would take too long.

    Args:
        tables: of the problem.
        problem: what is cut.
        rules: what cuts are judged by.
    """
    training = rules.code == TRAINING
    counts = np.array([k.count for k in problem.kinds], np.int64)
    n, rows = len(tables.wall) - 1, len(tables.capacity) if training else 1
    steps = n * n * int(np.prod(counts + 1)) * len(counts) * rows // 2
    slack: tuple[float, ...] = (1.0,) if rules.code == THROUGHPUT else SLACK
    if steps * len(slack) > MAX_STEPS:
        slack = (1.0,) if rules.code == THROUGHPUT else (1.0, np.inf)
    if not rules.completion or steps * (len(slack) + 1) > MAX_STEPS:
        return tables
    first = np.array([int(np.argmax(tables.kind == t)) if counts[t] else 0 for t in range(len(counts))], np.int64)
    passes = 2.0 if training else 1.0
    total, load = _remainders(tables, counts, first, frozen(np.array([np.inf])), rows, passes, True)
    if rules.code != THROUGHPUT:
        least = total[0, rows, int(tables.free[0]), 0]
        total, load = _remainders(tables, counts, first, frozen(least * np.array(slack)), rows, passes, False)
    return tables._replace(rest_sum=frozen(total), rest_load=frozen(load))


@jit
def _remainders(
    t: Tables, counts: Index, first: Index, limits: FloatArray, rows: int, passes: float, bottleneck: bool
) -> tuple[FloatArray, FloatArray]:
    """The best cuts of blocks i to the end, on devices of a set.

    Args:
        t: tables.
        counts: [k] devices of each kind.
        first: [k] a device of each kind.
        limits: [l] on the largest load [s].
        rows: most stages that are told apart, 1 if they need not be.
        passes: how often a stage's transfers are paid for.
        bottleneck: whether the largest load is minimised, not the sum.

    Returns:
        [l, rows + 1, sets, n + 1] sum of the loads, or the largest with ``bottleneck``, and the largest; of
        at most so many stages if these are told apart. A load is without weight passes in the sum [s].
    """
    n = len(t.wall) - 1
    sets = 1
    for count in counts:
        sets *= count + 1
    total = np.full((len(limits), rows + 1, sets, n + 1), np.inf)
    load = np.full((len(limits), rows + 1, sets, n + 1), np.inf)
    total[:, :, :, n] = 0.0
    load[:, :, :, n] = 0.0
    for k in range(len(limits)):
        limit = limits[k] * (1 + 1e-12)
        for row in range(1, rows + 1):
            keep = 0.0
            for p in range(row, rows + 1 if rows > 1 else 0):
                keep = max(keep, t.peak[1, p, p - row])
            before = row - 1 if rows > 1 else row
            for members in range(sets):
                for i in range(n - 1, -1, -1):
                    best, largest = np.inf, np.inf
                    if rows > 1:
                        best, largest = total[k, row - 1, members, i], load[k, row - 1, members, i]
                    stride = 1
                    for kind in range(len(counts)):
                        if members // stride % (counts[kind] + 1) > 0:
                            d, left = first[kind], members - stride
                            both, weight = 0.0, 0.0
                            for e in range(i + 1, t.wall[i, d] + 1):
                                if t.size[e] - t.size[i] + keep * (t.stash[e] - t.stash[i]) > t.capacity[d]:
                                    break
                                both += t.forward[e - 1, d] + t.backward[e - 1, d]
                                weight += t.weight[e - 1, d]
                                if both + weight > limit or (bottleneck and both + weight >= best):
                                    break
                                alone = both + (passes * t.comm[i, e] if t.pays[d] > 0 else 0.0)
                                if alone + weight > limit:
                                    continue
                                here = max(alone + weight, load[k, before, left, e])
                                value = here if bottleneck else alone + total[k, before, left, e]
                                if value < best:
                                    best, largest = value, here
                        stride *= counts[kind] + 1
                    total[k, row, members, i], load[k, row, members, i] = best, largest
    return total, load
