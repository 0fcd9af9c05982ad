"""Best-known values: the shortest known makespans of frozen problems, and lower bounds on all makespans.

A suite names a table (``best_known: file.json``). The schedules behind it, see
:mod:`hetgym.bench.best_schedules`, lie beside it, so that every claim can be checked without searching.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hetgym._input.config import read
from hetgym._input.files import as_path, read_text
from hetgym._input.json import parse
from hetgym.errors import ConfigError

LIMIT_BYTES = 16 << 20
"""Longest table that is accepted [byte]; it suffices for some thirty thousand problems."""

PROVED = 1e-6
"""A makespan within this relative distance of the bound counts as optimal: exact solvers round times."""


@dataclass(frozen=True)
class Best:
    """The shortest schedule that is known under one runtime.

    Attributes:
        makespan_s: its makespan [s].
        scheduler: registered name of the scheduler that found it.
        options: options of the scheduler.
        bound_s: lower bound on the makespan of any schedule under this runtime [s]; 0 if none is larger than that for
            all runtimes.
        bound_by: name of the method that proved it.
    """

    makespan_s: float
    scheduler: str
    options: Mapping[str, Any] = field(default_factory=dict)
    bound_s: float = 0.0
    bound_by: str = ""


@dataclass(frozen=True)
class BestKnown:
    """Bound and best makespans of one problem.

    Attributes:
        digest: digest of the problem, see :attr:`hetgym.Problem.digest`.
        bound_s: lower bound on the makespan of any schedule under any of the runtimes [s].
        bound_by: name of the method that proved the bound.
        best: runtime -> the shortest known schedule under it.
    """

    digest: str
    bound_s: float
    bound_by: str
    best: Mapping[str, Best]

    def bound(self, runtime: str) -> float:
        """Lower bound on the makespan of any schedule under one of the runtimes [s]."""
        return max(self.bound_s, self.best[runtime].bound_s)

    def optimal(self, runtime: str) -> bool:
        """True if the best known makespan is proved to be the shortest, up to :data:`PROVED`."""
        return self.best[runtime].makespan_s <= self.bound(runtime) * (1 + PROVED)


@dataclass(frozen=True)
class Table:
    """A file of best-known values.

    Attributes:
        format: ``"hetgym-best-known"``.
        version: version of the format.
        problems: name of a problem -> its best-known values.
    """

    format: str
    version: int
    problems: Mapping[str, BestKnown]

    def __post_init__(self) -> None:
        if self.format != "hetgym-best-known" or self.version != 1:
            raise ConfigError("not a table of best-known values of format version 1")


def load_best_known(path: str | Path) -> Mapping[str, BestKnown]:
    """Read a table of best-known values.

    Returns:
        Name of a problem -> its best-known values.

    Raises:
        ConfigError: the file is missing or is not such a table.
    """
    text = read_text(as_path(path, "a table of best-known values", ConfigError), LIMIT_BYTES, ConfigError)
    return read(Table, parse(text, str(path), ConfigError), str(path)).problems
