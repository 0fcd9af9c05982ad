"""The best plan of a small training problem: by simulating all plans, and by branch and bound."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hetgym._types import FloatArray, Int64Array
from hetgym.baselines.parallel.options import Options, in_flight, options
from hetgym.errors import ProblemError
from hetgym.parallel import ParallelPlan, Stage, TrainingProblem

MOST = 1_000_000
"""Most plans that are simulated."""


def every_plan(problem: TrainingProblem) -> Iterator[ParallelPlan]:
    """All plans: data degrees, micro-batches, cuts, and one option of groups for each stage."""
    for data, batch in problem.degrees():
        found = options(problem, data, batch)
        if found is not None:
            yield from _before(problem, found, problem.costs.layers, (), np.zeros(len(problem.cluster.pools), np.int64))


def exhaustive(problem: TrainingProblem) -> ParallelPlan:
    """The best of all plans; of equals the first.

    Raises:
        ProblemError: no plan fits in memory, or there are more than :data:`MOST`.
    """
    best, least = None, np.inf
    for count, plan in enumerate(every_plan(problem)):
        if count >= MOST:
            raise ProblemError(f"training problem: more than {MOST} plans; take 'exact' or 'search'")
        value = problem.value(plan)
        if value < least:
            best, least = plan, value
    return known(best)


def exact(problem: TrainingProblem, start: ParallelPlan | None = None) -> ParallelPlan:
    """The best plan, by branch and bound.

    Stages are added from the last one to the first. From the moment that a stage may begin until its last gradient
    leaves it, a replica needs at least M times the stage's forward and backward pass, weight passes left out, and at
    least one of each and the time of the stages behind. The layers before it need at least one of each on the fastest
    option. This holds for all schedules that flush.

    Args:
        problem: the problem.
        start: a plan to improve on.

    Raises:
        ProblemError: no plan fits in memory.
    """
    search = _Search(problem, start)
    for data, batch in problem.degrees():
        found = options(problem, data, batch)
        if found is not None:
            search.run(found)
    return known(search.best)


def known(plan: ParallelPlan | None) -> ParallelPlan:
    """The plan.

    Raises:
        ProblemError: there is none.
    """
    if plan is None:
        raise ProblemError("training problem: no plan fits in the memory of the GPUs")
    return plan


def _before(
    problem: TrainingProblem, found: Options, end: int, behind: tuple[Stage, ...], used: Int64Array
) -> Iterator[ParallelPlan]:
    """Plans whose last stages are ``behind``, which begin at layer ``end`` and take ``used`` GPUs of each pool."""
    if end == 0:
        yield ParallelPlan(behind, found.micro_batch, problem.samples(found.data, found.micro_batch), problem.schedule)
        return
    if len(behind) == problem.stages:
        return
    gpus = np.array([pool.gpus for pool in problem.cluster.pools])
    for k in range(len(found.used)):
        if (used + found.used[k] <= gpus).all():
            for start in range(end):
                stage = Stage(start, end - 1, found.groups(k))
                yield from _before(problem, found, start, (stage, *behind), used + found.used[k])


class _Search:
    """Depth-first search with the best plan so far."""

    def __init__(self, problem: TrainingProblem, start: ParallelPlan | None) -> None:
        self.problem = problem
        self.best = start
        self.least = problem.value(start) if start is not None else np.inf
        self.gpus = np.array([pool.gpus for pool in problem.cluster.pools])

    def run(self, found: Options) -> None:
        """Search all plans of a data degree and a micro-batch."""
        self.found, self.held = found, found.held()
        self.path = np.append(0.0, np.cumsum(np.diff(found.slot, axis=1).min(axis=0)))
        self.kept = in_flight(self.problem, min(self.problem.stages, self.problem.costs.layers), found.turns)
        self.extend(self.problem.costs.layers, (), np.zeros(len(self.gpus), np.int64), np.zeros(found.data))

    def extend(self, end: int, behind: tuple[Stage, ...], used: Int64Array, bound: FloatArray) -> None:
        """Add stages before layer ``end``.

        Args:
            end: first layer of the stages ``behind``.
            behind: the last stages.
            used: [pools] GPUs that they take.
            bound: [d] least time of each replica from the moment that the first of them may begin until its last
                gradient leaves it [s].
        """
        found = self.found
        if end == 0:
            plan = ParallelPlan(
                behind, found.micro_batch, found.turns * found.data * found.micro_batch, self.problem.schedule
            )
            value = self.problem.value(plan)
            if value < self.least:
                self.best, self.least = plan, value
            return
        if len(behind) == min(self.problem.stages, self.problem.costs.layers):
            return
        for k in range(len(found.used)):
            if (used + found.used[k] > self.gpus).any():
                continue
            groups = found.groups(k)
            for start in range(end):
                slot = (found.slot[:, end] - found.slot[:, start])[found.replicas[k]]
                ahead = np.maximum(found.turns * slot, slot + bound)
                if ahead.max() + self.path[start] < self.least and self.kept[len(behind)] <= self.held[k, start, end]:
                    self.extend(start, (Stage(start, end - 1, groups), *behind), used + found.used[k], ahead)
