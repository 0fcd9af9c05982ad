"""Space-filling designs: the shapes of each kind of operator to measure.

The dimensions of a kind are drawn from a scrambled Sobol sequence over the logarithms of their ranges, so that small
and large sizes are covered equally. Four in five are rounded to multiples of 8, as in real networks. Operators that
exceed a limit on FLOPs, bytes or shape are discarded and drawn again. The ranges are those of a core of a CPU; for a
faster device, a :class:`Size` widens the range of the first dimension (samples, rows) and raises the limits.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hetgym._sums import summed
from hetgym.errors import check_name, require
from hetgym.graph.ops import Attribute, Operator, Tensor


@dataclass(frozen=True)
class Size:
    """How large the operators and networks are that a profile measures."""

    samples: int  # factor of the largest number of samples or rows; a power of two
    gradients: int  # factor of the number of shapes whose gradient is timed as well
    flops: float  # largest operator alone [FLOP]
    bytes: float  # largest operator alone, read and written [byte]
    network_flops: float  # largest random network [FLOP]


CORE, GPU = Size(1, 1, 2.5e9, 96e6, 8e9), Size(16, 5, 160e9, 1.5e9, 128e9)
"""Sizes for a core of a CPU, and for a GPU, which is fast enough for more gradients."""

_Make = Callable[..., Operator | None]


@dataclass(frozen=True)
class Design:
    """The distribution of the shapes of one class of operators."""

    ranges: tuple[tuple[int, int], ...]  # smallest and largest value of each dimension, drawn log-uniformly
    make: _Make  # function from the values to an operator, or to None for an impossible combination
    count: int  # number of shapes in a full profile
    backward: int = 0  # number of shapes whose gradient is timed as well


def _weight(*shape: int) -> Tensor:
    return Tensor(shape, constant=True)


def _conv(n: int, channels: int, out: int, side: int, kernel: int, stride: int, group: int = 1) -> Operator | None:
    if kernel > side or (kernel > 3 and channels * out > 256 * 256):
        return None
    half, rows = kernel // 2, -(-side // stride)
    after = max((rows - 1) * stride + kernel - side - half, 0)
    operands = (Tensor((n, channels, side, side)), _weight(out, channels // group, kernel, kernel), _weight(out))
    attributes: dict[str, Attribute] = {
        "kernel_shape": (kernel,) * 2,
        "strides": (stride,) * 2,
        "pads": (half, half, after, after),
        "group": group,
    }
    return Operator("conv", "Conv", operands, (Tensor((n, out, rows, rows)),), attributes)


def _window(n: int, channels: int, out: int, side: int, window: int) -> Operator | None:
    kernel, stride = ((1, 1), (3, 1), (3, 2), (5, 1), (7, 2), (3, 1), (1, 1), (1, 2))[window % 8]
    return _conv(n, channels, out, side, kernel, stride)


def _pointwise(n: int, channels: int, out: int, side: int) -> Operator | None:
    return _conv(n, channels, out, side, 1, 1)


def _depthwise(n: int, channels: int, side: int, window: int) -> Operator | None:
    kernel, stride = ((3, 1), (3, 2), (5, 1), (3, 1))[window % 4]
    return _conv(n, channels, channels, side, kernel, stride, channels)


def _grouped(n: int, channels: int, side: int, groups: int) -> Operator | None:
    groups = (2, 3, 4, 8)[groups % 4]
    channels = groups * max(1, channels // groups)
    return _conv(n, channels, channels, side, 1 if groups < 4 else 3, 1, groups)


def _gemm(m: int, k: int, n: int) -> Operator:
    return Operator("gemm", "Gemm", (Tensor((m, k)), _weight(n, k), _weight(n)), (Tensor((m, n)),), {"transB": 1})


def _matmul(m: int, k: int, n: int) -> Operator:
    return Operator("matmul", "MatMul", (Tensor((m, k)), Tensor((k, n))), (Tensor((m, n)),))


def _batched(batch: int, m: int, k: int, n: int) -> Operator:
    return Operator("bmm", "MatMul", (Tensor((batch, m, k)), Tensor((batch, k, n))), (Tensor((batch, m, n)),))


def _attention(batch: int, heads: int, queries: int, keys: int, depth: int) -> Operator:
    q, kv = Tensor((batch, heads, queries, depth)), Tensor((batch, heads, keys, depth))
    return Operator("attention", "Attention", (q, kv, kv), (q,))


def _masked_attention(batch: int, heads: int, queries: int, keys: int, depth: int) -> Operator:
    plain = _attention(batch, heads, queries, keys, depth)
    mask = Tensor((1, 1, queries, keys))
    return Operator(plain.name, plain.kind, (*plain.inputs, mask), plain.outputs)


def _rotary(batch: int, heads: int, tokens: int, half: int) -> Operator:
    x, table = Tensor((batch, heads, tokens, 2 * half)), _weight(tokens, 2 * half)
    return Operator("rotary", "RotaryEmbedding", (x, table, table), (x,))


def _lstm(rows: int, inner: int, hidden: int) -> Operator:
    state, bias = Tensor((rows, hidden)), _weight(4 * hidden)
    weights = (_weight(4 * hidden, inner), _weight(4 * hidden, hidden), bias, bias)
    return Operator(
        "lstm", "LSTMCell", (Tensor((rows, inner)), *weights, state, state), (state, state), {"hidden_size": hidden}
    )


def _alike(kind: str, name: str = "", constants: int = 0, **attributes: Attribute) -> _Make:
    """Operators whose result is like their operand, rows or square images; constants have a number for each column."""

    def make(rows: int, columns: int, *side: int) -> Operator:
        x = Tensor((rows, columns, *side, *side))
        return Operator(name or kind.lower(), kind, (x, *(_weight(columns),) * constants), (x,), attributes)

    return make


def _binary(kind: str) -> _Make:
    def make(rows: int, columns: int) -> Operator:
        x = Tensor((rows, columns))
        return Operator(kind.lower(), kind, (x, x), (x,))

    return make


def _scale(n: int, channels: int, side: int) -> Operator:
    x = Tensor((n, channels, side, side))
    return Operator("scale", "Mul", (x, _weight(channels, 1, 1)), (x,))


def _pool(kind: str) -> _Make:
    def make(n: int, channels: int, side: int, window: int) -> Operator | None:
        kernel, stride = ((2, 2), (3, 2), (3, 1), (5, 1))[window % 4]
        if side < 2 * kernel:
            return None
        rows, pad = -(-side // stride), 0 if kernel == 2 else kernel // 2
        if kernel == 2:
            rows = side // 2
        attributes: dict[str, Attribute] = {"kernel_shape": (kernel,) * 2, "strides": (stride,) * 2, "pads": (pad,) * 4}
        return Operator(
            "pool", kind, (Tensor((n, channels, side, side)),), (Tensor((n, channels, rows, rows)),), attributes
        )

    return make


def _global_pool(n: int, channels: int, side: int) -> Operator:
    return Operator("pool", "GlobalAveragePool", (Tensor((n, channels, side, side)),), (Tensor((n, channels, 1, 1)),))


def _reduce(kind: str) -> _Make:
    def make(rows: int, columns: int, axis: int) -> Operator:
        axis %= 2
        out = (columns,) if axis == 0 else (rows,)
        return Operator("reduce", kind, (Tensor((rows, columns)),), (Tensor(out),), {"axes": (axis,), "keepdims": 0})

    return make


def _concat(n: int, channels: int, other: int, side: int, parts: int) -> Operator:
    parts = 2 + parts % 3
    sizes = [channels, *([other] * (parts - 1))]
    operands = tuple(Tensor((n, size, side, side)) for size in sizes)
    return Operator("concat", "Concat", operands, (Tensor((n, summed(sizes), side, side)),), {"axis": 1})


def _split(n: int, channels: int, side: int, parts: int) -> Operator | None:
    parts = 2 + parts % 3
    piece = Tensor((n, channels, side, side))
    return Operator("split", "Split", (Tensor((n, parts * channels, side, side)),), (piece,) * parts, {"axis": 1})


def _transpose(planes: int, rows: int, columns: int, perm: int) -> Operator:
    order = ((1, 0, 2), (0, 2, 1), (2, 1, 0), (2, 0, 1))[perm % 4]
    shape = (planes, rows, columns)
    return Operator(
        "transpose", "Transpose", (Tensor(shape),), (Tensor(tuple(shape[p] for p in order)),), {"perm": order}
    )


def _embedding(rows: int, columns: int, tokens: int) -> Operator:
    operands = (_weight(rows, columns), Tensor((1, tokens), "int64"))
    return Operator("embedding", "Gather", operands, (Tensor((1, tokens, columns)),), {"axis": 0})


_IMAGES = ((1, 8), (8, 1024), (4, 112))
_ROWS = ((1, 16384), (8, 8192))
_WINDOWS = (1, 256)

DESIGNS: dict[str, Design] = {
    "conv": Design(((1, 8), (3, 768), (8, 768), (4, 224), _WINDOWS), _window, 500, 60),
    "conv-pointwise": Design(((1, 8), (8, 2048), (8, 2048), (4, 112)), _pointwise, 430, 40),
    "conv-depthwise": Design(((1, 8), (8, 1024), (4, 112), _WINDOWS), _depthwise, 420, 40),
    "conv-grouped": Design(((1, 4), (16, 768), (4, 56), _WINDOWS), _grouped, 200),
    "gemm": Design(((1, 2048), (8, 9216), (8, 8192)), _gemm, 480, 60),
    "matmul": Design(((1, 2048), (8, 4096), (8, 4096)), _matmul, 420, 40),
    "matmul-batched": Design(((2, 192), (4, 512), (4, 256), (4, 512)), _batched, 440, 40),
    "attention": Design(((1, 8), (1, 16), (1, 512), (16, 512), (16, 128)), _attention, 430, 40),
    "attention-masked": Design(((1, 8), (1, 16), (1, 512), (16, 512), (16, 128)), _masked_attention, 200),
    "rotary": Design(((1, 8), (1, 32), (1, 1024), (16, 64)), _rotary, 120),
    "lstm-cell": Design(((1, 128), (16, 1536), (16, 1536)), _lstm, 420, 40),
    "relu": Design(_ROWS, _alike("Relu"), 200, 40),
    "gelu": Design(_ROWS, _alike("Gelu"), 160, 30),
    "tanh": Design(_ROWS, _alike("Tanh"), 90),
    "sigmoid": Design(_ROWS, _alike("Sigmoid"), 90),
    "clip": Design(_ROWS, _alike("Clip"), 80),
    "hard-swish": Design(_ROWS, _alike("HardSwish"), 80),
    "swish": Design(_ROWS, _alike("Swish"), 80),
    "exp": Design(_ROWS, _alike("Exp"), 80),
    "sqrt": Design(_ROWS, _alike("Sqrt"), 50),
    "erf": Design(_ROWS, _alike("Erf"), 50),
    "add": Design(_ROWS, _binary("Add"), 200, 30),
    "add-broadcast": Design(_ROWS, _alike("Add", constants=1), 130),
    "mul": Design(_ROWS, _binary("Mul"), 120, 30),
    "mul-channels": Design(_IMAGES, _scale, 130),
    "div": Design(_ROWS, _binary("Div"), 70),
    "sub": Design(_ROWS, _binary("Sub"), 70),
    "softmax": Design(_ROWS, _alike("Softmax", axis=-1), 240, 40),
    "layer-norm": Design(_ROWS, _alike("LayerNormalization", "norm", 2), 240, 40),
    "rms-norm": Design(_ROWS, _alike("RMSNormalization", "norm", 1), 120),
    "batch-norm": Design(_IMAGES, _alike("BatchNormalization", "norm", 4), 240, 40),
    "max-pool": Design((*_IMAGES, _WINDOWS), _pool("MaxPool"), 250, 30),
    "average-pool": Design((*_IMAGES, _WINDOWS), _pool("AveragePool"), 250, 30),
    "global-average-pool": Design(_IMAGES, _global_pool, 160, 20),
    "reduce-mean": Design((*_ROWS, _WINDOWS), _reduce("ReduceMean"), 180, 20),
    "reduce-sum": Design((*_ROWS, _WINDOWS), _reduce("ReduceSum"), 100),
    "reduce-max": Design((*_ROWS, _WINDOWS), _reduce("ReduceMax"), 100),
    "concat": Design(((1, 4), (4, 512), (4, 512), (4, 112), _WINDOWS), _concat, 240),
    "split": Design(((1, 4), (4, 512), (4, 112), _WINDOWS), _split, 180),
    "transpose": Design(((1, 512), (4, 512), (4, 512), _WINDOWS), _transpose, 320),
    "copy": Design(_ROWS, _alike("Copy"), 150),
    "embedding": Design(((256, 16384), (16, 1536), (1, 4096)), _embedding, 180),
    "lrn": Design(((1, 2), (8, 256), (4, 64)), _alike("LRN", size=5), 90),
}
"""Name -> design, in the order in which a profile measures them."""


def draw(name: str, count: int | None = None, seed: int = 0, size: Size = CORE) -> list[Operator]:
    """Different operators of a design of :data:`DESIGNS`; the first k of a longer list are the list of k.

    By default there are as many as in a full profile. ``seed`` is that of the scrambling.

    Raises:
        UnknownName: no such design.
        MissingExtra: torch, whose Sobol sequence is used, is not installed.
    """
    check_name("design", name, DESIGNS)
    design = DESIGNS[name]
    (low, high), *others = design.ranges
    ranges = ((low, size.samples * high), *others)
    found: dict[tuple[object, ...], Operator] = {}
    for point in _points(len(ranges), seed):
        values = [_dimension(u, low, high) for u, (low, high) in zip(point, ranges, strict=True)]
        operator = design.make(*values)
        if operator is None or operator.flops > size.flops:
            continue
        if operator.bytes_read + operator.bytes_written > size.bytes:
            continue
        found.setdefault((operator.inputs, operator.outputs, *sorted(operator.attributes.items())), operator)
        if len(found) == (design.count if count is None else count):
            break
    return list(found.values())


def _points(dimensions: int, seed: int) -> Iterator[Sequence[float]]:
    torch = require("torch", "torch", "drawing a design")
    engine = torch.quasirandom.SobolEngine(dimensions + 1, scramble=True, seed=seed)
    for _ in range(64):
        for *point, rounded in engine.draw(256, dtype=torch.float64).tolist():
            yield [u if rounded > 0.2 else -u - 1e-9 for u in point]  # a negative sign: do not round


def _dimension(u: float, low: int, high: int) -> int:
    value = low * math.pow(high / low, abs(u))
    whole = max(low, min(high, math.floor(value + 0.5)))
    if u >= 0 and high > 256 and whole > 16:
        return min(high, 8 * round(whole / 8))
    return whole
