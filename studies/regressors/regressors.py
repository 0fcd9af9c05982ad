"""The regressors compared on one public table: within the measured range, beyond it, and on other devices.

    python studies/regressors/regressors.py --data DIR --json regressors.json      # ten minutes on one core

DIR holds ``ops/train_bmm.csv.gz`` of NeuSight (github.com/sitar-lab/NeuSight, MIT); by default ``neusight`` in the
folder that HETGYM_DATA names. Its 84 thousand batched products, float32 and eager, on five GPUs say nothing
about a shipped model: they are a common ground on which the regressors' settings were chosen. Figures are for
comparing the regressors with each other.

Protocols: *profiled GPU, unseen shapes*: a fifth of the shapes (m, k, n), whatever their batch, is held out.
*Beyond the range*: the fit sees the 70 % of the rows with the least (or most) of one feature, the error is over
the others that lie outside its range. *Unseen GPU*: the fit sees all GPUs but one, by the data sheets.
"""

from __future__ import annotations

import csv
import gzip
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, save, show

from hetgym.costs.features import COLUMN, features, physics
from hetgym.costs.learned_models.boosted import Boosted
from hetgym.costs.learned_models.calibrated import Calibrated
from hetgym.costs.learned_models.neural import Neural
from hetgym.costs.learned_models.polynomial import Polynomial
from hetgym.costs.learned_models.wave import WaveLaw
from hetgym.costs.regressor import Regressor, grouped_folds
from hetgym.device import Device
from hetgym.graph import Operator, Tensor

SEED = 0
LAUNCH = 10e-6
ROWS = (300, 1000, 4000)
MODELS: tuple[type[Regressor], ...] = (Calibrated, Polynomial, Neural, Boosted)
BEYOND = (("log2_flops", 1), ("log2_flops", -1), ("log2_m", 1), ("log2_k", 1), ("log2_batch", 1), ("log2_batch", -1))
SHEETS = {
    "Tesla P4": (5.5e12, 192e9, 20, 2e6),
    "Tesla T4": (8.1e12, 320e9, 40, 4e6),
    "Tesla P100-PCIE-16GB": (9.3e12, 732e9, 56, 4e6),
    "Tesla V100-PCIE-32GB": (14e12, 900e9, 80, 6e6),
    "NVIDIA A100-PCIE-40GB": (19.5e12, 1555e9, 108, 40e6),
}
"""Data sheets: FLOP/s in float32 without matrix units, byte/s, multiprocessors, second-level cache."""

Floats = npt.NDArray[np.float64]
Table = tuple[Floats, Floats, npt.NDArray[np.int32]]


def tables(folder: Path) -> dict[str, Table]:
    """GPU -> features, log ratios and shape groups; for repeated measurements of a shape, their median."""
    times: dict[str, dict[tuple[int, ...], list[float]]] = {}
    with gzip.open(folder / "ops" / "train_bmm.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            shape = tuple(int(row[column]) for column in "BMNK")
            times.setdefault(row["Device"].strip(), {}).setdefault(shape, []).append(float(row["Latency"]) * 1e-3)
    return {gpu: _table(gpu, of) for gpu, of in sorted(times.items()) if gpu in SHEETS}


def _table(gpu: str, times: dict[tuple[int, ...], list[float]]) -> Table:
    flops, bandwidth, processors, cache = SHEETS[gpu]
    device = Device(
        gpu, "gpu", {"float32": flops}, bandwidth, launch_overhead=LAUNCH, processors=processors, cache_bytes=cache
    )
    numbers: dict[tuple[int, ...], int] = {}
    operators, groups = [], []
    for b, m, k, n in sorted(times):
        operands = (Tensor((b, m, k)), Tensor((b, k, n)))
        operators.append(Operator("bmm", "MatMul", operands, (Tensor((b, m, n)),)))
        groups.append(numbers.setdefault((m, k, n), len(numbers)))
    seconds = np.array([np.median(times[shape]) for shape in sorted(times)])
    return features(operators, device), np.log(seconds / physics(operators, device)), np.array(groups, np.int32)


def errors(model: Regressor, x: Floats, y: Floats) -> Floats:
    """Relative errors of predictions."""
    return np.asarray(np.abs(np.expm1(model.predict(x)[0] - y)))


def unseen_shapes(table: Table) -> Iterator[dict[str, Any]]:
    """Errors on held-out shapes, by model and number of rows fitted."""
    x, y, groups = table
    held = grouped_folds(groups, 5, np.random.default_rng(SEED)) == 0
    order = np.random.default_rng(SEED).permutation(np.flatnonzero(~held))
    for n in (*ROWS, len(order)):
        at = order[:n]
        for kind in MODELS:
            found = errors(kind.fit(x[at], y[at], groups[at], SEED), x[held], y[held])
            yield {
                "rows": len(at),
                "model": kind.name,
                "n": len(found),
                "mean": float(found.mean()),
                "median": float(np.median(found)),
                "p90": float(np.quantile(found, 0.9)),
            }


def beyond(table: Table) -> Iterator[dict[str, Any]]:
    """Errors outside the range, by feature and model."""
    x, y, groups = table
    for name, sign in BEYOND:
        key = sign * x[:, COLUMN[name]]
        limit = np.quantile(key, 0.7)
        at = np.random.default_rng(SEED).permutation(np.flatnonzero(key <= limit))[:1500]
        row: dict[str, Any] = {"beyond": ("more " if sign > 0 else "less ") + name.removeprefix("log2_")}
        for kind in MODELS:
            model = kind.fit(x[at], y[at], groups[at], SEED)
            outside = (key > limit) & ~model.predict(x)[1]
            row["n"] = int(outside.sum())
            row[kind.name] = float(errors(model, x[outside], y[outside]).mean())
        yield row


def unseen_gpus(of: dict[str, Table]) -> Iterator[dict[str, Any]]:
    """Errors on each GPU of the models that were fitted to the others."""
    for gpu, (x, y, _) in of.items():
        others = [table for other, table in of.items() if other != gpu]
        fitted = [np.concatenate(part) for part in zip(*others, strict=True)]
        row: dict[str, Any] = {"gpu": gpu, "n": len(y)}
        for kind in (Calibrated, WaveLaw):
            row[kind.name] = float(errors(kind.fit(*fitted, SEED), x, y).mean())
        yield row


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("HETGYM_DATA", ".")) / "neusight")
    arguments = parser.parse_args()
    of = tables(arguments.data)
    a100 = of["NVIDIA A100-PCIE-40GB"]
    results = {
        "profiled GPU, unseen shapes": list(unseen_shapes(a100)),
        "beyond the range": list(beyond(a100)),
        "unseen GPU": list(unseen_gpus(of)),
    }
    for title, rows in results.items():
        show(title, rows, {name: partial(_cell, name) for name in rows[0]})
    save(arguments.json, "regressors", [{"protocol": title, **row} for title, rows in results.items() for row in rows])


def _cell(name: str, row: dict[str, Any]) -> str:
    value = row[name]
    return f"{value:.1%}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
