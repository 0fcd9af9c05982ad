"""A job in a terminal: messages before it, a progress bar while it runs, tables and failures after it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from hetgym.bench.executor import Executor
from hetgym.bench.folder import RunFolder
from hetgym.bench.formats import duration, minutes, percent
from hetgym.bench.job import Job, Outcome, execute, explain
from hetgym.bench.loop import Progress as Step
from hetgym.bench.sink import Sink
from hetgym.bench.summary import records
from hetgym.bench.warming import WarmingUp
from hetgym.cli.console import print_path, print_table, progress, stderr, stdout, tell
from hetgym.cli.tables import BLIND, against_table, choices_table, group_tables, summary_table
from hetgym.sim.runtime import runtime

CROWDED = 0.95  # Share of a core below which times that were measured are not those of an idle machine


@contextmanager
def executing(job: Job, address: str = "") -> Iterator[Executor]:
    """The executor: a Ray cluster, which takes some seconds to join, or this process if there is no address."""
    if not address:
        yield WarmingUp(job.schedulers)
        return
    from hetgym.bench.ray_executor import on_ray

    with ExitStack() as stack:
        with stderr().status("connecting to a Ray cluster…"):
            executor = stack.enter_context(on_ray(address))
        yield executor


def announce(job: Job) -> None:
    """Announce on stderr how long quality against time takes at most."""
    if not job.evaluation.pareto:
        return
    plan = job.evaluation.plan(job.schedulers, len(job.specs))
    if not plan.budgets:
        tell("quality against time: no scheduler of this run takes a budget; all are points")
        return
    first, last = duration(plan.budgets[0]), duration(plan.budgets[-1])
    tell(
        f"quality against time: {len(plan.budgets)} budgets from {first} to {last}, after the run itself, "
        f"at most {minutes(plan.most_s)}"
    )
    if plan.left_out:
        left = ", ".join(map(duration, plan.left_out))
        tell(f"left out: {left}; with them at most {minutes(plan.whole_s)} (--time-limit)")


def run_job(job: Job, folder: RunFolder, executor: Executor, *sinks: Sink) -> Outcome:
    """Execute a job under a progress bar."""
    with progress(stderr()) as bar:
        task = bar.add_task(job.title, total=len(job.specs) * len(job.schedulers), what="")

        def show(step: Step) -> None:
            bar.update(task, completed=step.done, total=step.total, what=f"{step.problem} {step.scheduler}")

        return execute(job, folder, show, *sinks, executor=executor)


def print_tables(job: Job, outcome: Outcome) -> None:
    """A table for each runtime, and the makespans that beat the best known."""
    console = stdout()
    for name in job.runtimes:
        console.print(f"runtime {name}: {explain(runtime(name))}", style="italic", soft_wrap=True)
        blind = [row.name for row in job.schedulers if row.plans_for not in ("any", name)]
        print_table(summary_table(outcome.summary, name, blind))
        if blind:
            console.print(f"{BLIND} plans for another runtime", style="dim")
    for row in records(outcome.result.rows):
        assert row.makespan_s is not None and row.best_known_s is not None
        console.print(
            f"new best: {row.scheduler} takes {row.makespan_s:.9g} s on {row.problem} under {row.runtime}, "
            f"{percent(1 - row.makespan_s / row.best_known_s)} less than the best known {row.best_known_s:.9g} s",
            style="green",
            soft_wrap=True,
        )
    problems = f"{len(job.specs)} problem{'s' if len(job.specs) > 1 else ''}"
    schedules = len({(row.problem, row.scheduler) for row in outcome.result.rows})
    console.print(f"{problems}, {schedules} schedules in {outcome.result.seconds:.1f} s")


def print_evaluation(job: Job, outcome: Outcome) -> None:
    """The tables that were asked for beyond the summary."""
    console, findings = stdout(), outcome.findings
    for name in job.runtimes:
        if job.evaluation.reference:
            console.print(f"runtime {name}: against {findings.reference}, problem by problem", style="italic")
            print_table(against_table(findings.against, name))
        ranking = list(dict.fromkeys(line.scheduler for line in outcome.summary if line.runtime == name))
        for by in job.evaluation.by:
            console.print(f"runtime {name}: mean gap to best by {by} (number of problems)", style="italic")
            for table in group_tables(findings.groups, by, name, ranking):
                console.print(table)
        for ranked in findings.rankings:
            if ranked.runtime == name:
                failed = f"; without {', '.join(ranked.left_out)}, which failed" if ranked.left_out else ""
                console.print(
                    f"runtime {name}: Friedman's test gives p = {ranked.p_value:.2g} for {len(ranked.schedulers)} "
                    f"schedulers on {ranked.problems} problems; mean ranks {ranked.critical_difference:.2f} apart "
                    f"differ at the level {ranked.alpha:g}{failed}",
                    style="italic",
                    soft_wrap=True,
                )
        if findings.pareto is not None:
            console.print(f"runtime {name}: what is best within a time", style="italic")
            print_table(choices_table(findings.pareto.choices[name]))


def print_files(outcome: Outcome) -> None:
    """The files that were written."""
    for label, path in outcome.files.items():
        print_path(label, path)


def with_files(document: dict[str, Any], outcome: Outcome) -> dict[str, Any]:
    """The document of ``--json``: results, and the paths of the files."""
    return document | {"files": {label: str(path) for label, path in outcome.files.items()}}


def report_problems(job: Job, outcome: Outcome) -> None:
    """A line on stderr for each failure, for a busy machine, and for an interrupt."""
    for line in dict.fromkeys(f"{row.scheduler} on {row.problem}: {row.status}" for row in outcome.result.failures):
        tell(f"failed: {line}")
    pareto = outcome.findings.pareto
    for line in pareto.failures if pareto else ():
        tell(f"failed: {line}")
    if pareto and pareto.measurement.busy < CROWDED:
        tell(
            f"quality against time: others had {percent(1 - pareto.measurement.busy)} of the core; "
            "measure again on an idle machine before you quote it"
        )
    if pareto and pareto.measurement.interrupted:
        tell("interrupted: budgets that were not finished are left out; the rest was kept")
    if outcome.result.interrupted:
        done = outcome.document["finished_problems"]
        tell(f"interrupted: {done} of {len(job.specs)} problems are complete; what is finished was kept")
