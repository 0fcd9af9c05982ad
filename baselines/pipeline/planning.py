"""plan_pipeline: the best stages of a pipeline on a given number of devices."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from hetgym._sums import summed
from hetgym._types import IntArray
from hetgym.baselines.pipeline.contiguous import contiguous_dp, equal_cut
from hetgym.baselines.pipeline.downset import downset_dp
from hetgym.baselines.pipeline.even import even_cut
from hetgym.baselines.pipeline.exact import cp_sat_cut
from hetgym.errors import ConfigError, HetgymError, unknown_name
from hetgym.pipeline.problem import PipelineProblem

PARTITIONERS: dict[str, Callable[[PipelineProblem], IntArray]] = {
    "equal-cut": equal_cut,
    "even-cut": even_cut,
    "contiguous-dp": contiguous_dp,
    "downset-dp": downset_dp,
}
"""Methods that return a device for each operator, by name."""


PLANNERS: dict[str, Callable[[PipelineProblem], IntArray]] = {
    **PARTITIONERS,
    "cp-sat": lambda problem: cp_sat_cut(problem).assignment,
}
"""Methods of :func:`plan_pipeline` by name; ``cp-sat`` needs OR-Tools."""

OBJECTIVES = ("throughput", "balance")  # Objectives of plan_pipeline
MAX_SETS = 1000  # Most sets of devices that are tried


def plan_pipeline(
    problem: PipelineProblem, stages: int | None = None, planner: str = "even-cut", objective: str = "throughput"
) -> IntArray:
    """Cut a pipeline into stages on the devices that suit it best.

    Args:
        stages: number of devices that may be used; by default all. Of different kinds the best set is chosen.
        planner: one of :data:`PLANNERS`.
        objective: ``"throughput"``: the slowest stage takes as little time as possible; ``"balance"``: the heaviest one
            is as light as possible, by its time without transfers or, where nothing takes time, by its share of the
            memory.

    Returns:
        [n] device of each operator.

    Raises:
        UnknownName: no such planner or objective.
        ConfigError: more stages than devices, or too many sets of devices.
        ProblemError: no cut fits into memory.

    >>> from hetgym.pipeline import DeviceKind
    >>> chain = PipelineProblem.chain([[4.0], [1.0], [1.0], [2.0]], [DeviceKind("gpu", 8)])
    >>> chain.max_load(plan_pipeline(chain, stages=2))
    4.0
    """
    if planner not in PLANNERS:
        raise unknown_name("planner of pipelines", planner, PLANNERS)
    if objective not in OBJECTIVES:
        raise unknown_name("objective of a pipeline's cut", objective, OBJECTIVES)
    judged = problem if objective == "throughput" else _weighed(problem)
    best: tuple[float, float, IntArray] | None = None
    refused: HetgymError | None = None
    for counts in device_sets(problem, problem.num_devices if stages is None else stages):
        smaller, devices = with_counts(judged, counts)
        try:
            found = PLANNERS[planner](smaller)
        except HetgymError as error:
            refused = error
            continue
        loads = smaller.loads(found)
        rank = smaller.max_load(found), float((loads**2).sum())
        if best is None or rank < best[:2]:
            best = (*rank, devices[found])
    if best is None:
        assert refused is not None
        raise refused
    return problem.check(best[2])


def device_sets(problem: PipelineProblem, stages: int) -> Iterator[Sequence[int]]:
    """Numbers of devices of each kind that are as many as the stages.

    Raises:
        ConfigError: there are fewer devices, or too many such sets.
    """
    counts = [kind.count for kind in problem.kinds]
    if not 1 <= stages <= summed(counts):
        raise ConfigError(f"stages is {stages}; {problem.name!r} has {summed(counts)} devices")
    if math.prod(min(stages, count) + 1 for count in counts[:-1]) > MAX_SETS:
        raise ConfigError(f"too many sets of {stages} devices of {len(counts)} kinds; use all devices")
    for chosen in itertools.product(*(range(min(stages, count) + 1) for count in counts[:-1])):
        if 0 <= stages - summed(chosen) <= counts[-1]:
            yield (*chosen, stages - summed(chosen))


def with_counts(problem: PipelineProblem, counts: Sequence[int]) -> tuple[PipelineProblem, IntArray]:
    """The same problem with fewer devices of each kind, and the number that each of them has in the problem."""
    devices = [np.flatnonzero(problem.device_kind == kind)[:count] for kind, count in enumerate(counts)]
    kinds = [replace(kind, count=count) for kind, count in zip(problem.kinds, counts, strict=True)]
    return problem.replaced(kinds), np.concatenate(devices).astype(np.int32)


def _weighed(problem: PipelineProblem) -> PipelineProblem:
    """The problem without transfers, if it has times; otherwise the one of memory."""
    if (np.isfinite(problem.cost) & (problem.cost > 0)).any():
        return problem.replaced(problem.kinds, transfer=0.0)
    return by_memory(problem)


def by_memory(problem: PipelineProblem) -> PipelineProblem:
    """The problem in which an operator costs the share of its device's memory that it takes; bytes if none has a limit.

    Transfers cost nothing. Operators that cannot run on a device cannot do so here.
    """
    memory = np.array([kind.memory for kind in problem.kinds])
    unit = memory if np.isfinite(memory).any() else np.ones(len(memory))
    cost = np.where(np.isfinite(problem.cost), problem.size[:, None] / unit, np.inf)
    kinds = [replace(kind, entry=0.0, turns=False) for kind in problem.kinds]
    return problem.replaced(kinds, cost, transfer=0.0)
