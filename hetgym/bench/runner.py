"""The runner: every scheduler on every problem, validated and simulated under every runtime."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from hetgym import metrics
from hetgym.baselines import Baseline, critical_path_bound, get, lower_bound, single_device
from hetgym.bench.rows import Row, with_gaps
from hetgym.bench.sink import Sink
from hetgym.errors import HetgymError
from hetgym.problem import Problem
from hetgym.schedule import validate
from hetgym.sim import Trace, simulate
from hetgym.suites import BestKnown, ProblemSpec


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

    >>> from hetgym.suites import ProblemSpec
    >>> result = run([ProblemSpec.textbook("topcuoglu")], ["heft", "single-device"], ["classic"])
    >>> [(row.scheduler, row.makespan_s) for row in result.rows]
    [('heft', 80.0), ('single-device', 127.0)]
    """
    table = [get(item) if isinstance(item, str) else item for item in schedulers]
    result = Result(tuple(runtimes), tuple(row.name for row in table))
    out = sink or Sink()
    tell = progress or (lambda step: None)
    total, began = len(specs) * len(table), perf_counter()
    try:
        for number, spec in enumerate(specs):
            _run_problem(spec, table, result, out, tell, Progress(number * len(table), total, spec.name, ""))
        tell(Progress(total, total, "", ""))
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
    _Reference(problem, runtimes)
    table = [get(item) if isinstance(item, str) else item for item in schedulers]
    with _helpers(table, runtimes) if new else nullcontext(table) as mine:
        for baseline in mine:
            with suppress(Exception):  # the run itself reports it
                _attempt(baseline, problem, runtimes)
    for baseline in table if new else ():
        with suppress(Exception):
            _attempt(baseline, problem, runtimes)


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
    from hetgym.sim.kernel import run_orders

    stats = getattr(run_orders, "stats", None)
    return stats is None or any(Path(stats.cache_path).glob("kernel.run_orders-*.nbi"))


class _Reference:
    """What the makespans of one problem are compared with, each worked out once.

    A bound that was proved before counts under the runtimes that it was proved for.
    """

    def __init__(self, problem: Problem, runtimes: Sequence[str], known: BestKnown | None = None) -> None:
        # Shared views of the problem are built here, so that no scheduler pays for them.
        _ = problem.arrays, problem.mean_cost, problem.mean_communication
        self.critical_path = critical_path_bound(problem)
        best = known.best if known else {}
        proved = {runtime: known.bound_s for runtime in runtimes if known and runtime in best}
        quick = lower_bound(problem)
        self.lower_bound = {runtime: max(quick, proved.get(runtime, 0.0)) for runtime in runtimes}
        self.best_known = {runtime: best[runtime].makespan_s for runtime in runtimes if runtime in best}
        plan = single_device(problem)
        self.single_device = {runtime: simulate(problem, plan, runtime).makespan for runtime in runtimes}


def _run_problem(
    spec: ProblemSpec, table: Sequence[Baseline], result: Result, sink: Sink, tell: Callable[[Progress], None],
    begin: Progress,
) -> None:  # fmt: skip
    """All rows of one problem; the rows stay in the result even if this is interrupted."""
    first = len(result.rows)
    tell(begin)
    try:
        problem = spec.build()
        reference = _Reference(problem, result.runtimes, spec.known)
    except HetgymError as error:
        rows = [_blank(spec, b, runtime, sentence(error)) for b in table for runtime in result.runtimes]
        result.rows.extend(rows)
        sink.rows(rows)
        sink.complete(rows)
        return
    sink.problem(spec, problem, min(reference.lower_bound.values()))
    for number, baseline in enumerate(table):
        tell(begin._replace(done=begin.done + number, scheduler=baseline.name))
        rows, traces = _schedule(spec, problem, baseline, reference, result.runtimes)
        result.rows.extend(rows)
        sink.rows(rows)
        for trace in traces:
            sink.trace(spec, trace)
    result.rows[first:] = with_gaps(result.rows[first:])
    sink.complete(result.rows[first:])


def _schedule(
    spec: ProblemSpec, problem: Problem, baseline: Baseline, reference: _Reference, runtimes: Sequence[str]
) -> tuple[list[Row], list[Trace]]:
    try:
        seconds, traces = _attempt(baseline, problem, runtimes)
    except Exception as error:  # a plug-in may raise anything; the run must survive it
        return [_blank(spec, baseline, runtime, sentence(error), problem) for runtime in runtimes], []
    return [
        _row(spec, problem, baseline, runtime, trace, seconds, reference)
        for runtime, trace in zip(runtimes, traces, strict=True)
    ], traces


def _attempt(baseline: Baseline, problem: Problem, runtimes: Sequence[str]) -> tuple[float, list[Trace]]:
    """Schedule once, validate, simulate under every runtime."""
    began = perf_counter()
    schedule = baseline(problem)
    seconds = perf_counter() - began
    validate(problem, schedule)
    return seconds, [simulate(problem, schedule, runtime) for runtime in runtimes]


def _blank(spec: ProblemSpec, baseline: Baseline, runtime: str, status: str, problem: Problem | None = None) -> Row:
    n, edges, devices = (problem.num_operators, problem.num_edges, problem.num_devices) if problem else (0, 0, 0)
    return Row(
        spec.name, spec.graph, spec.platform, n, edges, devices, baseline.name, baseline.kind, runtime, status=status
    )


def _row(
    spec: ProblemSpec, problem: Problem, baseline: Baseline, runtime: str, trace: Trace, seconds: float,
    reference: _Reference,
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


def sentence(error: BaseException) -> str:
    """One line that says what went wrong; the type is named unless hetgym raised it on purpose."""
    text = " ".join(str(error).split())
    return (
        text if isinstance(error, HetgymError) else f"{type(error).__name__}: {text}" if text else type(error).__name__
    )
