"""Cutting along one topological order: into equal parts, or optimally."""

import math

import numpy as np

from hetgym._types import IntArray
from hetgym.baselines.pipeline.downset import placement, prefixes, solve
from hetgym.baselines.pipeline.sharing import on_shared_devices
from hetgym.pipeline.contraction import contract
from hetgym.pipeline.problem import PipelineProblem


def equal_cut(problem: PipelineProblem) -> IntArray:
    """[n] as many operators on each device as on any other, all of the kind that runs the whole fastest.

    The common default: it considers neither run times of operators nor transfers across a cut.

    Raises:
        InvalidSchedule: a part does not fit into memory, or contains operators that the devices cannot run.
    """
    small = contract(problem)
    present = [t for t, kind in enumerate(problem.kinds) if kind.count]
    kind = min(present, key=lambda t: problem.cost[:, t].sum() / problem.kinds[t].count + problem.kinds[t].entry)
    count = problem.kinds[kind].count
    held = np.array([len(inside) for inside in small.members])
    before = np.cumsum(held) - held
    stage = (before * count // max(1, held.sum())).astype(np.int32)
    first = int(np.flatnonzero(problem.device_kind == kind)[0])
    return problem.check(first + small.expand(stage, problem.num_operators))


@on_shared_devices
def contiguous_dp(problem: PipelineProblem) -> IntArray:
    """[n] the best cut of a topological order among devices of any kinds, in any sequence.

    A[j, D], the least max-load of the first j nodes on the devices D, is the minimum over i < j and devices d in D of
    max(A[i, D - d], load of nodes i..j on d); D counts the devices of each kind. Optimal for chains; for other graphs
    see :func:`~hetgym.baselines.pipeline.downset_dp`. Time O(n^2 k) for each of the multisets of devices.

    Raises:
        ProblemError: no cut of that order fits into memory.
    """
    small = contract(problem)
    cut, _ = solve(problem, small, prefixes(small), math.inf)
    return placement(problem, small, cut)
