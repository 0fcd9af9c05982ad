"""Products of bfloat16 matrices on A100, H100 and H200: fits, scores, tuning, and the agreement of measurements.

    python scripts/fit/gemm.py score --data DIR --json gemm.json --picture docs/images/costs-gemm.png
    python scripts/fit/gemm.py fit   --data DIR --out hetgym/costs/artefacts      # three minutes on one core
    python scripts/fit/gemm.py tune  --data DIR                                   # cross-validation, ten minutes
    python scripts/fit/gemm.py noise --data DIR

DIR holds ``{a100,h100,h200}_sxm/gemm/<engine>/<version>/gemm_perf.parquet`` of NVIDIA's aiconfigurator
(github.com/ai-dynamo/aiconfigurator, Apache-2.0); by default ``aiconfigurator`` in the folder that HETGYM_DATA names.
Reading them needs pyarrow; fitting needs ``hetgym[costs]``.

Protocol *profiled GPU, unseen (n, k)*: a fifth of the pairs (n, k), by a seeded hash, is held out with all its rows m,
the same pairs on every GPU. Fits and tuning see the other pairs only (:func:`fitting`).
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, save, show

from hetgym.costs.forest import Forest
from hetgym.costs.gpu.gemm import GEMM_GPUS, LAUNCH, GemmCosts, GemmGpu, gemm_features, gemm_physics, mean_forest
from hetgym.costs.roofline import Roofline
from hetgym.device import Device
from hetgym.graph import Operator, Tensor

SEED = 0
ENGINES = {"a100": "sglang/0.5.10", "h100": "vllm/0.24.0", "h200": "vllm/0.24.0"}
"""The measurements that a GPU's model is fitted to."""

OTHERS = {"a100": ("vllm/0.14.0",), "h200": ("vllm/0.22.0",)}
"""Further measurements of the same boards, which are not part of any fit."""

COMMON: dict[str, Any] = {
    "learning_rate": 0.08,
    "num_leaves": 63,
    "min_data_in_leaf": 10,
    "lambda_l2": 1.0,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "num_threads": 1,
    "deterministic": True,
    "force_col_wise": True,
    "verbose": -1,
}
TREES = 300
LOSSES = ("l2", "l1")
"""Losses of the two forests: the mean of one that learns means and one that learns medians is better than either."""

ARTEFACTS = Path(__file__).parents[2] / "hetgym" / "costs" / "artefacts"
SLICES = ((1, 18), (18, 258), (258, 1026), (1026, 4354), (4354, 10**9))
TIMES = ("under 10 us", "10 to 100 us", "100 us to 1 ms", "over 1 ms")

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Products:
    """Measured products [m, k] x [k, n].

    Args:
        m: [r] rows.
        n: [r] columns.
        k: [r] reduction.
        seconds: [r] measured [s].
    """

    m: Floats
    n: Floats
    k: Floats
    seconds: Floats

    def __getitem__(self, rows: npt.NDArray[Any]) -> Products:
        return Products(self.m[rows], self.n[rows], self.k[rows], self.seconds[rows])

    def __len__(self) -> int:
        return len(self.m)

    def physics(self, gpu: GemmGpu) -> Floats:
        """[r] seconds by the data sheet."""
        return gemm_physics(np.ones(1), self.m, self.n, self.k, gpu)

    def features(self, gpu: GemmGpu) -> Floats:
        """[r, features]."""
        return gemm_features(self.m, self.n, self.k, gpu)

    def target(self, gpu: GemmGpu) -> Floats:
        """[r] log(seconds / physics)."""
        return np.asarray(np.log(self.seconds / self.physics(gpu)))


def read(folder: Path, gpu: str, engine: str) -> Products:
    """The bfloat16 rows of one table, in the order of (n, k, m)."""
    import pyarrow.parquet

    path = folder / f"{gpu}_sxm" / "gemm" / engine / "gemm_perf.parquet"
    table = pyarrow.parquet.read_table(path, columns=["gemm_dtype", "m", "n", "k", "latency"])
    half = np.array(table["gemm_dtype"].to_pylist()) == "bfloat16"
    m, n, k, milliseconds = (np.array(table[c].to_pylist(), np.float64)[half] for c in ("m", "n", "k", "latency"))
    order = np.lexsort((m, k, n))
    return Products(m[order], n[order], k[order], milliseconds[order] * 1e-3)


def part(products: Products, parts: int, salt: str) -> npt.NDArray[np.int64]:
    """[r] part of each row, 0 .. parts - 1, by a hash of its (n, k) alone."""
    pairs, row = np.unique(np.stack([products.n, products.k], axis=1).astype(np.int64), axis=0, return_inverse=True)
    digests = [hashlib.blake2b(f"{salt}:{n}x{k}".encode(), digest_size=8).digest() for n, k in pairs.tolist()]
    return np.array([int.from_bytes(digest, "little") % parts for digest in digests], np.int64)[row.reshape(-1)]


