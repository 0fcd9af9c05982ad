"""Products and attention in 16 and 8 bits on any GPU: fit, errors on shapes held out, errors on boards held out.

    python scripts/fit/half.py fit    --data DIR --out hetgym/costs/artefacts   # two minutes on one core
    python scripts/fit/half.py shapes --data DIR        # the shipped trees, on shapes that their fit has not seen
    python scripts/fit/half.py boards --data DIR        # fits without a board, on that board; two minutes
    python scripts/fit/half.py kinds  --data DIR        # attention likewise, by head size and dtype of the keys

DIR is ``aiconfigurator`` of gemm.py with ``{a100,h100}_sxm/attention/vllm/<version>/`` beside ``gemm`` (NVIDIA,
Apache-2.0). Reading it needs pyarrow; fitting needs ``hetgym[costs]``.

*shapes*: a fifth of the pairs (n, k) of products, as in gemm.py, and a fifth of the triples (heads, key heads, head
size) of attention, by a seeded hash, held out with all their rows on every board. *boards*: trees fitted to the fitting
rows of the other boards, asked for all rows of a board; *same kinds* are the rows whose head size and dtype the other
boards have too. The rules of :mod:`hetgym.costs.gpu.half_work` and the settings below were chosen with A100 and H100 in
sight, since there are no others.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import gemm
from _common import command_line, save, show

from hetgym.costs.forest import Forest
from hetgym.costs.gpu.gemm import mean_forest
from hetgym.costs.gpu.half import COLUMNS, HalfGpuCosts, HalfTrees
from hetgym.costs.gpu.half_work import RISING, HalfGpu, attention_work, product_features, product_physics
from hetgym.device import Device

DEVICES = {
    "a100": Device("a100", "gpu", {"float32": 19.5e12, "bfloat16": 312e12}, 2.039e12, processors=108, cache_bytes=40e6),
    "h100": Device(
        "h100",
        "gpu",
        {"float32": 66.9e12, "bfloat16": 989e12, "float8": 1979e12},
        3.35e12,
        processors=132,
        cache_bytes=50e6,
    ),
    "h200": Device(
        "h200",
        "gpu",
        {"float32": 66.9e12, "bfloat16": 989e12, "float8": 1979e12},
        4.8e12,
        processors=132,
        cache_bytes=50e6,
    ),
}
"""Data sheets of the measured SXM boards; clocks follow from the float32 rates."""

ATTENTION = {"a100": "0.14.0", "h100": "0.24.0"}
"""Versions of vLLM's attention tables."""

TREES = {"product": 150, "product8": 150, "attention": 200}
SETTINGS = gemm.COMMON | {"num_leaves": 31, "monotone_constraints_method": "intermediate"}
LOSSES: tuple[dict[str, Any], ...] = ({"objective": "l2"}, {"objective": "huber", "alpha": 0.1})
"""Losses of the two forests whose mean is taken; absolute errors cannot be fitted under constraints."""

NAME = "gpu-half.npz"
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """Measured operators of one class on one board.

    Args:
        kind: the class.
        board: a key of :data:`DEVICES`.
        table: [r, 4 or 8] as :meth:`HalfGpuCosts.seconds` takes it.
        seconds: [r] measured [s].
        part: [r] 0 for the held-out fifth.
        sort: [r] head size and bytes of a key as one number, or 0; boards differ in what was measured.
        other: [r] true where a kernel ran that the rules do not describe: FlashAttention-4, for heads of 512 on H100.
    """

    kind: str
    board: str
    table: Floats
    seconds: Floats
    part: npt.NDArray[np.int64]
    sort: npt.NDArray[np.int64]
    other: npt.NDArray[np.bool_]

    @property
    def gpu(self) -> HalfGpu:
        """The board's figures."""
        gpu = HalfGpu.of(DEVICES[self.board])
        assert gpu is not None
        return gpu

    def __getitem__(self, rows: npt.NDArray[Any]) -> Rows:
        columns = (self.table, self.seconds, self.part, self.sort, self.other)
        return Rows(self.kind, self.board, *(column[rows] for column in columns))

    def inputs(self) -> tuple[Floats, Floats]:
        """[r, features], and [r] log(seconds / bound)."""
        if self.kind == "attention":
            bound, features = attention_work(self.table, self.gpu)
        else:
            bits = 16 if self.kind == "product" else 8
            bound = product_physics(self.table, self.gpu, bits)
            features = product_features(self.table, self.gpu, bits)
        return features, np.log(self.seconds / bound)


