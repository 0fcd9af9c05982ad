"""Rows: the result of one scheduler on one problem under one runtime, and the file of all rows."""

import contextlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from hetgym import metrics
from hetgym._text import csv_text
from hetgym.errors import HetgymWarning
from hetgym.workloads.best_known import PROVED


@dataclass(frozen=True)
class Finding:
    """Base of results that are plain mappings in JSON."""

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready mapping."""
        return asdict(self)


@dataclass(frozen=True)
class Row(Finding):
    """One line of ``rows.csv``; numbers are None where the scheduler failed."""

    # problem, graph, platform: names
    problem: str
    graph: str
    platform: str
    # n, edges, devices: sizes of the problem
    n: int
    edges: int
    devices: int
    # scheduler, kind: name and kind of the scheduler
    scheduler: str
    kind: str
    runtime: str  # name of the runtime of the simulation
    makespan_s: float | None = None  # simulated makespan [s]
    slr: float | None = None  # schedule length ratio, see schedule_length_ratio
    speedup: float | None = None  # over the best single device under the same runtime
    efficiency: float | None = None  # speed-up over the number of devices
    # excess over the best makespan of the run, or over the best known one if that is shorter; None until the problem is
    # complete
    gap_to_best: float | None = None
    gap_to_bound: float | None = None  # excess over the lower bound
    best_known_s: float | None = None  # the best known makespan, None if the problem's suite does not say [s]
    lower_bound_s: float | None = None  # proved lower bound on every schedule's makespan [s]
    schedule_seconds: float | None = None  # wall time that the scheduler took, kernels warm [s]
    utilisation: float | None = None  # share of the makespan in which a device runs an operator, mean over devices
    energy_j: float | None = None  # energy of all devices, None if the problem states no power [J]
    cost: float | None = None  # rent of the devices, None if the problem states no prices [currency]
    status: str = "ok"  # `"ok"`, or the sentence that says what went wrong

    @property
    def ok(self) -> bool:
        """True if the scheduler gave a legal schedule."""
        return self.status == "ok"


COLUMNS = tuple(field.name for field in fields(Row))  # Header of `rows.csv`


@dataclass(frozen=True)
class Measured(Finding):
    """Result of one scheduler on one problem under one runtime, within a budget or without."""

    # problem, scheduler, kind, runtime: names
    problem: str
    scheduler: str
    kind: str
    runtime: str
    budget_s: float | None  # the budget [s]; None for schedulers that take none
    seconds: float | None = None  # the measured time [s]; None if it failed
    makespan_s: float | None = None  # simulated makespan [s]; None if it failed
    best_known_s: float | None = None  # the best known makespan, None if the problem's suite does not say [s]
    # excess over the shortest makespan that is known or was measured; None until all is measured
    gap: float | None = None
    status: str = "ok"  # `"ok"`, or the sentence that says what went wrong


def shortest(
    rows: Iterable[Row | Measured], before: Mapping[tuple[str, str], float] | None = None
) -> dict[tuple[str, str], float]:
    """(problem, runtime) -> the shortest makespan that is in the rows, known to them, or known ``before`` [s]."""
    least = dict(before or {})
    for row in rows:
        key = row.problem, row.runtime
        for makespan in (row.makespan_s, row.best_known_s):
            if makespan is not None:
                least[key] = min(least.get(key, makespan), makespan)
    return least


def with_gaps(rows: Sequence[Row]) -> list[Row]:
    """Fill in the gaps of each problem and runtime, once all rows are known.

    The best makespan is the shortest of these rows, or the best known before if that is shorter. The bound is
    the largest among them, so a bound that one scheduler has proved holds for all; a bound above the best
    makespan is false and is ignored.

    Warns:
        HetgymWarning: a bound is false.
    """
    best = shortest(rows)
    bounds = _largest_bounds(rows, best)
    return [_with_gaps(row, best, bounds) for row in rows]


def _with_gaps(row: Row, best: Mapping[tuple[str, str], float], bounds: Mapping[tuple[str, str], float]) -> Row:
    key, makespan = (row.problem, row.runtime), row.makespan_s
    if makespan is None:
        return row
    row = replace(row, gap_to_best=metrics.gap(makespan, best[key]))
    if row.lower_bound_s is None:
        return row
    bound = bounds.get(key, 0.0)
    return replace(row, lower_bound_s=bound, gap_to_bound=metrics.gap(makespan, bound))


def _largest_bounds(rows: Iterable[Row], best: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """(problem, runtime) -> the largest lower bound of the rows that is not above the best makespan [s]."""
    largest: dict[tuple[str, str], float] = {}
    for row in rows:
        bound, key = row.lower_bound_s, (row.problem, row.runtime)
        if bound is not None and bound <= best[key] * (1 + PROVED):
            largest[key] = max(largest.get(key, bound), bound)
        elif bound is not None:
            warnings.warn(
                f"{row.scheduler!r} claims that {row.problem!r} takes at least {bound:g} s under {row.runtime!r}, but "
                f"there is a schedule of {best[key]:g} s; its bound is ignored",
                HetgymWarning,
                stacklevel=2,
            )
    return largest


class RowsFile:
    """``rows.csv``, complete on disk after every call, so that a killed run keeps what was finished.

    The rows of the current problem are written again when its gaps are known; nothing else is ever touched.
    When the disk is full, the file is left as it was before the call that failed.

    Args:
        path: path of the file.

    Raises:
        OSError: the file cannot be written; of all methods, too.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb", buffering=0)
        self._start = 0  # of the current problem's rows
        self._rows = b""
        self._replace(_csv([COLUMNS]))
        self._next_problem()

    def add(self, rows: Sequence[Row]) -> None:
        """Append rows of the current problem."""
        self._replace(self._rows + _csv(_values(rows)), keep=len(self._rows))

    def complete(self, rows: Sequence[Row]) -> None:
        """Replace all rows of the current problem and move on to the next one."""
        self._replace(_csv(_values(rows)))
        self._next_problem()

    def _replace(self, text: bytes, keep: int = 0) -> None:
        """Write the current problem's rows; their first ``keep`` bytes are in the file already."""
        try:
            self._write(text, keep)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._write(self._rows, 0)  # into the space that they had
            error.filename = str(self._path)
            raise
        self._rows = text

    def _write(self, text: bytes, keep: int) -> None:
        self._file.seek(self._start + keep)
        rest = memoryview(text)[keep:]
        while rest:
            rest = rest[self._file.write(rest) :]
        self._file.truncate(self._start + len(text))

    def _next_problem(self) -> None:
        self._start, self._rows = self._start + len(self._rows), b""

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __del__(self) -> None:
        """Close the file of a run that an error ended; nothing is buffered."""
        if hasattr(self, "_file"):
            self._file.close()


def _values(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    return [tuple(row.to_dict().values()) for row in rows]


def _csv(table: Sequence[Sequence[Any]]) -> bytes:
    return csv_text(table).encode()