def held_out(products: Products) -> Products:
    """The fifth of the pairs (n, k) that only :func:`score` may see."""
    return products[part(products, 5, str(SEED)) == 0]


def fitting(products: Products) -> Products:
    """All the other pairs."""
    return products[part(products, 5, str(SEED)) != 0]


def train(products: Products, gpu: GemmGpu, settings: Mapping[str, Any] | None = None, trees: int = TREES) -> list[Any]:
    """A LightGBM booster for each of :data:`LOSSES`; rows of held-out pairs are dropped first."""
    import lightgbm

    rows = fitting(products)
    x, y = rows.features(gpu), rows.target(gpu)
    chosen = COMMON | dict(settings or {})
    return [
        lightgbm.train(chosen | {"objective": loss, "seed": SEED + at}, lightgbm.Dataset(x, y), trees)
        for at, loss in enumerate(LOSSES)
    ]


def raw(boosters: list[Any], x: Floats) -> Floats:
    """[r] mean of the boosters."""
    return np.asarray(np.mean([booster.predict(x) for booster in boosters], axis=0), np.float64)


def cross_validated(
    products: Products, gpu: GemmGpu, settings: Mapping[str, Any] | None = None, trees: int = TREES
) -> tuple[Products, Floats]:
    """The fitting rows, and for each the prediction of a fit to those four fifths of the pairs that exclude its own."""
    rows = fitting(products)
    fold = part(rows, 5, "inner")
    out = np.empty(len(rows))
    for at in range(5):
        test = rows[fold == at]
        out[fold == at] = raw(train(rows[fold != at], gpu, settings, trees), test.features(gpu))
    return rows, np.exp(out) * rows.physics(gpu)


def errors(predicted: Floats, measured: Floats) -> dict[str, Any]:
    """Number, mean, median and ninetieth percentile of the absolute error relative to the measurement."""
    error = np.abs(predicted / measured - 1)
    return {
        "n": len(error),
        "mean": float(error.mean()),
        "median": float(np.median(error)),
        "p90": float(np.quantile(error, 0.9)),
    }


def fit(products: Products, gpu: GemmGpu, card: Mapping[str, Any], trees: int = TREES) -> GemmCosts:
    """The model of one GPU: trees on all fitting rows, scatter and scores of cross-validation in the card."""
    rows, guesses = cross_validated(products, gpu, trees=trees)
    ratio = np.log(rows.seconds / guesses)
    target = rows.target(gpu)
    forest = mean_forest([Forest.from_lightgbm(booster) for booster in train(products, gpu, trees=trees)])
    low, high = (float(q) for q in np.quantile(ratio, (0.1, 0.9)))
    limits = (float(target.min()), float(target.max()))
    scores = {"cross-validation on the fitting rows": rounded(errors(guesses, rows.seconds))}
    return GemmCosts(forest, gpu, limits, (min(low, 0.0), max(high, 0.0)), dict(card) | {"scores": scores})


