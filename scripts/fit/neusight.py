"""Float32 operators and transformers on GPUs outside the fit, compared with NeuSight on NeuSight's own measurements.

    python scripts/fit/neusight.py unseen --data DIR --graphs OPGRAPHS    # each board held out; minutes
    python scripts/fit/neusight.py fit --data DIR --graphs OPGRAPHS --out hetgym/costs/artefacts/gpu-eager-fp32.npz
    python scripts/fit/neusight.py ops    --data DIR --picture docs/images/costs-gpu-eager.png
    python scripts/fit/neusight.py models --data DIR --graphs OPGRAPHS --picture docs/images/costs-gpu-models.png

DIR holds ``ops/``, ``e2e_models.csv`` and ``perop_models.csv.gz`` of NeuSight (Lee et al., ASPLOS 2025;
github.com/sitar-lab/NeuSight, MIT licence, Georgia Tech and Microsoft); by default ``neusight`` in the folder that
HETGYM_DATA names. OPGRAPHS is ``scripts/asplos/results/opgraph`` of the same repository, which has the traces of its
switch transformers; without it their 8 of the 60 runs are left out. Fitting needs ``hetgym[costs]``, a picture
``hetgym[plot]``.

``unseen`` is the protocol whose figures count: a board's tables and runs take no part in anything that prices it, see
``_unseen.py``. ``ops`` and ``models`` score the shipped artefact, which is fitted to all boards: fitted figures.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, save, show
from _neusight import GPUS, samples
from _pytorch import Clocks, simulate
from _unseen import CANDIDATES, Laboratory, Outcome, board, known_runs, outcome, pooled

from hetgym.costs.artefact import locate
from hetgym.costs.gpu.eager import EagerGpuCosts
from hetgym.costs.gpu.fit import launches, predicted
from hetgym.costs.gpu.work import CLASSES, Gpu
from hetgym.costs.roofline import Roofline

SEED = 0
ARTEFACT = "gpu-eager-fp32"
COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "what": lambda row: row["what"],
    "n": lambda row: str(row["n"]),
    "mean": lambda row: f"{100 * row['mean']:.2f} %",
    "median": lambda row: f"{100 * row['median']:.2f} %",
    "P90": lambda row: f"{100 * row['p90']:.1f} %",
    "bias": lambda row: f"{100 * row['bias']:+.1f} %",
}
SHORT = {
    "NVIDIA A100-PCIE-40GB": "A100 PCIe 40 GB",
    "NVIDIA H100 80GB HBM3": "H100 SXM",
    "Tesla P100-PCIE-16GB": "P100",
    "Tesla V100-PCIE-32GB": "V100",
    "Tesla P4": "P4",
    "Tesla T4": "T4",
}
"""Names of boards in tables."""

TRANSFORMERS: dict[str, Callable[[dict[str, Any]], str]] = {
    "GPU": lambda row: row["GPU"],
    **{key: lambda row, key=key: COLUMNS[key](row["hetgym"]) for key in list(COLUMNS)[1:]},
    **{f"NeuSight: {key}": lambda row, key=key: COLUMNS[key](row["NeuSight"]) for key in ("mean", "median", "bias")},
    "share of the peak": lambda row: row.get("share of the peak", ""),
}
SINGLE: dict[str, Callable[[dict[str, Any]], str]] = {
    "held out": lambda row: row["held out"],
    "session": lambda row: row["session"].replace("train", "training"),
    **{
        kind: lambda row, kind=kind: (
            f"{100 * row[kind]['mean']:.1f} % ({100 * row[kind]['bias']:+.0f} %)" if kind in row else ""
        )
        for kind in CLASSES
    },
}

TABLES: dict[str, tuple[str, dict[str, Callable[[dict[str, Any]], str]]]] = {
    "transformers": ("whole transformers, each board held out", TRANSFORMERS),
    "operators": ("single operators, each board held out", SINGLE),
    "intervals": ("share of measurements within the interval", {}),
    "runs": ("each run", {}),
}
"""Name of a table of ``unseen`` -> its title, and its columns if they are not the keys of its rows."""

Floats = npt.NDArray[np.float64]


def score(what: str, predictions: Floats, measured: Floats) -> dict[str, Any]:
    """Absolute percentage errors, and the median of the signed ones."""
    error = predictions / measured - 1.0
    size = np.abs(error)
    return {
        "what": what,
        "n": len(error),
        "mean": float(size.mean()),
        "median": float(np.median(size)),
        "p90": float(np.quantile(size, 0.9)),
        "bias": float(np.median(error)),
    }


def laboratory(arguments: argparse.Namespace) -> Laboratory:
    """All measurements that the arguments name."""
    return Laboratory(arguments.data, arguments.graphs, SEED)


def operators_held_out(lab: Laboratory, name: str, found: Outcome) -> dict[str, list[tuple[str, Floats, Floats]]]:
    """Operators of a board that was held out.

    Returns:
        Class -> session, predicted and measured seconds, for each session.
    """
    launch = launches(lab.without(frozenset({name})))
    answers: dict[str, list[tuple[str, Floats, Floats]]] = {}
    for sample in lab.tables:
        if board(sample.device.name) == name:
            model = found.costs.classes[sample.kind]
            guess = predicted(model, sample, launch[sample.kind], found.costs.share(sample.gpu))
            answers.setdefault(sample.kind, []).append((sample.session, guess, sample.seconds))
    return answers


Residuals = dict[str, dict[str, Floats]]
"""Class of operators, or "model" -> board -> [rows] log(measured / predicted) of the board when it was held out."""


def hold_out(lab: Laboratory) -> tuple[dict[str, list[dict[str, Any]]], Residuals]:
    """Hold out each board in turn: rows of tables, and the residuals of operators and runs."""
    residuals: Residuals = {}
    tables: dict[str, list[dict[str, Any]]] = {"runs": [], "transformers": [], "operators": []}
    for name in lab.boards:
        found = outcome(lab, name)
        gpu = SHORT.get(name, name)
        residuals.setdefault("model", {})[name] = -np.log(found.ratios)
        for model, ours, other in zip(found.names, found.ratios, found.neusight, strict=True):
            errors = {who: f"{100 * ratio - 100:+.1f} %" for who, ratio in (("hetgym", ours), ("NeuSight", other))}
            tables["runs"].append({"GPU": gpu, "run": model, **errors})
        share = f"{found.costs.share(Gpu.of(GPUS[name])):.3f}"
        tables["transformers"].append(_beside(gpu, found.ratios, found.neusight) | {"share of the peak": share})
        sessions: dict[str, dict[str, Any]] = {}
        for kind, parts in operators_held_out(lab, name, found).items():
            residuals.setdefault(kind, {})[name] = np.concatenate([np.log(seen / guess) for _, guess, seen in parts])
            for session, guess, seen in parts:
                line = sessions.setdefault(session, {"held out": gpu, "session": session})
                line[kind] = score(kind, guess, seen)
        tables["operators"] += [sessions[session] for session in sorted(sessions, reverse=True)]  # train, test
    theirs = np.array([run.neusight / run.measured for run, _ in lab.runs])
    ours = np.exp(-np.concatenate([*residuals["model"].values()]))
    tables["transformers"].append(_beside("all", ours, theirs))
    return tables | {"intervals": coverage(residuals)}, residuals


def _beside(gpu: str, ours: Floats, theirs: Floats) -> dict[str, Any]:
    """Errors of runs by both, from predicted over measured times."""
    one = np.ones(len(ours))
    return {"GPU": gpu, "hetgym": score("hetgym", ours, one), "NeuSight": score("NeuSight", theirs, one)}


def coverage(residuals: Residuals) -> list[dict[str, Any]]:
    """How much the interval from all other boards' residuals holds of each board; 80 % is what it says."""
    rows = []
    for kind in ("model", *CLASSES):
        boards = residuals.get(kind, {})
        row = {"what is priced": "whole model" if kind == "model" else kind}
        held = []
        for name in residuals["model"]:
            row[SHORT.get(name, name)] = ""
            if name in boards and len(boards) > 2:
                low, high = pooled([logs for other, logs in boards.items() if other != name])
                held.append(round(100 * float(np.mean((boards[name] >= low) & (boards[name] <= high)))))
                row[SHORT.get(name, name)] = f"{held[-1]} %"
        rows.append({**row, "mean": f"{np.mean(held):.0f} %" if held else ""})
    return rows


