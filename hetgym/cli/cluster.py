"""``hetgym cluster``: the best training step of a language model on a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hetgym._input.config import LARGEST_BATCH
from hetgym._sums import summed
from hetgym.cli.exports import Exports, check_exports, parse_exports
from hetgym.cli.options import ExportOption, Output

if TYPE_CHECKING:
    from hetgym.parallel import ParallelPlan, TrainingProblem, TrainingStep, TransformerSize

SLOW = ("exact", "exhaustive")  # Planners that `all` leaves out: they are for small problems

ANY: dict[str, tuple[str, Any]] = {"zero=any": ("zeros", (0, 1, 2, 3)), "sequence=any": ("sequences", (False, True))}
"""Switches of a framework that the planner chooses: argument of the problem, and its values."""


def cluster(
    model: Annotated[str, typer.Argument(help="A language model; see 'hetgym list decoders'.")],
    platform: Annotated[str, typer.Option(help="A cluster (see 'hetgym list clusters') or a YAML file of one.")],
    global_batch: Annotated[
        int, typer.Option(metavar="N", min=1, max=LARGEST_BATCH, help="Samples of a training step.")
    ],
    framework: Annotated[
        str,
        typer.Option(
            help="Training program; see 'hetgym list frameworks'. With switches: megatron,zero=1. zero=any and "
            "sequence=any leave them to the planner."
        ),
    ] = "megatron",
    planner: Annotated[
        str, typer.Option(help="Method that finds the plan; see 'hetgym list planners'. all: a table of all.")
    ] = "search",
    schedule: Annotated[
        str, typer.Option(help="Pipeline schedules that it may take: some of 1f1b, gpipe, interleaved, zb-h1, or all.")
    ] = "1f1b",
    export: ExportOption = None,
    *,
    output: Output,
) -> int:
    """Find the best training step of a language model on a cluster.

    Chooses stages, tensor and data degrees and micro-batches, says what limits the step and whether it fits, and
    writes the plan to OUT/NAME/plan.json. If no plan fits, ZeRO and sequence parallelism are chosen, too.
    """
    wanted = parse_exports(export)
    check_exports(wanted, (model, platform), output.out)
    return plan_step(model, platform, global_batch, framework, planner, schedule, output, Exports(wanted))


def plan_step(
    model: str,
    cluster: str,
    global_batch: int,
    framework: str,
    planner: str,
    schedule: str,
    output: Output,
    exports: Exports,
) -> int:
    """Plan a training step, print the plan and write it to ``plan.json``; returns the exit code."""
    from hetgym.baselines.parallel import PLANNERS, plan_training
    from hetgym.bench.folder import make_folder
    from hetgym.cli.console import print_json, print_path, print_table, tell
    from hetgym.errors import ProblemError, check_name, unknown_name
    from hetgym.parallel import SIZES, TrainingProblem, TransformerLayers, framework_of, load_cluster
    from hetgym.pipeline import SCHEDULES
    from hetgym.search.search import ended_by_interrupt

    check_name("language model", model, SIZES)
    if planner != "all" and planner not in PLANNERS:
        raise unknown_name("planner of training steps", planner, PLANNERS)
    words = [word.strip() for word in framework.split(",")]
    fixed = ",".join(word for word in words if word not in ANY)
    gpus, size, program = load_cluster(cluster), SIZES[model], framework_of(fixed)
    schedules = tuple(SCHEDULES) if schedule == "all" else tuple(word.strip() for word in schedule.split(","))
    layers = TransformerLayers(size, gpus, program)
    chosen: dict[str, Any] = {name: values for word, (name, values) in ANY.items() if word in words}
    problem = TrainingProblem(layers, gpus, global_batch, program, schedules=schedules, **chosen)
    exports.check(None)
    names = [n for n in PLANNERS if n not in SLOW] if planner == "all" else [planner]
    found: dict[str, ParallelPlan] = {}
    refused: ProblemError | None = None
    with ended_by_interrupt() as interrupts:
        every: dict[str, Any] = dict(ANY.values())
        for asked in (problem, replace(problem, **every)):
            for name in names:
                try:
                    found[name] = plan_training(asked, name)
                except ProblemError as error:
                    refused = error
                except KeyboardInterrupt:
                    if not interrupts.came:
                        raise
                if interrupts.came:
                    break
            if found or interrupts.came:
                break
    if not found and interrupts.came:
        tell("interrupted before a plan was found")
        return 130
    if not found:
        assert refused is not None
        raise refused
    best = min(found, key=lambda name: problem.value(found[name]))
    step = problem.step(found[best])
    figures = _figures(problem, size, found[best], step)
    document: dict[str, Any] = {
        "model": model,
        "cluster": gpus.name,
        "planner": best,
        "plan": found[best].to_dict(),
        "step": figures,
        "planners": {name: problem.value(plan) for name, plan in found.items()},
    }
    folder = make_folder(output.out, output.name, output.force)
    found[best].save(folder / "plan.json")
    files, lost = exports.write(found[best], folder)
    if not chosen and found[best].zero is not None:
        tell(f"no plan fits under an unchanged {framework!r}; the planner chose ZeRO and sequence parallelism, too")
    if interrupts.came:
        tell("interrupted: the search ended early; the plan is the best that it had found")
    if output.as_json:
        print_json(document)
        if lost:
            raise lost
        return 130 if interrupts.came else 0
    _print(figures, f"{model} on {gpus.name}, global batch {global_batch}, planned by {best}")
    print_table(_stages(problem, found[best], step))
    if len(found) > 1:
        print_table(_planners(found, problem))
    for label, path in {"plan": folder / "plan.json", **files}.items():
        print_path(label, path)
    if lost:
        raise lost
    return 130 if interrupts.came else 0


def _figures(problem: TrainingProblem, size: TransformerSize, plan: ParallelPlan, step: TrainingStep) -> dict[str, Any]:
    """Figures of a step, in SI units."""
    from hetgym.costs.rates import peak_flops

    # A GPU without a rate for the dtype computes in another, at whose rate the layers are priced.
    peak = summed(peak_flops(problem.cluster[name].device, size.dtype) * n for name, n in plan.used().items())
    rate = size.flops * plan.global_batch / step.seconds
    return {
        "seconds": step.seconds,
        "pipeline_s": step.pipeline,
        "all_reduce_s": step.reduction,
        "update_s": step.update,
        "bubble": step.bubble,
        "tokens_per_second": plan.global_batch * size.sequence / step.seconds,
        "flops_per_gpu": rate / plan.gpus,
        "model_flops_utilisation": rate / peak if peak else None,
        "gpus": plan.gpus,
        "gpus_of_cluster": problem.cluster.gpus,
        "stages": plan.depth,
        "replicas": plan.replicas,
        "micro_batch": plan.micro_batch,
        "micro_batches": plan.micro_batches,
        "schedule": plan.schedule,
        "chunks": plan.chunks,
        "zero": problem.under(plan).framework.zero,
        "sequence": problem.under(plan).framework.sequence,
        "memory_bytes": step.memory.tolist(),
        "limit": step.limit,
    }


def _print(step: dict[str, Any], title: str) -> None:
    """The step in words."""
    from hetgym._text import duration, percent
    from hetgym.cli.console import say

    say(title, "italic")
    say(
        f"{duration(step['seconds'])} a step on {step['gpus']} of {step['gpus_of_cluster']} GPUs: "
        f"{_count(step['stages'], 'stage')}, {_count(step['replicas'], 'replica')}, "
        f"{_count(step['micro_batches'], 'micro-batch')} of {step['micro_batch']} under {step['schedule']}"
        + (f" with {step['chunks']} chunks" if step["chunks"] > 1 else "")
        + (f", ZeRO {step['zero']}" if step["zero"] else "")
        + (", sequence parallelism" if step["sequence"] else ""),
        "bold",
    )
    used = step["model_flops_utilisation"]
    share = f", {percent(used)} of the peak" if used is not None else ""
    say(f"{step['tokens_per_second']:,.0f} tokens/s, {step['flops_per_gpu'] / 1e12:.0f} TFLOP/s a GPU{share}")
    say(
        f"bubble {percent(step['bubble'])} of the pipeline, gradients {duration(step['all_reduce_s'])}, optimizer "
        f"{duration(step['update_s'])}; limited by the {step['limit']}"
    )


def _count(number: int, noun: str) -> str:
    """A number with its noun.

    >>> _count(1, "stage"), _count(2, "micro-batch")
    ('1 stage', '2 micro-batches')
    """
    return f"{number} {noun}{'' if number == 1 else 'es' if noun.endswith('ch') else 's'}"


def _stages(problem: TrainingProblem, plan: ParallelPlan, step: TrainingStep) -> Any:
    """The table of stages."""
    from hetgym._text import percent
    from hetgym.cli.tables import table_of
    from hetgym.errors import size

    table = table_of("stage", "layers", "GPUs", "busy", "memory", "of a GPU", left=("layers", "GPUs"))
    for stage in range(plan.depth):
        pieces = plan.stages[stage :: plan.depth]
        spans = [f"{piece.first} to {piece.last}" for piece in pieces]
        layers = ",\n".join(", ".join(spans[k : k + 2]) for k in range(0, len(spans), 2))
        counts = {group: pieces[0].groups.count(group) for group in dict.fromkeys(pieces[0].groups)}
        groups = " + ".join(f"{n} x {group.tensor} {group.pool}" for group, n in counts.items())
        share = step.memory[stage] / step.capacity[stage]
        busy = percent(step.busy[stage] / step.pipeline)
        table.add_row(str(stage), layers, groups, busy, size(step.memory[stage]), percent(share))
    return table


def _planners(found: dict[str, ParallelPlan], problem: TrainingProblem) -> Any:
    """The table of planners, best first."""
    from hetgym._text import duration
    from hetgym.cli.tables import table_of

    table = table_of("planner", "step", "GPUs", "stages", "replicas", "samples", "schedule", left=("planner",))
    for name in sorted(found, key=lambda name: problem.value(found[name])):
        plan = found[name]
        figures = (plan.gpus, plan.depth, plan.replicas, plan.micro_batch)
        order = f"{plan.schedule} x {plan.chunks}" if plan.chunks > 1 else plan.schedule
        table.add_row(name, duration(problem.value(plan)), *map(str, figures), order)
    return table
