"""``hetgym plan``: the best schedule for one model on one platform."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hetgym._input.config import LARGEST_BATCH
from hetgym.cli.exports import Exports, check_exports, parse_exports
from hetgym.cli.options import (
    ForceOption,
    ImportOption,
    JsonOption,
    NameOption,
    OutOption,
    Output,
    command_line,
    import_files,
)
from hetgym.errors import ConfigError, HetgymError

if TYPE_CHECKING:
    from hetgym.bench.job import Job, Outcome
    from hetgym.bench.plan import BestTrace
    from hetgym.platform import Platform
    from hetgym.problem import Problem

LARGEST_SIZE = 2**31 - 1
"""Largest batch or symbolic dimension: no tensor library supports more elements along one axis."""

PLAIN = "single-device,heft"
"""Schedulers beside which a plan is shown."""


def plan(
    model: Annotated[
        str, typer.Argument(help="A zoo name (see 'hetgym list graphs'), or an .onnx, .pt2 or .json file.")
    ],
    platform: Annotated[
        str,
        typer.Option(
            help="A preset (see 'hetgym list platforms'), a YAML file, or a description of a machine (see "
            "'hetgym platform'). With --global-batch a cluster: "
            "a preset (see 'hetgym list clusters') or a YAML file."
        ),
    ],
    batch: Annotated[
        int | None,
        typer.Option(min=1, max=LARGEST_SIZE, help="Batch size. Default: the one of an ONNX model, else 1."),
    ] = None,
    dims: Annotated[
        list[str] | None,
        typer.Option(help="Sizes of symbolic dimensions, as in N=2,S=16, or sequence=4096 of a language model."),
    ] = None,
    phase: Annotated[
        str, typer.Option(help="Of a language model: forward, prefill or decode. Default: forward, of whole sequences.")
    ] = "",
    dtype: Annotated[str, typer.Option(help="Floating-point format, such as float16. Default: the model's own.")] = "",
    fuse: Annotated[bool, typer.Option("--fuse", help="Fuse operators first, as compilers do.")] = False,
    training: Annotated[bool, typer.Option("--training", help="Plan a training step instead of inference.")] = False,
    global_batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=LARGEST_BATCH,
            help="Samples of a training step: plan stages, tensor and data degrees and micro-batches of a language "
            "model (see 'hetgym list decoders') on a cluster.",
        ),
    ] = None,
    framework: Annotated[
        str,
        typer.Option(
            help="Training program on the cluster; see 'hetgym list frameworks'. With switches: megatron,zero=1. "
            "zero=any and sequence=any leave them to the planner."
        ),
    ] = "megatron",
    planner: Annotated[
        str, typer.Option(help="Planner of training steps; see 'hetgym list planners'. all: a table of all.")
    ] = "search",
    schedule: Annotated[
        str,
        typer.Option(
            help="Pipeline schedules that a training step may take: some of 1f1b, gpipe, interleaved, zb-h1, or all."
        ),
    ] = "1f1b",
    runtime: Annotated[
        str, typer.Option(help="Simulated runtime; see 'hetgym list runtimes'. With switches: links,streams=2.")
    ] = "links",
    order: Annotated[
        str,
        typer.Option(help="device: devices keep to the plan's order. ready: they serve first come, first served."),
    ] = "device",
    budget: Annotated[str, typer.Option(help="Time to search, such as 500ms or 1min.")] = "10s",
    objective: Annotated[
        str,
        typer.Option(
            help="makespan, energy, cost, or weights as in makespan=1,energy=2, relative to HEFT's plan. Devices must "
            "state their powers or prices."
        ),
    ] = "makespan",
    compare: Annotated[bool, typer.Option("--compare", help="Run all schedulers beside it, and show a table.")] = False,
    schedulers: Annotated[
        str, typer.Option(help="Run these instead (see 'hetgym list schedulers'), and show a table.")
    ] = "",
    layers: Annotated[
        bool, typer.Option("--layers", help="Place whole layers of the model instead of single operators.")
    ] = False,
    export: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FORMAT[:FILE]",
            help="Write the plan for another program: json, onnxruntime, accelerate, llama.cpp or pipelining. May be "
            "given repeatedly. Default of FILE: a file beside plan.json.",
        ),
    ] = None,
    imports: ImportOption = None,
    out: OutOption = Path("results"),
    name: NameOption = "",
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> int:
    """Find the best plan for one model on one platform.

    Says what the plan gains over the best single device, what goes where, whether it fits, and what limits it; and
    writes it to <out>/<name>/plan.json beside the report. Plans respect the memory of the devices.
    """
    from hetgym._input.times import parse_time
    from hetgym.bench.job import Job, pick_runtimes, pick_schedulers
    from hetgym.bench.plan import BestTrace
    from hetgym.graph import load_graph
    from hetgym.graph.transforms import cast
    from hetgym.graph.transforms import fuse as fused
    from hetgym.graph.transforms import training as trained
    from hetgym.planning import get
    from hetgym.planning.capacity import without_limits
    from hetgym.planning.layers import by_layers
    from hetgym.problem import Problem
    from hetgym.sim import objective as as_objective
    from hetgym.sim import simulate
    from hetgym.workloads import ProblemSpec

    import_files(imports)
    wanted = parse_exports(export)
    check_exports(wanted, (model, platform), out)
    if global_batch is not None:
        from hetgym.cli.plan_training import plan_training

        if not training:
            raise ConfigError("--global-batch is for training steps; add --training")
        others = {"batch": batch, "dims": dims, "phase": phase, "dtype": dtype, "fuse": fuse, "layers": layers}
        others |= {"compare": compare, "schedulers": schedulers, "objective": objective != "makespan"}
        others |= {"runtime": runtime != "links", "order": order != "device", "budget": budget != "10s"}
        _refuse(others, "does not go with --global-batch")
        output = Output(out, name, force, as_json)
        exports = Exports(wanted)
        return plan_training(model, platform, global_batch, framework, planner, schedule, output, exports)
    others = {"framework": framework != "megatron", "planner": planner != "search", "schedule": schedule != "1f1b"}
    _refuse(others, "goes with --global-batch only")
    _refuse({"budget": schedulers and budget != "10s"}, "is for the search, which --schedulers replaces")
    if order not in ("device", "ready"):
        raise ConfigError(f"--order is device or ready, not {order!r}")
    under = pick_runtimes([f"{runtime},order=ready" if order == "ready" and runtime != "ready" else runtime])
    chosen = pick_schedulers(schedulers or ("all" if compare else PLAIN))
    goal = as_objective(objective)
    if not schedulers:
        ours = get("portfolio", seconds=parse_time(budget), budget=2**62, objective=goal)
        chosen = (*(row for row in chosen if row.name != ours.name), ours)
    options = ({"dims": parse_dims(dims)} if dims else {}) | ({"phase": phase} if phase else {})
    devices = _devices(platform)
    graph = load_graph(model, batch=batch, **options)
    graph = cast(graph, dtype) if dtype else graph
    graph = fused(graph).graph if fuse else graph
    graph = trained(graph) if training else graph
    problem = Problem.build(graph, devices)
    problem = by_layers(problem) if layers else problem
    spec = ProblemSpec.held(problem, f"{graph.name}{f'-b{batch}' if batch else ''}@{problem.name.partition('@')[2]}")
    job = Job(spec.name, (spec,), chosen, under, command_line())
    asked: dict[str, str | int | None] = {"model": model, "platform": platform, "batch": batch}
    sizes = parse_dims(dims) if dims else None
    exports = Exports(wanted, {"platform": devices, "model": model, "batch": batch, "dims": sizes})
    exports.check(problem)
    reference = None
    if goal.makespan < 1:
        roomy = without_limits(under[0])
        reference = simulate(problem, get("heft")(problem, runtime=roomy), roomy)
        goal.value(reference, reference)  # an error now if the devices do not state what it needs
    keeper = BestTrace(goal, reference)
    return _run(job, keeper, Output(out, name, force, as_json), asked, bool(compare or schedulers), exports)


def _refuse(given: dict[str, Any], why: str) -> None:
    """Refuse options that would mean nothing.

    Raises:
        ConfigError: one of them is given.
    """
    for option, value in given.items():
        if value:
            raise ConfigError(f"--{option} {why}; leave it out")


def _devices(platform: str) -> Platform:
    """Load a platform.

    Raises:
        HetgymError: it cannot be loaded.
        ConfigError: it is a cluster.
    """
    from hetgym.parallel import load_cluster
    from hetgym.topology import find_platform

    try:
        return find_platform(platform)
    except HetgymError as error:
        try:
            load_cluster(platform)
        except HetgymError:
            raise error from None
        raise ConfigError(
            f"{platform} is a cluster, on which steps of language models are planned with --training --global-batch N"
        ) from error


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


def _run(
    job: Job,
    keeper: BestTrace,
    output: Output,
    asked: dict[str, str | int | None],
    table: bool,
    exports: Exports,
) -> int:
    """Run the job, write the plan and show it; returns the exit code."""
    from hetgym.bench.folder import RunFolder
    from hetgym.bench.plan import plan_document
    from hetgym.cli import running
    from hetgym.cli.console import print_json, tell
    from hetgym.search.search import ended_by_interrupt

    folder = RunFolder(output.root, output.name, "best", output.force)
    with ended_by_interrupt() as interrupts, running.executing(job) as executor:
        outcome = running.run_job(job, folder, executor, keeper)
    document, refused = outcome.document, None
    if keeper.best is None and not outcome.result.interrupted:
        said = {row.scheduler: row.status for row in outcome.result.rows if not row.ok}
        name = "portfolio" if "portfolio" in said else next(iter(said))
        raise HetgymError(said[name] if name == "portfolio" else f"{name}: {said[name]}")
    if keeper.best is not None:
        problem = job.specs[0].build()
        chosen = plan_document(keeper.best, **asked, objective=keeper.objective, problem=problem)  # type: ignore[arg-type]
        outcome.files["plan"] = folder.write_json("plan.json", chosen)
        document = document | {"plan": chosen}
        written, refused = exports.write(keeper.best, folder.path)  # the plan is shown all the same
        outcome.files.update(written)
    if output.as_json:
        print_json(running.with_files(document, outcome))
    else:
        if table:
            running.print_tables(job, outcome)
        if keeper.best is not None:
            _print_plan(keeper, outcome)
            if keeper.reference is not None:
                _print_front(keeper, problem)
        running.print_files(outcome)
    running.report_problems(job, outcome)
    if refused is not None:
        raise refused
    if interrupts.came:
        tell("interrupted: the search ended early; the plan is the best that it had found")
        return 130
    return outcome.exit_code


def _print_plan(keeper: BestTrace, outcome: Outcome) -> None:
    """What the plan gains, what goes where, whether it fits, and what limits it."""
    from hetgym.bench.formats import duration, percent
    from hetgym.bench.job import explain
    from hetgym.bench.plan import blocks, device_shares, kind_seconds, transfers
    from hetgym.cli.console import stdout
    from hetgym.cli.tables import block_table, device_table
    from hetgym.errors import size
    from hetgym.sim.runtime import runtime
    from hetgym.workloads.best_known import PROVED

    best, console = keeper.best, stdout()
    assert best is not None
    rows = {row.scheduler: row for row in outcome.result.rows if row.ok}
    label = rows[best.scheduler].runtime
    console.print(f"{best.problem.name} under {label}: {explain(runtime(label))}", style="italic", soft_wrap=True)
    used = sorted({best.problem.device_names[k] for k in best.assignment.tolist()})
    found = (
        f"with the plan of {best.scheduler}" if len(used) > 1 else f"with everything on {used[0]}, the best plan found"
    )
    console.print(f"{duration(best.makespan)} {found}", style="bold", soft_wrap=True)
    for scheduler, words in (("single-device", "on the best single device"), ("heft", "with HEFT")):
        row = rows.get(scheduler)
        if row is not None and row.makespan_s is not None and scheduler != best.scheduler:
            ratio = row.makespan_s / best.makespan if best.makespan > 0 else 1.0
            lacks = keeper.lacks.get(scheduler)
            but = f", but that lacks {size(lacks)} of memory" if lacks else ""
            console.print(f"{duration(row.makespan_s)} {words}, {ratio:.2f} times as long{but}", soft_wrap=True)
    _print_quantities(keeper)
    bound = max((row.lower_bound_s for row in rows.values() if row.lower_bound_s is not None), default=0.0)
    if 0 < bound <= best.makespan * (1 + PROVED) and runtime(label).noise == 0:
        left = 1 - bound / best.makespan
        words = "this plan is optimal" if left <= PROVED else f"at most {percent(left)} are left to gain"
        console.print(f"no plan takes less than {duration(bound)}: {words}", soft_wrap=True)
    console.print(block_table(blocks(best)))
    console.print(device_table(device_shares(best)))
    kinds = kind_seconds(best)
    total = sum(kinds.values())
    if total > 0:
        named = [f"{kind} {percent(spent / total)}" for kind, spent in list(kinds.items())[:6]]
        console.print(f"run time by kind: {', '.join(named)}{', …' if len(kinds) > 6 else ''}", soft_wrap=True)
    count, amount = transfers(best)
    console.print(f"transfers: {count} edges cross devices, {size(amount)}", soft_wrap=True)
    causes = [f"{cause} {percent(share)}" for cause, share in best.blame.shares.items() if share >= 0.0005]
    console.print(f"what the time is spent on, along the critical chain: {', '.join(causes)}", soft_wrap=True)


def _print_quantities(keeper: BestTrace) -> None:
    """Energy and rent of the plan, where they are known, beside those of HEFT's."""
    from hetgym.cli.console import stdout
    from hetgym.sim.energy import has_power, has_price
    from hetgym.sim.objective import quantity

    best, reference = keeper.best, keeper.reference
    assert best is not None
    for name, unit, known in (("energy", " J", has_power), ("cost", "", has_price)):
        if not known(best.problem):
            continue
        value = quantity(best, name)
        other = 0.0 if reference is None else quantity(reference, name)
        beside = f", {value / other:.2f} times that of HEFT's plan" if other > 0 else ""
        stdout().print(f"{name} {value:.4g}{unit}{beside}", soft_wrap=True)
    if best.speed is not None and (best.speed < 1).any():
        slower = int((best.speed < 1).sum())
        stdout().print(f"{slower} operators at a lower clock, down to {best.speed.min():.0%} of the full one")


def _print_front(keeper: BestTrace, problem: Problem) -> None:
    """The plans of which none is better in all that the objective weighs, the makespan included."""
    from hetgym.baselines import trade_offs
    from hetgym.bench.plan import schedule_of
    from hetgym.cli.console import stdout
    from hetgym.cli.tables import front_table
    from hetgym.sim import OBJECTIVES

    best = keeper.best
    assert best is not None
    names = [name for name in OBJECTIVES if name == "makespan" or getattr(keeper.objective, name) > 0]
    front = trade_offs(problem, names, best.switches, beside=[schedule_of(best)])
    stdout().print("plans of which none is better in everything", style="italic")
    stdout().print(front_table([(item.schedule.scheduler, item.values) for item in front]))
