"""Work of products and of attention in 16 or 8 bits, and features that relate it to the size of a GPU.

Times are compared in cycles: a processor of an A100 and one of an H100 take about as many cycles for a step of a
kernel, and their bandwidths are about equal for a cycle. So measurements of one board say something about another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hetgym._input.config import check_number
from hetgym._types import BoolArray, FloatArray
from hetgym.costs.gpu.gemm import gemm_dimensions, shape_columns, shape_names
from hetgym.device import Device
from hetgym.errors import PlatformError
from hetgym.graph.ops import Operator

HALF = ("bfloat16", "float16")  # Dtypes of 16 bits, which cost the same
PRODUCT_FLOOR = 4300.0  # Cycles of the smallest product in a captured graph: 2.2 us at 1.98 GHz

ATTENTION_FLOOR = 9e-6
"""Time of the smallest attention as inference servers run it [s], a little below the fastest measured one."""

BLOCK = 3e-6
"""Time of a block of attention with few keys [s]: it waits for the table of pages, then for keys, then for values."""

COPY = 3e-6  # Time of a small kernel beside attention [s]: `mem_empirical_constant_latency` of aiconfigurator

EXPONENTIALS = 16.0
"""Exponentials a cycle and processor, of every generation (throughput table of the CUDA C++ Programming Guide)."""

_MEASURED_WIDTH = 128.0  # of heads, which every measured board has

ASYNCHRONOUS = 3000.0
"""FLOPs a cycle and processor from which matrix units work beside the threads (Hopper and later, not Ampere or Ada)."""

_LANES = 128.0  # float32 units of a processor; some generations have 64
_SLOWEST = 0.95e9  # boost clocks of data-centre GPUs lie above [Hz]

_GENERATIONS = ((400e12, 108, 2048, 40e6), (1500e12, 132, 4096, 50e6), (math.inf, 148, 8192, 126e6))
"""Peak in 16 bits up to which a board is taken for an A100, H100 or B200 [FLOP/s], and for unstated figures:
processors, FLOPs of a processor in a cycle, cache [byte]. Smaller boards of the first have fewer processors."""


@dataclass(frozen=True, slots=True)
class HalfGpu:
    """The figures of a GPU that prices in 16 bits depend on; PlatformError unless all are positive."""

    peak: float  # dense rate in 16 bits by the data sheet [FLOP/s]
    peak8: float  # dense rate in float8; 0 without such units [FLOP/s]
    bandwidth: float  # memory bandwidth by the data sheet [byte/s]
    processors: float  # streaming multiprocessors
    cache: float  # last-level cache [byte]
    clock: float  # boost clock [Hz]

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            check_number(value, f"GPU: {name}", PlatformError, positive=name != "peak8")

    @classmethod
    def of(cls, device: Device) -> HalfGpu | None:
        """The figures of a device; None if it has no rate in 16 bits.

        Figures that the description lacks are those of A100, H100 or B200, whichever is of that class. The clock
        follows from the float32 rate: a processor has 128 units for it, or 64 where 128 would need a clock below
        0.95 GHz, and each takes two FLOPs a cycle.
        """
        rates = [device.peak_flops[dtype] for dtype in HALF if dtype in device.peak_flops]
        if not rates:
            return None
        peak = max(rates)
        _, usual, cycle, cache = next(row for row in _GENERATIONS if peak <= row[0])
        processors = float(device.processors or min(usual, max(8.0, round(peak / 312e12 * 108))))
        single = device.peak_flops.get("float32", 0.0) / processors / 2.0
        clock = single / _LANES if single / _LANES >= _SLOWEST else single / _LANES * 2.0
        if not 0.5e9 <= clock <= 4e9:
            clock = min(max(peak / processors / cycle, 0.5e9), 4e9)
        memory = float(device.cache_bytes or cache)
        return cls(peak, device.peak_flops.get("float8", 0.0), device.memory_bandwidth, processors, memory, clock)

    @property
    def asynchronous(self) -> bool:
        """True if the matrix units work beside the threads, which FlashAttention-3 needs."""
        return self.peak / self.processors / self.clock > ASYNCHRONOUS


PRODUCT_FEATURES: tuple[str, ...] = (
    "log2 cycles of the FLOPs at peak", "log2 cycles of the bytes at peak",
    *shape_names("log2 cycles of the fullest processor"),
)  # fmt: skip
"""Columns of :func:`product_features`."""


RISING = ("log2 cycles", "log2 bound over", "log2 tiles over", "log2 bytes over")
"""Beginnings of the names of features that depend on a board's peak or bandwidth; all rise when the board is slower.
Log ratios are fitted not to fall in them, so that no price rises with the peak or with the bandwidth of the board."""


def product_physics(sizes: FloatArray, gpu: HalfGpu, bits: int, weight: float | None = None) -> FloatArray:
    """[r] data-sheet bounds of products: a floor plus the slower of arithmetic and memory [s].

    ``sizes`` are [r, 4] independent products, rows, columns and reduction, of operands of 16 or 8 ``bits``; ``weight``
    is the bytes of a number of the right operand, if it is narrower and widened on the way.
    """
    batch, m, n, k = sizes.T
    peak = gpu.peak if bits == 16 else gpu.peak8
    moved = batch * (bits / 8 * m * k + (bits / 8 if weight is None else weight) * n * k + 2.0 * m * n)
    slower = np.maximum(2.0 * batch * m * n * k / peak, moved / gpu.bandwidth)
    return np.asarray(PRODUCT_FLOOR / gpu.clock + slower, np.float64)


def product_features(sizes: FloatArray, gpu: HalfGpu, bits: int) -> FloatArray:
    """[r, f] columns :data:`PRODUCT_FEATURES`, of one product with the rows of the whole batch; arguments as above."""
    batch, m, n, k = np.maximum(sizes, 1.0).T
    m = m * batch
    peak = gpu.peak if bits == 16 else gpu.peak8
    cycles = math.log2(gpu.clock)
    log_flops = np.log2(2.0 * m * n * k / peak) + cycles
    log_bytes = np.log2((bits / 8 * (m * k + n * k) + 2.0 * m * n) / gpu.bandwidth) + cycles
    over_cache = [size / gpu.cache for size in (bits / 8 * m * k, bits / 8 * n * k, 2.0 * m * n)]
    each = peak / gpu.processors / gpu.clock / 2.0  # multiply-adds of a processor in a cycle
    return np.stack([log_flops, log_bytes, *shape_columns(m, n, k, over_cache, gpu.processors, each)], axis=1)


def product_dimensions(operator: Operator, times: int = 1) -> tuple[float, ...] | None:
    """(products, m, n, k) of a product of two matrices, fused or batched or in groups; None for another operator.

    A grouped product (mixture of experts) multiplies rows [rows, k] that are sorted by expert with matrices
    [experts, k, n], and becomes a product for each expert. How many rows an expert has is data, so all have the same
    number, and of fewer rows than experts each has an expert of its own. ``times`` multiplies the rows.

    >>> from hetgym.graph import Tensor
    >>> rows, experts = Tensor((4096, 2048), "bfloat16"), Tensor((8, 2048, 1024), "bfloat16", constant=True)
    >>> out = Tensor((4096, 1024), "bfloat16")
    >>> product_dimensions(Operator("experts", "GroupedMatMul", (rows, experts), (out,)))
    (8.0, 512.0, 1024.0, 2048.0)
    """
    if operator.kind == "GroupedMatMul" and len(operator.inputs) > 1 and operator.outputs:
        left, right, out = operator.inputs[0].shape, operator.inputs[1].shape, operator.outputs[0].shape
        if len(right) == 3 and len(left) in (2, 3):
            rows = left[-2] * times
            groups = right[0] if len(left) == 3 else max(1, min(right[0], rows))
            each = rows if len(left) == 3 else math.ceil(rows / groups)
            return float(groups), float(each), *map(float, right[:0:-1])
        if len(left) == len(right) == 2 and len(out) == 3:  # the reduction is cut into groups: gradients of weights
            return float(out[0]), float(out[1]), float(out[2]), float(math.ceil(left[1] * times / max(1, out[0])))
        return None
    sizes = gemm_dimensions(operator)
    return None if sizes is None else tuple(float(size) for size in sizes)


ATTENTION: tuple[str, ...] = ("batch", "heads", "key heads", "queries", "keys", "width", "key bytes", "causal")
"""Columns of a table of attention: sequences, heads, heads of keys and values, rows of queries and keys of a sequence,
numbers of a head, bytes of a number of keys and values, and 1 if queries see no later keys."""


def attention_dimensions(operator: Operator) -> tuple[float, ...] | None:
    """The row :data:`ATTENTION` of an operator, as if computed in 16 bits; None if it is not an attention of floats.

    Attention whose results are narrower than its queries, as that of latent vectors, was not measured and gives None.
    Queries are [..., heads, rows, width]; keys and values [..., key heads, keys, width]. The last query sees all keys,
    whether masked or not, so that ``queries`` of 1 is a step of decoding with a cache.

    >>> from hetgym.graph import Tensor
    >>> q, k = Tensor((4, 32, 1, 128), "bfloat16"), Tensor((4, 8, 1024, 128), "bfloat16")
    >>> attention_dimensions(Operator("decode", "Attention", (q, k, k), (q,)))
    (4.0, 32.0, 8.0, 1.0, 1024.0, 128.0, 2.0, 0.0)
    """
    if operator.kind != "Attention" or len(operator.inputs) < 3 or operator.dtype not in (*HALF, "float32"):
        return None
    query, key = operator.inputs[0], operator.inputs[1]
    if len(query.shape) < 2 or len(key.shape) < 2 or query.size < 1 or key.size < 1:
        return None
    if operator.outputs and operator.outputs[0].shape[-1:] != query.shape[-1:]:
        return None
    heads = query.shape[-3] if len(query.shape) > 2 else 1
    key_heads = key.shape[-3] if len(key.shape) > 2 else 1
    bytes_ = 1.0 if key.dtype in ("float8", "int8", "uint8") else 2.0
    causal = float(bool(operator.attributes.get("is_causal", 0)))
    sizes = (math.prod(query.shape[:-3]), heads, key_heads, query.shape[-2], key.shape[-2], query.shape[-1])
    return *(float(size) for size in sizes), bytes_, causal


ATTENTION_FEATURES: tuple[str, ...] = (
    "log2 cycles of the FLOPs at peak", "log2 cycles of the tiles at peak", "log2 cycles of the bytes at peak",
    "log2 cycles of the bytes for the busy processors", "log2 time of blocks",
    "log2 queries", "log2 keys", "width", "key bytes", "heads for each key head", "log2 batch", "log2 bytes / cache",
    "log2 bound over floor", "packed", "split",
    "log2 tiles over floor", "log2 bytes over floor", "log2 blocks over floor", "decoding",
    *(f"{what}, {blocks}" for blocks in ("blocks", "blocks of 64 packed rows", "blocks of one head", "parts of keys")
      for what in ("log2 waves", "filling of the waves")),
    "log2 cycles of the longest block", "log2 cycles of a head's keys", "filling of rows", "filling of packed rows",
)  # fmt: skip
"""Columns of :func:`attention_work`."""


def attention_work(table: FloatArray, gpu: HalfGpu) -> tuple[FloatArray, FloatArray]:
    """Bound and features of attention in one pass over the keys (FlashAttention: Dao et al., 2022 to 2024).

    A block computes 128 queries of a head; 192 of a head of up to 64 numbers on boards with asynchronous matrix units.
    Heads that share keys are packed into one block when a step decodes, and on these boards also elsewhere if that
    makes fewer blocks. A step's keys are split over idle processors. FlashAttention-2 does so only if heads share keys
    and the blocks are fewer than 1.6 times the processors; it copies queries and results around the kernel, and joins
    what the parts found in another one. FlashAttention-3 does so if the keys fill more than four blocks and the blocks
    are fewer than 0.8 times the processors; its second kernel starts while the first one ends. These rules are those of
    the public source of the two. Exponentials take as long for a narrow head as for a wide one; their share of
    the arithmetic is counted relative to heads of 128. New keys and values are written into the cache first, which
    was measured with it.
    """
    batch, heads, shared, queries, keys, width, bytes_, causal = np.maximum(table, [1, 1, 1, 1, 1, 1, 1, 0]).T
    group = np.maximum(heads / shared, 1.0)
    step = queries == 1
    block = np.where(gpu.asynchronous & (width <= 64) & ~step, 192.0, 128.0)
    rows, parts = np.ceil(queries / block), np.ceil(keys / 128)
    ahead = np.ceil(np.maximum(keys - queries, 0.0) / 128)
    below = rows * ahead + rows * (rows + 1) / 2 * (block / 128)
    tiles = np.where(causal > 0, np.minimum(below, rows * parts), rows * parts)
    alone, together = batch * heads * rows, batch * shared * np.ceil(queries * group / block)
    packed: BoolArray = (step & (group > 1)) | ((together < alone) & gpu.asynchronous)
    blocks = np.where(packed, together, alone)
    if gpu.asynchronous:
        split = step & (blocks < 0.8 * gpu.processors) & (parts > 4)
    else:
        split = step & (group > 1) & (blocks < 1.6 * gpu.processors) & (parts > 1)
    arithmetic = 4.0 * width * blocks / rows * tiles * 128 * block / gpu.peak * _softmax(width, gpu)
    moved = 4.0 * batch * heads * queries * width + 2.0 * batch * shared * keys * width * bytes_
    memory = moved / gpu.bandwidth
    busy = np.minimum(blocks * np.where(split, parts, 1.0), gpu.processors)
    pulled = memory * gpu.processors / busy
    waiting = BLOCK * np.ceil(blocks / gpu.processors)
    beside = 2.0 * batch * shared * queries * width * (2.0 + bytes_) / gpu.bandwidth  # written into the cache
    if not gpu.asynchronous:
        results = 4.0 * batch * heads * width
        copied = step & (group > 1) & (shared > 1) & (batch > 1)
        beside = beside + np.where(copied, 2.0 * (COPY + results / gpu.bandwidth), 0.0)
        joined = 2.0 * results * np.minimum(parts, 1.6 * gpu.processors / blocks)
        beside = beside + np.where(split, COPY + joined / gpu.bandwidth, 0.0)
    bound = ATTENTION_FLOOR + beside + np.maximum(np.maximum(arithmetic, pulled), waiting)

    pairs = np.where(causal > 0, queries * keys - np.minimum(queries, keys) * (np.minimum(queries, keys) - 1) / 2, 0.0)
    pairs = np.where(causal > 0, np.maximum(pairs, 1.0), queries * keys)
    cycles = math.log2(gpu.clock)
    columns = [np.log2(4.0 * batch * heads * width * pairs / gpu.peak) + cycles, np.log2(arithmetic) + cycles]
    columns += [np.log2(memory) + cycles, np.log2(pulled) + cycles, np.log2(waiting)]
    columns += [np.log2(queries), np.log2(keys), width, bytes_, group, np.log2(batch), np.log2(moved / gpu.cache)]
    columns += [np.log2(bound / ATTENTION_FLOOR), packed, split]
    columns += [np.log2(part / ATTENTION_FLOOR) for part in (arithmetic, pulled, waiting)] + [step]
    for count in (blocks, batch * shared * np.ceil(queries * group / 64), alone, blocks * parts):
        waves = count / gpu.processors
        columns += [np.log2(waves), waves / np.ceil(waves)]
    columns += [np.log2(4.0 * width * 128 * keys * gpu.processors / gpu.peak) + cycles]
    columns += [np.log2(keys * width * bytes_ * 2.0 * gpu.processors / gpu.bandwidth) + cycles]
    columns += [queries / (rows * block), queries * group / (np.ceil(queries * group / block) * block)]
    features = np.stack([np.asarray(column, np.float64) for column in columns], axis=1)
    return np.asarray(bound, np.float64), features


def _softmax(width: FloatArray, gpu: HalfGpu) -> FloatArray:
    """[r] arithmetic of a pair with its exponential, over that of its products alone; 1 for heads of 128."""
    cycle = gpu.peak / gpu.processors / gpu.clock / (4.0 * EXPONENTIALS)  # numbers of a head in an exponential's time
    return np.asarray((1.0 + cycle / width) / (1.0 + cycle / _MEASURED_WIDTH), np.float64)
