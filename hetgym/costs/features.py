"""Features: the inputs of learned models for an operator on a device, as named columns.

Sizes are given as logarithms to base 2. Every operator is described by the loops that compute it: ``batch``
independent products of an ``m`` x ``k`` with a ``k`` x ``n`` matrix. For a convolution these are the loops of the
implicit product: m = images x output pixels, n = output channels, k = input channels x window, each per group. For
operators that are not products, m is the number of independent rows, n the length of a row, and k the number of
elements that are read for each output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hetgym._sums import summed
from hetgym._types import FloatArray
from hetgym.costs.rates import arithmetic, peak_flops
from hetgym.device import Device
from hetgym.graph.ops import Operator, Tensor, integer

FEATURES: tuple[str, ...] = (
    "log2_flops", "log2_read", "log2_written", "log2_weights", "log2_compute", "log2_memory", "log2_balance",
    "log2_batch", "log2_m", "log2_n", "log2_k", "window", "stride", "log2_group", "log2_side", "align_m", "align_n",
    "align_k", "fill_n", "fill_k", "log2_waves", "wave_efficiency", "tile_efficiency", "log2_waves_128",
    "wave_efficiency_128", "tile_efficiency_128", "log2_working_set", "log2_first", "operands",
    "log2_dim1", "log2_dim2", "log2_dim3", "log2_dim4", "permutation", "in_graph",
)  # fmt: skip
"""Columns, in order.

* ``log2_flops``, ``log2_read``, ``log2_written``, ``log2_weights``: FLOPs; bytes read, written, and of constants.
* ``log2_compute``, ``log2_memory``: seconds at the device's peak rates; ``log2_balance``: their ratio.
* ``log2_batch``, ``log2_m``, ``log2_n``, ``log2_k``: the loops, see above.
* ``window``, ``stride``: kernel volume (its logarithm) and stride of convolutions and poolings.
* ``log2_group``: groups of a convolution; ``log2_side``: rows of its output.
* ``align_m``, ``align_n``, ``align_k``: largest power of two that divides the loop, as an exponent up to 6.
* ``fill_n``, ``fill_k``: the share of vectors of 16 numbers that a loop of n, or of k over the window, fills.
* ``log2_waves``: tiles of 64 x 64 outputs over processors; ``wave_efficiency``: the share of the last wave's
  processors that are busy; ``tile_efficiency``: the share of the tiles that is not padding. The same for tiles
  of 128 x 128.
* ``log2_working_set``: bytes read and written over the last-level cache.
* ``log2_first``: bytes of the first operand; ``operands``: number of operands.
* ``log2_dim1`` to ``log2_dim4``: sizes of the first operand's axes, the last axis first; ``permutation``: the
  permutation of a transpose, encoded as a number.
* ``in_graph``: 1 if the operator runs within a graph, 0 if alone.
"""

COLUMN: dict[str, int] = {name: number for number, name in enumerate(FEATURES)}  # Name -> number of a column

TILES = (64, 128)
VECTOR = 16
_DEFAULT_CACHE = {"cpu": 32e6, "gpu": 6e6, "npu": 32e6}
_DEFAULT_PROCESSORS = {"cpu": 1, "gpu": 80, "npu": 32}

_Loops = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a device that features depend on."""

    bandwidth: float  # memory bandwidth [byte/s]
    floor: float  # time of an operator that does nothing [s]
    processors: float  # cores of a CPU, multiprocessors of a GPU
    cache: float  # last-level cache [byte]
    device: Device  # the device that the figures belong to

    @classmethod
    def of(cls, device: Device) -> Figures:
        """The figures of a device; those that its description lacks are set to typical values of its kind."""
        return cls(
            device.memory_bandwidth,
            device.launch_overhead,
            float(device.processors or _DEFAULT_PROCESSORS[device.kind]),
            float(device.cache_bytes or _DEFAULT_CACHE[device.kind]),
            device,
        )

    def peak(self, dtype: str) -> float:
        """FLOP/s in a dtype; 0 if the device cannot compute in it."""
        return peak_flops(self.device, dtype)


