"""Float32 operators and transformers on GPUs outside the fit, compared with NeuSight on NeuSight's own measurements.

    python benchmarks/costs/neusight.py held   --data DIR              # each fitted GPU held out
    python benchmarks/costs/neusight.py fit    --data DIR --out hetgym/costs/artefacts/gpu-eager-fp32.npz
    python benchmarks/costs/neusight.py ops    --data DIR --picture docs/images/costs-gpu-eager.png
    python benchmarks/costs/neusight.py models --data DIR --graphs OPGRAPHS --picture docs/images/costs-gpu-models.png

DIR holds ``ops/``, ``e2e_models.csv`` and ``perop_models.csv.gz`` of NeuSight (Lee et al., ASPLOS 2025;
github.com/sitar-lab/NeuSight, MIT licence, Georgia Tech and Microsoft); by default ``neusight`` in the folder that
HETGYM_DATA names. OPGRAPHS is ``scripts/asplos/results/opgraph`` of the same repository, which has the traces of its
switch transformers; without it their 8 of the 60 runs are left out. Fitting needs ``hetgym[costs]``, a picture
``hetgym[plot]``.

Protocol *unseen GPU*: everything is fitted to ``ops/train_*.csv.gz`` (P4, P100, V100, T4, A100); ``fit`` and ``held``
open no other file. The H100 is known by its data sheet. No end-to-end time takes part in any fit or choice.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parents[1]))
from _common import save, show
from _neusight import GPUS, graphs, opgraph, runs, samples
from _pytorch import simulate

from hetgym.costs.artefact import locate
from hetgym.costs.gpu_eager import EagerGpuCosts
from hetgym.costs.gpu_fit import Sample, fit, held_out, launches, predicted
from hetgym.costs.gpu_work import CLASSES, constant
from hetgym.costs.roofline import Roofline

SEED = 0
ARTEFACT = "gpu-eager-fp32"
GAP = 4e-6
"""Time from the end of a kernel to the end of an empty one that follows it in a full stream [s]."""

UNSEEN = "NVIDIA H100 80GB HBM3"
FITTED = "GPUs of the fit, all classes"
COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "what": lambda row: row["what"],
    "n": lambda row: str(row["n"]),
    "mean": lambda row: f"{row['mean']:.2%}",
    "median": lambda row: f"{row['median']:.2%}",
    "P90": lambda row: f"{row['p90']:.1%}",
    "bias": lambda row: f"{row['bias']:+.1%}",
}

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


def mean_of(what: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The mean over rows of a table, each counting once."""
    keys = ("mean", "median", "p90", "bias")
    return {"what": what, "n": sum(r["n"] for r in rows), **{k: float(np.mean([r[k] for r in rows])) for k in keys}}


