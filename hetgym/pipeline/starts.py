"""Starts: cuts read off the tables of remainders, one for each limit on the largest load and each number of stages."""

import numpy as np

from hetgym._kernels.jit import lean
from hetgym._types import Int64Array
from hetgym.pipeline.cuts import CutProblem, Stage
from hetgym.pipeline.objective import THROUGHPUT, TRAINING
from hetgym.pipeline.tables import CutTables, counts_and_first


def starts(cuts: CutProblem) -> list[tuple[Stage, ...]]:
    """The cuts of least sum of loads within each limit, on at most each number of stages; without repetitions.

    Args:
        cuts: a problem with remainders (:func:`~hetgym.pipeline.remainders.with_remainders`); without, there are none.
    """
    tables = cuts.tables
    counts, first = counts_and_first(cuts.problem)
    found: dict[tuple[Stage, ...], None] = {}
    limits, rows = tables.rest_sum.shape[:2] if tables.rest_sum.size else (0, 0)
    d = len(tables.capacity)
    begun, kinds = np.zeros(d + 1, np.int64), np.zeros(d, np.int64)
    passes = 2.0 if cuts.objective.code == TRAINING else 1.0
    for most in range(1, rows):
        for k in range(limits):
            stages = _read_off(tables, counts, first, k, most, passes, cuts.objective.code == THROUGHPUT, begun, kinds)
            if stages > 0:
                ends = [*begun[1:stages].tolist(), len(tables.wall) - 1]
                device, cut = first.tolist(), []
                for i, end, kind in zip(begun[:stages].tolist(), ends, kinds[:stages].tolist(), strict=True):
                    cut.append(Stage(i, end, device[kind]))
                    device[kind] += 1
                found[tuple(cut)] = None
    return list(found)


# Before each step blocks i to the end are left, for at most `row` stages on devices of the set `members`, and the table
# holds the value of the best cut. The stage that gave it is found again by the sums that gave it, in the same order, so
# that they agree to the last bit.
@lean
def _read_off(
    tables: CutTables,
    counts: Int64Array,
    first: Int64Array,
    limit: int,
    row: int,
    passes: float,
    bottleneck: bool,
    begun: Int64Array,
    kinds: Int64Array,
) -> int:
    """Write first blocks and kinds of devices of a cut; return the number of its stages, 0 if there is none.

    Args:
        limit: number of the limit on the largest load.
        row: largest number of stages; 1 if the table has no rows for these.
        begun, kinds: [d] written.
    """
    total, n = tables.rest_sum[limit], len(tables.wall) - 1
    apart = total.shape[0] > 2
    members, i, stages = tables.free[0], 0, 0
    while i < n:
        value = total[row, members, i]
        if value == np.inf:
            return 0
        if apart and total[row - 1, members, i] == value:
            row -= 1
            continue
        before = row - 1 if apart else row
        stride, found = 1, False
        for kind in range(len(counts)):
            if not found and members // stride % (counts[kind] + 1) > 0:
                d, both = first[kind], 0.0
                for e in range(i + 1, tables.wall[i, d] + 1):
                    both += tables.forward[e - 1, d] + tables.backward[e - 1, d]
                    alone = both + (passes * tables.comm[i, e] if tables.pays[d] > 0 else 0.0)
                    rest = total[before, members - stride, e]
                    if (max(alone, rest) if bottleneck else alone + rest) == value:
                        begun[stages], kinds[stages] = i, kind
                        stages, i, row, members, found = stages + 1, e, before, members - stride, True
                        break
            stride *= counts[kind] + 1
        if not found:
            return 0
    return int(stages)
