"""Quality against time: every scheduler on every problem, searches within one budget of time after the other.

A scheduler whose function takes ``seconds`` is a curve over budgets, one that does not is a point, and
an exact solver is a point at the longest budget. What is plotted is the time that was measured, not the
budget that was given. Schedulers take turns on one core, kernels warm.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from time import perf_counter, process_time
from typing import Any

from hetgym import metrics
from hetgym.baselines import Baseline, get
from hetgym.bench.attempt import sentence
from hetgym.bench.case import share_views
from hetgym.bench.rows import shortest
from hetgym.bench.runner import Progress
from hetgym.bench.summary import duration
from hetgym.problem import Problem
from hetgym.schedule import Schedule, validate
from hetgym.sim import simulate
from hetgym.workloads import ProblemSpec

UNLIMITED = 2**62
"""Budget of work of a search that is to end by the clock."""

SPARE = 0.1
"""A search that ends by itself within this share of its time is not run again with more."""

_REPEATS, _ENOUGH = 5, 0.02  # quick schedulers are timed several times, up to this many seconds


@dataclass(frozen=True)
class Measured:
    """What one scheduler did on one problem under one runtime, within a budget or without.

    Attributes:
        problem, scheduler, kind, runtime: names.
        budget_s: what it was given [s]; None for schedulers that take none.
        seconds: what it took [s]; None if it failed.
        makespan_s: simulated makespan [s]; None if it failed.
        best_known_s: the best known makespan, None if the problem's suite does not say [s].
        gap: excess over the shortest makespan that is known or was measured; None until all is measured.
        status: ``"ok"``, or the sentence that says what went wrong.
    """

    problem: str
    scheduler: str
    kind: str
    runtime: str
    budget_s: float | None
    seconds: float | None = None
    makespan_s: float | None = None
    best_known_s: float | None = None
    gap: float | None = None
    status: str = "ok"

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready mapping."""
        return vars(self).copy()


@dataclass
class Measurement:
    """What came of measuring.

    Attributes:
        rows: one for each problem, scheduler, budget and runtime.
        budgets: that were finished [s].
        interrupted: whether it was stopped; budgets that were not finished are left out then.
        seconds: wall time of the measurement [s].
        busy: CPU time over wall time of this process meanwhile; well below 1 others had the core, too,
            and searches got less done than in their time they could.
    """

    rows: list[Measured] = field(default_factory=list)
    budgets: list[float] = field(default_factory=list)
    interrupted: bool = False
    seconds: float = 0.0
    busy: float = 1.0


def takes(scheduler: Baseline, option: str) -> bool:
    """Whether a scheduler's function has an option of that name.

    >>> takes(get("annealing"), "seconds"), takes(get("heft"), "seconds")
    (True, False)
    """
    return option in inspect.signature(scheduler.function).parameters


def within(scheduler: Baseline, seconds: float) -> Baseline:
    """The scheduler as it runs within a budget of time: on one core, and bounded by nothing else."""
    options: dict[str, Any] = {"seconds": seconds}
    if takes(scheduler, "budget"):
        options["budget"] = UNLIMITED
    if takes(scheduler, "workers"):
        options["workers"] = 1
    return replace(scheduler, options=scheduler.options | options)


