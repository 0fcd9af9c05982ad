"""The shipped planner of training steps: cuts by dynamic programming, improved under the simulated step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np

from hetgym.baselines.parallel.cutting import cuts
from hetgym.baselines.parallel.exhaustive import known
from hetgym.baselines.parallel.options import Options, options
from hetgym.baselines.parallel.published import sailor, uniform_grid
from hetgym.errors import ProblemError
from hetgym.parallel import ParallelPlan, Stage, TrainingProblem

STARTS = 2
"""Cuts of a data degree and a micro-batch that are simulated."""

KEPT = 4
"""Plans that are improved."""

TRIES = 4000
"""Most plans that are simulated in all."""


def starts(problem: TrainingProblem) -> Iterator[ParallelPlan]:
    """The best equal cuts, and of each data degree and micro-batch the cuts with the least estimates."""
    for planner in (uniform_grid, sailor):
        with suppress(ProblemError):
            yield planner(problem)
    for data, batch in problem.degrees():
        kinds = options(problem, data, batch, mixed=False)
        if kinds is not None:
            found = [(estimate, k, plan) for k, (estimate, plan) in enumerate(cuts(problem, kinds))]
            yield from (plan for _, _, plan in sorted(found)[:STARTS])


def search(problem: TrainingProblem, tries: int = TRIES) -> ParallelPlan:
    """The best plan that is found.

    Cuts by dynamic programming, which know neither transfers nor all-reduces, are simulated, and the best are improved:
    boundaries move, stages take other groups or mixtures of them, swap, merge and split, as long as the simulated step
    gets shorter. The same problem gives the same plan.

    Args:
        problem: the problem.
        tries: most plans that are simulated.

    Raises:
        ProblemError: no plan fits in memory.
    """
    values: dict[ParallelPlan, float] = {}

    def value(plan: ParallelPlan) -> float:
        if plan not in values:
            values[plan] = problem.value(plan) if len(values) < tries else np.inf
        return values[plan]

    best: ParallelPlan | None = None
    for plan in sorted(starts(problem), key=value)[:KEPT]:
        found = options(problem, plan.replicas, plan.micro_batch)
        assert found is not None
        better: ParallelPlan | None = plan
        while better is not None:
            plan, better = better, None
            for other in neighbours(problem, found, plan):
                if value(other) < value(plan):
                    better = other
                    break
        if best is None or value(plan) < value(best):
            best = plan
    return known(best if best is not None and value(best) < np.inf else None)


def neighbours(problem: TrainingProblem, found: Options, plan: ParallelPlan) -> Iterator[ParallelPlan]:
    """Plans that differ in one boundary, one stage's groups, two neighbouring stages, or one more or one less stage."""
    stages, choices = plan.stages, [found.groups(k) for k in range(len(found.used))]
    gpus = {pool.name: pool.gpus for pool in problem.cluster.pools}

    def made(parts: list[Stage]) -> Iterator[ParallelPlan]:
        other = replace(plan, stages=tuple(parts))
        if len(parts) <= problem.stages and all(used <= gpus[name] for name, used in other.used().items()):
            yield other

    for s in range(len(stages) - 1):
        a, b = stages[s], stages[s + 1]
        for shift in (1, -1, 2, -2):
            if a.first <= a.last + shift < b.last:
                both = [replace(a, last=a.last + shift), replace(b, first=b.first + shift)]
                yield from made([*stages[:s], *both, *stages[s + 2 :]])
        if a.groups != b.groups:
            both = [replace(a, groups=b.groups), replace(b, groups=a.groups)]
            yield from made([*stages[:s], *both, *stages[s + 2 :]])
        for groups in (a.groups, b.groups):
            yield from made([*stages[:s], Stage(a.first, b.last, groups), *stages[s + 2 :]])
    for s, stage in enumerate(stages):
        for groups in choices:
            if groups != stage.groups:
                yield from made([*stages[:s], replace(stage, groups=groups), *stages[s + 1 :]])
        middle = (stage.first + stage.last) // 2
        if middle < stage.last:
            for groups in choices:
                both = [replace(stage, last=middle), Stage(middle + 1, stage.last, groups)]
                yield from made([*stages[:s], *both, *stages[s + 1 :]])
                both = [Stage(stage.first, middle, groups), replace(stage, first=middle + 1)]
                yield from made([*stages[:s], *both, *stages[s + 1 :]])
