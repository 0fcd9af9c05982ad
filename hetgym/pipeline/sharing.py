"""Problems with devices that share a memory or take turns, for methods that know every device by itself."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hetgym._types import FloatArray
from hetgym.pipeline.pools import rations
from hetgym.pipeline.problem import PipelineProblem


def relaxed(problem: PipelineProblem) -> PipelineProblem:
    """The problem without pools and turns; its best cut is no worse than that of the problem."""
    return problem.replaced([replace(kind, pool="", turns=False) for kind in problem.kinds])


def rationed(problem: PipelineProblem, coarse: bool = False) -> Iterator[PipelineProblem]:
    """The problem without pools and turns, and with less memory, so that every cut that fits respects the pools.

    There is one problem for each way to divide the pools, see :func:`~hetgym.pipeline.pools.rations`; and beside it one
    for each device that takes turns, without the others of these. Devices keep their numbers; each device of a pool, or
    that takes turns, is a kind of its own. With ``coarse``, pools are divided evenly only, and parts
    in which nothing fits are not left out.
    """
    kinds, column = [], list[int]()
    for k, kind in enumerate(problem.kinds):
        counts = [1] * kind.count if kind.pool or kind.turns else [kind.count]
        kinds += [replace(kind, count=count, pool="") for count in counts]
        column += [k] * len(counts)
    first = np.cumsum([0, *(kind.count for kind in kinds)])[:-1].tolist()
    cost, turns = problem.cost[:, column], np.array([kind.turns and kind.count > 0 for kind in kinds])
    alone = [np.where(turns & (np.arange(len(kinds)) != k), np.inf, cost) for k in np.flatnonzero(turns)]
    sizes, total = ((), 0.0) if coarse else (_sizes(problem), float(problem.size.sum()) - problem.shared.repeated)
    for memory in rations(problem.pools, problem.memory, sizes, total):
        own = [memory[d] if kind.count else kind.memory for d, kind in zip(first, kinds, strict=True)]
        divided = [replace(k, memory=float(m), turns=False) for k, m in zip(kinds, own, strict=True)]
        for seconds in (cost, *alone):
            yield problem.replaced(divided, seconds)


def _sizes(problem: PipelineProblem) -> FloatArray:
    """Bytes that stages along the order of operators may take."""
    before = np.concatenate([[0.0], np.cumsum(problem.size[problem.order])])
    if len(before) > 300:
        return before
    return np.asarray(np.abs(before[None, :] - before[:, None]))
