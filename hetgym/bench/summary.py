"""The summary: one line a scheduler and runtime, over all problems of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from hetgym.bench.rows import Row
from hetgym.metrics import arithmetic_mean, geometric_mean

if TYPE_CHECKING:
    from rich.table import Table

TIE = 1e-9
"""Relative difference below which two makespans count as equal."""


@dataclass(frozen=True)
class Line:
    """What one scheduler achieved under one runtime; means are None if nothing succeeded.

    Attributes:
        runtime, scheduler, kind: names.
        problems: how many were scheduled.
        failed: how many were not.
        slr: arithmetic mean of the schedule length ratios.
        speedup: geometric mean of the speed-ups over the best single device.
        gap_to_best: arithmetic mean of the excess over the best makespan of the run, or over the best
            known one where that is shorter.
        gap_to_bound: arithmetic mean of the excess over the lower bound.
        wins: problems on which no scheduler of the run is better, and nothing better is known; ties
            count for all.
        schedule_seconds: median wall time of a schedule [s].
    """

    runtime: str
    scheduler: str
    kind: str
    problems: int
    failed: int
    slr: float | None
    speedup: float | None
    gap_to_best: float | None
    gap_to_bound: float | None
    wins: int
    schedule_seconds: float | None

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready mapping."""
        return asdict(self)


def summarise(rows: Iterable[Row]) -> list[Line]:
    """One line for each runtime and scheduler, the smallest mean gap first.

    Problems that were not finished (their rows have no gap) are left out as long as any was
    finished, so that all schedulers are compared on the same problems.

    Args:
        rows: of a whole run, or of a part of it.
    """
    whole = finished(rows)
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in whole:
        groups.setdefault((row.runtime, row.scheduler), []).append(row)
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
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.platform or "-", []).append(row)
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


def rich_table(lines: Sequence[Line], runtime: str) -> Table:
    """The lines of one runtime as a table for a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD)
    table.add_column("scheduler", no_wrap=True)
    table.add_column("kind")
    for heading in ("gap to best", "gap to bound", "SLR", "speed-up", "wins", "time to schedule"):
        table.add_column(heading, justify="right")
    chosen = [line for line in lines if line.runtime == runtime]
    for place, line in enumerate(chosen):
        cells = [
            percent(line.gap_to_best), percent(line.gap_to_bound), number(line.slr, "{:.3f}"),
            number(line.speedup, "{:.2f}×"), f"{line.wins}/{line.problems}", duration(line.schedule_seconds),
        ]  # fmt: skip
        name = Text(line.scheduler, style="bold" if place == 0 else "")
        if line.failed:
            name.append(f" ({line.failed} failed)", style="red")
        table.add_row(name, line.kind, *cells)
    return table


def finite(value: Any) -> Any:
    """The value with infinities and NaN, which JSON does not have, as None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value


def percent(value: float | None) -> str:
    """A gap as a percentage.

    >>> percent(0.0314), percent(12.5), percent(None)
    ('3.14 %', '1250 %', '–')
    """
    if value is None:
        return "–"
    value *= 100
    return f"{value:.2f} %" if abs(value) < 99.995 else f"{value:.0f} %"


def number(value: float | None, form: str) -> str:
    """A number in a format, or a dash."""
    return "–" if value is None else form.format(value)


def duration(seconds: float | None) -> str:
    """A time in the unit that suits it.

    >>> duration(0.00042), duration(0.0), duration(None)
    ('420 µs', '0 s', '–')
    """
    if seconds is None:
        return "–"
    from hetgym.sim.gantt import time_unit

    scale, unit = time_unit(seconds)
    return f"{seconds / scale:.3g} {unit}"


def minutes(seconds: float) -> str:
    """A longer time, as people say it.

    >>> minutes(801.0), minutes(7390.0), minutes(12.3)
    ('13 min 21 s', '2 h 3 min', '12.3 s')
    """
    if seconds < 60:
        return duration(seconds)
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    whole = round(seconds / 60)
    return f"{whole // 60} h" + (f" {whole % 60} min" if whole % 60 else "")


def size(amount: float) -> str:
    """Bytes in the unit that suits them.

    >>> size(102_228_128), size(12)
    ('102 MB', '12 B')
    """
    for scale, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if amount >= scale:
            return f"{amount / scale:.3g} {unit}"
    return f"{amount:.3g} B"
