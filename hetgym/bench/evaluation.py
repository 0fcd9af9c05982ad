"""Evaluation of a run beyond its summary: comparisons with a reference, groups of problems, quality against time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetgym.bench.budgets import BUDGETS, TIME_LIMIT, Plan, fitting
from hetgym.bench.comparison import SEED, Against, against, pick_reference
from hetgym.bench.fronts import Choice, Point, choices, front, ladder, points
from hetgym.bench.groups import COLUMNS, GroupLine, Traits, grouped
from hetgym.bench.loop import Tell
from hetgym.bench.pareto import Measurement, measure, takes, with_gaps
from hetgym.bench.ranks import EXTRA, Ranking, rankings
from hetgym.bench.rows import Row, shortest
from hetgym.errors import require
from hetgym.planning import Baseline
from hetgym.workloads import ProblemSpec


@dataclass(frozen=True)
class Evaluation:
    """A request for results beyond the summary."""

    reference: str = ""  # scheduler that all are compared with; by default HEFT, if it is in the run
    # columns by which results are grouped in the terminal; files and report hold every column that differs between
    # problems
    by: tuple[str, ...] = ()
    pareto: bool = False  # True to measure quality against time
    budgets: tuple[float, ...] = BUDGETS  # budgets of searches for that, in rising order [s]
    time_limit: float = TIME_LIMIT  # upper limit on the total time of these searches [s]
    plots: bool = False  # True to rank the schedulers and to write the figures and tables of a paper

    def check(self) -> None:
        """Refuse (MissingExtra) figures, before anything runs, if matplotlib or SciPy is not installed."""
        if self.plots:
            for module in ("matplotlib", "scipy"):
                require(module, EXTRA, "--plots")

    def plan(self, schedulers: Sequence[Baseline], problems: int) -> Plan:
        """The budgets that are measured, with a bound on the time; ConfigError if not even the shortest fits."""
        timed = [scheduler for scheduler in schedulers if takes(scheduler, "seconds")]
        exact = sum(scheduler.kind == "exact" for scheduler in timed)
        return fitting(self.budgets, self.time_limit, len(timed) - exact, problems, exact)


@dataclass(frozen=True)
class Pareto:
    """Quality against time: a measurement, and what follows from it."""

    plan: Plan  # the budgets that were to be measured
    measurement: Measurement  # the measurement, its rows with gaps
    points: list[Point]  # points of all runtimes
    # fronts, choices: runtime -> front, and runtime -> choices
    fronts: dict[str, list[Point]]
    choices: dict[str, list[Choice]]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready mapping without the rows."""
        return {
            "budgets": self.measurement.budgets,
            "left_out": list(self.plan.left_out),
            "seconds": round(self.measurement.seconds, 3),
            "busy": round(self.measurement.busy, 3),
            "interrupted": self.measurement.interrupted,
            "failures": self.failures,
            "points": [point.to_dict() for point in self.points],
            "fronts": {name: [point.to_dict() for point in found] for name, found in self.fronts.items()},
            "choices": {name: [choice.to_dict() for choice in found] for name, found in self.choices.items()},
        }

    @property
    def failures(self) -> list[str]:
        """A line for each scheduler and problem that failed."""
        failed = [row for row in self.measurement.rows if row.status != "ok"]
        return list(dict.fromkeys(f"{row.scheduler} on {row.problem}: {row.status}" for row in failed))


@dataclass(frozen=True)
class Findings:
    """The results of an evaluation."""

    reference: str  # the scheduler with which others were compared; empty if none
    against: list[Against]  # comparisons with it
    groups: list[GroupLine]  # lines of all columns
    pareto: Pareto | None = None  # None if it was not asked for
    rankings: tuple[Ranking, ...] = ()  # mean ranks and tests of each runtime, if figures were asked for

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready entries of ``results.json``."""
        columns = dict.fromkeys(line.by for line in self.groups)
        entries: dict[str, Any] = {
            "reference": self.reference,
            "against": [line.to_dict() for line in self.against],
            "groups": {by: [line.to_dict() for line in self.groups if line.by == by] for by in columns},
        }
        if self.rankings:
            entries["rankings"] = [ranking.to_dict() for ranking in self.rankings]
        return entries | ({"pareto": self.pareto.to_dict()} if self.pareto else {})


def evaluate(asked: Evaluation, rows: Sequence[Row], traits: Traits, schedulers: Sequence[str]) -> Findings:
    """Comparisons, groups and rankings of the rows of a run; UnknownName if the reference is not in it."""
    reference = pick_reference(asked.reference, schedulers)
    telling = [by for by in COLUMNS if by in asked.by or len({COLUMNS[by](row, traits) for row in rows}) > 1]
    return Findings(
        reference,
        against(rows, reference) if reference else [],
        grouped(rows, traits, telling, reference),
        rankings=tuple(rankings(rows)) if asked.plots else (),
    )


def quality_against_time(
    asked: Evaluation,
    specs: Sequence[ProblemSpec],
    schedulers: Sequence[Baseline],
    runtimes: Sequence[str],
    rows: Sequence[Row] = (),
    progress: Tell | None = None,
) -> Pareto:
    """Measure schedulers, whose kernels should be warm; points, fronts and the best choice for each time.

    Makespans of ``rows``, a run on the same problems, count as best known when gaps are computed.
    """
    plan = asked.plan(schedulers, len(specs))
    measurement = measure(specs, schedulers, plan.budgets, runtimes, progress)
    measurement.rows = with_gaps(measurement.rows, shortest(rows))
    rng = np.random.default_rng(SEED)
    found = points(measurement.rows, rng)
    chosen = {}
    for runtime in runtimes:
        mine = [point for point in found if point.runtime == runtime]
        steps = ladder(mine, measurement.budgets)
        chosen[runtime] = _telling(choices(found, measurement.rows, runtime, steps, rng), measurement.budgets)
    return Pareto(plan, measurement, found, {name: front(found, name) for name in runtimes}, chosen)


def _telling(found: Sequence[Choice], budgets: Sequence[float]) -> list[Choice]:
    """The choices at the budgets, and those at shorter times at which the best point changes."""
    return [
        choice
        for before, choice in zip([None, *found], found, strict=False)
        if choice.within_s in budgets or before is None or before.best != choice.best
    ]
