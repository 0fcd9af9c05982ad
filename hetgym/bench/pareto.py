"""Quality against time: every scheduler on every problem, searches with each of several time budgets.

A scheduler whose function takes ``seconds`` gives a curve over budgets, any other scheduler a point, and an exact
solver a point at the longest budget. The plotted time is the measured one, not the budget. Schedulers take turns on one
core, with warm kernels.
"""

import inspect
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter, process_time
from typing import Any

from hetgym import metrics
from hetgym._groups import gathered
from hetgym._text import duration
from hetgym.bench.case import Case
from hetgym.bench.executor import Batch, Here
from hetgym.bench.loop import Loop, Tell
from hetgym.bench.rows import Measured, Row, shortest
from hetgym.bench.runner import as_specs
from hetgym.planning import Baseline, get
from hetgym.problem import Problem
from hetgym.workloads import ProblemSpec

UNLIMITED = 2**62  # Budget of work of a search that is limited by time only
SPARE = 0.1  # A search that ends by itself within this share of its budget is not run again with a longer one
REPEATS = 5  # Calls of a scheduler without a budget that are timed, if they are quick


@dataclass
class Measurement:
    """A measurement."""

    rows: list[Measured] = field(default_factory=list)  # one for each problem, scheduler, budget and runtime
    budgets: list[float] = field(default_factory=list)  # budgets that were finished [s]
    interrupted: bool = False  # True if it was interrupted; unfinished budgets are then left out
    seconds: float = 0.0  # wall time of the measurement [s]
    # CPU time over wall time of this process. If it is well below 1, other processes used the core, and searches got
    # less done than in a quiet run.
    busy: float = 1.0


def takes(scheduler: Baseline, option: str) -> bool:
    """True if a scheduler's function has an option of that name.

    >>> takes(get("annealing"), "seconds"), takes(get("heft"), "seconds")
    (True, False)
    """
    return option in inspect.signature(scheduler.function).parameters


def within(scheduler: Baseline, seconds: float) -> Baseline:
    """The scheduler with a time budget: on one core, and without any other limit."""
    options: dict[str, Any] = {"seconds": seconds}
    if takes(scheduler, "budget"):
        options["budget"] = UNLIMITED
    if takes(scheduler, "workers"):
        options["workers"] = 1
    return replace(scheduler, options=scheduler.options | options)


def measure(
    specs: Sequence[ProblemSpec | Problem],
    schedulers: Sequence[str | Baseline],
    budgets: Sequence[float],
    runtimes: Sequence[str] = ("classic",),
    progress: Tell | None = None,
) -> Measurement:
    """Measure schedulers on problems, budget by budget, so that what is finished can be compared.

    Args:
        specs: the problems, or specifications of them; all are built at the beginning.
        schedulers: names, or table rows; their kernels should be warm.
        budgets: budgets of schedulers that take ``seconds``, in rising order [s].
        runtimes: names of the runtimes under which schedules are simulated.
        progress: called before every schedule and at the end.

    Raises:
        HetgymError: a problem cannot be built.

    >>> found = measure([ProblemSpec.textbook("topcuoglu")], ["heft", "annealing"], [0.002, 0.01])
    >>> [(row.scheduler, row.budget_s) for row in found.rows]
    [('heft', None), ('annealing', 0.002), ('annealing', 0.01)]
    """
    table = [get(item) if isinstance(item, str) else item for item in schedulers]
    cases = [Case.built_of(spec, runtimes) for spec in as_specs(specs)]
    found, began, used = Measurement(), perf_counter(), process_time()
    try:
        with one_core():
            _Passes(cases, table, budgets, runtimes, progress).run(found)
    except KeyboardInterrupt:
        found.interrupted = True
    found.seconds = perf_counter() - began
    found.busy = (process_time() - used) / max(found.seconds, 1e-9)
    return found


class _Passes:
    """The passes of a measurement; in each, schedulers take turns on all problems within one budget."""

    def __init__(
        self,
        cases: Sequence[Case],
        table: Sequence[Baseline],
        budgets: Sequence[float],
        runtimes: Sequence[str],
        progress: Tell | None,
    ) -> None:
        self.cases = cases
        self.passes = _passes(table, budgets)
        self.loop = Loop(runtimes, len(cases) * sum(len(members) for _, members in self.passes), progress=progress)
        self.last: dict[tuple[str, str], list[Measured]] = {}

    def run(self, found: Measurement) -> None:
        """Run all passes; rows go to ``found`` when their pass is finished, also before a KeyboardInterrupt."""
        for budget, members in self.passes:
            first = len(self.loop.rows)
            self.loop.run(self._batches(budget, members), Here(REPEATS if budget is None else 1))
            self._keep(self.loop.rows[first:], budget)
            for case in self.cases:
                for member in members:
                    rows = self.last[case.spec.name, member.name]
                    found.rows += [replace(row, budget_s=budget) for row in rows]
            found.budgets += [budget] if budget else []
        self.loop.step()

    def _batches(self, budget: float | None, members: Sequence[Baseline]) -> Iterator[Batch]:
        for case in self.cases:
            still = [member for member in members if self._wants(case, member)]
            label = f"{case.spec.name} within {duration(budget)}" if budget else case.spec.name
            self.loop.done += len(members) - len(still)
            yield Batch(case, [within(member, budget) if budget else member for member in still], label)

    def _wants(self, case: Case, member: Baseline) -> bool:
        """True if more time may change the result."""
        before = self.last.get((case.spec.name, member.name))
        return before is None or not _ended_by_itself(before[0])

    def _keep(self, rows: Iterable[Row], budget: float | None) -> None:
        self.last |= gathered(((row.problem, row.scheduler), _measured(row, budget)) for row in rows)


def _measured(row: Row, budget: float | None) -> Measured:
    figures = {"seconds": row.schedule_seconds, "makespan_s": row.makespan_s, "best_known_s": row.best_known_s}
    return Measured(row.problem, row.scheduler, row.kind, row.runtime, budget, **figures, status=row.status)


def with_gaps(rows: Sequence[Measured], best: Mapping[tuple[str, str], float] | None = None) -> list[Measured]:
    """Fill in the gaps to the shortest makespans of a measurement, or to shorter ones reached elsewhere (``best``)."""
    least = shortest(rows, best)
    return [
        row
        if row.makespan_s is None
        else replace(row, gap=metrics.gap(row.makespan_s, least[row.problem, row.runtime]))
        for row in rows
    ]


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
    """Pairs of a budget and its schedulers: first the schedulers without a budget, then the rest by rising budgets."""
    timed = [scheduler for scheduler in table if takes(scheduler, "seconds")]
    passes: list[tuple[float | None, list[Baseline]]] = [(None, [item for item in table if item not in timed])]
    for budget in sorted(budgets):
        passes.append((budget, [s for s in timed if s.kind != "exact" or budget == max(budgets)]))
    return [(budget, members) for budget, members in passes if members]


def _ended_by_itself(row: Measured) -> bool:
    """True if a search ended by itself, so that more time would change nothing."""
    return row.seconds is not None and row.budget_s is not None and row.seconds < SPARE * row.budget_s
