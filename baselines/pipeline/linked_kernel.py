"""The dynamic program of :func:`~hetgym.baselines.pipeline.linked_dp`."""

import numpy as np

from hetgym._kernels.jit import jit
from hetgym._types import FloatArray, Int64Array, IntArray

LARGEST, SUM, SQUARES = range(3)  # Ways to add up stages: the largest, the sum, the sum of squares


# value[S, k, j, f] is the least value of the first j layers on exactly the devices of set S, the last stage on class k,
# which sends to class f (c = to none); came holds that stage's first layer times (c + 1), plus the class before (c =
# none). Sets are numbered so that S less a device is smaller, so its rows are complete when S is reached. What a stage
# takes depends on the stages beside it only through the classes before and behind, which the state holds.
# Cost: O(sets * c^3 * n^2).
@jit
def fill(
    base: FloatArray,
    hop: FloatArray,
    counts: Int64Array,
    used: Int64Array,
    counted: FloatArray,
    rule: tuple[int, int, float, float, float],
    value: FloatArray,
    came: IntArray,
) -> None:
    """Fill in the tables of cuts; ``value`` is inf everywhere before.

    Args:
        base: [c, n + 1, n + 1] weight of layers i to before j on a device of a class; inf if they do not fit.
        hop: [n + 1, c, c] transfers between classes behind the first layers.
        counts: [c] devices of each class.
        used: [sets] devices of each set.
        counted: [c] share of their loads that stages on a class add to a sum.
        rule: most devices; how stages are added up; most that a stage may weigh; and the share of the transfers before
            and behind it that a stage pays.
        value, came: [sets, c, n + 1, c + 1] as above.
    """
    most, how, limit, inward, outward = rule
    c, n = base.shape[0], base.shape[1] - 1
    for members in range(1, len(used)):
        if used[members] > most:
            continue
        stride = 1
        for k in range(c):
            own = stride
            stride *= counts[k] + 1
            if members // own % (counts[k] + 1) == 0:
                continue
            rest = members - own
            for j in range(1, n + 1):
                first = 0 if rest == 0 else 1
                for i in range(first, 1 if rest == 0 else j):
                    here = base[k, i, j]
                    if not here <= limit or here == np.inf:
                        continue
                    for p in range(c if rest == 0 else 0, c + 1 if rest == 0 else c):
                        prior = 0.0 if rest == 0 else value[rest, p, i, k]
                        if prior == np.inf:
                            continue
                        fetched = here if rest == 0 else here + inward * hop[i, p, k]
                        for f in range(c if j == n else 0, c + 1 if j == n else c):
                            load = fetched if f == c else fetched + outward * hop[j, k, f]
                            if load > limit:
                                continue
                            total = (
                                max(prior, load)
                                if how == 0
                                else prior + (counted[k] * load if how == 1 else load * load)
                            )
                            if total < value[members, k, j, f]:
                                value[members, k, j, f] = total
                                came[members, k, j, f] = i * (c + 1) + p
