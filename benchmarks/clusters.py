"""Training steps on clusters: predicted beside what others measured.

    python benchmarks/clusters.py vtrain --data DIR/vtrain      # seconds
    python benchmarks/clusters.py sailor --data DIR/sailor      # seconds

*vtrain*: iterations of GPT-like models under Megatron-DeepSpeed on nodes of eight A100 (github.com/VIA-Research/vTrain,
MIT; Bang et al., MICRO 2024). DIR holds ``single.csv`` and ``multi.csv``. Nothing of the target is profiled: layers are
priced operator by operator. Three numbers of the framework, ``dispatch``, ``straggle`` and ``turn``, are fitted by
``--fit`` to the single-node rows of one half, which a hash of the configuration chooses. Nothing is fitted to several
nodes, but the rules (recomputation, blocking transfers, kernels of a layer) were written while looking at the same half
of them. The other half was scored twice, with one change between
that was chosen on the first, and again after a fault was mended in the code.

*sailor*: iterations and peak memory of DeepSpeed's pipelines (github.com/eth-easl/sailor, MIT; Strati et al., SOSP
2025), from the authors' profiles of layers and networks. Nothing is fitted. ``--without`` leaves a rule out.
"""

from __future__ import annotations

import csv
import hashlib
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from _common import command_line, save, show
from _sailor import cluster as measured_cluster
from _sailor import layers as measured_layers
from _sailor import runs

from hetgym.errors import ConfigError
from hetgym.parallel import (
    FRAMEWORKS,
    Framework,
    Group,
    ParallelPlan,
    Stage,
    TransformerLayers,
    TransformerSize,
    load_cluster,
    training_step,
)

Floats = npt.NDArray[np.float64]
FITTED = ("dispatch", "straggle", "turn")


class Row(NamedTuple):
    """A measured iteration: batches, model, degrees, time [s], and True for the half that choices were made on."""

    gpus: int
    global_batch: int
    micro_batch: int
    hidden: int
    heads: int
    blocks: int
    sequence: int
    tensor: int
    data: int
    pipeline: int
    seconds: float
    seen: bool


def read(path: Path) -> list[Row]:
    """Rows of a table of vTrain's repository; the table of several nodes begins with a column of parameters."""
    rows = []
    with path.open() as file:
        for line in list(csv.reader(file))[1:]:
            numbers = [int(value) for value in line[-11:-1]]
            digest = hashlib.sha256(",".join(map(str, numbers)).encode()).hexdigest()
            rows.append(Row(*numbers, float(line[-1]) / 1e3, int(digest, 16) % 2 == 0))
    return rows


def plan(row: Row) -> ParallelPlan:
    """The plan of a row: equal blocks on each stage, the embedding on the first, the head on the last."""
    each, groups = row.blocks // row.pipeline, (Group("a100", row.tensor),) * row.data
    bounds = [0, *(1 + each * s for s in range(1, row.pipeline)), row.blocks + 2]
    stages = [Stage(a, b - 1, groups) for a, b in zip(bounds, bounds[1:], strict=False)]
    return ParallelPlan(tuple(stages), row.micro_batch, row.global_batch)


def predicted(rows: list[Row], framework: Framework) -> Floats:
    """[r] predicted times of iterations [s]."""
    cluster, models, found = load_cluster("dgx-a100-64"), {}, []
    for row in rows:
        size = TransformerSize(row.hidden, row.heads, row.blocks, row.sequence)
        if size not in models:
            models[size] = TransformerLayers(size, cluster, framework)
        found.append(training_step(plan(row), models[size], cluster, framework).seconds)
    return np.array(found)


def fitted(rows: list[Row], start: Framework) -> Framework:
    """The framework with its three numbers fitted to log errors, outliers counting less."""
    from scipy.optimize import least_squares

    target = np.log([row.seconds for row in rows])
    initial = np.array([getattr(start, name) for name in FITTED])

    def framework(logs: Floats) -> Framework:
        return replace(start, **dict(zip(FITTED, (initial * np.exp(logs)).tolist(), strict=True)))

    def errors(logs: Floats) -> Floats:
        return np.log(predicted(rows, framework(logs))) - target

    return framework(least_squares(errors, np.zeros(3), loss="soft_l1", f_scale=0.05, diff_step=1e-3, max_nfev=12).x)


