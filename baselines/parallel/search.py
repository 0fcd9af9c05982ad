"""The shipped planner of training steps: cuts by dynamic programming, improved under the simulated step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from math import inf

import numpy as np

from hetgym.baselines.parallel.cutting import cuts
from hetgym.baselines.parallel.exhaustive import known
from hetgym.baselines.parallel.options import FEW, Options, options
from hetgym.baselines.parallel.published import sailor, uniform_grid
from hetgym.errors import ProblemError
from hetgym.parallel import ParallelPlan, Stage, TrainingProblem

STARTS = 2
"""Cuts of a data degree and a micro-batch that are simulated."""

KEPT = 4
"""Plans that are improved."""

TRIES = 4000
"""Most plans that are simulated in all."""


def search(problem: TrainingProblem, tries: int = TRIES) -> ParallelPlan:
    """The best plan that is found.

    The best equal cuts and, for each data degree and micro-batch, the cuts of least estimate are simulated. The best of
    them are improved: boundaries move, stages take other groups or mixtures of them, swap, merge and split, as long as
    the simulated step gets shorter. The same problem gives the same plan.

    Args:
        problem: the problem.
        tries: most plans that are simulated while plans are improved.

    Raises:
        ProblemError: no plan fits in memory.
    """
    found = sorted(_starts(problem).items(), key=lambda item: item[1])[:KEPT]
    best, least, seen = None, inf, set[ParallelPlan]()
    for start, value in found:
        plan, now = start, value
        choices = options(problem, plan.replicas, plan.micro_batch)
        assert choices is not None
        better = True
        while better:
            better = False
            for other in neighbours(problem, choices, plan):
                if other in seen or len(seen) >= tries:
                    continue
                seen.add(other)
                value = problem.value(other, now)
                if value < now:
                    plan, now, better = other, value, True
                    break
        if now < least:
            best, least = plan, now
    return known(best)


def _starts(problem: TrainingProblem) -> dict[ParallelPlan, float]:
    """Plans to improve, with their values [s]."""
    found: dict[ParallelPlan, float] = {}
    for planner in (uniform_grid, sailor):
        with suppress(ProblemError):
            plan = planner(problem)
            found[plan] = problem.value(plan)
    for bound, data, batch in sorted(_load_bounds(problem)):
        least = min(found.values(), default=inf)
        if bound >= least:
            break
        choices = options(problem, data, batch, mixed=data <= FEW and len(problem.cluster.pools) > 1)
        if choices is not None:
            plans = [(estimate, k, plan) for k, (estimate, plan) in enumerate(cuts(problem, choices, most=least))]
            for _, _, plan in sorted(plans)[:STARTS]:
                found[plan] = problem.value(plan)
    return {plan: value for plan, value in found.items() if value < inf}


def _load_bounds(problem: TrainingProblem) -> Iterator[tuple[float, int, int]]:
    """Data degrees and micro-batches, each after a bound: all work on the groups that do it with fewest GPU-seconds."""
    for data, batch in problem.degrees():
        kinds = problem.kinds(batch)
        if kinds:
            work = np.min([kind.tensor * np.diff(problem.slots(kind, batch)) for kind in kinds], axis=0).sum()
            yield float(problem.global_batch // batch * work / problem.cluster.gpus), data, batch


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
