"""Commands in a terminal: progress on stderr, tables or JSON on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.box import HORIZONTALS, SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from hetgym.bench.comparison import rich_against
from hetgym.bench.executor import Executor, Here
from hetgym.bench.folder import RunFolder
from hetgym.bench.fronts import rich_choices
from hetgym.bench.groups import rich_groups
from hetgym.bench.job import Job, Outcome, execute, explain
from hetgym.bench.plan import BestTrace, device_shares, plan_document
from hetgym.bench.runner import Progress as Step
from hetgym.bench.runner import compiled, warm_up
from hetgym.bench.sink import Sink
from hetgym.bench.summary import duration, minutes, number, percent, records, rich_table, size
from hetgym.cli.catalogue import entries
from hetgym.sim import Trace
from hetgym.sim.runtime import runtime

CROWDED = 0.95
"""Share of a core below which times that were measured are not those of an idle machine."""

WIDTH = 110
"""Columns of tables that do not go to a terminal."""


def stdout() -> Console:
    """Where results go."""
    return Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False, soft_wrap=False)


def stderr() -> Console:
    """Where progress and messages go."""
    return Console(stderr=True, highlight=False)


def prepare(job: Job) -> None:
    """Load all kernels, with a line if they have to be compiled."""
    if not compiled():
        stderr().print("compiling kernels (first run only)…")
    warm_up(job.schedulers, job.runtimes)


@contextmanager
def executing(cluster: str) -> Iterator[Executor]:
    """Where to run: on the Ray cluster of an address, which takes some seconds to join, or in this process."""
    if not cluster:
        yield Here()
        return
    from hetgym.bench.ray_executor import on_ray

    with ExitStack() as stack:
        with stderr().status("connecting to a Ray cluster…"):
            executor = stack.enter_context(on_ray(cluster))
        yield executor


def run_job(job: Job, folder: RunFolder, *sinks: Sink, executor: Executor | None = None) -> Outcome:
    """Execute a job under a progress bar."""
    columns = (
        TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[what]}"),
    )  # fmt: skip
    console = stderr()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(job.title, total=len(job.specs) * len(job.schedulers), what="")

        def show(step: Step) -> None:
            bar.update(task, completed=step.done, total=step.total, what=f"{step.problem} {step.scheduler}")

        return execute(job, folder, show, *sinks, executor=executor)


def print_json(document: dict[str, Any]) -> None:
    """A document on one line of stdout."""
    sys.stdout.write(json.dumps(document, allow_nan=False) + "\n")


def print_problems(job: Job, outcome: Outcome) -> None:
    """What went wrong, on stderr: a line for each failure, and whether the run was interrupted."""
    console = stderr()
    for line in dict.fromkeys(f"{row.scheduler} on {row.problem}: {row.status}" for row in outcome.result.failures):
        console.print(f"failed: {line}", markup=False, soft_wrap=True)
    pareto = outcome.findings.pareto
    for line in pareto.failures if pareto else ():
        console.print(f"failed: {line}", markup=False, soft_wrap=True)
    if pareto and pareto.measurement.busy < CROWDED:
        console.print(
            f"quality against time: others had {percent(1 - pareto.measurement.busy)} of the core; "
            "measure again on an idle machine before you quote it", soft_wrap=True,
        )  # fmt: skip
    if pareto and pareto.measurement.interrupted:
        console.print("interrupted: budgets that were not finished are left out; the rest was kept")
    if outcome.result.interrupted:
        done = outcome.document["finished_problems"]
        console.print(f"interrupted: {done} of {len(job.specs)} problems are complete; what is finished was kept")


def print_tables(job: Job, outcome: Outcome) -> None:
    """A table for each runtime, and where the files are."""
    console = stdout()
    for name in job.runtimes:
        console.print(f"runtime {name}: {explain(runtime(name))}", style="italic", soft_wrap=True)
        console.print(rich_table(outcome.summary, name))
    for row in records(outcome.result.rows):
        assert row.makespan_s is not None and row.best_known_s is not None
        console.print(
            f"new best: {row.scheduler} takes {row.makespan_s:.9g} s on {row.problem} under {row.runtime}, "
            f"{percent(1 - row.makespan_s / row.best_known_s)} less than the best known {row.best_known_s:.9g} s",
            style="green", soft_wrap=True,
        )  # fmt: skip
    problems = f"{len(job.specs)} problem{'s' if len(job.specs) > 1 else ''}"
    schedules = len({(row.problem, row.scheduler) for row in outcome.result.rows})
    console.print(f"{problems}, {schedules} schedules in {outcome.result.seconds:.1f} s")


def announce(job: Job) -> None:
    """How long quality against time takes at most, on stderr, before anything starts."""
    if not job.evaluation.pareto:
        return
    plan = job.evaluation.plan(job.schedulers, len(job.specs))
    if not plan.budgets:
        stderr().print("quality against time: no scheduler of this run takes a budget; all are points")
        return
    first, last = duration(plan.budgets[0]), duration(plan.budgets[-1])
    stderr().print(
        f"quality against time: {len(plan.budgets)} budgets from {first} to {last}, after the run itself, "
        f"at most {minutes(plan.most_s)}", soft_wrap=True,
    )  # fmt: skip
    if plan.left_out:
        left = ", ".join(map(duration, plan.left_out))
        stderr().print(f"left out: {left}; with them at most {minutes(plan.whole_s)} (--time-limit)", soft_wrap=True)


def print_evaluation(job: Job, outcome: Outcome) -> None:
    """What was asked for beyond the summary."""
    console, findings = stdout(), outcome.findings
    for name in job.runtimes:
        if job.evaluation.reference:
            console.print(f"runtime {name}: against {findings.reference}, problem by problem", style="italic")
            console.print(rich_against(findings.against, name))
        ranking = list(dict.fromkeys(line.scheduler for line in outcome.summary if line.runtime == name))
        for by in job.evaluation.by:
            console.print(f"runtime {name}: mean gap to best by {by} (number of problems)", style="italic")
            for table in rich_groups(findings.groups, by, name, ranking):
                console.print(table)
        if findings.pareto is not None:
            console.print(f"runtime {name}: what is best within a time", style="italic")
            console.print(rich_choices(findings.pareto.choices[name]))


def print_files(outcome: Outcome) -> None:
    """Where to find what was written."""
    for label, path in outcome.files.items():
        stdout().print(f"{label:>8}  {path}", markup=False, soft_wrap=True)


def bench(job: Job, out: Path, name: str, traces: str, force: bool, as_json: bool, cluster: str = "") -> int:
    """The whole of ``hetgym bench``; returns the exit code."""
    with executing(cluster) as executor:
        folder = RunFolder(out, name, traces, force)
        announce(job)
        prepare(job)
        outcome = run_job(job, folder, executor=executor)
    if as_json:
        print_json(outcome.document | {"files": {label: str(path) for label, path in outcome.files.items()}})
    else:
        print_tables(job, outcome)
        print_evaluation(job, outcome)
        print_files(outcome)
    print_problems(job, outcome)
    return outcome.exit_code


def plan(
    job: Job, out: Path, name: str, force: bool, as_json: bool, model: str, platform: str, batch: int | None
) -> int:
    """The whole of ``hetgym plan``; returns the exit code."""
    folder = RunFolder(out, name, "best", force)
    prepare(job)
    keeper = BestTrace()
    outcome = run_job(job, folder, keeper)
    document = outcome.document
    if keeper.best is not None:
        chosen = plan_document(keeper.best, model, platform, batch)
        outcome.files["plan"] = folder.write_json("plan.json", chosen)
        document = document | {"plan": chosen}
    if as_json:
        print_json(document | {"files": {label: str(path) for label, path in outcome.files.items()}})
    else:
        print_tables(job, outcome)
        if keeper.best is not None:
            _print_plan(keeper.best, outcome)
        print_files(outcome)
    print_problems(job, outcome)
    return outcome.exit_code


def _print_plan(best: Trace, outcome: Outcome) -> None:
    """Which schedule is best, and what it asks of each device."""
    row = next(r for r in outcome.result.rows if r.scheduler == best.scheduler)
    faster = f"{number(row.speedup, '{:.2f}')} times as fast as everything on the best single device"
    stdout().print(f"{best.scheduler}: {duration(best.makespan)}, {faster}", style="italic", soft_wrap=True)
    table = Table(box=SIMPLE_HEAD)
    table.add_column("device")
    for heading in ("operators", "busy", "utilised", "weights", "sends", "receives"):
        table.add_column(heading, justify="right")
    for share in device_shares(best):
        table.add_row(
            share.name, str(share.operators), duration(share.busy_seconds), percent(share.utilisation),
            size(share.weight_bytes), size(share.sent_bytes), size(share.received_bytes),
        )  # fmt: skip
    stdout().print(table)


def catalogue(what: str, as_json: bool) -> int:
    """The whole of ``hetgym list``; returns the exit code."""
    rows = entries(what)
    if as_json:
        print_json({what: rows})
        return 0
    roomy = what in ("schedulers", "platforms")
    table = Table(show_lines=roomy, box=HORIZONTALS if roomy else SIMPLE_HEAD)
    for heading, value in rows[0].items():
        numeric = isinstance(value, int | float)
        heading = {"gflop": "GFLOP", "weights_mb": "weights MB"}.get(heading, heading)
        table.add_column(
            heading, justify="right" if numeric else "left", no_wrap=heading in ("name", "kind") or numeric
        )
    for row in rows:
        table.add_row(*map(_cell, row.values()), end_section=False)
    stdout().print(table)
    return 0


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