def held(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Each GPU of the fit held out in turn."""
    rows = held_scores(samples(arguments.data, "train"))
    show("GPU held out of the fit", rows, COLUMNS)
    return rows


def held_scores(train: list[Sample]) -> list[dict[str, Any]]:
    """Scores of :func:`held_out`, with the tenth and ninetieth percentile of the errors of each class."""
    rows = []
    for kind in CLASSES:
        answers = held_out(kind, train, SEED)
        own = [score(f"{kind}, {name}", *answer) for name, answer in answers.items()]
        logs = np.concatenate([np.log(measured / guess) for guess, measured in answers.values()])
        scatter = [float(q) for q in np.quantile(logs, (0.1, 0.9))]
        rows += [*own, {**mean_of(f"{kind}, mean over GPUs", own), "scatter": scatter, "class": kind}]
    return rows


def fitted(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Fit to all GPUs of the training split, and write the artefact."""
    train = samples(arguments.data, "train")
    rows = held_scores(train)
    means = {row["class"]: row for row in rows if "class" in row}
    card = {
        "source": "NeuSight (Lee et al., ASPLOS 2025), github.com/sitar-lab/NeuSight, data/dataset/train",
        "licence": "MIT, Georgia Institute of Technology and Microsoft",
        "measured": "PyTorch 2.1, float32, eager, CUDA events around one operator, mean of the fastest 5 of 25",
        "split": "ops/train_*.csv.gz alone; test split and end-to-end runs not read",
        "devices": sorted({sample.device.name for sample in train}),
        "rows": {kind: sum(len(s.seconds) for s in train if s.kind == kind) for kind in CLASSES},
        "launch": launches(train),
        "seed": SEED,
        "lightgbm": version("lightgbm"),
        "held out GPU, mean absolute error": {kind: round(row["mean"], 4) for kind, row in means.items()},
    }
    model = fit(train, SEED, card)
    classes = {kind: replace(own, scatter=tuple(means[kind]["scatter"])) for kind, own in model.classes.items()}
    EagerGpuCosts(classes, card, model.gpus).save(arguments.out)
    show("GPU held out of the fit", rows, COLUMNS)
    return rows


def load(arguments: argparse.Namespace) -> EagerGpuCosts:
    """The artefact that is scored."""
    return EagerGpuCosts.load(locate(arguments.costs))


def ops(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Single operators of the test split, by class and GPU."""
    model = load(arguments)
    launch = model.card["launch"]
    rows, points, plain = [], [], []
    for sample in samples(arguments.data, "test"):
        guess = predicted(model.classes[sample.kind], sample, launch[sample.kind], sample.gpu in model.gpus)
        rows.append(score(f"{sample.kind}, {sample.device.name}", guess, sample.seconds))
        points.append((sample, guess))
        if sample.device.name == UNSEEN:
            what = f"constant efficiency, {sample.kind}, {sample.device.name}"
            stated = constant(sample.kind, sample.table, sample.gpu, sample.gpu.peak)
            plain.append(score(what, launch[sample.kind] + stated, sample.seconds))
    unseen = [row for row, (sample, _) in zip(rows, points, strict=True) if sample.device.name == UNSEEN]
    rows.append(mean_of("unseen H100, mean over classes", unseen))
    rows += [*plain, mean_of("constant efficiency, unseen H100, mean over classes", plain)]
    for kind in CLASSES:
        own = [(guess, sample.seconds) for sample, guess in points if sample.kind == kind]
        if own:
            rows.append(score(f"{kind}, all GPUs", *(np.concatenate(part) for part in zip(*own, strict=True))))
    show("Operators of the test split", rows, COLUMNS)
    if arguments.picture:
        scatter(
            arguments.picture,
            [
                (f"H100 (unseen), {s.kind}" if s.device.name == UNSEEN else FITTED, guess, s.seconds)
                for s, guess in sorted(points, key=lambda point: point[0].device.name == UNSEEN)
            ],
        )
    return rows


def models(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Whole transformers, end to end."""
    costs = Roofline() if arguments.costs == "roofline" else load(arguments)
    traces = graphs(arguments.data)
    if arguments.graphs:
        for run in runs(arguments.data):
            path = arguments.graphs / f"{run.model}.csv"
            if run.model not in traces and path.exists():
                traces[run.model] = opgraph(path)
    known = [run for run in runs(arguments.data) if run.model in traces]
    gpus = {name: replace(gpu, launch_overhead=GAP) for name, gpu in GPUS.items()}
    guess = np.array([simulate(run, traces[run.model], costs, gpus[run.device]) for run in known])
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
    groups |= {"GPUs of the fit": devices != UNSEEN, "unseen GPU": devices == UNSEEN, "all": devices != ""}
    rows = []
    for name, at in groups.items():
        rows += [
            score(f"hetgym, {name}", guess[at], measured[at]),
            score(f"NeuSight, {name}", theirs[at], measured[at]),
        ]
    show("Models, end to end", rows, COLUMNS)
    if arguments.picture:
        scatter(
            arguments.picture,
            [
                ("NeuSight", theirs, measured),
                ("hetgym, GPUs of the fit", guess[devices != UNSEEN], measured[devices != UNSEEN]),
                ("hetgym, H100 (unseen)", guess[devices == UNSEEN], measured[devices == UNSEEN]),
            ],
        )
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
        axes.scatter(measured * 1e3, guess / measured, label=name, color="0.7" if name == FITTED else None, **style)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="measured [ms]", ylabel="predicted / measured", ylim=(0.4, 3.0))
    axes.set_yticks([0.5, 0.7, 1.0, 1.4, 2.0, 3.0], ["0.5", "0.7", "1", "1.4", "2", "3"])
    axes.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.legend(fontsize=8, markerscale=3 if any(len(g) > 100 for _, g, _ in parts) else 1, loc="lower right")
    figure.savefig(path, dpi=110)


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = {"fit": fitted, "held": held, "ops": ops, "models": models}
    parser.add_argument("command", choices=commands)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("HETGYM_DATA", ".")) / "neusight")
    parser.add_argument("--graphs", type=Path, help="traces of the switch transformers")
    parser.add_argument("--costs", default=ARTEFACT, help="artefact to score; for models also: roofline")
    parser.add_argument("--out", type=Path, help="where fit writes the artefact")
    parser.add_argument("--picture", type=Path, help="write a scatter plot")
    parser.add_argument("--json", type=Path, help="write the numbers behind the tables")
    arguments = parser.parse_args()
    if arguments.command == "fit" and arguments.out is None:
        parser.error("fit needs --out")
    save(arguments.json, f"neusight {arguments.command}", commands[arguments.command](arguments))


if __name__ == "__main__":
    main()
