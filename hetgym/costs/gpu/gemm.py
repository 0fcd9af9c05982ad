"""Costs of 16-bit matrix products on profiled GPUs: a data-sheet bound corrected by trees.

seconds = physics x exp(trees(features)), where

    physics = floor + max(FLOPs / peak, bytes / bandwidth)

is the bound of the data sheet, and the trees learn the share of it that the library's kernels reach. For a range of
tile sizes the features include the number of tiles of a product and the utilisation of the last wave of tiles. From
these the trees learn the library's choice of kernels.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hetgym._input.config import check_number
from hetgym._types import FloatArray
from hetgym.costs import artefact
from hetgym.costs.batches import never_faster
from hetgym.costs.explanation import Ledger
from hetgym.costs.forest import ARRAYS, Forest
from hetgym.costs.regressor import refuse_others
from hetgym.costs.roofline import NO_GPU, PricedPlain, by_roofline
from hetgym.device import Device
from hetgym.errors import ArtefactError, PlatformError
from hetgym.graph.ops import Operator

FLOOR = 2.2e-6
"""Time of the smallest kernel in a captured graph [s], a little below the fastest of 1e5 measured products."""

MEMORY_EFFICIENCY = 0.8
"""Share of the bandwidth that all other operators reach: ``mem_bw_empirical_scaling_factor`` of aiconfigurator."""

LAUNCH = 3e-6  # Launch time of all other operators [s]: `mem_empirical_constant_latency` of aiconfigurator

OTHERS = f"no product in 16 bits: the roofline, with {MEMORY_EFFICIENCY:.0%} of the bandwidth and {LAUNCH:g} s a launch"
"""Rule of explanations for all other operators."""

MODEL = "gpu-gemm"  # Kind of the model in the header of an artefact
LARGEST_RATIO = 50.0  # Largest absolute value of a log ratio
REMEMBERED = 1 << 16  # Most shapes in a model's cache; a full cache is emptied

TILES = (
    (16, 64), (16, 128), (32, 64), (32, 128), (64, 64), (64, 128), (128, 64), (64, 256), (256, 64), (128, 128),
    (192, 128), (128, 192), (128, 256), (256, 128),
)  # fmt: skip
"""Rows and columns of the output that one block may compute."""


def shape_names(fullest: str) -> tuple[str, ...]:
    """Names of the columns of :func:`shape_columns`; ``fullest`` is that of the work of the fullest processor."""
    return (
        "log2 m", "log2 n", "log2 k", "m", "log2 m n",
        *(f"log2 of the {operand} over the cache" for operand in ("left operand", "right operand", "output")),
        *(f"m divisible by {a}" for a in (2, 8, 16, 64)), *(f"m modulo {a}" for a in (64, 128, 256)),
        "n divisible by 512", "n divisible by 1024", "k divisible by 1024",
        *(f"{what}, tiles of {a} x {b}" for a, b in TILES for what in
          ("log2 waves", "filling of the waves", fullest, "filling of the tiles")),
    )  # fmt: skip


GEMM_FEATURES: tuple[str, ...] = (
    "log2 seconds of the FLOPs at peak", "log2 seconds of the bytes at peak", "log2 of their ratio",
    *shape_names("log2 outputs x k of the fullest processor"),
)  # fmt: skip
"""Names of the columns that :func:`gemm_features` returns."""


@dataclass(frozen=True)
class GemmGpu:
    """The figures of a GPU that the features depend on; PlatformError unless all are positive."""

    peak_flops: float  # dense rate in 16 bits by the data sheet [FLOP/s]
    memory_bandwidth: float  # memory bandwidth by the data sheet [byte/s]
    processors: int  # number of streaming multiprocessors
    cache_bytes: float  # last-level cache [byte]

    def __post_init__(self) -> None:
        for name, value in self.__dict__.items():
            check_number(value, f"GPU: {name}", PlatformError, positive=True)


GEMM_GPUS: dict[str, GemmGpu] = {
    "a100": GemmGpu(312e12, 2.039e12, 108, 40e6),
    "h100": GemmGpu(989e12, 3.35e12, 132, 50e6),
    "h200": GemmGpu(989e12, 4.8e12, 132, 50e6),
}
"""Data sheets of the SXM boards that the shipped artefacts were fitted to."""


def gemm_dimensions(operator: Operator) -> tuple[int, int, int, int] | None:
    """Batch, rows, columns and reduction of a matrix product.

    Leading axes that only the left operand has are folded into the rows, as in libraries. Leading axes that the right
    operand has as well are the batch of independent products. For a fused operator these are the dimensions of its
    anchor.

    Returns:
        (batch, m, n, k), or None if the operator is not a product of two matrices.

    >>> from hetgym.graph import Tensor
    >>> x, w, y = Tensor((8, 128, 768)), Tensor((768, 3072), constant=True), Tensor((8, 128, 3072))
    >>> gemm_dimensions(Operator("fc", "MatMul", (x, w), (y,)))
    (1, 1024, 3072, 768)
    >>> q, k, s = Tensor((8, 12, 128, 64)), Tensor((8, 12, 64, 128)), Tensor((8, 12, 128, 128))
    >>> gemm_dimensions(Operator("scores", "MatMul", (q, k), (s,)))
    (96, 128, 128, 64)
    """
    fused = operator.kind == "Fused-matmul"
    kind = operator.attributes.get("anchor") if fused else operator.kind
    if kind not in ("MatMul", "Gemm") or len(operator.inputs) < 2 or not operator.outputs:
        return None
    left, right = operator.inputs[0].shape, operator.inputs[1].shape
    if not left or not right:
        return None
    transposed = len(left) > 1 and bool(operator.attributes.get("transA", 0))
    k = left[-2] if transposed else left[-1]
    batch = math.prod(right[:-2])
    n = 1 if len(right) == 1 else right[-2] if operator.attributes.get("transB", 0) else right[-1]
    # Fused operators may have changed the shape of the result, but the product itself has n columns.
    outputs = math.prod(left) // max(1, k) * n if fused else math.prod(operator.outputs[0].shape)
    return batch, outputs // max(1, n * batch), n, k


def gemm_physics(batch: FloatArray, m: FloatArray, n: FloatArray, k: FloatArray, gpu: GemmGpu) -> FloatArray:
    """[r] data-sheet bounds: a floor plus the slower of arithmetic and memory, for elements of two bytes [s]."""
    flops = 2.0 * batch * m * n * k
    moved = 2.0 * batch * (m * k + n * k + m * n)
    return np.asarray(FLOOR + np.maximum(flops / gpu.peak_flops, moved / gpu.memory_bandwidth), np.float64)


def gemm_features(m: FloatArray, n: FloatArray, k: FloatArray, gpu: GemmGpu) -> FloatArray:
    """[r, f] columns :data:`GEMM_FEATURES` of products [m, k] x [k, n] of r sizes, at least 1 each."""
    log_flops = np.log2(2.0 * m * n * k / gpu.peak_flops)
    log_bytes = np.log2(2.0 * (m * k + n * k + m * n) / gpu.memory_bandwidth)
    over_cache = [2.0 * size / gpu.cache_bytes for size in (m * k, n * k, m * n)]
    shapes = shape_columns(m, n, k, over_cache, gpu.processors)
    return np.stack([log_flops, log_bytes, log_flops - log_bytes, *shapes], axis=1)


def shape_columns(
    m: FloatArray, n: FloatArray, k: FloatArray, over_cache: Sequence[FloatArray], processors: float, unit: float = 1.0
) -> list[FloatArray]:
    """Columns :func:`shape_names` of r products; outputs times k of the fullest processor are counted in ``unit``."""
    columns = [np.log2(m), np.log2(n), np.log2(k), m, np.log2(m * n), *map(np.log2, over_cache)]
    columns += [m % a == 0 for a in (2, 8, 16, 64)] + [m % a for a in (64, 128, 256)]
    columns += [n % 512 == 0, n % 1024 == 0, k % 1024 == 0]
    for rows, wide in TILES:
        blocks = np.ceil(m / rows) * np.ceil(n / wide)
        waves = blocks / processors
        full = np.ceil(waves)
        columns += [np.log2(waves), waves / full, np.log2(full * rows * wide * k / unit)]
        columns += [m * n / (blocks * rows * wide)]
    return [np.asarray(column, np.float64) for column in columns]


class GemmCosts(artefact.Stored, PricedPlain):
    """Costs on a profiled GPU: trees for products in 16 bits, the roofline for every other operator.

    Batched products were not measured. They are priced by their own arithmetic and memory traffic at the utilisation
    of one product that has the rows of the whole batch. Operators that are fused to a product add the time of the
    memory traffic that the product alone would not have. Other operators are priced with
    :data:`MEMORY_EFFICIENCY` and :data:`LAUNCH`, which belong to the same measurements, in place of the
    device's own figures. On devices other than GPUs all operators are priced by the roofline.

    Args:
        trees: map from :data:`GEMM_FEATURES` to log(seconds / physics).
        gpu: the data sheet that the trees were fitted with.
        limits: least and largest log ratio of the fitted rows; predictions stay between them.
        scatter: tenth and ninetieth percentile of log(measured / predicted) in cross-validation.
        card: source, licence, split, seed and scores of the fit, as plain values.

    Raises:
        ArtefactError: limits or scatter are not two finite numbers in rising order.
    """

    form = MODEL

    def __init__(
        self,
        trees: Forest,
        gpu: GemmGpu,
        limits: tuple[float, float],
        scatter: tuple[float, float] = (0.0, 0.0),
        card: Mapping[str, Any] | None = None,
    ) -> None:
        self.trees = trees
        self.gpu = gpu
        self.limits = _pair(limits, "limits")
        self.scatter = _pair(scatter, "scatter")
        self.card = dict(card or {})
        self._known: dict[tuple[float, ...], float] = {}

    def save(self, path: str | Path) -> None:
        """Write the model; see :mod:`~hetgym.costs.artefact`."""
        header = {
            "model": MODEL, "features": list(GEMM_FEATURES), "gpu": asdict(self.gpu), "limits": list(self.limits),
            "scatter": list(self.scatter), "card": self.card,
        }  # fmt: skip
        artefact.save(path, header, self.trees.arrays())

    @classmethod
    def of_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], where: str) -> Self:
        """See :meth:`~hetgym.costs.artefact.Stored.of_parts`."""
        artefact.check_form(header, MODEL, list(GEMM_FEATURES), where)
        gpu, card = header.get("gpu"), header.get("card")
        if not isinstance(gpu, dict) or set(gpu) != {f.name for f in fields(GemmGpu)} or not isinstance(card, dict):
            raise ArtefactError(f"{where}: the header lacks a GPU's data sheet or a card")
        refuse_others(arrays, ARRAYS, where)
        try:
            sheet = GemmGpu(**gpu)
            limits, scatter = (_pair(header.get(name), name) for name in ("limits", "scatter"))
        except (PlatformError, ArtefactError) as error:
            raise ArtefactError(f"{where}: {error}") from error
        return cls(Forest.from_arrays(arrays, len(GEMM_FEATURES), where), sheet, limits, scatter, card)

    def seconds(self, m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
        """[r] run times of products [m, k] x [k, n] as the trees say, positive [s]; sizes below 1 count as 1."""
        rows, columns, inner = np.broadcast_arrays(*(np.atleast_1d(np.asarray(size, np.float64)) for size in (m, n, k)))
        return self._raw(np.stack([np.ones(len(rows)), rows, columns, inner], axis=1))

    def products(self, sizes: FloatArray) -> FloatArray:
        """[r] run times of [r, 4] batch, rows, columns, reduction as graphs are priced, positive and finite [s].

        Twice the batch, or the rows of a single product, never take less.
        """
        keys = [tuple(row) for row in sizes.tolist()]
        fresh = sorted(set(keys) - self._known.keys())
        if len(self._known) + len(fresh) > REMEMBERED:
            self._known.clear()
            fresh = sorted(set(keys))
        if fresh:
            prices = self._bounded(np.array(fresh, np.float64))
            self._known.update(zip(fresh, prices.tolist(), strict=True))
        return np.array([self._known[key] for key in keys], np.float64)

    def _bounded(self, table: FloatArray, ledger: Ledger | None = None) -> FloatArray:
        """[r] seconds of [r, 4] products; twice the batch never takes less."""
        column = np.where(table[:, 0] > 1, 0, 1)
        grows = np.arange(table.shape[1]) == column[:, None]
        prices = never_faster(self._raw, self._floor, table, grows, ledger=ledger)
        if ledger is not None:
            batch, m, n, k = table.T
            ledger.priced("product", float(gemm_physics(batch, m, n, k, self.gpu)[0]), float(prices[0]))
        return prices

    def _raw(self, sizes: FloatArray) -> FloatArray:
        """[r] seconds of [r, 4] products as the trees say."""
        batch, m, n, k = sizes.T
        return gemm_physics(batch, m, n, k, self.gpu) * np.exp(self._ratio(batch * m, n, k))

    def _floor(self, sizes: FloatArray) -> FloatArray:
        """[r] seconds that no price of [r, 4] products is below."""
        batch, m, n, k = sizes.T
        return gemm_physics(batch, m, n, k, self.gpu) * math.exp(self.limits[0])

    def _priced(self, operators: Sequence[Operator], device: Device, ledger: Ledger | None = None) -> FloatArray:
        """[n, 3] seconds and percentiles: from cross-validation for products, otherwise the prediction itself."""
        if device.kind != "gpu":
            return by_roofline(operators, device, ledger, NO_GPU)
        like = replace(device, memory_efficiency=MEMORY_EFFICIENCY, launch_overhead=LAUNCH)
        able = half_dtypes(device)
        found = [gemm_dimensions(op) if op.dtype in able else None for op in operators]
        product = np.array([sizes is not None for sizes in found], np.bool_)
        rows = np.empty((len(operators), 3))
        others = [op for op, sizes in zip(operators, found, strict=True) if sizes is None]
        rows[~product] = by_roofline(others, like, ledger if others else None, OTHERS)
        sizes = [size for size in found if size is not None]
        if sizes:
            table = np.array(sizes, np.float64)
            seconds = self.products(table) if ledger is None else self._bounded(table, ledger)
            more = self._appended([op for op, gemm in zip(operators, found, strict=True) if gemm], sizes)
            seconds += more
            low, high = (seconds * math.exp(q) for q in self.scatter)
            rows[product] = np.stack([seconds, np.minimum(low, seconds), np.maximum(high, seconds)], axis=1)
            if ledger is not None:
                ledger.added = float(more[0])
        return rows

    def _appended(self, operators: Sequence[Operator], sizes: Sequence[tuple[int, int, int, int]]) -> FloatArray:
        """Time of the memory traffic of fused operators beyond that of their products [s]."""
        more = [
            max(0.0, op.bytes_read + op.bytes_written - 2.0 * batch * (m * k + n * k + m * n))
            if op.kind == "Fused-matmul"
            else 0.0
            for op, (batch, m, n, k) in zip(operators, sizes, strict=True)
        ]
        return np.array(more, np.float64) / (self.gpu.memory_bandwidth * MEMORY_EFFICIENCY)

    def _ratio(self, m: FloatArray, n: FloatArray, k: FloatArray) -> FloatArray:
        rows, columns, inner = (np.maximum(size, 1.0) for size in np.broadcast_arrays(m, n, k))
        features = gemm_features(rows, columns, inner, self.gpu)
        return np.clip(self.trees.predict(features), *self.limits)


def half_dtypes(device: Device) -> tuple[str, ...]:
    """The 16-bit dtypes that a device has units for: units for bfloat16 also take float16, but not the reverse."""
    if "bfloat16" in device.peak_flops:
        return "bfloat16", "float16"
    return ("float16",) if "float16" in device.peak_flops else ()


def mean_forest(forests: Sequence[Forest]) -> Forest:
    """Combine several forests into one that predicts their mean.

    >>> one = Forest(*(np.array(a, np.int32) for a in ([0, 1], [0])), np.zeros(1, np.float32),
    ...              *(np.array(a, np.int32) for a in ([-1], [-2])), np.array([1.0, 3.0], np.float32))
    >>> mean_forest([one, one]).predict(np.array([[-1.0], [1.0]])).tolist()
    [1.0, 3.0]
    """
    nodes = np.cumsum([0, *(len(forest.feature) for forest in forests)])
    leaves = np.cumsum([0, *(len(forest.leaf) for forest in forests)])
    start = [np.zeros(1, np.int32), *(forest.start[1:] + at for forest, at in zip(forests, nodes, strict=False))]

    def joined(name: str) -> npt.NDArray[Any]:
        return np.concatenate([getattr(forest, name) for forest in forests])

    def children(name: str) -> npt.NDArray[Any]:
        parts = zip((getattr(forest, name) for forest in forests), nodes, leaves, strict=False)
        return np.concatenate([np.where(child >= 0, child + node, child - leaf) for child, node, leaf in parts])

    return Forest(
        np.concatenate(start).astype(np.int32),
        joined("feature"),
        joined("threshold"),
        children("low").astype(np.int32),
        children("high").astype(np.int32),
        (joined("leaf") / len(forests)).astype(np.float32),
    )


def _pair(values: object, what: str) -> tuple[float, float]:
    """Check two finite numbers in rising order."""
    if isinstance(values, list | tuple) and len(values) == 2 and all(type(v) in (int, float) for v in values):
        low, high = float(values[0]), float(values[1])
        if -LARGEST_RATIO <= low <= high <= LARGEST_RATIO:
            return low, high
    raise ArtefactError(f"{what} are {values!r}; expected two numbers in rising order within {LARGEST_RATIO:g}")
