"""Cuts of a model over groups of GPUs, by dynamic programming under a limit on the longest stage."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hetgym._jit import lean
from hetgym._types import FloatArray, Int64Array
from hetgym.baselines.parallel.options import Options, in_flight
from hetgym.parallel import ParallelPlan, TrainingProblem

LARGEST = 1 << 28
"""Most entries of a table; each takes 24 bytes."""


def cuts(
    problem: TrainingProblem, found: Options, whole: bool = True, below: float = np.inf
) -> Iterator[tuple[float, ParallelPlan]]:
    """Plans of one setting with one chunk a stage, each with a shorter longest stage than the one before.

    The estimate of a step is the sum of all stages' slots (forward and backward pass of a micro-batch) plus M - 1 times
    the longest: exact for a pipeline without transfers (Zheng et al., "Alpa", OSDI 2022, section 5). For each limit on
    the longest slot, dynamic programming over suffixes of layers and numbers of GPUs of each pool finds the least sum.

    Args:
        problem: the problem.
        found: options of the stages.
        whole: False to minimise the longest stage alone.
        below: plans with this estimate or a longer one are not asked for [s].

    Yields:
        Estimates [s] and plans; none if the tables would be too large.
    """
    layers = problem.costs.layers
    gpus = np.array([pool.gpus for pool in problem.cluster.pools])
    unit = np.maximum(1, np.gcd.reduce(found.used, axis=0))
    steps, most = found.used // unit, gpus // unit
    stride = np.append(1, np.cumprod(most + 1)[:-1]).astype(np.int64)
    take = steps @ stride
    stages = int(min(problem.stages, layers, max(1, (gpus // found.used.clip(1)).max(axis=1).sum())))
    if int(np.prod(most + 1)) * stages * (layers + 1) > LARGEST:
        return
    free = np.stack(np.unravel_index(np.arange(int(np.prod(most + 1))), (most + 1)[::-1])[::-1], axis=1)
    allowed = np.ascontiguousarray((free[:, None, :] >= steps[None]).all(axis=2))  # [u, o]: what is left suffices
    power = free * unit @ (found.power / gpus)
    kept = in_flight(found.setting.schedule, stages, found.turns)
    slots, held = found.slots(), found.held()
    limit, least, rest = np.inf, below, max(1, found.turns - 1)
    if whole:
        limit = max(0.0, (least - float(found.fastest.sum())) / rest)
    while True:
        sums, choice = _suffixes(slots, held, kept, take.astype(np.int64), allowed, found.work, power, limit)
        reach = sums[:, -1, 0]
        if not np.isfinite(reach).any():
            return
        k = int(np.argmin(reach))
        plan_stages, longest = [], 0.0
        at, left = 0, len(free) - 1
        for step in range(k, -1, -1):
            option, end = choice[step, left, at]
            plan_stages.append((at, int(end), int(option)))
            longest = max(longest, float(slots[option, at, end]))
            at, left = int(end), left - int(take[option])
        estimate = (float(reach[k]) if whole else 0.0) + (found.turns - 1 if whole else 1) * longest
        yield estimate, found.plan(plan_stages)
        least = min(least, estimate)
        limit = longest * (1 - 1e-9)
        if whole:  # a tighter limit does not shorten the sum
            limit = min(limit, (least - float(reach[k])) / rest)
            if float(reach[k]) >= least:
                return


def _suffixes(
    slots: FloatArray,
    held: FloatArray,
    kept: FloatArray,
    take: Int64Array,
    allowed: np.ndarray,
    work: FloatArray,
    power: FloatArray,
    limit: float,
) -> tuple[FloatArray, Int64Array]:
    """Least sums of slots over the layers from i on.

    Args:
        slots: [o, l + 1, l + 1] time of layers i to j on each option [s].
        held: [o, l + 1, l + 1] most micro-batches that fit.
        kept: [k] micro-batches that the k-th stage from the end keeps.
        take: [o] GPUs that an option takes, as a step in the numbering of what is left.
        allowed: [u, o] True if what is left suffices for an option.
        work: [l + 1] sums of the least work of the layers before each.
        power: [u] work that what is taken does in a second.
        limit: longest slot [s].

    Returns:
        [k, u, l + 1] least sum with k + 1 stages and at most u GPUs, inf if there is none; and [k, u, l + 1, 2] option
        and end of the first of them.
    """
    count, layers = len(kept), slots.shape[1]
    sums = np.full((count, len(allowed), layers), np.inf)
    choice = np.zeros((count, len(allowed), layers, 2), np.int64)
    spare = min(limit, 1e300) * (1 + 1e-9)
    begin = np.searchsorted(work, work[-1] - spare * power)
    end = np.maximum(begin, np.searchsorted(work, spare * (power[-1] - power) + 1e-9 * work[-1], side="right"))
    _fill(slots, held, kept, take, allowed, begin, np.minimum(end, layers - 1), limit, sums, choice)
    return sums, choice


# After step k, sums[k, u, i] is the least sum of slots of exactly k + 1 stages that hold the layers from i on and take
# at most u GPUs. A stage is added before the suffixes of step k - 1. Cost: O(k u o l^2). Suffixes are left out if
# they are too much work for their GPUs within the limit, or if the layers before them are too much for the others.
@lean
def _fill(
    slots: FloatArray,
    held: FloatArray,
    kept: FloatArray,
    take: Int64Array,
    allowed: np.ndarray,
    begin: Int64Array,
    end: Int64Array,
    limit: float,
    sums: FloatArray,
    choice: Int64Array,
) -> None:
    """See :func:`_suffixes`; ``begin`` and ``end`` [u] bound the first layers of suffixes."""
    options, last = slots.shape[0], slots.shape[1] - 1
    low = last  # first layer from which the stages before reach the end
    for k in range(sums.shape[0]):
        lowest = last
        for u in range(sums.shape[1]):
            for o in range(options):
                if not allowed[u, o]:
                    continue
                rest = u - take[o]
                for i in range(begin[u], end[u]):
                    for j in range(max(low, i + 1), last + 1):
                        slot = slots[o, i, j]
                        if slot > limit:
                            break
                        if kept[k] <= held[o, i, j]:
                            value = slot if k == 0 else slot + sums[k - 1, rest, j]
                            if value < sums[k, u, i]:
                                lowest = min(lowest, i)
                                sums[k, u, i] = value
                                choice[k, u, i, 0] = o
                                choice[k, u, i, 1] = j
        low = lowest
