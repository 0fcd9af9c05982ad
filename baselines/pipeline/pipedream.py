"""PipeDream: stages of equal devices that may be replicated."""

import math
from dataclasses import dataclass

import numpy as np

from hetgym._sums import summed
from hetgym._types import FloatArray, Int64Array
from hetgym.errors import ConfigError, ProblemError
from hetgym.pipeline.contraction import contract
from hetgym.pipeline.pools import ROUNDING
from hetgym.pipeline.problem import PipelineProblem


@dataclass(frozen=True)
class ReplicatedStage:
    """A stage and the devices that share its micro-batches."""

    operators: tuple[int, ...]  # ids
    devices: tuple[int, ...]  # numbers of the devices, one for each replica


@dataclass(frozen=True)
class ReplicatedPlan:
    """Stages with their replicas, as :func:`pipedream` cuts them."""

    stages: tuple[ReplicatedStage, ...]  # first stage first
    seconds: float  # time between two results in steady state, by PipeDream's estimate

    @property
    def in_flight(self) -> int:
        """Micro-batches that keep all devices busy (NOAM): devices over replicas of the first stage."""
        return math.ceil(sum(len(stage.devices) for stage in self.stages) / len(self.stages[0].devices))


def pipedream(
    problem: PipelineProblem, kind: int | None = None, bandwidth: float = math.inf, add: bool = False
) -> ReplicatedPlan:
    """Cut a chain into stages, and say how many devices share each.

    With T(i..j, m) = max(work of i..j, 4 (m - 1) size of i..j / (m bandwidth)) / m, the time of a stage on m devices
    that exchange the gradients of its weights, the best time of the first j blocks on m devices is A(j, m) =
    min(T(1..j, m), min over i < j, r < m of max(A(i, m - r), 2 cut(i), T(i+1..j, r))), where cut(i) is the time in
    which the tensors that cross the cut move once, forward or backward. Graphs are cut along a topological order.

    Devices that share a memory may each fill an equal part of it.

    Source: Narayanan et al., "PipeDream", SOSP 2019, section 3.1.

    Args:
        problem: the pipeline to cut; sizes are taken for weights.
        kind: position of the kind of device; by default the one that runs the whole fastest on one.
        bandwidth: between replicas [byte/s].
        add: add the exchange of gradients to the work, as the released code does, instead of taking
            the larger, as the paper does.

    Raises:
        ConfigError: no such kind, or a bandwidth that is not positive.
        ProblemError: some operator cannot run on the kind, or no cut fits into the devices' memory.
    """
    present = [t for t, k in enumerate(problem.kinds) if k.count]
    chosen = min(present, key=lambda t: float(problem.cost[:, t].sum())) if kind is None else kind
    if chosen not in present:
        raise ConfigError(f"pipedream: kind is {kind!r}; pipeline {problem.name!r} has {present}")
    if not bandwidth > 0:
        raise ConfigError(f"pipedream: bandwidth is {bandwidth!r}; it must be positive")
    unable = np.flatnonzero(np.isinf(problem.cost[:, chosen]))
    if len(unable):
        operator, name = problem.operator_names[unable[0]], problem.kinds[chosen].name
        raise ProblemError(f"pipeline {problem.name!r}: operator {operator!r} cannot run on {name!r}")
    small = contract(problem)
    n, devices = len(small.members), problem.kinds[chosen].count
    work = np.concatenate([[0.0], np.cumsum(small.cost[:, chosen])])
    size = np.concatenate([[0.0], np.cumsum([problem.size[list(inside)].sum() for inside in small.members])])
    cut = np.zeros(n + 1)
    for i in range(1, n):
        inside = (1 << i) - 1
        cut[i] = summed(seconds for nodes, seconds in small.crossing.items() if nodes & inside and nodes & ~inside)
    entry = problem.kinds[chosen].entry
    seconds, best, choice = np.inf, 0, np.zeros((0, 0, 0), np.int64)
    for count in range(devices, 0, -1) if problem.kinds[chosen].pool else (devices,):
        limit = problem.kinds[chosen].memory / (count if problem.kinds[chosen].pool else 1)
        value, chosen_stages = _table(work, size, cut, count, limit * ROUNDING, bandwidth, add, entry)
        if value[n, 1:].min() < seconds:
            seconds, best, choice = float(value[n, 1:].min()), 1 + int(np.argmin(value[n, 1:])), chosen_stages
    if not np.isfinite(seconds):
        raise ProblemError(f"pipeline {problem.name!r}: no cut fits into the memory of {devices} devices")
    first = int(np.flatnonzero(problem.device_kind == chosen)[0])
    rows = _rows(choice, best)
    stage = np.zeros(n, np.int32)
    for number, (i, j, _) in enumerate(rows):
        stage[i:j] = number
    of_operator = small.expand(stage, problem.num_operators)
    stages = []
    for number, (_, _, replicas) in enumerate(rows):
        operators = tuple(np.flatnonzero(of_operator == number).tolist())
        stages.append(ReplicatedStage(operators, tuple(range(first, first + replicas))))
        first += replicas
    return ReplicatedPlan(tuple(stages), seconds)


def _rows(choice: Int64Array, devices: int) -> list[tuple[int, int, int]]:
    """First block, end and replicas of each stage of the best cut of all blocks on `devices` devices."""
    rows, j, m = [], len(choice) - 1, devices
    while j > 0:
        i, replicas = choice[j, m]
        rows.append((int(i), j, int(replicas)))
        j, m = int(i), m - int(replicas)
    return rows[::-1]


def _table(
    work: FloatArray,
    size: FloatArray,
    cut: FloatArray,
    devices: int,
    limit: float,
    bandwidth: float,
    add: bool,
    entry: float,
) -> tuple[FloatArray, Int64Array]:
    """A(j, m) and, behind it, (i, r): the last stage is i..j on r devices."""
    n = len(work) - 1
    value: FloatArray = np.full((n + 1, devices + 1), np.inf)
    choice = np.zeros((n + 1, devices + 1, 2), np.int64)
    value[0, :] = 0.0
    for j in range(1, n + 1):
        i = np.arange(j)
        compute, weights = work[j] - work[:j] + entry, size[j] - size[:j]
        compute = np.where(weights <= limit, compute, np.inf)
        for r in range(1, devices + 1):
            exchange = 4 * (r - 1) * weights / (r * bandwidth)
            stage = (compute + exchange if add else np.maximum(compute, exchange)) / r
            for m in range(r, devices + 1):
                total = np.maximum(np.maximum(value[:j, m - r], 2 * cut[:j]), stage)
                at = int(np.argmin(total))
                if total[at] < value[j, m]:
                    value[j, m], choice[j, m] = total[at], (i[at], r)
    return value, choice
