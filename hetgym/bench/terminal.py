"""A job in a terminal: progress on stderr, tables or JSON on stdout."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hetgym.bench.folder import RunFolder
from hetgym.bench.job import Job, Outcome, execute, explain
from hetgym.bench.runner import Progress as Step
from hetgym.bench.runner import compiled, warm_up
from hetgym.bench.summary import rich_table
from hetgym.sim.runtime import runtime

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


def run_job(job: Job, folder: RunFolder) -> Outcome:
    """Execute a job under a progress bar."""
    columns = (
        TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[what]}"),
    )  # fmt: skip
    with Progress(*columns, console=stderr(), transient=True) as bar:
        task = bar.add_task(job.title, total=len(job.specs) * len(job.schedulers), what="")

        def show(step: Step) -> None:
            bar.update(task, completed=step.done, total=step.total, what=f"{step.problem} {step.scheduler}")

        return execute(job, folder, show)


def print_outcome(job: Job, outcome: Outcome, as_json: bool) -> None:
    """Tables and the files that were written, or the whole document as JSON."""
    if as_json:
        json.dump(outcome.document | {"files": {k: str(path) for k, path in outcome.files.items()}}, sys.stdout)
        sys.stdout.write("\n")
    else:
        print_tables(job, outcome)
    console = stderr()
    for line in dict.fromkeys(f"{row.scheduler} on {row.problem}: {row.status}" for row in outcome.result.failures):
        console.print(f"failed: {line}", markup=False, soft_wrap=True)
    if outcome.result.interrupted:
        done = outcome.document["finished_problems"]
        console.print(f"interrupted: {done} of {len(job.specs)} problems are complete; what is finished was kept")


def print_tables(job: Job, outcome: Outcome) -> None:
    """A table for each runtime, and where the files are."""
    console = stdout()
    for name in job.runtimes:
        console.print(rich_table(outcome.summary, name, explain(runtime(name))))
    schedules = len(job.specs) * len(job.schedulers)
    console.print(f"{len(job.specs)} problems, {schedules} schedules in {outcome.result.seconds:.1f} s")
    for label, path in outcome.files.items():
        console.print(f"{label:>8}  {path}", markup=False, soft_wrap=True)


def run_and_print(job: Job, out: Path, name: str, traces: str, force: bool, as_json: bool) -> int:
    """The whole of ``hetgym bench``; returns the exit code."""
    folder = RunFolder(out, name, traces, force)
    prepare(job)
    outcome = run_job(job, folder)
    print_outcome(job, outcome, as_json)
    return outcome.exit_code
