"""The Pareto front of quality against time, and the best scheduler for each time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from hetgym._groups import gathered
from hetgym.bench.rows import Finding, Measured
from hetgym.bench.significance import mean_intervals, probability_below_zero

LATE = 1.1  # A budget is kept if exceeded by at most this factor: searches look at the clock now and then


@dataclass(frozen=True)
class Point(Finding):
    """One scheduler within one budget under one runtime, over all problems."""

    # runtime, scheduler, kind: names
    runtime: str
    scheduler: str
    kind: str
    budget_s: float | None  # the budget [s]; None for schedulers that take none
    # problems, failed: numbers of problems that were scheduled, and on which the scheduler failed
    problems: int
    failed: int
    seconds: float  # median over problems of the time that it took [s]
    slowest: float  # the longest of these times [s]
    gap: float  # mean excess over the shortest known makespans
    # low, high: 95 % bootstrap interval of the mean over problems; None for a single problem
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Choice(Finding):
    """The best scheduler within a time."""

    within_s: float  # the time [s]
    best: Point  # the point with the smallest mean gap
    second: Point | None  # the best point of the second-best scheduler; None if there is none
    # share of bootstrap samples of the problems in which the best has the smaller mean gap of the two; None without a
    # second or for a single problem
    probability: float | None


_Key = tuple[str, str, float | None]


def points(rows: Sequence[Measured], rng: np.random.Generator) -> list[Point]:
    """One point for each runtime, scheduler and budget, in the order of the rows.

    A budget that changed nothing on any problem makes no point of its own; a scheduler that always
    failed makes none.

    Args:
        rows: rows of a measurement, with gaps.
        rng: source of randomness for the bootstrap over problems.
    """
    groups = gathered(((row.runtime, row.scheduler, row.budget_s), row) for row in rows)
    seen: set[tuple[str, str, tuple[Any, ...]]] = set()
    kept: dict[_Key, list[Measured]] = {}
    for key, group in groups.items():
        good = [row for row in group if row.gap is not None and math.isfinite(row.gap)]
        mark = *key[:2], tuple((row.problem, row.seconds, row.makespan_s) for row in good)
        if good and mark not in seen:
            seen.add(mark)
            kept[key] = good
    made: dict[_Key, Point] = {}
    for size, keys in gathered((len(good), key) for key, good in kept.items()).items():
        intervals = mean_intervals([[row.gap or 0.0 for row in kept[key]] for key in keys], rng)
        for key, found in zip(keys, intervals, strict=True):
            times = [row.seconds for row in kept[key] if row.seconds is not None]
            numbers, spent = (size, len(groups[key]) - size), (median(times), max(times))
            made[key] = Point(*key[:2], kept[key][0].kind, key[2], *numbers, *spent, found.mean, found.low, found.high)
    return [made[key] for key in kept]


def front(found: Sequence[Point], runtime: str) -> list[Point]:
    """The points under a runtime that no other point beats in both time and gap, the quickest first.

    Points with failures are left out: a mean over fewer problems is not comparable.
    """
    whole = [point for point in found if point.runtime == runtime and not point.failed]
    best: list[Point] = []
    for point in sorted(whole, key=lambda point: (point.seconds, point.gap)):
        if not best or point.gap < best[-1].gap:
            best.append(point)
    return best


def choices(
    found: Sequence[Point], rows: Sequence[Measured], runtime: str, times: Sequence[float], rng: np.random.Generator
) -> list[Choice]:
    """The best scheduler within each of some times [s]; times within which none is done are left out.

    Median times up to :data:`LATE` times the limit are accepted. ``rows`` are those that the points were made from.
    """
    gaps: dict[_Key, dict[str, float]] = {}
    for row in rows:
        if row.gap is not None:
            gaps.setdefault((row.runtime, row.scheduler, row.budget_s), {})[row.problem] = row.gap
    made = []
    for limit in times:
        able = [p for p in found if p.runtime == runtime and not p.failed and p.seconds <= limit * LATE]
        able.sort(key=lambda point: (point.gap, point.seconds))
        if not able:
            continue
        second = next((point for point in able if point.scheduler != able[0].scheduler), None)
        share = None
        if second is not None and able[0].problems > 1:
            ours, theirs = (gaps[runtime, point.scheduler, point.budget_s] for point in (able[0], second))
            share = probability_below_zero([ours[name] - theirs[name] for name in ours], rng)
        made.append(Choice(limit, able[0], second, share))
    return made


def ladder(found: Sequence[Point], budgets: Sequence[float]) -> list[float]:
    """The budgets, and below them the times 1, 2 and 5 of each decade from the quickest point on [s].

    >>> ladder([], [0.01])
    [0.01]
    """
    if not found:
        return sorted(budgets)
    quickest = min(point.seconds for point in found)
    top = min(budgets) if budgets else 10 * max(point.seconds for point in found)
    steps = [
        round(digit * 10.0**power, 12)
        for power in range(math.floor(math.log10(max(quickest, 1e-9))), math.ceil(math.log10(top)) + 1)
        for digit in (1, 2, 5)
    ]
    return [step for step in steps if quickest <= step * LATE and step < top * 0.999] + sorted(budgets)