def rounded(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Scores with four digits."""
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in scores.items()}


def fit_all(folder: Path, out: Path, gpus: list[str]) -> None:
    """Fit, score on the held-out pairs and write an artefact for each GPU."""
    for name in gpus:
        products = read(folder, name, ENGINES[name])
        card = {
            "device": f"NVIDIA {name.upper()} SXM",
            "operator": "matrix product, bfloat16",
            "source": f"github.com/ai-dynamo/aiconfigurator, {name}_sxm/gemm/{ENGINES[name]}/gemm_perf.parquet",
            "licence": "Apache-2.0, Copyright (c) 2025-2026 NVIDIA CORPORATION & AFFILIATES; figures fitted to it",
            "split": f"held out: pairs (n, k) with blake2b('{SEED}:<n>x<k>') divisible by 5",
            "seed": SEED,
            "rows": len(fitting(products)),
            "trees": TREES * len(LOSSES),
            "made by": f"python scripts/fit/gemm.py fit, lightgbm {version('lightgbm')}",
        }
        model = fit(products, GEMM_GPUS[name], card)
        test = held_out(products)
        model.card["scores"]["held-out pairs (n, k)"] = rounded(
            errors(model.seconds(test.m, test.n, test.k), test.seconds)
        )
        path = out / f"gpu-gemm-bf16-{name}.npz"
        model.save(path)
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB, {model.card['scores']}")


def score(
    folder: Path, artefacts: Path, gpus: list[str]
) -> tuple[list[dict[str, Any]], dict[str, tuple[Floats, Floats]]]:
    """Errors of the artefacts on the held-out pairs: rows for a table, and (measured, predicted) of each GPU."""
    rows: list[dict[str, Any]] = []
    points = {}
    for name in gpus:
        model = GemmCosts.load(artefacts / f"gpu-gemm-bf16-{name}.npz")
        gpu = GEMM_GPUS[name]
        test = held_out(read(folder, name, ENGINES[name]))
        predicted = model.seconds(test.m, test.n, test.k)
        points[name] = test.seconds, predicted
        sheet = Device(name, "gpu", {"bfloat16": gpu.peak_flops}, gpu.memory_bandwidth, launch_overhead=LAUNCH)
        operators = [product(*sizes) for sizes in zip(test.m, test.n, test.k, strict=True)]

        def add(what: str, guess: Floats, measured: Floats, name: str = name) -> None:
            rows.append({"gpu": name, "what": what, **errors(guess, measured)})

        add("all", predicted, test.seconds)
        rows[-1]["cross-validation"] = model.card["scores"]["cross-validation on the fitting rows"]["mean"]
        sizes = np.stack([np.ones(len(test)), test.m, test.n, test.k], axis=1)
        add("as graphs are priced: twice the rows never faster", model.products(sizes), test.seconds)
        for low, high in SLICES:
            here = (test.m >= low) & (test.m < high)
            add(f"m from {low} to {high - 1}" if high < 10**6 else f"m from {low}", predicted[here], test.seconds[here])
        edges = (0, 1e-5, 1e-4, 1e-3, np.inf)
        for low, high, what in zip(edges[:-1], edges[1:], TIMES, strict=True):
            here = (test.seconds >= low) & (test.seconds < high)
            add(what, predicted[here], test.seconds[here])
        add("the roofline instead", Roofline().predict(operators, sheet), test.seconds)
        for engine in OTHERS.get(name, ()):
            other = held_out(read(folder, name, engine))
            add(f"measured by {engine} instead", model.seconds(other.m, other.n, other.k), other.seconds)
    return rows, points


def product(m: float, n: float, k: float) -> Operator:
    """The operator of a measured product."""
    x, w, y = ((int(a), int(b)) for a, b in ((m, k), (k, n), (m, n)))
    left, right, out = (Tensor(shape, "bfloat16") for shape in (x, w, y))
    return Operator("product", "MatMul", (left, right), (out,))


def tune(folder: Path, gpus: list[str]) -> list[dict[str, Any]]:
    """Grouped cross-validation on the fitting rows, for settings that were tried."""
    tried: list[tuple[str, dict[str, Any], int]] = [
        ("as shipped", {}, TREES),
        ("127 leaves", {"num_leaves": 127}, TREES),
        ("31 leaves", {"num_leaves": 31}, 2 * TREES),
        ("twice the trees at half the rate", {"learning_rate": COMMON["learning_rate"] / 2}, 2 * TREES),
        ("at least 40 rows a leaf", {"min_data_in_leaf": 40}, TREES),
    ]
    rows = []
    for name in gpus:
        products, gpu = read(folder, name, ENGINES[name]), GEMM_GPUS[name]
        for what, settings, trees in tried:
            fitted, guesses = cross_validated(products, gpu, settings, trees)
            rows.append({"gpu": name, "what": what, **errors(guesses, fitted.seconds)})
    return rows


def noise(folder: Path, gpus: list[str]) -> list[dict[str, Any]]:
    """Agreement of measurements with each other; only the last row involves a model, which is fitted for it.

    * Neighbours: m and m + 1 between 4 and 15, after removing the median ratio. The same kernel runs on the same
      tiles, so the remaining difference is twice the noise: the mean distance over the square root of 2 is the mean
      error that a perfect model of such shapes would have.
    * Twice the rows faster: by how much, in those pairs of m and 2 m in which it is; the name states their share.
    * Engines: two tables of the same board.
    * Random rows: a fifth of the fitting rows is held out row by row, so that the fit has seen every pair (n, k).
    """
    rows = []
    for name in gpus:
        products = read(folder, name, ENGINES[name])
        gpu = GEMM_GPUS[name]
        log = {size: np.log(products[products.m == size].seconds) for size in range(4, 16)}
        steps = [log[size + 1] - log[size] for size in range(4, 15)]
        apart = np.abs(np.concatenate([step - np.median(step) for step in steps])) / np.sqrt(2)
        rows.append({"gpu": name, "what": "neighbours m, m + 1", **errors(np.exp(apart), np.ones(1))})
        times = dict(zip(zip(products.m, products.n, products.k, strict=True), products.seconds, strict=True))
        ratio = np.array([times[2 * m, n, k] / t for (m, n, k), t in times.items() if (2 * m, n, k) in times])
        share = (
            f"twice the rows faster, {100 * (ratio < 1).mean():.1f} % of {len(ratio)} pairs, worst {ratio.min():.2f}"
        )
        rows.append({"gpu": name, "what": share, **errors(ratio[ratio < 1], np.ones(1))})
        for engine in OTHERS.get(name, ()):
            other = read(folder, name, engine)
            key = {sizes: at for at, sizes in enumerate(zip(other.m, other.n, other.k, strict=True))}
            pairs = [
                (at, key[s]) for at, s in enumerate(zip(products.m, products.n, products.k, strict=True)) if s in key
            ]
            mine, theirs = np.array(pairs).T
            rows.append(
                {
                    "gpu": name,
                    "what": f"{engine} over {ENGINES[name]}",
                    **errors(other.seconds[theirs], products.seconds[mine]),
                }
            )
        rest = fitting(products)
        test = np.random.default_rng(SEED).random(len(rest)) < 0.2
        guesses = raw(train(rest[~test], gpu), rest[test].features(gpu))
        rows.append(
            {
                "gpu": name,
                "what": "random rows held out",
                **errors(np.exp(guesses) * rest[test].physics(gpu), rest[test].seconds),
            }
        )
    return rows


def draw(points: Mapping[str, tuple[Floats, Floats]], path: Path) -> None:
    """Draw predicted over measured times, a panel for each GPU."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, len(points), figsize=(4.0 * len(points), 5.6), height_ratios=(1.5, 1))
    for (top, bottom), (name, (measured, predicted)) in zip(panels.reshape(2, -1).T, points.items(), strict=True):
        scores = errors(predicted, measured)
        ends = np.array([measured.min(), measured.max()])
        for panel, y, line in ((top, predicted, ends), (bottom, predicted / measured, np.ones(2))):
            panel.fill_between(ends, line * 0.9, line * 1.1, color="0.87", linewidth=0, label="within 10 %")
            panel.plot(measured, y, ".", color="C0", markersize=1.2, alpha=0.5, markeredgewidth=0, rasterized=True)
            panel.plot(ends, line, color="0.3", linewidth=0.6)
            panel.set_xscale("log")
        top.set_yscale("log")
        top.set_title(f"{name.upper()}: {scores['n']} products, mean {100 * scores['mean']:.1f} %", fontsize=10)
        top.legend(loc="upper left", fontsize=8, frameon=False)
        bottom.set_ylim(0.6, 1.5)
        bottom.set_xlabel("measured [s]")
    panels.reshape(2, -1)[0][0].set_ylabel("predicted [s]")
    panels.reshape(2, -1)[1][0].set_ylabel("predicted / measured")
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Software": None})


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("command", choices=("fit", "score", "tune", "noise"))
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("HETGYM_DATA", ".")) / "aiconfigurator")
    parser.add_argument("--out", "--artefacts", type=Path, default=ARTEFACTS, help="folder of the artefacts")
    parser.add_argument("--gpus", nargs="*", default=list(ENGINES), choices=list(ENGINES))
    parser.add_argument("--picture", type=Path)
    args = parser.parse_args()
    if args.command == "fit":
        fit_all(args.data, args.out, args.gpus)
        return
    if args.command == "score":
        rows, points = score(args.data, args.out, args.gpus)
        if args.picture is not None:
            draw(points, args.picture)
    else:
        rows = (tune if args.command == "tune" else noise)(args.data, args.gpus)
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "GPU": lambda r: r["gpu"].upper(),
        "what": lambda r: str(r["what"]),
        "n": lambda r: str(r["n"]),
        **{c: lambda r, c=c: f"{100 * r[c.lower()]:.2f} %" for c in ("mean", "median", "P90")},  # type: ignore[misc]
    }
    if args.command == "score":
        by = {(r["gpu"], r["what"]): f"{100 * r['mean']:.1f} %" for r in rows}
        every = {name: cell for name, cell in columns.items() if name != "what"}
        every["the roofline instead"] = lambda r: by[r["gpu"], "the roofline instead"]
        every["cross-validation"] = lambda r: f"{100 * r['cross-validation']:.2f} %"
        show("held-out pairs (n, k)", [r for r in rows if r["what"] == "all"], every, name="held-out")
    name = "sizes" if args.command == "score" else ""
    show(f"{args.command}: absolute error, profiled GPU, unseen (n, k)", rows, columns, name)
    save(args.json, f"gemm-{args.command}", rows)


if __name__ == "__main__":
    main()
