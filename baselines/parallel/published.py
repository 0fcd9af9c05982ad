"""Planners of the literature, in their authors' search spaces, under the cost model that all planners here share.

On large clusters, ``pipedream``, ``alpa`` and ``harp`` count GPUs in units of several, see
:func:`~hetgym.baselines.parallel.cutting.cuts`; their estimates are the least in these units only. All raise
:class:`~hetgym.ProblemError` where no plan fits in memory.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hetgym.baselines.parallel.cutting import coarse, cuts
from hetgym.baselines.parallel.exhaustive import known, runs
from hetgym.baselines.parallel.options import Options, options
from hetgym.errors import ProblemError
from hetgym.parallel import Cluster, Group, ParallelPlan, Setting, TrainingProblem, uniform
from hetgym.search.search import searching


def uniform_grid(problem: TrainingProblem) -> ParallelPlan:
    """The best grid of equal tensor, data and pipeline degrees with equal numbers of layers, on a single pool.

    All grids are simulated, as Megatron's users do (Narayanan et al., SC 2021, section 3).
    """
    best, least = None, np.inf
    layers = problem.costs.layers
    with searching() as stopped:
        for setting in problem.settings():
            data, batch, chunks = setting.data, setting.micro_batch, setting.chunks
            samples = problem.samples(data, batch)
            for kind in problem.under(setting).kinds(batch):
                most = problem.cluster[kind.pool].gpus // (kind.tensor * data)
                for stages in range(1, min(most, layers // chunks, problem.stages) + 1):
                    if stopped() or not runs(setting, stages, samples):
                        continue
                    plan = uniform(layers, stages, [kind] * data, batch, samples, *setting.order)
                    plan = replace(plan, zero=setting.zero, sequence=setting.sequence)
                    value = problem.value(plan, least)
                    if value < least:
                        best, least = plan, value
        return known(best, problem, stopped())


def pipedream(problem: TrainingProblem) -> ParallelPlan:
    """The shortest longest stage without tensor parallelism, on a single pool (Narayanan et al., SOSP 2019)."""
    return _least(problem, [replace(alone, tensors=(1,)) for alone in _single_pools(problem)], whole=False)


def alpa(problem: TrainingProblem) -> ParallelPlan:
    """The least sum of stages plus M - 1 times the longest, tensor degrees by stage, on a single pool.

    Source: Zheng et al., "Alpa", OSDI 2022, section 5. A stage's tensor degree stands for its intra-operator plan.
    """
    return _least(problem, _single_pools(problem))


def harp(problem: TrainingProblem) -> ParallelPlan:
    """The same estimate over all pools at once: every stage has its own kind of GPUs and tensor degree.

    After planners of heterogeneous 1F1B pipelines such as HARP, whose replicas of a stage are equal.
    """
    return _least(problem, [problem])


def sailor(problem: TrainingProblem) -> ParallelPlan:
    """Equal cuts; each replica of a stage on the GPUs that are left, with the least tensor degree that fits.

    The search space of Strati et al., "Sailor", SOSP 2025, section 4: tensor degrees are fixed by memory for each kind
    of GPU, replicas of a stage may be of different kinds, and layers are spread evenly.
    """
    best, least = None, np.inf
    with searching() as stopped:
        for setting in _plain(problem):
            found = options(problem, setting)
            if found is None or stopped():
                continue
            for stages in range(1, min(problem.costs.layers, problem.stages, problem.cluster.gpus // setting.data) + 1):
                for plan in _filled(problem, found, stages):
                    value = problem.value(plan, least)
                    if value < least:
                        best, least = plan, value
        return known(best, problem, stopped())


def _filled(problem: TrainingProblem, found: Options, stages: int) -> Iterator[ParallelPlan]:
    """Plans of equal cuts whose replicas take pools one after the other, in either order, at each set of degrees."""
    shape = uniform(
        problem.costs.layers,
        stages,
        [found.kinds[0]] * found.data,
        found.setting.micro_batch,
        problem.samples(found.data, found.setting.micro_batch),
        found.setting.schedule,
    )
    by_pool: dict[str, list[Group]] = {}
    for kind in found.kinds:
        by_pool.setdefault(kind.pool, []).append(kind)
    for names in (list(by_pool), list(by_pool)[::-1]):
        for level in range(max(len(kinds) for kinds in by_pool.values())):
            left = {pool.name: pool.gpus for pool in problem.cluster.pools}
            made = []
            for stage in shape.stages:
                groups: list[Group] = []
                for name in names:
                    kind = by_pool[name][min(level, len(by_pool[name]) - 1)]
                    while len(groups) < found.data and left[name] >= kind.tensor:
                        groups.append(kind)
                        left[name] -= kind.tensor
                made.append(replace(stage, groups=tuple(groups)) if len(groups) == found.data else None)
            if all(made):
                yield found.plan_of_stages(tuple(stage for stage in made if stage))


def _plain(problem: TrainingProblem) -> list[Setting]:
    """The settings with one chunk a stage; ProblemError if there are none."""
    found = [setting for setting in problem.settings() if setting.chunks == 1]
    if not found:
        raise ProblemError("training problem: this planner cuts one chunk a stage; take 'uniform-grid' or 'search'")
    return found


def _single_pools(problem: TrainingProblem) -> list[TrainingProblem]:
    """The problem on each pool alone."""
    return [replace(problem, cluster=Cluster(problem.cluster.name, (pool,))) for pool in problem.cluster.pools]


def _least(problem: TrainingProblem, parts: list[TrainingProblem], whole: bool = True) -> ParallelPlan:
    """The plan with the least estimate among all data degrees and micro-batches of the parts."""
    best, least = None, np.inf
    with searching() as stopped:
        for part in parts:
            for setting in _plain(part):
                found = options(part, setting, mixed=False)
                if found is None or stopped():
                    continue
                for estimate, plan in cuts(part, found, whole, least if whole else np.inf):
                    total = estimate if whole else found.turns * estimate
                    if total < least and problem.value(plan) < np.inf:
                        best, least = plan, total
        return known(best, problem, stopped(), lambda: any(map(_partial, parts)))


def _partial(problem: TrainingProblem) -> bool:
    """True if dynamic programming leaves out plans of some setting."""
    every = (options(problem, setting, mixed=False) for setting in _plain(problem))
    return any(coarse(problem, found) for found in every if found is not None)
