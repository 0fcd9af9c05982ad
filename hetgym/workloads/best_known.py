"""Best-known values: the shortest known makespans of frozen problems, and lower bounds on all makespans.

A suite names a table (``best_known: file.json``). The schedules behind it, see
:mod:`hetgym.bench.best_schedules`, lie beside it, so that every claim can be checked without searching.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hetgym._input.config import read
from hetgym._input.files import as_path, read_text
from hetgym._input.json import parse
from hetgym.errors import ConfigError

LIMIT_BYTES = 16 << 20  # Longest table that is accepted [byte]; it suffices for some thirty thousand problems
PROVED = 1e-6  # A makespan within this relative distance of the bound counts as optimal: exact solvers round times


@dataclass(frozen=True)
class Best:
    """The shortest schedule that is known under one runtime."""

    makespan_s: float  # its makespan [s]
    scheduler: str  # name of the scheduler that found it; "… on walks": a search that hetgym no longer has
    options: Mapping[str, Any] = field(default_factory=dict)  # options of the scheduler
    # lower bound on the makespan of any schedule under this runtime [s]; 0 if none is larger than that for all runtimes
    bound_s: float = 0.0
    bound_by: str = ""  # name of the method that proved it


@dataclass(frozen=True)
class BestKnown:
    """Bound and best makespans of one problem."""

    digest: str  # digest of the problem, see digest
    bound_s: float  # lower bound on the makespan of any schedule under any of the runtimes [s]
    bound_by: str  # name of the method that proved the bound
    best: Mapping[str, Best]  # runtime -> the shortest known schedule under it

    def bound(self, runtime: str) -> float:
        """Lower bound on the makespan of any schedule under one of the runtimes [s]."""
        return max(self.bound_s, self.best[runtime].bound_s)

    def optimal(self, runtime: str) -> bool:
        """True if the best known makespan is proved to be the shortest, up to :data:`PROVED`."""
        return self.best[runtime].makespan_s <= self.bound(runtime) * (1 + PROVED)


@dataclass(frozen=True)
class Table:
    """A file of best-known values."""

    format: str  # `"hetgym-best-known"`
    version: int  # version of the format
    problems: Mapping[str, BestKnown]  # name of a problem -> its best-known values

    def __post_init__(self) -> None:
        if self.format != "hetgym-best-known" or self.version != 1:
            raise ConfigError("not a table of best-known values of format version 1")


def load_best_known(path: str | Path) -> Mapping[str, BestKnown]:
    """Name of a problem -> its best-known values, from a table; ConfigError if the file holds no such table."""
    text = read_text(as_path(path, "a table of best-known values", ConfigError), LIMIT_BYTES, ConfigError)
    return read(Table, parse(text, str(path), ConfigError), str(path)).problems