def measure(
    specs: Sequence[ProblemSpec],
    schedulers: Sequence[str | Baseline],
    budgets: Sequence[float],
    runtimes: Sequence[str] = ("classic",),
    progress: Callable[[Progress], None] | None = None,
) -> Measurement:
    """Measure schedulers on problems, budget by budget, so that what is finished can be compared.

    Args:
        specs: the problems; all are built at the beginning.
        schedulers: names, or table rows; their kernels should be warm.
        budgets: of those that take ``seconds``, in rising order [s].
        runtimes: under which schedules are simulated.
        progress: called before every schedule and at the end.

    Raises:
        HetgymError: a problem cannot be built.

    >>> found = measure([ProblemSpec.textbook("topcuoglu")], ["heft", "annealing"], [0.002, 0.01])
    >>> [(row.scheduler, row.budget_s) for row in found.rows]
    [('heft', None), ('annealing', 0.002), ('annealing', 0.01)]
    """
    table = [get(item) if isinstance(item, str) else item for item in schedulers]
    problems = [(spec, spec.build()) for spec in specs]
    for _, problem in problems:
        share_views(problem)
    passes = _passes(table, budgets)
    found, tell = Measurement(), progress or (lambda step: None)
    done, total = 0, len(problems) * sum(len(members) for _, members in passes)
    last: dict[tuple[str, str], list[Measured]] = {}
    began, used = perf_counter(), process_time()
    try:
        with one_core():
            for budget, members in passes:
                rows: list[Measured] = []
                for spec, problem in problems:
                    for scheduler in members:
                        shown = f"{spec.name} within {duration(budget)}" if budget else spec.name
                        tell(Progress(done, total, shown, scheduler.name))
                        key, done = (spec.name, scheduler.name), done + 1
                        before = last.get(key)
                        if before is None or not _ended_by_itself(before[0]):
                            last[key] = _attempt(spec, problem, scheduler, budget, runtimes)
                        rows += [replace(row, budget_s=budget) for row in last[key]]
                found.rows += rows
                found.budgets += [budget] if budget else []
        tell(Progress(total, total, "", ""))
    except KeyboardInterrupt:
        found.interrupted = True
    found.seconds = perf_counter() - began
    found.busy = (process_time() - used) / max(found.seconds, 1e-9)
    return found


def with_gaps(rows: Sequence[Measured], best: Mapping[tuple[str, str], float] | None = None) -> list[Measured]:
    """Fill in the gaps to the shortest makespans, once all rows are known.

    Args:
        rows: of a whole measurement.
        best: (problem, runtime) -> a makespan that something else has reached [s].
    """
    least = shortest(rows, best)
    return [
        row if row.makespan_s is None
        else replace(row, gap=metrics.gap(row.makespan_s, least[row.problem, row.runtime]))
        for row in rows
    ]  # fmt: skip


@contextmanager
def one_core() -> Iterator[None]:
    """Keep to one core where the system can, and PyTorch, if it is loaded, to one thread."""
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch else 0
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set()
    try:
        if torch:
            torch.set_num_threads(1)
        if allowed:
            os.sched_setaffinity(0, {max(allowed)})
        yield
    finally:
        if allowed:
            os.sched_setaffinity(0, allowed)
        if torch:
            torch.set_num_threads(threads)


def _passes(table: Sequence[Baseline], budgets: Sequence[float]) -> list[tuple[float | None, list[Baseline]]]:
    """Who runs with which budget: first those that take none, then the rest by rising budgets."""
    timed = [scheduler for scheduler in table if takes(scheduler, "seconds")]
    passes: list[tuple[float | None, list[Baseline]]] = [(None, [item for item in table if item not in timed])]
    for budget in sorted(budgets):
        passes.append((budget, [s for s in timed if s.kind != "exact" or budget == max(budgets)]))
    return [(budget, members) for budget, members in passes if members]


def _ended_by_itself(row: Measured) -> bool:
    """Whether a search is done, so that more time would change nothing."""
    return row.seconds is not None and row.budget_s is not None and row.seconds < SPARE * row.budget_s


def _attempt(
    spec: ProblemSpec, problem: Problem, scheduler: Baseline, budget: float | None, runtimes: Sequence[str]
) -> list[Measured]:
    """Schedule, validate and simulate under every runtime."""
    rows = [Measured(spec.name, scheduler.name, scheduler.kind, runtime, budget) for runtime in runtimes]
    try:
        schedule, seconds = _timed(within(scheduler, budget) if budget else scheduler, problem, once=bool(budget))
        validate(problem, schedule)
        makespans = [simulate(problem, schedule, runtime).makespan for runtime in runtimes]
    except Exception as error:  # a plug-in may raise anything; the measurement must survive it
        return [replace(row, status=sentence(error)) for row in rows]
    best = spec.known.best if spec.known else {}
    return [
        replace(
            row, seconds=seconds, makespan_s=makespan,
            best_known_s=best[row.runtime].makespan_s if row.runtime in best else None,
        )
        for row, makespan in zip(rows, makespans, strict=True)
    ]  # fmt: skip


def _timed(scheduler: Baseline, problem: Problem, once: bool) -> tuple[Schedule, float]:
    """A schedule and the median wall time of making it; quick schedulers are asked again."""
    times: list[float] = []
    while True:
        began = perf_counter()
        schedule = scheduler(problem)
        times.append(perf_counter() - began)
        if once or len(times) == _REPEATS or sum(times) > _ENOUGH:
            return schedule, median(times)