def class_of(operator: Operator) -> str:
    """The class of operators that share a model: the kind, subdivided if its operators differ in their loops.

    >>> from hetgym.graph import Tensor
    >>> x, w = Tensor((1, 8, 4, 4)), Tensor((8, 1, 3, 3), constant=True)
    >>> class_of(Operator("d", "Conv", (x, w), (x,), {"group": 8}))
    'Conv-depthwise'
    """
    kind, forward = operator.kind, operator.attributes.get("forward")
    if kind.startswith("Gradient-") and isinstance(forward, str):
        return f"{forward}-backward"
    if len(operator.inputs) < 2:
        return kind
    if kind == "Conv":
        group = integer(operator, "group", 1)
        if group == 1:
            return "Conv-pointwise" if math.prod(operator.inputs[1].shape[2:]) == 1 else "Conv"
        return "Conv-depthwise" if operator.inputs[1].shape[1:2] == (1,) else "Conv-grouped"
    if kind in ("MatMul", "Gemm"):
        batched = kind == "MatMul" and len(operator.inputs[1].shape) > 2
        return "MatMul-batched" if batched else "Gemm"
    return kind


def family_of(operator: Operator) -> str:
    """The class that replaces one without measurements: the operator's family, marked with a star."""
    return f"*{operator.spec.family}"


def features(operators: Sequence[Operator], device: Device, in_graph: bool | Sequence[bool] = True) -> FloatArray:
    """[n, f] columns :data:`FEATURES`, all finite; ``in_graph`` is true for operators that run within a graph."""
    return described(operators, device, in_graph)[1]


def described(
    operators: Sequence[Operator], device: Device, in_graph: bool | Sequence[bool] = True
) -> tuple[FloatArray, FloatArray]:
    """[n] seconds as :func:`physics` returns them and [n, f] :func:`features`, in one pass."""
    figures = Figures.of(device)
    flags = [in_graph] * len(operators) if isinstance(in_graph, bool) else in_graph
    amounts = [_Amounts(op.flops, op.bytes_read, op.bytes_written) for op in operators]
    times = [_times(op, some, figures) for op, some in zip(operators, amounts, strict=True)]
    table = [
        _row(op, some, pair, figures, flag)
        for op, some, pair, flag in zip(operators, amounts, times, flags, strict=True)
    ]
    return _bounds(times, figures), np.array(table, np.float64).reshape(len(operators), len(FEATURES))


def physics(operators: Sequence[Operator], device: Device) -> FloatArray:
    """[n] bounds on run times, positive: the slower of arithmetic and memory at peak rates, plus the launch [s].

    They are inf where the device cannot compute in the operator's dtype.
    """
    figures = Figures.of(device)
    amounts = (_Amounts(op.flops, op.bytes_read, op.bytes_written) for op in operators)
    return _bounds([_times(op, some, figures) for op, some in zip(operators, amounts, strict=True)], figures)


def times(operator: Operator, device: Device) -> tuple[float, float]:
    """Seconds of the arithmetic and of the memory traffic at peak rates; inf if the device lacks the dtype."""
    amounts = _Amounts(operator.flops, operator.bytes_read, operator.bytes_written)
    return _times(operator, amounts, Figures.of(device))


class _Amounts(NamedTuple):
    """What an operator does: FLOPs, bytes read and bytes written."""

    flops: float
    read: float
    written: float


def _bounds(times: list[tuple[float, float]], figures: Figures) -> FloatArray:
    return np.array([max(pair) for pair in times], np.float64) + max(figures.floor, 1e-7)


def _times(op: Operator, some: _Amounts, figures: Figures) -> tuple[float, float]:
    """Seconds of the arithmetic and of the memory traffic at peak rates."""
    rate = figures.peak(arithmetic(op))
    compute = 0.0 if some.flops == 0 else (some.flops / rate if rate > 0 else math.inf)
    return compute, (some.read + some.written) / figures.bandwidth


