"""The most even of the best cuts along the order of blocks."""

from dataclasses import replace

import numpy as np

from hetgym._types import IntArray
from hetgym.baselines.pipeline.contiguous import contiguous_dp
from hetgym.baselines.pipeline.optima import MAX_STEPS, least_sum, stage_loads, traced
from hetgym.baselines.pipeline.sharing import on_shared_devices
from hetgym.pipeline.problem import PipelineProblem
from hetgym.pipeline.reference import cut_problem
from hetgym.pipeline.tables import counts_and_first

ROUNDING = 1.0 + 1e-12  # Factor by which equal loads may differ that were added up in another order


@on_shared_devices
def even_cut(problem: PipelineProblem) -> IntArray:
    """[n] the best cut along one order in which every device has a stage, and the stages are as equal as possible.

    The slowest stage is that of :func:`~hetgym.baselines.pipeline.contiguous_dp`. Of all such cuts onto all devices it
    is the one with the least sum of squared loads, so no stage stays empty or short because another one is the slowest
    anyway. Where no cut onto all devices is as fast, or the dynamic program would take more than ``MAX_STEPS``, the
    result is that of ``contiguous_dp``.

    Raises:
        ProblemError: no cut along the order of blocks fits into memory.

    >>> from hetgym.pipeline import DeviceKind
    >>> chain = PipelineProblem.chain([[4.0], [1.0], [1.0], [2.0]], [DeviceKind("gpu", 3)])
    >>> chain.loads(even_cut(chain)).tolist()
    [4.0, 2.0, 2.0]
    """
    best = contiguous_dp(problem)
    entry = np.array([kind.entry for kind in problem.kinds])
    cuts = cut_problem(problem.replaced([replace(kind, entry=0.0) for kind in problem.kinds]))
    n, counts = len(cuts.names), counts_and_first(problem)[0]
    if n * n * (int(cuts.tables.free[0]) + 1) * len(counts) > MAX_STEPS:
        return best
    load, slowest = stage_loads(cuts) + entry[:, None, None], problem.max_load(best)
    value, begin, kind = least_sum(np.where(load <= slowest * ROUNDING, load**2, np.inf), np.inf, counts)
    if not value[n, -1] < np.inf:
        return best
    free = [iter(np.flatnonzero(problem.device_kind == k).tolist()) for k in range(len(counts))]
    cut = traced(cuts, begin, kind, value.shape[1] - 1)
    in_order = [stage._replace(device=next(free[problem.device_kind[stage.device]])) for stage in cut]
    return problem.check(cuts.assignment(in_order))
