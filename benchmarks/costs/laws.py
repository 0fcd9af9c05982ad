"""Laws that every cost model must obey: more work is not faster, every legal operator has a price, pricing is fast.

    python benchmarks/costs/laws.py --json laws.json --markdown laws.md      # two minutes

For the roofline and every shipped model, on the devices that name it (else on one of the kind it was fitted on), and
for pairs of models of one device:

* *prices*: 10 000 random operators of all kinds, from 1 to 2^40 elements: the numbers of prices that are not finite and
  not positive (views may be free), the highest and the lowest price;
* *twice the batch*: each operator and the same with twice the batch, once with sizes as in networks and once with
  absurd ones: the number of pairs where twice the batch is cheaper, and the worst ratio of the two prices;
* *precision*: products and attention in float16 and float32, on the device and on one without its narrow units: the
  number of pairs in which float16 is dearer although there are units (by more than a kernel's constant time), and in
  which it is cheaper although there are none. Units are such that the device computes faster with them;
* *better board*: all operators on the device, and on one with twice the bandwidth or twice the arithmetic: the share
  that is dearer there, and the worst ratio;
* *500 operators*: CPU time of one call of ``predict`` for operators of new shapes, and of a second call for the same.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from _common import command_line, save, show

from hetgym import load_platform
from hetgym.costs import AutoCosts, CostModel, Roofline, artefact, load_costs
from hetgym.costs.rates import widened
from hetgym.device import Device
from hetgym.graph import KINDS, Operator, Tensor
from hetgym.graph.ops import DTYPE_BYTES
from hetgym.platform import platform_names

LIMIT = 2**40
DTYPES = ("float32", "float16", "bfloat16", "float32", "float32", "int8", "float64")
TOLERANCE = 1e-9
Build = Callable[[int, Callable[[int], int], str], Operator]


def _operator(
    kind: str,
    inputs: list[tuple[int, ...]],
    outputs: list[tuple[int, ...]],
    dtype: str,
    weights: int = 0,
    **attributes: Any,
) -> Operator:
    """An operator whose last ``weights`` inputs are constants."""
    tensors = [Tensor(s, dtype, constant=i >= len(inputs) - weights) for i, s in enumerate(inputs)]
    return Operator(kind.lower(), kind, tuple(tensors), tuple(Tensor(s, dtype) for s in outputs), attributes)


def _product(batch: int, size: Callable[[int], int], dtype: str) -> Operator:
    m, n, k = size(512), size(4096), size(4096)
    return _operator("Gemm", [(batch * m, k), (n, k)], [(batch * m, n)], dtype, 1, transB=1)


def _batched(batch: int, size: Callable[[int], int], dtype: str) -> Operator:
    m, n, k, heads = size(512), size(512), size(128), size(16)
    return _operator("MatMul", [(batch, heads, m, k), (batch, heads, k, n)], [(batch, heads, m, n)], dtype)


def _convolution(batch: int, size: Callable[[int], int], dtype: str) -> Operator:
    into, out, side, window = size(512), size(512), size(112), min(size(7), 11)
    x, w, y = (batch, into, side, side), (out, into, window, window), (batch, out, side, side)
    half = window // 2
    return _operator(
        "Conv",
        [x, w],
        [y],
        dtype,
        1,
        kernel_shape=(window, window),
        strides=(1, 1),
        group=1,
        pads=(half, half, window - 1 - half, window - 1 - half),
        dilations=(1, 1),
    )


def _depthwise(batch: int, size: Callable[[int], int], dtype: str) -> Operator:
    channels, side = size(512), size(112)
    x = (batch, channels, side, side)
    return _operator(
        "Conv",
        [x, (channels, 1, 3, 3)],
        [x],
        dtype,
        1,
        kernel_shape=(3, 3),
        strides=(1, 1),
        group=channels,
        pads=(1, 1, 1, 1),
        dilations=(1, 1),
    )


def _pool(batch: int, size: Callable[[int], int], dtype: str) -> Operator:
    channels, side = size(512), size(56)
    x, y = (batch, channels, 2 * side, 2 * side), (batch, channels, side, side)
    return _operator("MaxPool", [x], [y], dtype, kernel_shape=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0))


def _lstm(batch: int, size: Callable[[int], int], dtype: str) -> Operator:
    into, hidden = size(1024), size(1024)
    shapes = [(batch, into), (batch, hidden), (batch, hidden), (4 * hidden, into), (4 * hidden, hidden)]
    return _operator("LSTMCell", shapes, [(batch, hidden)] * 2, dtype, 2, hidden_size=hidden)


def _attention(batch: int, size: Callable[[int], int], dtype: str) -> Operator:
    heads, rows, width = size(16), size(512), size(64)
    x = (batch, heads, rows, width)
    return _operator("Attention", [x, x, x], [x], dtype)


def _gather(batch: int, size: Callable[[int], int], dtype: str) -> Operator:
    words, width, length = size(30000), size(1024), size(512)
    table, index = Tensor((words, width), dtype, constant=True), Tensor((batch, length), "int64")
    return Operator("gather", "Gather", (table, index), (Tensor((batch, length, width), dtype),), {"axis": 0})


def _rows(kind: str, operands: int = 1, **attributes: Any) -> Build:
    """An operator that keeps the shape of its operands."""

    def build(batch: int, size: Callable[[int], int], dtype: str) -> Operator:
        x = (batch, size(512), size(1024))
        return _operator(kind, [x] * operands, [x], dtype, **attributes)

    return build


def _reduced(kind: str) -> Build:
    def build(batch: int, size: Callable[[int], int], dtype: str) -> Operator:
        x = (batch, size(512), size(1024))
        return _operator(kind, [x], [x[:2]], dtype, axes=(2,), keepdims=0)

    return build


def _concat(batch: int, size: Callable[[int], int], dtype: str) -> Operator:
    left, right, width = size(512), size(512), size(1024)
    shapes = [(batch, left, width), (batch, right, width)]
    return _operator("Concat", shapes, [(batch, left + right, width)], dtype, axis=1)


def _pooled(batch: int, size: Callable[[int], int], dtype: str) -> Operator:
    x = (batch, size(512), size(56), size(56))
    return _operator("GlobalAveragePool", [x], [(*x[:2], 1, 1)], dtype)


def _normalised(batch: int, size: Callable[[int], int], dtype: str) -> Operator:
    x = (batch, size(512), size(56), size(56))
    return _operator("BatchNormalization", [x, *[(x[1],)] * 4], [x], dtype, 4)


def _layer(batch: int, size: Callable[[int], int], dtype: str) -> Operator:
    x = (batch, size(512), size(1024))
    return _operator("LayerNormalization", [x, x[2:], x[2:]], [x], dtype, 2, axis=-1)


_UNARY = sorted(k for k, v in KINDS.items() if v.family == "elementwise" and v.fusion == 0)
_BINARY = sorted(k for k, v in KINDS.items() if v.family == "elementwise" and v.fusion == 1 and "Batch" not in k)
BUILDERS: tuple[Build, ...] = (
    *(_product, _batched, _convolution, _depthwise) * 3,
    _pool,
    _lstm,
    _attention,
    _gather,
    _concat,
    _pooled,
    _normalised,
    _layer,
    _rows("Softmax", axis=-1),
    _rows("Transpose", perm=(0, 2, 1)),
    _rows("Reshape"),
    _rows("NotInTheVocabulary", 2),
    *map(_reduced, ("ReduceMean", "ReduceSum", "ReduceMax", "ArgMax")),
    *map(_rows, _UNARY),
    *(_rows(kind, 2) for kind in _BINARY),
)


def drawn(rng: np.random.Generator, absurd: bool, dtype: str = "") -> tuple[Operator, Operator]:
    """A random operator, and the same with twice the batch; of a random dtype if none is given."""
    while True:
        build = BUILDERS[int(rng.integers(len(BUILDERS)))]
        chosen = dtype or DTYPES[int(rng.integers(len(DTYPES)))]
        seed = int(rng.integers(2**63))
        batch = int(2 ** rng.uniform(0, 20)) if absurd else int(2 ** rng.integers(0, 8))
        pair = [build(b, _sizes(seed, absurd), chosen) for b in (batch, 2 * batch)]
        if all(t.size <= LIMIT for op in pair for t in (*op.inputs, *op.outputs)):
            return pair[0], pair[1]


def _sizes(seed: int, absurd: bool) -> Callable[[int], int]:
    """A function that draws sizes: up to a usual one, half of them powers of two; or absurd ones, 1 or up to 2^40."""
    rng = np.random.default_rng(seed)

    def size(usual: int) -> int:
        if absurd:
            return 1 if rng.random() < 0.3 else int(2 ** rng.uniform(0, 40 * rng.random()))
        value = 2 ** rng.uniform(0, np.log2(usual))
        return 2 ** round(np.log2(value)) if rng.random() < 0.5 else max(1, int(value))

    return size


def priced(model: CostModel, device: Device, operators: list[Operator]) -> dict[str, Any]:
    """Numbers of prices that are not finite or not positive, and the extreme prices."""
    seconds = model.predict(operators, device)
    view = np.array([op.spec.family == "view" for op in operators])
    impossible = np.isinf(Roofline().predict(operators, device))  # a dtype that the device cannot compute in
    bad = ~np.isfinite(seconds) & ~impossible
    free = (seconds <= 0) & ~view
    fine = seconds[np.isfinite(seconds) & (seconds > 0)]
    return {
        "operators": len(operators),
        "not_finite": int(bad.sum()),
        "not_positive": int(free.sum()),
        "cheapest": float(fine.min()),
        "dearest": float(fine.max()),
    }


def doubled(model: CostModel, device: Device, pairs: list[tuple[Operator, Operator]]) -> dict[str, Any]:
    """Number and share of pairs in which twice the batch is cheaper, and the worst ratio."""
    once, twice = (model.predict([pair[at] for pair in pairs], device) for at in (0, 1))
    known = np.isfinite(once) & np.isfinite(twice) & (once > 0)
    ratio = twice[known] / once[known]
    faster = ratio < 1 - TOLERANCE
    kinds = [pair[0].kind for pair, use in zip(pairs, known, strict=True) if use]
    worst = int(np.argmin(ratio))
    return {
        "pairs": int(known.sum()),
        "faster": int(faster.sum()),
        "share": float(faster.mean()),
        "worst": float(ratio[worst]),
        "worst_kind": kinds[worst],
        "much_faster": int((ratio < 0.9).sum()),
    }


CONSTANT = 12e-6
"""Largest difference between the constant times of kernels in two precisions [s]: attention has a floor of 9 us."""


def precision(model: CostModel, device: Device, seed: int, count: int) -> dict[str, int]:
    """Numbers of products dearer in float16 on a device with units for it, and cheaper on one without.

    Without units they are compared with products of float32 whose constants have 16 bits: those are read as they are.
    """
    rates = {name: rate for name, rate in device.peak_flops.items() if DTYPE_BYTES[name] > 2}
    narrow = device.peak_flops.get("float16", device.peak_flops.get("bfloat16", 0.0))
    result = {"slower_with_units": 0, "faster_without_units": 0}
    for build in (_product, _batched, _attention):
        pairs = [
            [build(2 ** (i % 8), _sizes(seed + i, False), dtype) for i in range(count // 3)]
            for dtype in ("float16", "float32")
        ]
        if not (narrow and "float32" in rates):
            continue
        if narrow > rates["float32"]:
            half, single = (model.predict(operators, device) for operators in pairs)
            result["slower_with_units"] += int((half > single + CONSTANT).sum())
        plain = replace(device, peak_flops=rates)
        wide = [widened(op, plain)[0] for op in pairs[0]]
        half, single = (model.predict(operators, plain) for operators in (pairs[0], wide))
        result["faster_without_units"] += int((half < single * (1 - TOLERANCE)).sum())
    return result


def better(model: CostModel, device: Device, operators: list[Operator]) -> dict[str, float]:
    """Share of operators that are dearer with twice the bandwidth or twice the arithmetic, and the worst ratio."""
    now = model.predict(operators, device)
    known = np.isfinite(now) & (now > 0)
    rates = {name: 2 * rate for name, rate in device.peak_flops.items()}
    boards = [replace(device, memory_bandwidth=2 * device.memory_bandwidth), replace(device, peak_flops=rates)]
    ratio = np.concatenate([model.predict(operators, board)[known] / now[known] for board in boards])
    return {"share": float((ratio > 1 + TOLERANCE).mean()), "worst": float(ratio.max())}


def clocked(model: CostModel, device: Device, rng: np.random.Generator, dtype: str) -> dict[str, float]:
    """Median CPU time of a call for 500 operators of new shapes, and of the same call again [s]."""
    fresh, again = [], []
    for _ in range(9):
        operators = [drawn(rng, False, dtype)[0] for _ in range(500)]
        for times in (fresh, again):
            begin = time.thread_time()
            model.predict(operators, device)
            times.append(time.thread_time() - begin)
    return {"fresh": float(np.median(fresh)), "again": float(np.median(again))}


def devices() -> dict[str, Device]:
    """Model -> a device that names it, over all platforms; and one of each kind."""
    found: dict[str, Device] = {}
    for name in platform_names():
        for device in load_platform(name):
            found.setdefault(device.costs or f"any {device.kind}", device)
            found.setdefault(f"any {device.kind}", replace(device, costs="", half_costs=""))
            if device.half_costs:
                found.setdefault(device.half_costs, device)
                found.setdefault(f"{device.costs} + {device.half_costs}", device)
    return found


def device_for(name: str, model: CostModel, known: dict[str, Device]) -> Device:
    """The device that names a model, or otherwise a device of the kind in the model's name or card."""
    if name in known:
        return known[name]
    text = f"{name} {getattr(model, 'card', {})}".lower()
    return known["any cpu" if "cpu" in name.lower() or ("gpu" not in text and "nvidia" not in text) else "any gpu"]


