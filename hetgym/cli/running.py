"""A job in a terminal: messages before it, a progress bar while it runs, tables and failures after it."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from hetgym._progress import Progress
from hetgym._text import duration, minutes, percent
from hetgym.bench.executor import Executor
from hetgym.bench.folder import RunFolder
from hetgym.bench.job import Job, Outcome, execute, explain
from hetgym.bench.loop import Progress as Step
from hetgym.bench.rows import Row
from hetgym.bench.sink import Sink
from hetgym.bench.summary import Line, records, summarise
from hetgym.bench.warming import WarmingUp
from hetgym.cli.console import print_path, print_table, progress, say, stderr, stdout, tell
from hetgym.cli.tables import BLIND, against_table, choices_table, group_tables, summary_table
from hetgym.sim.runtime import runtime

CROWDED = 0.95  # Share of a core below which times that were measured are not those of an idle machine


FEW = 12
"""Problems of a run that prints its tables at the end only."""


class FirstTable(Sink):
    """Prints the table of the first runtime once a third of the problems is done, in runs of several problems.

    Args:
        job: the job.
    """

    def __init__(self, job: Job) -> None:
        self._job, self._rows = job, list[Row]()
        self._left = a_third(job) if len(job.specs) > FEW else -1

    def complete(self, rows: Sequence[Row]) -> None:
        """One more problem is done."""
        self._left -= 1
        self._rows.extend(rows)
        if self._left == 0:
            part = f", the first {a_third(self._job)} of {len(self._job.specs)} problems"
            print_summary(self._job, summarise(self._rows), self._job.runtimes[0], part)


def a_third(job: Job) -> int:
    """A third of a job's problems."""
    return (len(job.specs) + 2) // 3


@contextmanager
def executing(job: Job, address: str = "") -> Iterator[Executor]:
    """The executor: a Ray cluster, which takes some seconds to join, or this process if there is no address."""
    if not address:
        yield WarmingUp(job.schedulers, a_third(job))  # none of the others before the first table
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
    """Execute a job under a progress bar or, where stderr is not a terminal, with a line every ten seconds."""
    from hetgym.search.search import watched

    console, under_way = stderr(), ""
    with progress(console) as bar, ExitStack() as stack:
        lines = Progress(job.title)
        if not console.is_terminal:
            stack.enter_context(lines)
        total = len(job.specs) * len(job.schedulers)
        task = bar.add_task(job.title, total=total, what="")
        lines.now = f"{total} schedules"

        def show(step: Step) -> None:
            nonlocal under_way
            what = f"{step.problem} {step.scheduler}".strip()
            bar.update(task, completed=step.done, total=step.total, what=what)
            under_way = f"{step.done} of {step.total} schedules" + (f", {what}" if what else "")
            lines.now = under_way

        def show_best(makespan: float) -> None:
            bar.update(task, what=(best := f"best so far {duration(makespan)}"))
            lines.now = f"{under_way}, {best}"

        stack.enter_context(watched(show_best))

        def tell_compiling(what: str) -> None:
            bar.update(task, what=what)
            lines.now = what

        if isinstance(executor, WarmingUp):
            executor.tell = tell_compiling
        return execute(job, folder, show, *sinks, executor=executor)


def print_tables(job: Job, outcome: Outcome) -> None:
    """A table for each runtime, and the makespans that beat the best known."""
    console = stdout()
    for name in job.runtimes:
        print_summary(job, outcome.summary, name)
    for row in records(outcome.result.rows):
        assert row.makespan_s is not None and row.best_known_s is not None
        say(
            f"new best: {row.scheduler} takes {row.makespan_s:.9g} s on {row.problem} under {row.runtime}, "
            f"{percent(1 - row.makespan_s / row.best_known_s)} less than the best known {row.best_known_s:.9g} s",
            "green",
        )
    problems = f"{len(job.specs)} problem{'s' if len(job.specs) > 1 else ''}"
    schedules = len({(row.problem, row.scheduler) for row in outcome.result.rows})
    console.print(f"{problems}, {schedules} schedules in {outcome.result.seconds:.1f} s")


def print_summary(job: Job, lines: Sequence[Line], name: str, part: str = "") -> None:
    """The table of one runtime, for all problems unless ``part`` says for which."""
    console = stdout()
    say(f"runtime {name}{part}: {explain(runtime(name))}", "italic")
    blind = [row.name for row in job.schedulers if row.plans_for not in ("any", name)]
    print_table(summary_table(lines, name, blind))
    if blind:
        console.print(f"{BLIND} plans for another runtime", style="dim")


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
                say(
                    f"runtime {name}: Friedman's test gives p = {ranked.p_value:.2g} for {len(ranked.schedulers)} "
                    f"schedulers on {ranked.problems} problems; mean ranks {ranked.critical_difference:.2f} apart "
                    f"differ at the level {ranked.alpha:g}{failed}",
                    "italic",
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
