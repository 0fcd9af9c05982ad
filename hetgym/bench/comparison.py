"""Every scheduler of a run against one of them, problem by problem."""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hetgym.bench.rows import Row
from hetgym.bench.significance import Comparison, compare_all
from hetgym.bench.summary import finished
from hetgym.errors import HetgymError, unknown_name
from hetgym.planning import get

REFERENCE = "heft"  # The default reference of comparisons, if it is in the run
SEED = 0  # Seed of the bootstrap: the same rows give the same intervals


@dataclass(frozen=True)
class Against:
    """One scheduler against the reference under one runtime."""

    # runtime, scheduler, reference: names
    runtime: str
    scheduler: str
    reference: str
    comparison: Comparison | None  # the comparison; None if they have no problem in common

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready mapping."""
        return {"runtime": self.runtime, "scheduler": self.scheduler, **(asdict(self.comparison or _NOTHING))}


_NOTHING = Comparison(0, math.nan, None, None, 0, 0, 0, None)


def pick_reference(asked: str, schedulers: Sequence[str]) -> str:
    """The scheduler that all are compared with, empty if the run lacks the default; UnknownName if it lacks another."""
    if asked and asked not in schedulers:
        with suppress(HetgymError):
            asked = get(asked).name  # of an alias
    if asked and asked not in schedulers:
        raise unknown_name("reference: not among the schedulers of this run:", asked, schedulers)
    return asked or (REFERENCE if REFERENCE in schedulers else "")


def against(rows: Iterable[Row], reference: str) -> list[Against]:
    """For each runtime its schedulers in the order of their rows, compared with the reference, which is left out.

    Problems that were not finished are left out.
    """
    tables: dict[str, dict[str, dict[str, float]]] = {}
    for row in finished(rows):
        tables.setdefault(row.runtime, {}).setdefault(row.scheduler, {})
        if row.makespan_s is not None:
            tables[row.runtime][row.scheduler][row.problem] = row.makespan_s
    return [
        Against(runtime, scheduler, reference, found)
        for runtime, table in tables.items()
        for scheduler, found in compare_table(table, reference).items()
        if scheduler != reference
    ]


def compare_table(makespans: Mapping[str, Mapping[str, float]], reference: str) -> dict[str, Comparison | None]:
    """Compare schedulers by their makespans on each problem, where both it and the reference have done some.

    None for those that have no problem in common with the reference.
    """
    base = makespans.get(reference, {})
    common: dict[tuple[str, ...], list[str]] = {}
    for scheduler, column in makespans.items():
        usable = tuple(name for name, value in column.items() if _comparable(value, base.get(name)))
        common.setdefault(usable, []).append(scheduler)
    found: dict[str, Comparison | None] = dict.fromkeys(makespans)
    for problems, schedulers in common.items():
        if problems:
            ours = [[makespans[scheduler][name] for name in problems] for scheduler in schedulers]
            theirs = [base[name] for name in problems]
            results = compare_all(ours, theirs, np.random.default_rng(SEED))
            found.update(zip(schedulers, results, strict=True))
    return found


def _comparable(ours: float, theirs: float | None) -> bool:
    return theirs is not None and 0 < ours < math.inf and 0 < theirs < math.inf
