"""``hetgym validate``: predicted against executed makespans on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hetgym._input.files import check_run_name, write_json
from hetgym._text import counted, file_stem
from hetgym.cli.console import print_json, print_path, print_table, say, tell
from hetgym.cli.options import Output, command_line, words
from hetgym.errors import ConfigError, ExecutionError

if TYPE_CHECKING:
    from hetgym._types import FloatArray
    from hetgym.execution.devices import ExecutionDevice
    from hetgym.execution.protocol import ModelResult, OperatorCosts, Settings
    from hetgym.graph import DataflowGraph
    from hetgym.platform import Platform

CALIBRATED = "calibrated"  # `--costs` without a platform: operators are priced only by measurements of the same session


def validate(
    models: Annotated[
        str,
        typer.Option(
            help="Comma-separated models: zoo names (see 'hetgym list graphs'), .onnx, .pt2, .py or .json files."
        ),
    ] = "alexnet,bert_base,inception_v1,resnet50,shufflenet,squeezenet",
    processors: Annotated[
        str,
        typer.Option(help="Comma-separated devices of plans: cpuCORE:INSTRUCTIONS, as in cpu0:full, or cudaN@cpuCORE."),
    ] = "cpu0:full,cpu1:avx2",
    placements: Annotated[int, typer.Option(metavar="N", min=2, help="Held-out placements of each model.")] = 17,
    rounds: Annotated[int, typer.Option(metavar="N", min=2, help="Runs of each placement that count.")] = 11,
    calibration_rounds: Annotated[
        int, typer.Option(metavar="N", min=2, help="Runs of each calibration placement.")
    ] = 15,
    costs: Annotated[
        str,
        typer.Option(
            help="'calibrated', or a platform (name or YAML file) whose devices' fitted cost models price the "
            "operators as well."
        ),
    ] = CALIBRATED,
    limit: Annotated[
        float, typer.Option(metavar="N", min=0, help="Share of the cores that others may use; inf: any.")
    ] = 0.05,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of placements, rounds and random weights.")] = 0,
    *,
    output: Output,
) -> int:
    """Run schedules for real on this machine, and compare with what the simulator predicts.

    Calibrates costs, predicts placements that were not run, writes the predictions down, runs them and
    prints errors and rank correlation. Writes validation.json, the predictions and traces to
    OUT/NAME/. Exit code 1 if a target was missed.
    """
    from hetgym.execution.devices import parse_devices
    from hetgym.execution.protocol import Settings
    from hetgym.graph import load_graph
    from hetgym.platform import load_platform

    settings = Settings(
        parse_devices(processors), placements, rounds, calibration_rounds=calibration_rounds, limit=limit, seed=seed
    )
    learned = None if costs == CALIBRATED else learned_costs(load_platform(costs))
    graphs = [load_graph(model) for model in words(models)]
    if not graphs:
        raise ConfigError("--models is empty; name at least one")
    return _run(graphs, settings, learned, output)


def learned_costs(platform: Platform) -> OperatorCosts:
    """Operator costs by the fitted models that a platform's devices name, device d for worker d.

    When called with more workers than devices they raise a ConfigError.
    """
    import numpy as np

    from hetgym.costs import AutoCosts

    def predict(graph: DataflowGraph, devices: Sequence[ExecutionDevice]) -> FloatArray:
        if len(devices) > len(platform.devices):
            raise ConfigError(f"{platform.name} has {len(platform.devices)} devices for {len(devices)} workers")
        model = AutoCosts()
        columns = [model.predict(graph.operators, platform.devices[d]) for d in range(len(devices))]
        return np.stack(columns, axis=1)

    return predict


def _run(graphs: Sequence[DataflowGraph], settings: Settings, learned: OperatorCosts | None, output: Output) -> int:
    """Validate the models one by one, with results on the disk after each; returns the exit code."""
    from hetgym.execution.protocol import BUSY, DONE
    from hetgym.execution.report import document, verdicts

    folder = _folder(output)
    results: list[ModelResult] = []
    for number, graph in enumerate(graphs, 1):
        tell(f"{number} of {len(graphs)}: {graph.name}, {counted(len(graph), 'operator')}")
        result = _validate(graph, settings, learned, folder)
        results.append(result)
        if result.status == BUSY:
            tell(f"{graph.name}: {result.status}; others used {result.foreign:.0%} of the cores")
        elif result.status != DONE:
            tell(f"{graph.name}: {result.status}")
        write_json(folder / "validation.json", document(results, settings, command_line()))
    if output.as_json:
        print_json(document(results, settings, command_line()) | {"folder": str(folder)})
    else:
        _print(results, folder)
    failed = any(result.status not in (DONE, BUSY) for result in results)
    reached = verdicts(results)
    if not failed and not reached:
        tell("nothing was validated: all models were skipped")
    return 0 if reached and all(reached.values()) and not failed else 1


def _validate(graph: DataflowGraph, settings: Settings, learned: OperatorCosts | None, folder: Path) -> ModelResult:
    """One model through the protocol; its predictions and traces go to the folder."""
    from hetgym.execution.protocol import ModelResult, validate_model
    from hetgym.execution.report import side_by_side

    stem = file_stem(graph.name)
    try:
        result = validate_model(graph, settings, folder / f"{stem}.predictions.json", learned)
    except ExecutionError as error:
        return ModelResult(graph.name, f"failed: {error}", len(graph))
    if result.traces is not None:
        write_json(folder / f"{stem}.trace.json", side_by_side(*result.traces))
    return result


def _print(results: Sequence[ModelResult], folder: Path) -> None:
    """The scores, and a verdict on each target."""
    from hetgym.cli.tables import table_of
    from hetgym.execution.report import COLUMNS, TARGETS, score_rows, verdicts

    table = table_of(*COLUMNS, left=COLUMNS[:2])
    for row in score_rows(results):
        table.add_row(*row)
    print_table(table)
    for kind, good in verdicts(results).items():
        most, least = TARGETS[kind]
        verdict = "reached" if good else "missed"
        say(f"{kind}: target of {most:.0%} mean error and tau {least:g} {verdict}")
    print_path("files", folder)


def _folder(output: Output) -> Path:
    """The folder of this run, without the files of an earlier one; ConfigError if that cannot be."""
    from hetgym.bench.folder import make_folder

    name = check_run_name(output.name) if output.name else datetime.now().strftime("validate-%Y-%m-%d-%H%M%S")
    folder = make_folder(output.out, name, output.force)
    for pattern in ("validation.json", "*.predictions.json", "*.trace.json"):
        for old in folder.glob(pattern):
            old.unlink()
    return folder