def _row(op: Operator, some: _Amounts, times: tuple[float, float], figures: Figures, in_graph: bool) -> list[float]:
    batch, m, n, k = loops(op)
    compute, memory = times
    compute = compute if math.isfinite(compute) else 1e9
    log_compute, log_memory = _log(compute * 1e9), _log(memory * 1e9)
    tiled = [value for tile in TILES for value in _tiling(batch, m, n, tile, figures.processors)]
    conv = op.spec.family in ("conv", "pool")
    window, strides = _window(op), op.attributes.get("strides", (1,))
    stride = float(strides[0]) if isinstance(strides, tuple) and strides else 1.0
    side = _log(_sizes(op).shape[-1]) if conv and _sizes(op).shape else 0.0
    return [
        *map(_log, (*some, op.weight_bytes)),
        *(log_compute, log_memory, log_compute - log_memory),
        *map(_log, (batch, m, n, k, window)),
        *(stride, _log(integer(op, "group", 1)), side),
        *(_align(m), _align(n), _align(k), _fill(n), _fill(k / window)),
        *tiled,
        _log(some.read + some.written) - math.log2(figures.cache),
        _log(op.inputs[0].bytes) if op.inputs else 0.0,
        float(min(len(op.inputs), 16)),
        *_axes(op),
        float(in_graph),
    ]


def _axes(op: Operator) -> list[float]:
    """Sizes of the first operand's last four axes, and the permutation as the digits of a number."""
    shape = (op.inputs or op.outputs or (Tensor(()),))[0].shape
    sizes = [_log(size) for size in reversed(shape[-4:])] + [0.0] * (4 - len(shape[-4:]))
    perm = op.attributes.get("perm", ())
    return [
        *sizes,
        float(summed(p * 8**i for i, p in enumerate(reversed(perm[-4:])))) if isinstance(perm, tuple) else 0.0,
    ]


def _tiling(batch: float, m: float, n: float, tile: int, processors: float) -> tuple[float, float, float]:
    """Logarithm of the number of waves, busy share of the last wave, and share of the tiles that is not padding."""
    tiles = math.ceil(m / tile) * math.ceil(n / tile)
    waves = batch * tiles / processors
    return math.log2(max(waves, 1e-6)), waves / max(math.ceil(waves), 1.0), m * n / max(tiles * tile * tile, 1.0)


def _log(value: float) -> float:
    """Logarithm to base 2, at least 0; for sizes, and for times in nanoseconds."""
    return math.log2(value) if value > 1.0 else 0.0


def _align(size: float) -> float:
    whole = int(size)
    return float(min((whole & -whole).bit_length() - 1, 6)) if whole > 0 else 0.0


def _fill(size: float) -> float:
    return size / (VECTOR * math.ceil(size / VECTOR)) if size > 0 else 0.0


def _window(op: Operator) -> float:
    if op.spec.family == "conv" and len(op.inputs) > 1:
        return float(max(math.prod(op.inputs[1].shape[2:]), 1))
    kernel = op.attributes.get("kernel_shape", ())
    return float(max(math.prod(kernel), 1)) if isinstance(kernel, tuple) else 1.0


def loops(operator: Operator) -> _Loops:
    """(batch, m, n, k): the loops of an operator, each at least 0, as this module's docstring defines them."""
    try:
        return _LOOPS.get(operator.kind, _FAMILY_LOOPS.get(operator.spec.family, _rows))(operator)
    except (IndexError, ValueError, ZeroDivisionError):  # operands that do not fit the kind
        return _rows(operator)


def _sizes(op: Operator) -> Tensor:
    return (op.outputs or op.inputs or (Tensor(()),))[0]


