"""The summary: one line per scheduler and runtime, over all problems of a run."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from hetgym._groups import gathered
from hetgym.bench.rows import Finding, Row
from hetgym.metrics import arithmetic_mean, geometric_mean

TIE = 1e-9  # Relative difference below which two makespans count as equal


@dataclass(frozen=True)
class Line(Finding):
    """Results of one scheduler under one runtime; means are None if nothing succeeded."""

    # runtime, scheduler, kind: names
    runtime: str
    scheduler: str
    kind: str
    problems: int  # number of problems that were scheduled
    failed: int  # number of problems on which the scheduler failed
    slr: float | None  # arithmetic mean of the schedule length ratios
    speedup: float | None  # geometric mean of the speed-ups over the best single device
    # arithmetic mean of the excess over the best makespan of the run, or over the best known one where that is shorter
    gap_to_best: float | None
    gap_to_bound: float | None  # arithmetic mean of the excess over the lower bound
    wins: int  # problems on which no scheduler of the run is better, and nothing better is known; ties count for all
    schedule_seconds: float | None  # median wall time of a schedule [s]


def summarise(rows: Iterable[Row]) -> list[Line]:
    """One line for each runtime and scheduler, the smallest mean gap first.

    Problems that were not finished (their rows have no gap) are left out as long as any was finished, so that all
    schedulers are compared on the same problems.
    """
    whole = finished(rows)
    groups = gathered(((row.runtime, row.scheduler), row) for row in whole)
    runtimes = list(dict.fromkeys(row.runtime for row in whole))
    lines = [_line(group) for group in groups.values()]
    return sorted(lines, key=lambda line: (runtimes.index(line.runtime), *_rank(line)))


def finished(rows: Iterable[Row]) -> list[Row]:
    """Rows of the problems that all schedulers have done; all rows if there is no such problem."""
    everything = list(rows)
    partial = {row.problem for row in everything if row.ok and row.gap_to_best is None}
    return [row for row in everything if row.problem not in partial] or everything


def records(rows: Iterable[Row]) -> list[Row]:
    """The rows that beat the best known makespan: the shortest of each problem and runtime, in their order."""
    best: dict[tuple[str, str], Row] = {}
    for row in rows:
        if row.makespan_s is not None and row.best_known_s is not None:
            before = best.get((row.problem, row.runtime))
            if before is None or before.makespan_s is None or row.makespan_s < before.makespan_s:
                best[row.problem, row.runtime] = row
    return [row for row in best.values() if (row.makespan_s or 0.0) < (row.best_known_s or 0.0) * (1 - TIE)]


def by_platform(rows: Iterable[Row]) -> dict[str, list[Line]]:
    """The same summary for the problems of each platform, in order of appearance."""
    groups = gathered((row.platform or "-", row) for row in rows)
    return {platform: summarise(group) for platform, group in groups.items()}


def _rank(line: Line) -> tuple[float, float, str]:
    return (
        math.inf if line.gap_to_best is None else line.gap_to_best,
        math.inf if line.slr is None else line.slr,
        line.scheduler,
    )


def _line(rows: Sequence[Row]) -> Line:
    good = [row for row in rows if row.ok]

    def over(mean: Callable[[Iterable[float]], float], column: str) -> float | None:
        values = [value for row in good if (value := getattr(row, column)) is not None]
        return mean(values) if values else None

    return Line(
        runtime=rows[0].runtime,
        scheduler=rows[0].scheduler,
        kind=rows[0].kind,
        problems=len(good),
        failed=len(rows) - len(good),
        slr=over(arithmetic_mean, "slr"),
        speedup=over(geometric_mean, "speedup"),
        gap_to_best=over(arithmetic_mean, "gap_to_best"),
        gap_to_bound=over(arithmetic_mean, "gap_to_bound"),
        wins=sum(row.gap_to_best is not None and row.gap_to_best <= TIE for row in good),
        schedule_seconds=over(median, "schedule_seconds"),
    )
