"""``hetgym pipeline``: a model or a table of layers cut into stages that work at the same time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hetgym._groups import gathered
from hetgym.cli.options import ModelOptions, Output, load_devices
from hetgym.cli.stages import KEYS, Case, amount, figures_of, print_stages
from hetgym.errors import ConfigError, HetgymError, check_name
from hetgym.pipeline.layout_text import StageText, counts_of, read_layout

if TYPE_CHECKING:
    from hetgym._types import IntArray
    from hetgym.graph.language_model import LanguageModel
    from hetgym.platform import Platform

_NO_MORE = {
    "throughput": "would not shorten the slowest",
    "latency": "would make a request slower",
    "balance": "would not make the heaviest lighter",
    "cache": "would leave no more room",
}


def pipeline(
    model: Annotated[
        str,
        typer.Argument(
            help="A zoo name (see 'hetgym list graphs'), an .onnx, .pt2, .py or .json file, or a .csv or .tsv table of "
            "layers with columns such as layer,count,time [ms],size [MB],output [MB]."
        ),
    ],
    platform: Annotated[
        str,
        typer.Option(
            help="A preset (see 'hetgym list platforms'), a YAML file, or a description of a machine. Without one, "
            "--stages equal devices hold the layers of a table."
        ),
    ] = "",
    stages: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=1024, help="Number of stages. Default: one for each device.")
    ] = None,
    objective: Annotated[
        str,
        typer.Option(
            help="throughput: the slowest stage is as fast as possible, transfers included. latency: one request "
            "passes all stages as fast as possible. balance: the heaviest stage, by time or else by size, is as light "
            "as possible. cache: the largest cache fits. Default: throughput, or balance for tables without times."
        ),
    ] = "",
    planner: Annotated[
        str,
        typer.Option(
            help="Method that finds the cut: linked-dp, the default, which knows the link between every two devices; "
            "even-cut, contiguous-dp, downset-dp, equal-cut or cp-sat, which take links for equal. all: a table of all "
            "but cp-sat."
        ),
    ] = "",
    layout: Annotated[
        str,
        typer.Option(
            help="Show these stages, too, in the order of devices: their numbers of layers, as in 9,8,8,7, with or "
            "without what is before and behind the layers; or a layout of Megatron Core, as in 'Et*9|t*8|t*8|t*7L'."
        ),
    ] = "",
    blocks: Annotated[
        str,
        typer.Option(
            help="Parts of a model that are never cut: layers, trunk, steps or operators. auto: steps if the model has "
            "several time steps, else layers if it has some, else trunk."
        ),
    ] = "auto",
    reserve: Annotated[str, typer.Option(help="Memory of each device that stays free, such as 2GB.")] = "",
    *,
    options: ModelOptions,
    output: Output,
) -> int:
    """Cut a model or a table of layers into pipeline stages.

    Every device holds one stage, and all work at the same time on different requests. Shows the time and memory of each
    stage, the slowest one, and the speed-up over one device; and writes the plan to OUT/NAME/plan.json.
    """
    parts = read_layout(layout)
    if parts and stages not in (None, len(parts)):
        raise ConfigError(f"--layout has {len(parts)} stages, and --stages {stages}")
    stages = len(parts) if parts else stages
    devices = _reserved(load_devices(platform), reserve) if platform else None
    if model.lower().endswith((".csv", ".tsv")):
        if any(vars(options).values()) or blocks != "auto":
            raise ConfigError(
                "--batch, --dims, --phase, --dtype, --quant, --cache and --blocks belong to models, not to tables of "
                "layers"
            )
        case = _of_table(model, devices, stages)
    else:
        if devices is None:
            raise ConfigError("--platform is missing: a model needs devices that it runs on")
        case = _of_model(options.load(model), devices, blocks, stages, _numbers(model, options))
    wanted = objective or ("throughput" if case.timed else "balance")
    check_name("objective of a pipeline's cut", wanted, KEYS)
    if wanted in ("throughput", "latency") and not case.timed:
        raise ConfigError(f"{model} has no times, so --objective is balance or cache; or add a column time [ms]")
    planner = planner or ("linked-dp" if case.chain is not None else "even-cut")
    if wanted in ("latency", "cache") and planner != "linked-dp":
        raise ConfigError(f"--objective {wanted} needs --planner linked-dp, and blocks other than operators")
    return _plan(case, stages, wanted, planner, parts, output)


def _reserved(platform: Platform, reserve: str) -> Platform:
    """The platform with another reserve of memory on each device."""
    from hetgym._input.sizes import parse_size

    if not reserve:
        return platform
    kept = parse_size(reserve)
    small = [device.name for device in platform.devices if device.memory_capacity <= kept]
    if small:
        raise ConfigError(f"--reserve {reserve}: device {small[0]!r} has no more memory than that")
    left = [replace(device, memory_reserve=float(kept)) for device in platform.devices]
    return replace(platform, devices=tuple(left))


def _of_table(path: str, platform: Platform | None, stages: int | None) -> Case:
    """A table of layers on a platform, or on as many equal devices as there are stages."""
    from hetgym.pipeline import load_layers

    if platform is None and stages is None:
        raise ConfigError("--stages is missing: say how many equal devices there are, or give a --platform")
    table = load_layers(path, platform, stages)
    problem = table.problem
    names = [d.name for d in platform.devices] if platform else [f"device {d}" for d in range(problem.num_devices)]
    layers = np.arange(problem.num_operators, dtype=np.int32)
    pairs = [(name, name) for name in problem.operator_names]
    return Case(problem, pairs, layers, names, table.timed, table.unit, table.chain, _hosts(platform))


def _of_model(graph: Any, platform: Platform, how: str, stages: int | None, numbers: LanguageModel | None) -> Case:
    """A model on a platform; a layer is a block, named after the layers of its operators, if they have some."""
    from hetgym.graph import layer_of
    from hetgym.pipeline import blocks, layer_chain
    from hetgym.pipeline import pipeline as priced

    how = "layers" if how == "auto" else how
    chain = layer_chain(graph, platform, how=how, model=numbers) if how != "operators" else None
    problem, block = priced(graph, platform, how=how, stages=stages), blocks(graph, how)
    inside = gathered(zip(block.tolist(), (op.name for op in graph.operators), strict=True))
    layer = block if (problem.colour >= 0).any() else np.arange(problem.num_operators, dtype=np.int32)
    names = []
    for number in range(len(inside)):
        known = [layer_of(own) for own in inside[number] if layer_of(own)] or inside[number]
        names.append((known[0], known[-1]))
    known_names = {op.name for op in graph.operators}
    prefix = "model." if {"embed_tokens", "lm_head"} <= known_names else ""  # of transformers, which the zoo stands for
    devices = [d.name for d in platform.devices]
    return Case(problem, names, layer, devices, chain=chain, hosts=_hosts(platform), prefix=prefix)


def _numbers(model: str, options: ModelOptions) -> LanguageModel | None:
    """The numbers of a language model; None of other models."""
    from hetgym.graph.model_names import load_language_model, model_names
    from hetgym.graph.passes import is_language_model

    if model not in model_names() and not is_language_model(model, {}):
        return None
    return load_language_model(model, "" if model.endswith(".gguf") else options.quant)


def _hosts(platform: Platform | None) -> frozenset[int]:
    """The CPUs of a platform."""
    return frozenset(k for k, device in enumerate(platform or ()) if device.kind == "cpu")


def _plan(case: Case, stages: int | None, objective: str, planner: str, parts: list[StageText], output: Output) -> int:
    """Cut, write and show; returns the exit code."""
    from hetgym._input.files import write_bytes
    from hetgym._text import finite
    from hetgym.baselines.pipeline import PARTITIONERS
    from hetgym.bench.folder import make_folder
    from hetgym.cli.console import print_json, print_path, say

    found: dict[str, dict[str, Any]] = {}
    refused: HetgymError | None = None
    linked = ("linked-dp",) if case.chain is not None else ()
    for method in (*linked, *PARTITIONERS) if planner == "all" else (planner,):
        try:
            found[method] = figures_of(case, _cut(case, stages, method, objective))
        except HetgymError as error:
            if planner != "all":
                raise
            refused = error
    if not found:
        assert refused is not None
        raise refused
    key = KEYS[objective]
    best = min(found, key=lambda method: found[method][key] * (-1 if key == "room" else 1))
    document: dict[str, Any] = {"pipeline": case.problem.name, "objective": objective, "planner": best, **found[best]}
    if len(found) > 1:
        document["planners"] = {method: figures[key] for method, figures in found.items()}
    if parts:
        document["layout"] = figures_of(case, _given(case, parts))
    document = finite(document)
    folder = make_folder(output.out, output.name, output.force)
    write_bytes(folder / "plan.json", json.dumps(document, indent=1).encode(), ConfigError)
    if output.as_json:
        print_json(document)
        return 0
    used = len(document["stages"])
    print_stages(case, document, f"{case.problem.name}: {used} stage{'s' if used > 1 else ''} by {best}")
    if used < (stages or case.problem.num_devices):
        more = _NO_MORE[objective]
        why = "every stage is one layer already" if used == len(case.layers) else f"one more stage {more}"
        say(f"the other devices stay empty: {why}")
    lightest = {"s": "slowest_s", "share": "fullest"}.get(document["heaviest_unit"], "largest")
    shown = lightest if key == "heaviest" else key
    for method, value in document.get("planners", {}).items():
        say(f"{method}: {amount(value, shown, case.unit)}")
    if parts:
        counts = ",".join(str(stage["layers"]) for stage in document["layout"]["stages"])
        print_stages(case, document["layout"], f"the layout {counts}")
    print_path("plan", folder / "plan.json")
    return 0


def _cut(case: Case, stages: int | None, planner: str, objective: str) -> IntArray:
    """[n] device of each operator of the problem, by a planner."""
    from hetgym.baselines.pipeline import PLANNERS, linked_dp, plan_pipeline

    if planner != "linked-dp":
        check_name("planner of pipelines", planner, ["linked-dp", *PLANNERS])
        return plan_pipeline(case.problem, stages, planner, objective)
    if case.chain is None:
        raise ConfigError("linked-dp cuts layers one after the other; choose other --blocks than operators")
    cut = linked_dp(case.chain, objective, stages)
    return np.repeat([stage.device for stage in cut], [stage.end - stage.first for stage in cut]).astype(np.int32)


def _given(case: Case, parts: Sequence[StageText]) -> IntArray:
    """[n] device of each operator in a given layout.

    Raises:
        ConfigError: another number of layers.
        InvalidSchedule: a device cannot run or hold its stage.
    """
    roles = case.chain.roles if case.chain is not None else ("layer",) * len(case.layers)
    return case.problem.check(np.repeat(np.arange(len(parts)), counts_of(parts, roles))[case.layer])