def _rows(op: Operator) -> _Loops:
    out = _sizes(op)
    n = out.shape[-1] if out.shape else 1
    return 1.0, out.size / max(n, 1), float(n), float(len(op.inputs))


def _conv(op: Operator) -> _Loops:
    group = max(1, integer(op, "group", 1))
    weight, out = op.inputs[1].shape, op.outputs[0].shape
    pixels = out[0] * math.prod(out[2:])
    return float(group), float(pixels), weight[0] / group, float(math.prod(weight[1:]))


def _product(op: Operator) -> _Loops:
    left, right, out = op.inputs[0].shape, op.inputs[1].shape, op.outputs[0].shape
    k = left[-2] if integer(op, "transA", 0) and len(left) > 1 else left[-1]
    n = out[-1] if out else 1
    if len(right) <= 2:  # one matrix for all rows
        return 1.0, float(math.prod(out[:-1])), float(n), float(k)
    return float(math.prod(out[:-2])), float(out[-2]), float(n), float(k)


def _attention(op: Operator) -> _Loops:
    query, key = op.inputs[0].shape, op.inputs[1].shape
    return float(math.prod(query[:-2])), float(query[-2]), float(key[-2]), float(query[-1])


def _recurrent(op: Operator) -> _Loops:
    weights = [t.shape for t in op.inputs if t.constant and len(t.shape) >= 2]
    rows = math.prod(op.inputs[0].shape[:-1])
    return 1.0, float(rows), float(weights[0][-2]), float(summed(shape[-1] for shape in weights))


def _pool(op: Operator) -> _Loops:
    out = op.outputs[0].shape
    return float(math.prod(out[:2])), float(math.prod(out[2:])), float(out[-1]), _window(op)


def _reduce(op: Operator) -> _Loops:
    """The loops of a reduction: m results of n numbers each; k is the number of adjacent numbers reduced together."""
    source, result = op.inputs[0], op.outputs[0]
    n = source.size / max(result.size, 1)
    last = source.shape[-1] if source.shape else 1
    inner = 1.0 if result.shape and result.shape[-1] == last and n > 1 else float(last)
    return 1.0, float(result.size), n, inner


def _along_axis(op: Operator) -> _Loops:
    """The loops of a concatenation or a split: m contiguous runs of n numbers each, of k parts."""
    whole, parts = (op.outputs, op.inputs) if op.kind == "Concat" else (op.inputs, op.outputs)
    shape, axis = whole[0].shape, integer(op, "axis", 0)
    axis = axis + len(shape) if axis < 0 else axis
    return 1.0, float(math.prod(shape[:axis])), float(math.prod(shape[axis:])), float(len(parts))


def _transpose(op: Operator) -> _Loops:
    """The loops of a transpose: runs of n numbers stay contiguous; k is the stride with which the last axis is read."""
    source, perm = op.inputs[0].shape, op.attributes.get("perm", ())
    order = perm if isinstance(perm, tuple) and len(perm) == len(source) else tuple(reversed(range(len(source))))
    kept = len(source)
    while kept and order[kept - 1] == kept - 1:
        kept -= 1
    together = math.prod(source[kept:])
    stride = math.prod(source[order[kept - 1] + 1 :]) if kept else 1
    return 1.0, math.prod(source) / max(together, 1), float(together), float(stride)


def _gather(op: Operator) -> _Loops:
    out, table = op.outputs[0], op.inputs[0].shape
    n = math.prod(table[1:])
    return 1.0, out.size / max(n, 1), float(n), float(table[0])


_LOOPS: dict[str, Callable[[Operator], _Loops]] = {
    "Conv": _conv, "MatMul": _product, "Gemm": _product, "Attention": _attention, "Concat": _along_axis,
    "Split": _along_axis, "Transpose": _transpose, "Gather": _gather,
}  # fmt: skip
_FAMILY_LOOPS: dict[str, Callable[[Operator], _Loops]] = {"recurrent": _recurrent, "pool": _pool, "reduce": _reduce}