def unseen(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Each board held out in turn."""
    tables, _ = hold_out(laboratory(arguments))
    for name, (title, columns) in TABLES.items():
        rows = tables[name]
        show(title, rows, columns or {key: lambda row, key=key: row[key] for key in rows[0]}, name)
    return [row for rows in tables.values() for row in rows]


def fitted(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Hold out each board, for the intervals; then fit to all boards, and write the artefact."""
    lab = laboratory(arguments)
    _, residuals = hold_out(lab)
    costs, clocks = lab.chosen("")
    nobody: frozenset[str] = frozenset()
    best = next(one for one in CANDIDATES if lab.clocks(nobody, one) == clocks)
    shares = {Gpu.of(GPUS[name]): round(lab.aligned(name, nobody)[best][0], 4) for name in lab.boards}
    train = [sample for sample in lab.tables if sample.session == "train"]
    card = {
        "source": "NeuSight (Lee et al., ASPLOS 2025), github.com/sitar-lab/NeuSight, data/dataset, label",
        "licence": "MIT, Georgia Institute of Technology and Microsoft",
        "measured": "PyTorch 2.1, float32, eager, CUDA events around one operator, mean of the fastest 5 of 25",
        "split": "train and test tables of all boards; whole models for the shares of the peak alone",
        "devices": sorted({sample.device.name for sample in lab.tables}),
        "rows": {kind: sum(len(s.seconds) for s in lab.tables if s.kind == kind) for kind in CLASSES},
        "launch": launches(train),
        "clocks": {"host": clocks.host, "gap": clocks.gap},
        "seed": SEED,
        "lightgbm": version("lightgbm"),
        "held out GPU, mean absolute error": {kind: means(boards) for kind, boards in residuals.items()},
    }
    scatter = {kind: pooled(list(boards.values())) for kind, boards in residuals.items()}
    classes = {kind: replace(own, scatter=scatter[kind]) for kind, own in costs.classes.items()}
    EagerGpuCosts(classes, card, shares, costs.sustained, scatter["model"]).save(arguments.out)
    return []


def means(boards: Mapping[str, Floats]) -> dict[str, float]:
    """Board -> mean absolute error of what is left."""
    return {name: round(float(np.abs(np.exp(-logs) - 1).mean()), 4) for name, logs in boards.items()}


def load(arguments: argparse.Namespace) -> EagerGpuCosts:
    """The artefact that is scored."""
    return EagerGpuCosts.load(locate(arguments.costs))


def ops(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Single operators of the test split by the shipped artefact, which is fitted to them."""
    model = load(arguments)
    launch = model.card["launch"]
    rows, points = [], []
    for sample in samples(arguments.data, "test"):
        guess = predicted(model.classes[sample.kind], sample, launch[sample.kind], model.share(sample.gpu))
        rows.append(score(f"{sample.kind}, {sample.device.name}", guess, sample.seconds))
        points.append((sample, guess))
    for kind in CLASSES:
        own = [(guess, sample.seconds) for sample, guess in points if sample.kind == kind]
        if own:
            rows.append(score(f"{kind}, all GPUs", *(np.concatenate(part) for part in zip(*own, strict=True))))
    show("Operators of the test split (fitted)", rows, COLUMNS)
    if arguments.picture:
        scatter(arguments.picture, [(sample.kind, guess, sample.seconds) for sample, guess in points])
    return rows


def models(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Whole transformers, end to end."""
    costs = Roofline() if arguments.costs == "roofline" else load(arguments)
    traced = known_runs(arguments.data, arguments.graphs)
    known = [run for run, _ in traced]
    clocks = Clocks(**costs.card["clocks"]) if isinstance(costs, EagerGpuCosts) else Clocks()
    guess = np.array([simulate(run, nodes, costs, GPUS[run.device], clocks) for run, nodes in traced])
    theirs, measured = (np.array([getattr(run, name) for run in known]) for name in ("neusight", "measured"))
    detail = [
        {
            "what": f"{run.device}, {run.model}",
            "ms": f"{m * 1e3:.1f}",
            "hetgym": f"{g / m - 1:+.1%}",
            "NeuSight": f"{n / m - 1:+.1%}",
        }
        for run, g, n, m in zip(known, guess, theirs, measured, strict=True)
    ]
    show("Runs", detail, {name: lambda row, name=name: row[name] for name in ("what", "ms", "hetgym", "NeuSight")})
    devices = np.array([run.device for run in known])
    groups = {name: devices == name for name in dict.fromkeys(devices)}
    groups |= {"all": devices != ""}
    rows = []
    for name, at in groups.items():
        rows += [
            score(f"hetgym, {name}", guess[at], measured[at]),
            score(f"NeuSight, {name}", theirs[at], measured[at]),
        ]
    show("Models, end to end", rows, COLUMNS)
    if arguments.picture:
        scatter(arguments.picture, [("NeuSight", theirs, measured), ("hetgym, fitted", guess, measured)])
    return rows + detail


def scatter(path: Path, parts: list[tuple[str, Floats, Floats]]) -> None:
    """Draw predicted over measured time against the measured time, one colour for each name."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    for name in dict.fromkeys(label for label, _, _ in parts):
        own = [(guess, measured) for label, guess, measured in parts if label == name]
        guess, measured = (np.concatenate(part) for part in zip(*own, strict=True))
        size = 3 if len(guess) > 100 else 26
        style = {"s": size, "alpha": 0.35 if size == 3 else 0.8, "linewidths": 0}
        axes.scatter(measured * 1e3, guess / measured, label=name, **style)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="measured [ms]", ylabel="predicted / measured", ylim=(0.4, 3.0))
    axes.set_yticks([0.5, 0.7, 1.0, 1.4, 2.0, 3.0], ["0.5", "0.7", "1", "1.4", "2", "3"])
    axes.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.legend(fontsize=8, markerscale=3 if any(len(g) > 100 for _, g, _ in parts) else 1, loc="lower right")
    figure.savefig(path, dpi=110)


def main() -> None:
    """Run one of the commands."""
    parser = command_line(__doc__)
    commands = {"unseen": unseen, "fit": fitted, "ops": ops, "models": models}
    parser.add_argument("command", choices=commands)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("HETGYM_DATA", ".")) / "neusight")
    parser.add_argument("--graphs", type=Path, help="traces of the switch transformers")
    parser.add_argument("--costs", default=ARTEFACT, help="artefact to score; for models also: roofline")
    parser.add_argument("--out", type=Path, help="where fit writes the artefact")
    parser.add_argument("--picture", type=Path, help="write a scatter plot")
    arguments = parser.parse_args()
    if arguments.command == "fit" and arguments.out is None:
        parser.error("fit needs --out")
    save(arguments.json, f"neusight {arguments.command}", commands[arguments.command](arguments))


if __name__ == "__main__":
    main()