def read(folder: Path) -> list[Rows]:
    """All tables."""
    found = []
    for board, engine in gemm.ENGINES.items():
        found += [_products(folder, board, engine, kind) for kind in ("product", "product8")]
    found += [_attention(folder, board, release) for board, release in ATTENTION.items()]
    return [rows for rows in found if len(rows.seconds)]


def _products(folder: Path, board: str, engine: str, kind: str) -> Rows:
    import pyarrow.parquet

    path = folder / f"{board}_sxm" / "gemm" / engine / "gemm_perf.parquet"
    table = pyarrow.parquet.read_table(path, columns=["gemm_dtype", "m", "n", "k", "latency"])
    use = np.array(table["gemm_dtype"].to_pylist()) == {"product": "bfloat16", "product8": "fp8"}[kind]
    m, n, k, milliseconds = (np.array(table[c].to_pylist(), np.float64)[use] for c in ("m", "n", "k", "latency"))
    order = np.lexsort((m, k, n))
    m, n, k, seconds = m[order], n[order], k[order], milliseconds[order] * 1e-3
    part = gemm.part(gemm.Products(m, n, k, seconds), 5, str(gemm.SEED)) if len(m) else np.zeros(0, np.int64)
    sizes = np.stack([np.ones(len(m)), m, n, k], axis=1)
    return Rows(kind, board, sizes, seconds, part, np.zeros(len(m), np.int64), np.zeros(len(m), np.bool_))


def _attention(folder: Path, board: str, release: str) -> Rows:
    """Prefill and decode without sliding windows; rows that were measured twice become their median."""
    import pyarrow.parquet

    times: dict[tuple[float, ...], list[float]] = {}
    others: set[tuple[float, ...]] = set()
    for what in ("context", "generation"):
        path = folder / f"{board}_sxm" / "attention" / "vllm" / release / f"{what}_attention_perf.parquet"
        for row in pyarrow.parquet.read_table(path).to_pylist():
            if row.get("window_size", 0):
                continue
            queries, keys = (row["isl"], row["isl"]) if what == "context" else (1, row["step"] + 1)
            heads, shared, width = row["num_heads"], row["num_key_value_heads"], row["head_dim"]
            bytes_ = 1 if row["kv_cache_dtype"] == "fp8" else 2
            key = (row["batch_size"], heads, shared, queries, keys, width, bytes_, int(what == "context"))
            times.setdefault(key, []).append(1e-3 * row["latency"])
            if row["kernel_source"].endswith("_fa4"):
                others.add(key)
    table = np.array(sorted(times), np.float64)
    seconds = np.array([float(np.median(times[key])) for key in sorted(times)])
    part = np.array([_fifth(f"{h:.0f}x{s:.0f}x{w:.0f}") for h, s, w in table[:, [1, 2, 5]]], np.int64)
    other = np.array([key in others for key in sorted(times)])
    return Rows("attention", board, table, seconds, part, (table[:, 5] * 8 + table[:, 6]).astype(np.int64), other)