def score(where: str, part: str, errors: Floats) -> dict[str, Any]:
    """One row of a table: signed relative errors, in words."""
    size = np.abs(errors)
    return {
        "rows": where,
        "part": part,
        "n": len(errors),
        "mean": float(size.mean()),
        "median": float(np.median(size)),
        "P90": float(np.quantile(size, 0.9)),
        "bias": float(np.median(errors)),
    }


def table(title: str, rows: list[dict[str, Any]]) -> None:
    """Print scores."""
    columns = {
        name: (lambda row, name=name: f"{100 * row[name]:{'+' if name == 'bias' else ''}.1f} %")
        for name in ("mean", "median", "P90", "bias")
    }
    keys = {"configurations": "rows", "part": "part", "number": "n"}
    words = {name: (lambda row, key=key: str(row[key])) for name, key in keys.items()}
    show(title, rows, words | columns, "errors")


def vtrain(folder: Path, fit: bool, without: list[str]) -> list[dict[str, Any]]:
    """Score both tables, each half by itself."""
    framework = replace(FRAMEWORKS["megatron"], **dict.fromkeys(without, False))
    tables = {"one node": read(folder / "single.csv"), "64 to 512 GPUs": read(folder / "multi.csv")}
    if fit:
        framework = fitted([row for row in tables["one node"] if row.seen], framework)
        print({name: f"{getattr(framework, name):.3g}" for name in FITTED})
    scores = []
    for where, rows in tables.items():
        errors = predicted(rows, framework) / np.array([row.seconds for row in rows]) - 1.0
        seen = np.array([row.seen for row in rows])
        for part, mask in (("seen", seen), ("held out", ~seen)):
            scores.append(score(where, part, errors[mask]))
    table("iterations of Megatron-DeepSpeed on A100", scores)
    return scores


def sailor(folder: Path, without: list[str]) -> list[dict[str, Any]]:
    """Score times and memory of all runs."""
    framework = replace(FRAMEWORKS["deepspeed"], **dict.fromkeys(without, False))
    found: dict[str, list[tuple[float, float]]] = {}
    for run in runs(folder):
        costs, boards = measured_layers(folder, run.model), sorted(run.per_node)
        try:
            step = training_step(run.plan, costs, measured_cluster(folder, run.per_node), framework)
        except ConfigError as error:
            print(f"left out: {run.name}: {error}")
            continue
        key = f"{run.model} on {' + '.join(boards)}"
        found.setdefault(key, []).append((step.seconds / run.seconds - 1.0, step.memory.max() / run.memory - 1.0))
    scores = []
    for key, errors in found.items():
        for part, column in zip(("seconds of a step", "peak memory"), np.array(errors).T, strict=True):
            scores.append(score(key, part, column))
    table("iterations of DeepSpeed's pipelines", scores)
    return scores


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("what", choices=("vtrain", "sailor"))
    parser.add_argument("--data", type=Path, help="by default the folder of that name in HETGYM_DATA")
    parser.add_argument("--fit", action="store_true", help="fit the framework's numbers again")
    parser.add_argument("--without", nargs="+", default=[], choices=("recompute", "blocking", "scatter"))
    options = parser.parse_args()
    folder = options.data or Path(os.environ.get("HETGYM_DATA", "")) / options.what
    if not folder.is_dir():
        sys.exit(f"{folder}: no such folder; give --data")
    if options.what == "vtrain":
        scores = vtrain(folder, options.fit, options.without)
    else:
        scores = sailor(folder, options.without)
    if not scores:
        sys.exit(f"{folder}: holds no measured runs")
    save(options.json, f"clusters_{options.what}", scores)


if __name__ == "__main__":
    main()
