"""The running loop: attempts come from an executor one by one, become rows, and are handed on."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from hetgym import metrics
from hetgym.bench.attempt import Attempt
from hetgym.bench.case import Case, Reference
from hetgym.bench.executor import Attempts, Batch, Executor
from hetgym.bench.rows import Row, with_gaps
from hetgym.bench.sink import Sink
from hetgym.planning import Baseline
from hetgym.problem import Problem
from hetgym.sim.energy import has_power, has_price


class Progress(NamedTuple):
    """Progress of a run: ``done`` of ``total`` schedules, and what comes next."""

    done: int
    total: int
    problem: str
    scheduler: str


Tell = Callable[[Progress], None]  # Called before every schedule, and at the end


class Loop:
    """A run under way. A suite is one pass over its problems; quality against time is a pass for each budget.

    The sink receives rows and traces as they come; ``progress`` receives how many of the ``total`` schedules are done.
    """

    def __init__(
        self, runtimes: Sequence[str], total: int, sink: Sink | None = None, progress: Tell | None = None
    ) -> None:
        self.runtimes = tuple(runtimes)
        self.total = total
        self.sink = sink or Sink()
        # of all attempts so far, also after an interrupt; those of finished problems have gaps
        self.rows: list[Row] = []
        self.done = 0  # number of schedules so far
        self._tell = progress or (lambda step: None)

    def step(self, problem: str = "", scheduler: str = "") -> None:
        """Tell how far the run is, and what comes next."""
        self._tell(Progress(self.done, self.total, problem, scheduler))

    def run(self, batches: Iterable[Batch], executor: Executor) -> None:
        """One pass: every scheduler of every batch. Rows that are finished are kept after a KeyboardInterrupt."""
        for batch, attempts in executor.work(batches, self.runtimes):
            self._finish(batch, attempts)

    def _finish(self, batch: Batch, attempts: Attempts) -> None:
        """All rows of one problem."""
        case, first, complete = batch.case, len(self.rows), True
        if case.built is not None:
            self.sink.problem(case.spec, case.built[0], min(case.built[1].lower_bound.values()))
        for baseline in batch.schedulers:
            self.step(batch.label or case.spec.name, baseline.name)
            made = Attempt(status=case.status) if case.built is None else next(attempts)
            if made is None:
                complete = False
                continue
            new = _rows(case, baseline, self.runtimes, made)
            self.rows.extend(new)
            self.sink.rows(new)
            for trace in made.traces.values():
                self.sink.trace(case.spec, trace)
            self.done += 1
        if complete:
            self.rows[first:] = with_gaps(self.rows[first:])
        self.sink.complete(self.rows[first:])


def _rows(case: Case, baseline: Baseline, runtimes: Sequence[str], made: Attempt) -> list[Row]:
    """A row for each runtime."""
    spec, problem = case.spec, case.built[0] if case.built else None
    names = (spec.name, spec.graph, spec.platform)
    sizes = (problem.num_operators, problem.num_edges, problem.num_devices) if problem else (0, 0, 0)
    rows = []
    for runtime in runtimes:
        status = made.failures.get(runtime, made.status)
        row = Row(*names, *sizes, baseline.name, baseline.kind, runtime, status=status)
        rows.append(_filled(row, *case.built, made) if case.built and runtime in made.traces else row)
    return rows


def _filled(row: Row, problem: Problem, reference: Reference, made: Attempt) -> Row:
    """The row of a legal schedule, with what its run gave."""
    runtime, trace = row.runtime, made.traces[row.runtime]
    makespan = trace.makespan
    faster = metrics.speedup(makespan, reference.single_device[runtime])
    bound = max(reference.lower_bound[runtime], made.bounds.get(runtime, 0.0))
    return replace(
        row,
        makespan_s=makespan,
        slr=metrics.schedule_length_ratio(makespan, reference.critical_path),
        speedup=faster,
        efficiency=metrics.efficiency(faster, problem.num_devices),
        gap_to_bound=metrics.gap(makespan, bound),
        best_known_s=reference.best_known.get(runtime),
        lower_bound_s=bound,
        schedule_seconds=made.seconds[runtime],
        utilisation=float(trace.utilisation.mean()),
        energy_j=trace.energy.total if has_power(problem) else None,
        cost=trace.cost if has_price(problem) else None,
    )
