"""``hetgym bench``: schedulers on a suite of problems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hetgym._text import plain
from hetgym.cli.options import (
    ForceOption,
    ImportOption,
    JsonOption,
    NameOption,
    OutOption,
    Output,
    RuntimesOption,
    SchedulersOption,
    command_line,
    import_files,
)
from hetgym.errors import ConfigError

if TYPE_CHECKING:
    from hetgym.bench.evaluation import Evaluation
    from hetgym.bench.job import Job
    from hetgym.workloads import ProblemSpec

LIMIT = "15min"  # Time limit of `--pareto` unless another is given


def bench(
    suite: Annotated[
        str, typer.Option(help="Suite of problems: a name or a YAML file; see 'hetgym list suites'. Default: zoo.")
    ] = "",
    problems: Annotated[
        list[Path] | None,
        typer.Option(help="Problem files (.npz, .stg, .jsp, .fjs, .dot, …) instead of a suite, one or several."),
    ] = None,
    devices: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Identical devices of task graphs (.stg, .dot) that give no number."),
    ] = None,
    schedulers: SchedulersOption = "default",
    imports: ImportOption = None,
    runtimes: RuntimesOption = None,
    out: OutOption = Path("results"),
    name: NameOption = "",
    traces: Annotated[str, typer.Option(help="Chrome traces to keep: all, best or none.")] = "best",
    force: ForceOption = False,
    as_json: JsonOption = False,
    against: Annotated[
        str, typer.Option(help="Scheduler with which all others are compared, problem by problem.")
    ] = "",
    by: Annotated[
        str, typer.Option(help="Also show mean gaps by family, size, devices, ccr or platform; comma-separated.")
    ] = "",
    pareto: Annotated[
        bool,
        typer.Option(
            "--pareto", help="Also measure quality against time: searches run under one budget after another."
        ),
    ] = False,
    budgets: Annotated[
        str, typer.Option(help="Comma-separated budgets of --pareto. Default: 1ms,2ms,5ms,10ms,50ms,… to 10s.")
    ] = "",
    time_limit: Annotated[
        str, typer.Option(help="Most time for the searches of --pareto; the longest budgets are left out.")
    ] = LIMIT,
    plots: Annotated[
        bool,
        typer.Option("--plots", help="Also write paper/: profiles, box plots, rank diagrams, tables as LaTeX and CSV."),
    ] = False,
    ray: Annotated[
        str,
        typer.Option(
            metavar="[ADDRESS]",
            help="Run on a Ray cluster: auto, host:port or, without an address, one of this machine.",
        ),
    ] = "",
) -> int:
    """Run schedulers on a suite of real models and platforms; compare them in tables and a report.

    Without options: a scheduler for each idea on the whole zoo on three platforms. Writes rows.csv,
    results.json, report.html and traces/ to OUT/NAME/.
    """
    from hetgym.bench.job import Job, pick_runtimes, pick_schedulers

    import_files(imports)
    chosen, under = pick_schedulers(schedulers), pick_runtimes(runtimes)
    evaluation = _evaluation(against, by, pareto, budgets, time_limit, plots)
    title, specs = _problems(suite, problems, devices)
    job = Job(title, specs, chosen, under, command_line(), evaluation)
    return _run(job, Output(out, name, force, as_json), traces, ray)


def _evaluation(against: str, by: str, pareto: bool, budgets: str, time_limit: str, plots: bool) -> Evaluation:
    """The evaluation that the options ask for.

    Raises:
        ConfigError: an impossible budget or limit, or one without ``--pareto``.
        UnknownName: no such group.
    """
    from hetgym._input.times import parse_time
    from hetgym.bench.budgets import BUDGETS, parse_budgets
    from hetgym.bench.evaluation import Evaluation
    from hetgym.bench.groups import pick_columns

    if (budgets or time_limit != LIMIT) and not pareto:
        raise ConfigError("--budgets and --time-limit need --pareto")
    grid = parse_budgets(budgets) if budgets else BUDGETS
    return Evaluation(against, pick_columns(by), pareto, grid, parse_time(time_limit), plots)


def _problems(suite: str, files: Sequence[Path] | None, devices: int | None) -> tuple[str, tuple[ProblemSpec, ...]]:
    """The title of the run and its problems: of a suite, or from files, without which ``devices`` are an error."""
    from hetgym.workloads import ProblemSpec, load_suite

    if devices is not None and not files:
        raise ConfigError("--devices needs --problems")
    if files and suite:
        raise ConfigError("--problems and --suite exclude each other: give one of them")
    if not files:
        loaded = load_suite(suite or "zoo")
        return loaded.name, tuple(loaded.specs)
    title = plain(files[0].stem) if len(files) == 1 else f"{len(files)} problem files"
    specs = ProblemSpec.files(files, devices)
    return title, tuple(ProblemSpec.held(spec.build(), spec.name) for spec in specs)


def _run(job: Job, output: Output, traces: str, ray: str) -> int:
    """Run the job and show its results; returns the exit code."""
    from hetgym.bench.folder import RunFolder
    from hetgym.cli import running
    from hetgym.cli.console import print_json

    with running.executing(job, ray) as executor:
        folder = RunFolder(output.out, output.name, traces, output.force)
        running.announce(job)
        first = [] if output.as_json else [running.FirstTable(job)]
        outcome = running.run_job(job, folder, executor, *first)
    if output.as_json:
        print_json(running.with_files(outcome.document, outcome))
    else:
        running.print_tables(job, outcome)
        running.print_evaluation(job, outcome)
        running.print_files(outcome)
    running.report_problems(job, outcome)
    return outcome.exit_code
