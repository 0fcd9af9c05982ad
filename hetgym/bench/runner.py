"""The runner: every scheduler on every problem, validated and simulated under every runtime."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from hetgym import metrics
from hetgym.baselines import Baseline, get
from hetgym.bench.attempt import Attempt, attempt
from hetgym.bench.case import Case, Reference
from hetgym.bench.executor import Attempts, Executor, Here
from hetgym.bench.rows import Row, with_gaps
from hetgym.bench.sink import Sink
from hetgym.problem import Problem
from hetgym.sim import Trace
from hetgym.workloads import ProblemSpec


class Progress(NamedTuple):
    """How far a run is: ``done`` of ``total`` schedules, and what comes next."""

    done: int
    total: int
    problem: str
    scheduler: str


@dataclass
class Result:
    """What a run found.

    Attributes:
        runtimes: in the order in which they were asked for.
        schedulers: likewise.
        rows: one for each problem, scheduler and runtime that was finished.
        interrupted: whether the run was stopped before its end.
        seconds: wall time of the run [s].
    """

    runtimes: tuple[str, ...]
    schedulers: tuple[str, ...]
    rows: list[Row] = field(default_factory=list)
    interrupted: bool = False
    seconds: float = 0.0

    @property
    def failures(self) -> list[Row]:
        """Rows whose scheduler failed."""
        return [row for row in self.rows if not row.ok]


def run(
    specs: Sequence[ProblemSpec],
    schedulers: Sequence[str | Baseline],
    runtimes: Sequence[str] = ("classic", "links"),
    sink: Sink | None = None,
    progress: Callable[[Progress], None] | None = None,
    executor: Executor | None = None,
) -> Result:
    """Run schedulers over problems.

    A scheduler that raises, or gives a schedule that the validator refuses, makes a row that says
    so; the run goes on. On Ctrl-C the rows that are finished are returned, marked as interrupted.

    Args:
        specs: the problems; each is built when its turn comes.
        schedulers: names, or table rows such as ``hetgym.baselines.get("cpgc", budget=0)``.
        runtimes: names of runtime presets.
        sink: where rows and traces go as they come; by default nowhere.
        progress: called before every schedule and at the end.
        executor: where schedulers run; by default in this process, one after the other.

    >>> from hetgym.workloads import ProblemSpec
    >>> result = run([ProblemSpec.textbook("topcuoglu")], ["heft", "single-device"], ["classic"])
    >>> [(row.scheduler, row.makespan_s) for row in result.rows]
    [('heft', 80.0), ('single-device', 127.0)]
    """
    table = [get(item) if isinstance(item, str) else item for item in schedulers]
    result = Result(tuple(runtimes), tuple(row.name for row in table))
    under_way = _Run(table, result, sink or Sink(), progress or (lambda step: None), len(specs))
    began = perf_counter()
    try:
        for case, attempts in (executor or Here()).work(under_way.cases(specs), table, result.runtimes):
            under_way.finish(case, attempts)
        under_way.step("", "")
    except KeyboardInterrupt:
        result.interrupted = True
    result.seconds = perf_counter() - began
    return result


def warm_up(schedulers: Iterable[str | Baseline], runtimes: Sequence[str]) -> None:
    """Load or compile every kernel that a run needs, so that timings do not contain it.

    What has to be compiled is shared out among processes, one for each core; kernels reach the others
    through Numba's cache on disk.
    """
    from hetgym.workloads import textbook

    problem, new = textbook("topcuoglu"), not compiled()
    Reference(problem, runtimes)
    table = [get(item) if isinstance(item, str) else item for item in schedulers]
    with _helpers(table, runtimes) if new else nullcontext(table) as mine:
        for baseline in mine:
            attempt(baseline, problem, runtimes)  # what it raises, the run itself reports
    for baseline in table if new else ():
        attempt(baseline, problem, runtimes)


@contextmanager
def _helpers(table: Sequence[Baseline], runtimes: Sequence[str]) -> Iterator[Sequence[Baseline]]:
    """Let other processes compile shares of a table; what is left to this one. Ends when they have ended."""
    own = [baseline for baseline in table if baseline.function.__module__.startswith("hetgym.")]
    own.sort(key=lambda baseline: baseline.function.__module__)  # those of one module share kernels
    share = max(1, -(-len(own) // (os.cpu_count() or 1)))
    parts = [own[k : k + share] for k in range(0, len(own), share)]
    code = "import sys; from hetgym.bench.runner import warm_up; warm_up(sys.argv[2:], sys.argv[1].split(','))"
    command = [sys.executable, "-c", code, ",".join(runtimes)]
    helpers = [
        subprocess.Popen([*command, *(b.name for b in part)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for part in parts[1:]
    ]
    try:
        yield [*(parts[0] if parts else ()), *(baseline for baseline in table if baseline not in own)]
        for helper in helpers:
            helper.wait()
    finally:
        for helper in helpers:
            helper.kill()


def compiled() -> bool:
    """Whether compiled kernels of this installation are on disk already."""
    from hetgym.sim.sweep import run_orders

    stats = getattr(run_orders, "stats", None)
    return stats is None or any(Path(stats.cache_path).glob("sweep.run_orders-*.nbi"))


class _Run:
    """A run under way: where its rows go, and how far it is."""

    def __init__(
        self, table: Sequence[Baseline], result: Result, sink: Sink, tell: Callable[[Progress], None], problems: int
    ) -> None:
        self.table = table
        self.result = result
        self.sink = sink
        self.tell = tell
        self.done = 0
        self.total = problems * len(table)

    def step(self, problem: str, scheduler: str) -> None:
        """Tell how far the run is, and what comes next."""
        self.tell(Progress(self.done, self.total, problem, scheduler))

    def cases(self, specs: Sequence[ProblemSpec]) -> Iterator[Case]:
        """Build the problems, each when it is asked for."""
        for spec in specs:
            self.step(spec.name, "")
            yield Case.of(spec, self.result.runtimes)

    def finish(self, case: Case, attempts: Attempts) -> None:
        """All rows of one problem; they stay in the result even if this is interrupted."""
        rows, first, complete = self.result.rows, len(self.result.rows), True
        if case.built is not None:
            self.sink.problem(case.spec, case.built[0], min(case.built[1].lower_bound.values()))
        for baseline in self.table:
            self.step(case.spec.name, baseline.name)
            made = Attempt(status=case.status) if case.built is None else next(attempts)
            if made is None:
                complete = False
                continue
            new = _rows(case, baseline, self.result.runtimes, made)
            rows.extend(new)
            self.sink.rows(new)
            for trace in made.traces:
                self.sink.trace(case.spec, trace)
            self.done += 1
        if complete:
            rows[first:] = with_gaps(rows[first:])
        self.sink.complete(rows[first:])


def _rows(case: Case, baseline: Baseline, runtimes: Sequence[str], made: Attempt) -> list[Row]:
    """A row for each runtime."""
    if case.built is None or made.status != "ok":
        problem = case.built[0] if case.built else None
        return [_blank(case.spec, baseline, runtime, made.status, problem) for runtime in runtimes]
    problem, reference = case.built
    return [
        _row(case.spec, problem, baseline, runtime, trace, made.seconds, reference)
        for runtime, trace in zip(runtimes, made.traces, strict=True)
    ]


def _blank(spec: ProblemSpec, baseline: Baseline, runtime: str, status: str, problem: Problem | None = None) -> Row:
    n, edges, devices = (problem.num_operators, problem.num_edges, problem.num_devices) if problem else (0, 0, 0)
    return Row(
        spec.name, spec.graph, spec.platform, n, edges, devices, baseline.name, baseline.kind, runtime, status=status
    )


def _row(
    spec: ProblemSpec, problem: Problem, baseline: Baseline, runtime: str, trace: Trace, seconds: float,
    reference: Reference,
) -> Row:  # fmt: skip
    makespan = trace.makespan
    faster = metrics.speedup(makespan, reference.single_device[runtime])
    return Row(
        problem=spec.name,
        graph=spec.graph,
        platform=spec.platform,
        n=problem.num_operators,
        edges=problem.num_edges,
        devices=problem.num_devices,
        scheduler=baseline.name,
        kind=baseline.kind,
        runtime=runtime,
        makespan_s=makespan,
        slr=metrics.schedule_length_ratio(makespan, reference.critical_path),
        speedup=faster,
        efficiency=metrics.efficiency(faster, problem.num_devices),
        gap_to_bound=metrics.gap(makespan, reference.lower_bound[runtime]),
        best_known_s=reference.best_known.get(runtime),
        lower_bound_s=reference.lower_bound[runtime],
        schedule_seconds=seconds,
        utilisation=float(trace.utilisation.mean()),
    )
