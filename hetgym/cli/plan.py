"""``hetgym plan``: the best schedule for one model on one platform."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hetgym.cli.options import (
    ForceOption,
    ImportOption,
    JsonOption,
    NameOption,
    OutOption,
    Output,
    SchedulersOption,
    command_line,
    import_files,
)
from hetgym.errors import ConfigError

if TYPE_CHECKING:
    from hetgym.bench.job import Job, Outcome
    from hetgym.sim import Trace

LARGEST_SIZE = 2**31 - 1
"""Largest batch or symbolic dimension: no tensor library supports more elements along one axis."""


def plan(
    model: Annotated[str, typer.Argument(help="A zoo name (see 'hetgym list graphs'), an .onnx or a .json file.")],
    platform: Annotated[str, typer.Option(help="A preset (see 'hetgym list platforms') or a YAML file.")],
    batch: Annotated[
        int | None,
        typer.Option(min=1, max=LARGEST_SIZE, help="Batch size. Default: the one of an ONNX model, else 1."),
    ] = None,
    dims: Annotated[
        list[str] | None, typer.Option(help="Sizes of symbolic dimensions, as in N=8 or N=2,S=16; may be repeated.")
    ] = None,
    runtime: Annotated[str, typer.Option(help="Simulated runtime; see 'hetgym list runtimes'.")] = "links",
    schedulers: SchedulersOption = "all",
    imports: ImportOption = None,
    out: OutOption = Path("results"),
    name: NameOption = "",
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> int:
    """Find the best schedule for one model on one platform.

    Runs the schedulers, shows what the best schedule asks of each device, and writes it to
    <out>/<name>/plan.json beside the report.
    """
    from hetgym.bench.job import Job, pick_runtimes, pick_schedulers
    from hetgym.graph import load_graph
    from hetgym.platform import load_platform
    from hetgym.problem import Problem
    from hetgym.workloads import ProblemSpec

    import_files(imports)
    chosen, under = pick_schedulers(schedulers), pick_runtimes([runtime])
    graph = load_graph(model, batch=batch, **({"dims": parse_dims(dims)} if dims else {}))
    problem = Problem.build(graph, load_platform(platform))
    spec = ProblemSpec.held(problem, f"{graph.name}{f'-b{batch}' if batch else ''}@{problem.name.partition('@')[2]}")
    job = Job(spec.name, (spec,), chosen, under, command_line())
    return _run(job, Output(out, name, force, as_json), {"model": model, "platform": platform, "batch": batch})


def parse_dims(texts: Sequence[str]) -> dict[str, int]:
    """Sizes of symbolic dimensions.

    Raises:
        ConfigError: a text that is no list of sizes, or two sizes for one name.

    >>> parse_dims(["N=2, S=16", "N=2"])
    {'N': 2, 'S': 16}
    """
    sizes: dict[str, int] = {}
    for text in texts:
        for pair in text.split(","):
            key, _, value = (part.strip() for part in pair.partition("="))
            whole = value.isascii() and value.isdigit() and len(value) <= 18
            if not key or not whole or not 1 <= int(value) <= LARGEST_SIZE:
                raise ConfigError(
                    f"--dims {text}: expected NAME=SIZE with whole sizes from 1 to {LARGEST_SIZE}, as in N=2,S=16"
                )
            if sizes.setdefault(key, int(value)) != int(value):
                raise ConfigError(f"--dims: {key} is given as {sizes[key]} and as {value}")
    return sizes


def _run(job: Job, output: Output, asked: dict[str, str | int | None]) -> int:
    """Run the job, write the plan and show it; returns the exit code."""
    from hetgym.bench.folder import RunFolder
    from hetgym.bench.plan import BestTrace, plan_document
    from hetgym.cli import running
    from hetgym.cli.console import print_json

    folder = RunFolder(output.root, output.name, "best", output.force)
    keeper = BestTrace()
    with running.executing(job) as executor:
        outcome = running.run_job(job, folder, executor, keeper)
    document = outcome.document
    if keeper.best is not None:
        chosen = plan_document(keeper.best, **asked)  # type: ignore[arg-type]
        outcome.files["plan"] = folder.write_json("plan.json", chosen)
        document = document | {"plan": chosen}
    if output.as_json:
        print_json(running.with_files(document, outcome))
    else:
        running.print_tables(job, outcome)
        if keeper.best is not None:
            _print_plan(keeper.best, outcome)
        running.print_files(outcome)
    running.report_problems(job, outcome)
    return outcome.exit_code


def _print_plan(best: Trace, outcome: Outcome) -> None:
    """The best scheduler, and what its schedule asks of each device."""
    from hetgym.bench.formats import duration, number
    from hetgym.bench.plan import device_shares
    from hetgym.cli.console import stdout
    from hetgym.cli.tables import device_table

    row = next(r for r in outcome.result.rows if r.scheduler == best.scheduler)
    faster = f"{number(row.speedup, '{:.2f}')} times as fast as everything on the best single device"
    stdout().print(f"{best.scheduler}: {duration(best.makespan)}, {faster}", style="italic", soft_wrap=True)
    stdout().print(device_table(device_shares(best)))
