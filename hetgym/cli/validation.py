"""``hetgym validate`` in a terminal: models through the protocol one by one, results at once on the disk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np

from hetgym._types import FloatArray
from hetgym.cli.terminal import print_json, stderr, stdout
from hetgym.costs import AutoCosts
from hetgym.errors import ConfigError, ExecutionError
from hetgym.execution.devices import ExecutionDevice
from hetgym.execution.protocol import BUSY, DONE, ModelResult, OperatorCosts, Settings, validate_model
from hetgym.execution.report import TARGETS, document, side_by_side, table, verdicts, write_json
from hetgym.graph import DataflowGraph, load_graph
from hetgym.platform import Platform, load_platform

CALIBRATED = "calibrated"
"""``--costs`` without a platform: operators are priced by what was measured in the same session alone."""


def learned_costs(platform: Platform) -> OperatorCosts:
    """Operator costs by the fitted models that a platform's devices name, device d for worker d.

    Raises:
        ConfigError: when called, if there are more workers than devices.
    """

    def predict(graph: DataflowGraph, devices: Sequence[ExecutionDevice]) -> FloatArray:
        if len(devices) > len(platform.devices):
            raise ConfigError(f"{platform.name} has {len(platform.devices)} devices for {len(devices)} workers")
        model = AutoCosts()
        return np.stack(
            [model.predict(graph.operators, platform.devices[d]) for d in range(len(devices))], axis=1
        )  # fmt: skip

    return predict


def validate(
    models: Sequence[str], settings: Settings, costs: str, out: Path, name: str, command: Sequence[str], as_json: bool
) -> int:
    """The whole of ``hetgym validate``; returns the exit code."""
    learned = None if costs == CALIBRATED else learned_costs(load_platform(costs))
    graphs = [load_graph(model) for model in models]
    folder = _folder(out, name)
    results: list[ModelResult] = []
    for number, graph in enumerate(graphs, 1):
        stderr().print(f"{number} of {len(graphs)}: {graph.name}, {len(graph)} operators", highlight=False)
        stem = re.sub(r"[^\w.@+-]+", "-", graph.name)
        try:
            result = validate_model(graph, settings, folder / f"{stem}.predictions.json", learned)
        except ExecutionError as error:
            result = ModelResult(graph.name, f"failed: {error}", len(graph))
        results.append(result)
        if result.traces is not None:
            write_json(folder / f"{stem}.trace.json", side_by_side(*result.traces))
        if result.status == BUSY:
            stderr().print(f"{graph.name}: {result.status}; others used {result.foreign:.0%} of the cores")
        elif result.status != DONE:
            stderr().print(f"{graph.name}: {result.status}", markup=False, soft_wrap=True)
        write_json(folder / "validation.json", document(results, settings, command))
    if as_json:
        print_json(document(results, settings, command) | {"folder": str(folder)})
    else:
        stdout().print(table(results))
        for kind, good in verdicts(results).items():
            most, least = TARGETS[kind]
            verdict = "reached" if good else "missed"
            stdout().print(f"{kind}: target of {most:.0%} mean error and tau {least:g} {verdict}", soft_wrap=True)
        stdout().print(f"   files  {folder}", markup=False, soft_wrap=True)
    failed = any(result.status not in (DONE, BUSY) for result in results)
    return 1 if failed or not all(verdicts(results).values()) else 0


def _folder(out: Path, name: str) -> Path:
    if name and (Path(name).name != name or name in (".", "..")):
        raise ConfigError(f"a run is named by one word, not by a path such as {name!r}; --out takes the folder")
    folder = out / (name or datetime.now().strftime("validate-%Y-%m-%d-%H%M%S"))
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise ConfigError(f"{folder}: holds an earlier run; choose another --name") from None
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written ({error.strerror or error})") from error
    return folder
