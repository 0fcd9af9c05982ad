"""Predicted against executed: models on two workers of this machine, held-out placements, predictions frozen first.

    python benchmarks/costs/execution.py --json execution.json --picture docs/images/costs-execution.png
    python benchmarks/costs/execution.py --platform machine.yaml --json execution.json   # the second row as well

Protocol *two-device-v1* (:mod:`hetgym.execution.protocol`): each model is calibrated by runs with all operators on each
worker, and with operators assigned to the workers in turn. Then other placements are predicted, the predictions are
written to disk, and the placements run in shuffled rounds. There are two rows: operator costs *calibrated* in the same
session; and *learned*, by the fitted models that the devices of a platform name (device d for worker d), with
calibrated communication and dispatch. No predicted placement has run before its prediction. Nothing is measured while
other processes use more than 5 % of the cores.

Besides the errors, the script prints the gain of the best placement over the best single worker, and the time of torch
with a thread on each core at full instruction set, which is the alternative to placing on such a machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from _common import command_line, seconds, show

from hetgym import load_graph, load_platform
from hetgym.cli.validate import learned_costs
from hetgym.costs.fitting import Score
from hetgym.execution import ExecutionDevice, parse_devices, run
from hetgym.execution.calibration import in_topological_order
from hetgym.execution.protocol import DONE, PROTOCOL, ModelResult, Settings, validate_model
from hetgym.execution.report import COLUMNS, TARGETS, document, score_rows, write_json
from hetgym.profiling.host import HostSettings

MODELS = ("alexnet", "bert_base", "inception_v1", "lstm", "resnet50", "shufflenet", "squeezenet", "vit_b16")

GAINS: dict[str, Callable[[dict[str, Any]], str]] = {
    "model": lambda row: str(row["model"]),
    "best single worker": lambda row: seconds(row["one_worker_s"]),
    "chosen placement": lambda row: f"{seconds(row['chosen_s'])} ({row['chosen']})",
    "gain": lambda row: f"{row['gain']:.2f}",
    "best placement": lambda row: seconds(row["best_s"]),
    "a thread a core, no cap": lambda row: seconds(row["all_cores_s"]),
}

ALONE: dict[str, Callable[[dict[str, Any]], str]] = {
    "worker": lambda row: str(row["worker"]),
    "n": lambda row: str(row["score"].n),
    **{name: lambda row, name=name: f"{getattr(row['score'], name):.1%}" for name in ("mean", "median", "p90", "bias")},
}


def all_cores(model: str, settings: Settings) -> float:
    """Median makespan of a model in one process with a thread on every core, no cap [s]."""
    graph = load_graph(model)
    device = ExecutionDevice("all", HostSettings(tuple(sorted(settings.cores))))
    schedule = in_topological_order(graph, np.zeros(len(graph), np.int32), 1, "all")
    return run(graph, schedule, [device], rounds=settings.rounds).makespan


def gains(result: ModelResult, threads: float) -> dict[str, Any]:
    """Gains of the placement with the best prediction, and of the best executed one, over the alternatives."""
    single = min(result.calibration["single_device_s"])
    chosen = min(result.rows, key=lambda row: float(row["calibrated_s"]))
    best = min(float(row["executed_s"]) for row in result.rows)
    return {
        "model": result.model,
        "one_worker_s": single,
        "chosen": chosen["placement"],
        "chosen_s": chosen["executed_s"],
        "best_s": best,
        "gain": single / chosen["executed_s"],
        "all_cores_s": threads,
    }


def alone(results: list[ModelResult]) -> list[dict[str, Any]]:
    """Times of models that ran on a single worker, and predictions of the fitted models for them."""
    rows = [row for result in results for row in result.alone if "learned_s" in row]
    found = []
    for worker in dict.fromkeys(row["device"] for row in rows):
        own = [row for row in rows if row["device"] == worker]
        score = Score.of([row["learned_s"] for row in own], [row["executed_s"] for row in own])
        found.append({"worker": worker, "score": score})
    return found


def draw(found: dict[str, Any], path: Path) -> None:
    """Draw predicted over executed makespans, a panel for each kind of costs; ``found`` is the ``--json`` output."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter, ScalarFormatter

    models = [model for model in found["models"] if model["status"] == DONE]
    kinds = [kind for kind in TARGETS if kind in found["overall"]]
    figure = Figure(figsize=(5.2 * len(kinds), 4.0), dpi=100, layout="constrained")
    for axes, kind in zip(np.atleast_1d(figure.subplots(1, len(kinds), sharey=True)), kinds, strict=True):
        within, overall = TARGETS[kind][0], found["overall"][kind]
        axes.axhspan(1 - within, 1 + within, color="0.92", zorder=0, label=f"within {within:.0%}")
        axes.axhline(1.0, color="0.4", linewidth=0.8, zorder=1)
        for model in models:
            executed = np.array([row["executed_s"] for row in model["placements"]])
            predicted = np.array([row[f"{kind}_s"] for row in model["placements"]])
            axes.scatter(1e3 * executed, predicted / executed, s=14, label=model["model"], zorder=2)
        axes.set(
            xscale="log",
            xlabel="executed [ms]",
            ylim=(0.55, 1.25),
            title=f"{kind} costs: {overall['mean']:.1%}, tau {overall['tau']:.2f}",
        )
        axes.set_xticks([10, 20, 50, 100, 200, 500])
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_formatter(NullFormatter())
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.axes[0].set_ylabel("predicted / executed")
    figure.axes[0].legend(fontsize=8, frameon=False, ncols=3, loc="lower center")
    figure.savefig(path)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--devices", default="cpu0:full,cpu1:avx2")
    parser.add_argument("--platform", help="whose devices' fitted models price the operators, for the second row")
    parser.add_argument("--placements", type=int, default=17)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--limit", type=float, default=Settings.limit)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    settings = Settings(parse_devices(options.devices), options.placements, options.rounds, limit=options.limit)
    learned = learned_costs(load_platform(options.platform)) if options.platform else None
    results: list[ModelResult] = []
    table: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        for model in options.models.split(","):
            result = validate_model(load_graph(model), settings, Path(folder) / "predictions.json", learned)
            results.append(result)
            if result.status == DONE:
                table.append(gains(result, all_cores(model, settings)))
    cells = [dict(zip(COLUMNS, row, strict=True)) for row in score_rows(results)]
    show(f"predicted against executed, protocol {PROTOCOL}", cells, {name: itemgetter(name) for name in COLUMNS})
    show("whole models on one worker, learned costs", alone(results), ALONE)
    show("what placing gains on these workers", table, GAINS)
    found = document(results, settings, sys.argv) | {"gains": table}
    if options.picture and table:
        draw(found, options.picture)
    if options.json:
        write_json(options.json, found)


if __name__ == "__main__":
    main()