def _fifth(text: str) -> int:
    digest = hashlib.blake2b(f"{gemm.SEED}:{text}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % 5


def grown(kind: str, rows: Sequence[Rows]) -> HalfTrees:
    """Trees of one class, fitted to the rows that are not held out."""
    import lightgbm

    parts = [r[r.part != 0].inputs() for r in rows]
    x, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    rising = [int(name.startswith(RISING)) for name in COLUMNS[kind]]
    forests = [
        Forest.from_lightgbm(
            lightgbm.train(
                SETTINGS | loss | {"seed": gemm.SEED + at, "monotone_constraints": rising},
                lightgbm.Dataset(x, y),
                TREES[kind],
            )
        )
        for at, loss in enumerate(LOSSES)
    ]
    return HalfTrees(mean_forest(forests), (float(y.min()), float(y.max())), (0.0, 0.0))


def errors(predicted: Floats, measured: Floats) -> dict[str, Any]:
    """Scores of gemm.py, and the median of the signed errors."""
    return gemm.errors(predicted, measured) | {"bias": float(np.median(predicted / measured - 1))}


def phases(rows: Rows) -> list[tuple[str, npt.NDArray[np.bool_]]]:
    """Names of the phases of a class, and [r] which rows they are."""
    if rows.kind != "attention":
        return [("product" if rows.kind == "product" else "product of float8", np.ones(len(rows.seconds), np.bool_))]
    return [("prefill", rows.table[:, 7] == 1), ("decode", rows.table[:, 7] == 0)]


def groups(rows: Rows) -> list[tuple[str, npt.NDArray[np.bool_]]]:
    """The phases, and their parts where they have several: 16-bit keys, 8-bit keys, and kernels of another library."""
    narrow, found = rows.table[:, -2] == 1, []
    for what, phase in phases(rows):
        parts = (("16-bit keys", ~narrow & ~rows.other), ("8-bit keys", narrow), ("FlashAttention-4", rows.other))
        some = [(f"{what}, {name}", phase & part) for name, part in parts if (phase & part).any()]
        found += [*(some if len(some) > 1 else []), (what, phase)]
    return found


def shapes(found: Sequence[Rows], model: HalfGpuCosts) -> list[dict[str, Any]]:
    """Errors of a fitted model on the held-out fifth of the shapes."""
    table = []
    for rows in found:
        test = rows[rows.part == 0]
        guess = model.seconds(rows.kind, test.table, test.gpu)
        for what, use in groups(test):
            table.append({"board": rows.board, "what": what, **errors(guess[use], test.seconds[use])})
    return table


def boards(found: Sequence[Rows]) -> tuple[list[dict[str, Any]], dict[str, tuple[float, float]]]:
    """Errors on each board of trees that were fitted to the others; class -> percentiles of their log ratios."""
    table, ratios = [], dict[str, list[Floats]]()
    for rows in found:
        rest = [other for other in found if other.kind == rows.kind and other.board != rows.board]
        if not rest:
            continue
        bare = {kind: grown(rows.kind, rest) if kind == rows.kind else _EMPTY for kind in COLUMNS}
        guess = HalfGpuCosts(bare).seconds(rows.kind, rows.table, rows.gpu)
        shared = np.isin(rows.sort, np.unique(np.concatenate([other.sort for other in rest])))
        ratios.setdefault(rows.kind, []).append(np.log(rows.seconds / guess)[shared])
        source = ", ".join(other.board for other in rest)
        for what, use in groups(rows):
            here = use & shared
            if 0 < here.sum() < use.sum():
                score = errors(guess[here], rows.seconds[here])
                table.append({"board": rows.board, "what": f"{what}, same kinds", "from": source, **score})
            table.append({"board": rows.board, "what": what, "from": source, **errors(guess[use], rows.seconds[use])})
    scatter = {}
    for kind, parts in ratios.items():
        low, high = (float(np.mean([np.quantile(part, q) for part in parts])) for q in (0.1, 0.9))
        scatter[kind] = (min(low, 0.0), max(high, 0.0))
    return table, scatter


def kinds(found: Sequence[Rows]) -> list[dict[str, Any]]:
    """Errors of attention on boards held out, by head size and dtype of the keys.

    ``known`` tells whether the other board was measured with that kind. ``centred`` is the mean error if the kind's own
    median ratio, which only the board itself tells, is divided out.
    """
    table = []
    attention = [rows for rows in found if rows.kind == "attention"]
    for rows in attention:
        rest = [other for other in attention if other is not rows]
        model = HalfGpuCosts({kind: grown(kind, rest) if kind == "attention" else _EMPTY for kind in COLUMNS})
        ratio = model.seconds("attention", rows.table, rows.gpu) / rows.seconds
        known = np.unique(np.concatenate([other.sort for other in rest]))
        place = {"board": rows.board, "from": ", ".join(other.board for other in rest)}
        for what, use in phases(rows):
            levels, count = np.zeros(len(ratio)), 0
            for sort in np.unique(rows.sort[use]):
                here = use & (rows.sort == sort)
                levels[here], count = float(np.median(ratio[here])), count + 1
                score = errors(ratio[here], np.ones(int(here.sum())))
                score["centred"] = errors(ratio[here] / levels[here], np.ones(int(here.sum())))["mean"]
                name = f"{what}, heads of {sort // 8}, {8 * (sort % 8)}-bit keys"
                table.append({**place, "what": name, "known": "yes" if sort in known else "no", **score})
            if count > 1:
                whole = errors(ratio[use], np.ones(int(use.sum())))
                whole["centred"] = errors(ratio[use] / levels[use], np.ones(int(use.sum())))["mean"]
                table.append({**place, "what": what, "known": "", **whole})
    return table


_EMPTY = HalfTrees(
    Forest(*(np.zeros(s, d) for s, d in ((1, "i4"), (0, "i4"), (0, "f4"), (0, "i4"), (0, "i4"), (0, "f4")))),
    (0.0, 0.0),
    (0.0, 0.0),
)


def fit(found: Sequence[Rows], out: Path) -> None:
    """Fit all classes, score them both ways and write the artefact."""
    unseen, scatter = boards(found)
    classes = {}
    for kind in COLUMNS:
        trees = grown(kind, [rows for rows in found if rows.kind == kind])
        classes[kind] = HalfTrees(trees.trees, trees.limits, scatter[kind])
    card = {
        "device": "any GPU, by its data sheet",
        "operator": "products in 16 and 8 bits, attention in 16 bits",
        "source": "github.com/ai-dynamo/aiconfigurator, gemm and attention of a100_sxm, h100_sxm, h200_sxm",
        "licence": "Apache-2.0, Copyright (c) 2025-2026 NVIDIA CORPORATION & AFFILIATES; figures fitted to it",
        "split": "held out: pairs (n, k), and heads x key heads x head size, with blake2b('0:...') divisible by 5",
        "seed": gemm.SEED,
        "rows": int(sum((rows.part != 0).sum() for rows in found)),
        "made by": f"python scripts/fit/half.py fit, lightgbm {version('lightgbm')}",
    }
    model = HalfGpuCosts(classes, card)
    seen = shapes(found, model)
    scores = {"shapes held out": [_rounded(row) for row in seen], "boards held out": [_rounded(row) for row in unseen]}
    model = HalfGpuCosts(classes, card | {"scores": scores})
    model.save(out / NAME)
    print(f"{out / NAME}: {(out / NAME).stat().st_size / 1000:.0f} kB")


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("what", choices=("fit", "shapes", "boards", "kinds"))
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("HETGYM_DATA", ".")) / "aiconfigurator")
    parser.add_argument("--out", type=Path, default=gemm.ARTEFACTS)
    parser.add_argument("--artefacts", type=Path, default=gemm.ARTEFACTS)
    args = parser.parse_args()
    found = read(args.data)
    if args.what == "fit":
        fit(found, args.out)
        return
    if args.what == "shapes":
        rows = shapes(found, HalfGpuCosts.load(args.artefacts / NAME))
    else:
        rows = kinds(found) if args.what == "kinds" else boards(found)[0]
    first = "shapes held out" if args.what == "shapes" else "board held out"
    columns: dict[str, Callable[[dict[str, Any]], str]] = {first: lambda r: f"{r['board'].upper()}, {r['what']}"}
    if args.what == "boards":
        columns["fitted to"] = lambda r: r["from"].upper()
    if args.what == "kinds":
        columns["measured elsewhere"] = lambda r: r["known"]
    columns["n"] = lambda r: str(r["n"])
    for name in ("mean", "median", "P90", "bias", *(["centred"] if args.what == "kinds" else [])):
        sign = "+" if name == "bias" else ""
        columns[name] = lambda r, name=name, sign=sign: f"{100 * r[name.lower()]:{sign}.2f} %"
    show(args.what, rows, columns)
    save(args.json, args.what, rows)


if __name__ == "__main__":
    main()