def study(name: str, model: CostModel, device: Device, count: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    dtype = "bfloat16" if "bf16" in name or "half" in name else "float32"
    usual = [drawn(rng, False, dtype) for _ in range(count)]
    absurd = [drawn(rng, True) for _ in range(count)]
    return {
        "model": name,
        "device": device.name,
        "prices": priced(model, device, [pair[0] for pair in absurd]),
        "usual": doubled(model, device, usual),
        "absurd": doubled(model, device, absurd),
        "precision": precision(model, device, 0, count),
        "better": better(model, device, [pair[0] for pair in usual]),
        "clock": clocked(model, device, rng, dtype),
    }


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--models", nargs="*", default=[""], help="part of the names; all by default")
    parser.add_argument("--markdown", type=Path)
    args = parser.parse_args()
    known = devices()
    rows = [study(f"roofline ({kind})", Roofline(), known[f"any {kind}"], args.count) for kind in ("cpu", "gpu", "npu")]
    for name in artefact.names():
        if any(word in name for word in args.models):
            model = load_costs(name)
            rows.append(study(name, model, device_for(name, model, known), args.count))
    both = [name for name in known if " + " in name and any(word in name for word in args.models)]
    rows += [study(name, AutoCosts(), known[name], args.count) for name in both]
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "model": lambda r: r["model"],
        "not finite": lambda r: str(r["prices"]["not_finite"]),
        "not positive": lambda r: str(r["prices"]["not_positive"]),
        "cheapest, dearest": lambda r: f"{r['prices']['cheapest']:.0e}, {r['prices']['dearest']:.0e} s",
        "twice the batch faster, usual sizes": lambda r: _faster(r["usual"]),
        "absurd sizes": lambda r: _faster(r["absurd"]),
        "float16 dearer with units, cheaper without": lambda r: ", ".join(str(v) for v in r["precision"].values()),
        "better board dearer": lambda r: f"{100 * r['better']['share']:.2f} %, worst {r['better']['worst']:.2f}",
        "500 new shapes": lambda r: f"{1e3 * r['clock']['fresh']:.1f} ms",
        "500 again": lambda r: f"{1e3 * r['clock']['again']:.2f} ms",
    }
    show("laws", rows, columns)
    save(args.json, "laws", rows)
    if args.markdown is not None:
        lines = ["| " + " | ".join(columns) + " |", "| --- |" + " ---: |" * (len(columns) - 1)]
        lines += ["| " + " | ".join(cell(row) for cell in columns.values()) + " |" for row in rows]
        args.markdown.write_text("\n".join(lines) + "\n")


def _faster(found: dict[str, Any]) -> str:
    if not found["faster"]:
        return "never"
    return f"{100 * found['share']:.2f} %, worst {found['worst']:.2f} ({found['worst_kind']})"


if __name__ == "__main__":
    main()
