"""``hetgym plan``: the best schedule for one model on one platform."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from hetgym._sums import summed
from hetgym._text import counted
from hetgym.cli.exports import Exports, check_exports, parse_exports
from hetgym.cli.options import (
    ExportOption,
    FuseOption,
    ImportOption,
    ModelOptions,
    Output,
    RuntimeOption,
    command_line,
    import_files,
    load_devices,
    parse_dims,
)
from hetgym.errors import ConfigError, HetgymError

if TYPE_CHECKING:
    from hetgym.baselines.window_executors import WindowExecutor
    from hetgym.bench.job import Job, Outcome
    from hetgym.bench.plan import BestTrace
    from hetgym.problem import Problem

BUDGET = "10s"  # Time of the search unless another is given
PLAIN = "single-device,heft"  # Schedulers beside which a plan is shown


def plan(
    model: Annotated[
        str, typer.Argument(help="A zoo name (see 'hetgym list graphs'), or an .onnx, .pt2, .py or .json file.")
    ],
    platform: Annotated[
        str,
        typer.Option(
            help="A preset (see 'hetgym list platforms'), a YAML file, a machine in a line such as '2x RTX 3090, 64GB "
            "DDR4-3600', or a description of a machine (see 'hetgym platform')."
        ),
    ],
    options: ModelOptions,
    fuse: FuseOption = False,
    training: Annotated[
        bool, typer.Option("--training", help="Plan a step of training, forward and backward, instead of inference.")
    ] = False,
    runtime: RuntimeOption = "links",
    budget: Annotated[str, typer.Option(help="Time to search, such as 500ms or 1min.")] = BUDGET,
    objective: Annotated[
        str,
        typer.Option(
            help="makespan, energy, cost, or weights as in makespan=1,energy=2, relative to HEFT's plan. Devices must "
            "state their powers or prices."
        ),
    ] = "makespan",
    compare: Annotated[
        bool, typer.Option("--compare", help="Run the schedulers of 'hetgym bench' beside it, and show a table.")
    ] = False,
    schedulers: Annotated[
        str, typer.Option(help="Run these instead (see 'hetgym list schedulers'), and show a table.")
    ] = "",
    layers: Annotated[
        bool, typer.Option("--layers", help="Place whole layers of the model instead of single operators.")
    ] = False,
    ray: Annotated[
        str,
        typer.Option(
            metavar="[ADDRESS]",
            help="Search large problems on a Ray cluster: auto, host:port or, without an address, one of this machine.",
        ),
    ] = "",
    export: ExportOption = None,
    imports: ImportOption = None,
    *,
    output: Output,
) -> int:
    """Find the best plan for one model on one platform.

    Says what the plan gains over the best single device, what goes where, whether it fits, and what limits it; and
    writes it to OUT/NAME/plan.json beside the report. Plans respect the memory of the devices.
    """
    from hetgym._input.times import parse_time
    from hetgym.bench.job import Job, pick_runtimes, pick_schedulers
    from hetgym.bench.plan import BestTrace
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
    check_exports(wanted, (model, platform), output.out)
    for option, given in (("--budget", budget != BUDGET), ("--ray", ray)):
        if schedulers and given:
            raise ConfigError(f"{option} is for the search, which --schedulers replaces; leave it out")
    under = pick_runtimes([runtime])
    chosen = pick_schedulers(schedulers or ("default" if compare else PLAIN))
    goal, seconds = as_objective(objective), parse_time(budget)
    devices = load_devices(platform)
    graph = options.load(model, fuse)
    graph = trained(graph) if training else graph
    problem = Problem.build(graph, devices)
    problem = by_layers(problem) if layers else problem
    batch = options.batch
    asked: dict[str, str | int | None] = {"model": model, "platform": platform, "batch": batch}
    sizes = parse_dims(options.dims) if options.dims else None
    exports = Exports(wanted, {"platform": devices, "model": model, "batch": batch, "dims": sizes})
    exports.check(problem)
    problem = exports.placeable(problem)
    spec = ProblemSpec.held(problem, f"{graph.name}{f'-b{batch}' if batch else ''}@{problem.name.partition('@')[2]}")
    reference = None
    if goal.makespan < 1:
        roomy = without_limits(under[0])
        reference = simulate(problem, get("heft")(problem, runtime=roomy), roomy)
        goal.value(reference, reference)  # an error now if the devices do not state what it needs
    keeper = BestTrace(goal, reference)
    with _annealing(ray, problem, runtime) as executor:
        if not schedulers:
            elsewhere = {} if executor is None else {"executor": executor}
            ours = get("portfolio", seconds=seconds, budget=2**62, objective=goal, **elsewhere)
            chosen = (*(row for row in chosen if row.name != ours.name), ours)
        job = Job(spec.name, (spec,), chosen, under, command_line())
        return _run(job, keeper, output, asked, bool(compare or schedulers), exports)


@contextmanager
def _annealing(address: str, problem: Problem, runtime: str) -> Iterator[WindowExecutor | None]:
    """A Ray cluster that anneals windows, which takes some seconds to join; None if there is no address.

    Raises:
        ConfigError: the problem is not searched in windows.
        ClusterError: the cluster cannot be joined.
    """
    if not address:
        yield None
        return
    from hetgym.baselines.window_annealing import check_windows
    from hetgym.baselines.window_cluster import windows_on_ray
    from hetgym.cli.console import stderr, tell

    check_windows(problem, runtime)
    with ExitStack() as stack:
        with stderr().status("connecting to a Ray cluster…"):
            executor = stack.enter_context(windows_on_ray(address))
        tell(f"on {executor.description}")
        yield executor


def _run(
    job: Job, keeper: BestTrace, output: Output, asked: dict[str, str | int | None], table: bool, exports: Exports
) -> int:
    """Run the job, write the plan and show it; returns the exit code."""
    from hetgym.bench.folder import RunFolder
    from hetgym.bench.plan import plan_document
    from hetgym.cli import running
    from hetgym.cli.console import print_json, tell
    from hetgym.search.search import ended_by_interrupt

    folder = RunFolder(output.out, output.name, "best", output.force)
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
    from hetgym._text import duration, percent
    from hetgym.bench.job import explain
    from hetgym.bench.plan import blocks, device_shares, kind_seconds, transfers
    from hetgym.cli.console import print_table, say, stdout
    from hetgym.cli.tables import block_table, device_table
    from hetgym.errors import size
    from hetgym.sim.runtime import runtime
    from hetgym.workloads.best_known import PROVED

    best = keeper.best
    assert best is not None
    rows = {row.scheduler: row for row in outcome.result.rows if row.ok}
    label = rows[best.scheduler].runtime
    say(f"{best.problem.name} under {label}: {explain(runtime(label))}", "italic")
    used = sorted({best.problem.device_names[k] for k in best.assignment.tolist()})
    found = (
        f"with the plan of {best.scheduler}" if len(used) > 1 else f"with everything on {used[0]}, the best plan found"
    )
    say(f"{duration(best.makespan)} {found}", "bold")
    for scheduler, words in (("single-device", "on the best single device"), ("heft", "with HEFT")):
        row = rows.get(scheduler)
        if row is not None and row.makespan_s is not None and scheduler != best.scheduler:
            ratio = row.makespan_s / best.makespan if best.makespan > 0 else 1.0
            lacks = keeper.lacks.get(scheduler)
            but = f", but that lacks {size(lacks)} of memory" if lacks else ""
            say(f"{duration(row.makespan_s)} {words}, {ratio:.2f} times as long{but}")
    _print_quantities(keeper)
    bound = max((row.lower_bound_s for row in rows.values() if row.lower_bound_s is not None), default=0.0)
    if 0 < bound <= best.makespan * (1 + PROVED) and runtime(label).noise == 0:
        left = 1 - bound / best.makespan
        words = "this one is optimal" if left <= PROVED else f"gap {percent(left)}"
        claim = f"Lower bound {duration(bound)}: no plan that keeps operators whole can be shorter ({words})."
        say(claim)
    stdout().print(block_table(blocks(best)))
    print_table(device_table(device_shares(best)))
    kinds = kind_seconds(best)
    total = summed(kinds.values())
    if total > 0:
        named = [f"{kind} {percent(spent / total)}" for kind, spent in list(kinds.items())[:6]]
        say(f"run time by kind: {', '.join(named)}{', …' if len(kinds) > 6 else ''}")
    count, amount = transfers(best)
    crossing = "edge crosses" if count == 1 else "edges cross"
    say(f"transfers: {count} {crossing} devices, {size(amount)}")
    causes = [f"{cause} {percent(share)}" for cause, share in best.blame.shares.items() if share >= 0.0005]
    say(f"what the time is spent on, along the critical chain: {', '.join(causes)}")


def _print_quantities(keeper: BestTrace) -> None:
    """Energy and rent of the plan, where they are known, beside those of HEFT's."""
    from hetgym.cli.console import say, stdout
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
        say(f"{name} {value:.4g}{unit}{beside}")
    if best.speed is not None and (best.speed < 1).any():
        slower = int((best.speed < 1).sum())
        stdout().print(
            f"{counted(slower, 'operator')} at a lower clock, down to {best.speed.min():.0%} of the full one"
        )


def _print_front(keeper: BestTrace, problem: Problem) -> None:
    """The plans that do not dominate each other in all that the objective weighs, the makespan included."""
    from hetgym.baselines import trade_offs
    from hetgym.bench.plan import schedule_of
    from hetgym.cli.console import stdout
    from hetgym.cli.tables import front_table
    from hetgym.sim import OBJECTIVES

    best = keeper.best
    assert best is not None
    names = [name for name in OBJECTIVES if name == "makespan" or getattr(keeper.objective, name) > 0]
    front = trade_offs(problem, names, best.switches, beside=[schedule_of(best)])
    stdout().print("plans that do not dominate each other", style="italic")
    stdout().print(front_table([(item.schedule.scheduler, item.values) for item in front]))
