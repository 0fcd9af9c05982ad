"""The work of a GPU for an operator, and features that relate it to the size of the GPU.

Every operator belongs to one of six classes with similar kernels: products of matrices without and with a batch,
convolutions, elementwise operators (including all others that stream memory), rows of softmax, and rows of layer norm.
Features depend neither on the operator's kind nor on the device's name. Those of products see the device only through
times, waves and shares of the cache; nothing tells them which of the fitted boards it is. All that depend on the
board's peak or bandwidth rise when it is slower, those of :data:`FALLING` fall: trees that are fitted not to fall in
the former, and not to rise in the latter, give no better board a higher price.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np

from hetgym._types import FloatArray
from hetgym.costs.features import loops
from hetgym.costs.gpu.sheets import sheet
from hetgym.costs.rates import peak_flops
from hetgym.device import Device
from hetgym.graph.ops import Operator

CLASSES: tuple[str, ...] = ("linear", "batched", "conv", "elementwise", "softmax", "layernorm")
"""Classes of operators; each has trees of its own."""

PRODUCTS = ("linear", "batched", "conv")  # Classes that compute in tiles of a product

WORK: tuple[str, ...] = ("batch", "m", "n", "k", "flops", "read", "written", "images", "side", "window", "stride")
"""Columns of a table of work: independent products, rows, columns, reduction; FLOPs; bytes; and, for convolutions,
images, side of the output, window and stride. For operators that are not products m and n are rows and columns.
Columns that do not apply are 1."""

TILES = {
    (128, 128): 1.0, (128, 64): 0.95, (64, 128): 0.95, (64, 64): 0.85, (32, 128): 0.7, (128, 32): 0.7, (32, 32): 0.5,
    (256, 128): 1.0, (256, 64): 1.0,
}  # fmt: skip
"""Rows and columns of a tile, the part of the output that one block of a float32 product computes -> share of the peak
that it can reach. The smaller the tile, the larger the share of instructions that fetch operands."""

FLOOR = 2e-6  # Time of a small kernel, about what is left of it when the launch is subtracted [s]

_SHARED = ("log2 seconds of the FLOPs at peak", "log2 seconds of the bytes at peak", "log2 bytes / cache")
PRODUCT_FEATURES: tuple[str, ...] = (
    *_SHARED, "batched", "log2 batch", "log2 m", "log2 n", "log2 k", "log2 m / n",
    "alignment of m", "alignment of n", "alignment of k", "alignment of n and k", "log2 left operand / cache",
    "log2 right operand / cache",
    *(f"{what}, tiles of {a} x {b}" for a, b in TILES for what in
      ("log2 waves", "filling of the waves", "filling of the tiles")),
)  # fmt: skip
"""Columns for ``linear`` and ``batched``."""

CONV_FEATURES: tuple[str, ...] = (
    *PRODUCT_FEATURES, "log2 FLOPs / byte", "log2 images", "log2 side", "log2 window", "stride",
)  # fmt: skip
"""Columns for ``conv``."""

ROW_FEATURES: tuple[str, ...] = (
    *_SHARED, "log2 bandwidth", "log2 FLOPs", "log2 bytes", "log2 rows", "log2 columns", "columns",
    "alignment of the columns", "log2 rows / processor", "log2 read / written",
)  # fmt: skip
"""Columns for ``elementwise``, ``softmax`` and ``layernorm``."""

RISING, FALLING = ("log2 seconds",), ("log2 bandwidth",)
"""Beginnings of the names of features that rise when a board's peak or bandwidth falls, and that fall with it."""

LARGEST = 1e30  # Largest size; larger ones are clipped to it


@dataclass(frozen=True, slots=True)
class Gpu:
    """The figures of a GPU that models of its kernels use."""

    bandwidth: float  # memory bandwidth by the data sheet [byte/s]
    processors: float  # streaming multiprocessors
    cache: float  # last-level cache [byte]
    peak: float  # rate in float32, by the data sheet [FLOP/s]
    power: float = 0.0  # power limit of the board [W]; 0 = unknown
    process: float = 0.0  # manufacturing process [m]; 0 = unknown
    lanes: float = 0.0  # float32 lanes of a warp scheduler; 0 = unknown
    clock: float = 0.0  # share of the peak's clock that long loads get, where the vendor states it; 0 = not stated
    delivered: float = 1.0  # memory bandwidth that kernels get, relative to that of other boards with the same figure

    @classmethod
    def of(cls, device: Device) -> Gpu:
        """The figures of a device; those that its description lacks are taken from a data-centre GPU of that peak."""
        peak = peak_flops(device, "float32") or max(device.peak_flops.values())
        processors = device.processors or min(max(peak / 1.8e11, 8.0), 256.0)
        cache = float(device.cache_bytes or 6e6)
        more = sheet(device)
        return cls(device.memory_bandwidth, float(processors), cache, peak, *astuple(more))

    @property
    def key(self) -> tuple[float, float, float, float]:
        """The figures that tell GPUs apart; the others are left out of some descriptions."""
        return self.bandwidth, self.processors, self.cache, self.peak


def class_of(operator: Operator) -> str | None:
    """The class that prices an operator; None for views, which move no data.

    >>> from hetgym.graph import Tensor
    >>> x, w = Tensor((8, 64)), Tensor((64, 32), constant=True)
    >>> class_of(Operator("fc", "Gemm", (x, w), (Tensor((8, 32)),)))
    'linear'
    """
    family, kind = operator.spec.family, operator.kind
    if family == "view":
        return None
    if kind in ("MatMul", "Gemm") and len(operator.inputs) > 1:
        return "batched" if len(operator.inputs[1].shape) > 2 else "linear"
    if family == "recurrent":
        return "linear"
    if kind in ("Attention", "Einsum"):
        return "batched"
    if family == "matmul":  # fused and backward products, for which only the FLOPs are known
        return "linear"
    if family == "conv":
        return "conv"
    if kind in ("Softmax", "LogSoftmax"):
        return "softmax"
    return "layernorm" if family == "normalise" else "elementwise"


def work(operators: Sequence[Operator]) -> FloatArray:
    """[r, 11] columns :data:`WORK` of r operators, all finite and at least 0; dimensions at least 1."""
    return np.array([_work(op) for op in operators], np.float64).reshape(len(operators), len(WORK))


def _work(op: Operator) -> tuple[float, ...]:
    batch, m, n, k = loops(op)
    out = op.outputs[0].shape if op.outputs else ()
    images = side = window = stride = 1.0
    if op.spec.family == "conv" and len(op.inputs) > 1 and out:
        images, side, window = out[0], out[-1], math.prod(op.inputs[1].shape[2:])
        strides = op.attributes.get("strides", ())
        stride = strides[0] if isinstance(strides, tuple) and strides else 1
    sizes = [min(max(float(size), 1.0), LARGEST) for size in (batch, m, n, k)]
    amounts = [min(max(float(amount), 0.0), LARGEST) for amount in (op.flops, op.bytes_read, op.bytes_written)]
    return *sizes, *amounts, *(min(max(float(size), 1.0), LARGEST) for size in (images, side, window, stride))


def times(kind: str, table: FloatArray, gpu: Gpu, peak: FloatArray | float) -> tuple[FloatArray, FloatArray]:
    """[r] least times of arithmetic and of memory by the data sheet [s], of a [r, 11] table of :func:`work`.

    For batches of products, arithmetic is counted in tiles of the best size, including padding and the idle
    processors of an incomplete wave. Such products are often smaller than a tile, where FLOPs / peak is far too low.
    """
    batch, m, n, k, flops, read, written = table[:, :7].T
    compute = flops / peak
    if kind == "batched":
        each = [
            np.maximum(batch * np.ceil(m / rows) * np.ceil(n / wide) / gpu.processors, 1.0) * rows * wide / share
            for (rows, wide), share in TILES.items()
        ]
        compute = np.maximum(compute, np.min(each, axis=0) * 2.0 * k * gpu.processors / peak)
    return compute, (read + written) / _bandwidth(kind, gpu)


def physics(kind: str, table: FloatArray, gpu: Gpu, peak: FloatArray | float) -> FloatArray:
    """[r] terms that trees correct, positive: the time of a small kernel, of arithmetic and of memory [s].

    Measured kernels are slowest, compared with the slower of both, where they are small and where both take as long. A
    board that is slower leaves these places, and monotone trees could not say that its ratios fall. For batches of
    products, whose tiles are counted, it is the slower of both. ``peak`` is the sustained one for products [FLOP/s].
    """
    compute, memory = times(kind, table, gpu, peak)
    both = np.maximum(compute, memory) if kind == "batched" else compute + memory
    return np.asarray(FLOOR + both, np.float64)


def _bandwidth(kind: str, gpu: Gpu) -> float:
    """Bandwidth that matters to a class; products hide most of their traffic behind arithmetic [byte/s]."""
    return gpu.bandwidth if kind in PRODUCTS else gpu.bandwidth * gpu.delivered


def features(kind: str, table: FloatArray, gpu: Gpu, peak: FloatArray | float) -> FloatArray:
    """[r, f] columns :data:`PRODUCT_FEATURES`, :data:`CONV_FEATURES` or :data:`ROW_FEATURES`; see :func:`physics`."""
    batch, m, n, k, flops, read, written, images, side, window, stride = table.T
    moved = read + written
    bandwidth = _bandwidth(kind, gpu)
    compute, memory = _log(flops / peak * 1e9), _log(moved / bandwidth * 1e9)
    columns = [compute, memory, _log(moved / gpu.cache)]
    if kind in PRODUCTS:
        align_n, align_k = _align(n), _align(k)
        columns += [np.full(len(table), float(kind == "batched")), *map(_log, (batch, m, n, k, m / n))]
        columns += [_align(m), align_n, align_k, np.minimum(align_n, align_k)]
        columns += [_log(4 * m * k / gpu.cache), _log(4 * n * k / gpu.cache)]
        for rows, wide in TILES:
            blocks = batch * np.ceil(m / rows) * np.ceil(n / wide)
            waves = blocks / gpu.processors
            columns += [_log(waves), waves / np.ceil(waves), batch * m * n / (blocks * rows * wide)]
        if kind == "conv":
            columns += [_log(flops / np.maximum(moved, 1.0)), _log(images), _log(side), _log(window), stride]
    else:
        columns += [np.full(len(table), math.log2(bandwidth)), *map(_log, (flops, moved, m, n))]
        columns += [np.minimum(n, 1e6), _align(n), _log(m / gpu.processors), _log((read + 1) / (written + 1))]
    return np.stack(columns, axis=1)


def _log(values: FloatArray) -> FloatArray:
    """Logarithm to base 2 of non-negative numbers; those below 1e-9 are raised to it."""
    return np.log2(np.maximum(values, 1e-9))


def _align(sizes: FloatArray) -> FloatArray:
    """Exponent of the largest power of two, up to 64, that divides each size."""
    return np.asarray(sum((sizes % 2.0**power == 0).astype(np.float64) for power in range(1, 7)), np.float64)
