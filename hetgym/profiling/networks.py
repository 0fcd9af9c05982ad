"""Random networks with the structure of real ones, to measure operators within graphs.

Each generator draws widths, resolutions and depths, and builds the operators that an exporter would write for such a
network: convolutions with batch norms and residual sums, depthwise and grouped stages with channel shuffles, dense
concatenations, or transformer blocks with fused or separate heads.
"""

from collections.abc import Callable

import numpy as np

from hetgym._sums import summed
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.generators.network import Network, Value, weight_of
from hetgym.graph.generators.networks import lstm_grid, transformer
from hetgym.graph.ops import Attribute, Tensor
from hetgym.profiling.designs import CORE, Size


class _Convolutional:
    """A convolutional network under construction."""

    def __init__(self, name: str, rng: np.random.Generator, batch: int) -> None:
        self.net = Network(name)
        self.rng = rng
        self.batch = batch
        self.count = 0

    def at(self, word: str) -> str:
        self.count += 1
        return f"{word}{self.count}"

    def conv(self, x: Value | Tensor, out: int, kernel: int = 1, stride: int = 1, group: int = 1) -> Value:
        shape = (x.tensor if isinstance(x, Value) else x).shape
        side = -(-shape[2] // stride)
        name = self.at("conv")
        weight = weight_of(f"{name}.weight", out, shape[1] // group, kernel, kernel)
        operands: list[Value | Tensor] = [x, weight]
        if self.rng.random() < 0.5:
            operands.append(weight_of(f"{name}.bias", out))
        half = kernel // 2
        after = (side - 1) * stride + kernel - shape[2] - half  # the rest of "same" padding
        pads = (half, half, max(after, 0), max(after, 0))
        more = {"kernel_shape": (kernel, kernel), "strides": (stride, stride), "pads": pads}
        return self.net.one(name, "Conv", operands, (self.batch, out, side, side), **more, group=group)

    def norm(self, x: Value) -> Value:
        name, channels = self.at("norm"), x.tensor.shape[1]
        weights = [weight_of(f"{name}.{k}", channels) for k in range(4)]
        return self.net.one(name, "BatchNormalization", [x, *weights], x.tensor.shape)

    def scale(self, x: Value) -> Value:
        name, channels = self.at("scale"), x.tensor.shape[1]
        y = self.net.one(name, "Mul", [x, weight_of(f"{name}.scale", channels, 1, 1)], x.tensor.shape)
        return self.net.one(f"{name}.shift", "Add", [y, weight_of(f"{name}.shift", channels, 1, 1)], x.tensor.shape)

    def unary(self, x: Value, kind: str = "Relu") -> Value:
        return self.net.one(self.at(kind.lower()), kind, [x], x.tensor.shape)

    def pool(self, x: Value, stride: int, kind: str = "MaxPool", kernel: int = 3) -> Value:
        side, kernel = -(-x.tensor.shape[2] // stride), max(kernel, stride)
        shape = (*x.tensor.shape[:2], side, side)
        pads = (0, 0, 0, 0) if stride == kernel else (kernel // 2,) * 4
        more = {"kernel_shape": (kernel, kernel), "strides": (stride, stride), "pads": pads}
        return self.net.one(self.at("pool"), kind, [x], shape, **more)

    def shuffle(self, x: Value, groups: int) -> Value:
        batch, channels, h, w = x.tensor.shape
        y = self.net.one(self.at("reshape"), "Reshape", [x], (batch, groups, channels // groups, h, w))
        turned = (batch, channels // groups, groups, h, w)
        y = self.net.one(self.at("transpose"), "Transpose", [y], turned, perm=(0, 2, 1, 3, 4))
        return self.net.one(self.at("reshape"), "Reshape", [y], (batch, channels, h, w))

    def head(self, x: Value, classes: int) -> DataflowGraph:
        batch, channels = x.tensor.shape[:2]
        kind = "GlobalAveragePool" if self.rng.random() < 0.6 else "ReduceMean"
        shape = (batch, channels, 1, 1) if kind == "GlobalAveragePool" else (batch, channels)
        axes: dict[str, Attribute] = {} if kind == "GlobalAveragePool" else {"axes": (2, 3), "keepdims": 0}
        y = self.net.one(self.at("mean"), kind, [x], shape, **axes)
        if len(shape) == 4:
            y = self.net.one(self.at("flatten"), "Reshape", [y], (batch, channels))
        weights = [weight_of("head.weight", classes, channels), weight_of("head.bias", classes)]
        y = self.net.one("head", "Gemm", [y, *weights], (batch, classes), transB=1)
        self.net.one("softmax", "Softmax", [y], (batch, classes), axis=-1)
        return self.net.graph()


def _width(rng: np.random.Generator, low: int, high: int) -> int:
    """A random number of channels: log-uniform, mostly a multiple of 8."""
    value = float(np.exp(rng.uniform(np.log(low), np.log(high))))
    step = 8 if rng.random() < 0.8 else 1
    return max(low, int(round(value / step)) * step)


def _times(rng: np.random.Generator, samples: int) -> int:
    """A random power of two from 1 to ``samples``."""
    return 2 ** int(rng.integers(samples.bit_length())) if samples > 1 else 1


def _start(name: str, rng: np.random.Generator, samples: int, budget: int) -> tuple[_Convolutional, Tensor]:
    batch = int(rng.choice([1, 1, 1, 2, 4])) * _times(rng, samples)
    side = int(rng.choice([32, 56, 64, 96, 112, 128, 160, 192, 224, 224]))
    while batch > 1 and batch * side * side > samples * budget:
        batch //= 2
    return _Convolutional(name, rng, batch), Tensor((batch, 3, side, side))


def plain(rng: np.random.Generator, samples: int = 1) -> DataflowGraph:
    """Convolutions and pools in a row, then wide products (AlexNet, VGG)."""
    build, image = _start("plain", rng, samples, 224 * 224)
    width = _width(rng, 16, 64)
    kernel, stride = [(3, 1), (5, 1), (7, 2), (11, 4)][int(rng.integers(4))]
    x = build.unary(build.conv(image, width, kernel, stride))
    for _ in range(int(rng.integers(2, 5))):
        x = build.pool(x, 2, "MaxPool" if rng.random() < 0.8 else "AveragePool", int(rng.choice([2, 3])))
        width = min(width * 2, 512)
        for _ in range(int(rng.integers(1, 4))):
            x = build.unary(build.conv(x, width, int(rng.choice([3, 3, 3, 5]))))
        if rng.random() < 0.25:
            x = build.net.one(build.at("lrn"), "LRN", [x], x.tensor.shape, size=5)
        if x.tensor.shape[2] < 4:
            break
    size = int(np.prod(x.tensor.shape[1:]))
    y = build.net.one("flatten", "Reshape", [x], (build.batch, size))
    for name in ("first", "second")[: int(rng.integers(1, 3))]:
        wide = _width(rng, 256, 4096 if size < 20000 else 1024)
        weights = [weight_of(f"{name}.weight", wide, y.tensor.shape[1]), weight_of(f"{name}.bias", wide)]
        y = build.unary(build.net.one(name, "Gemm", [y, *weights], (build.batch, wide), transB=1))
    return build.net.graph()


def residual(rng: np.random.Generator, samples: int = 1) -> DataflowGraph:
    """Bottlenecks or pairs of convolutions with a sum around them (ResNet)."""
    build, image = _start("residual", rng, samples, 2 * 224 * 224)
    width, bottleneck, separate = _width(rng, 16, 64), rng.random() < 0.6, rng.random() < 0.3
    normalise = build.scale if separate else build.norm
    x = build.pool(build.unary(normalise(build.conv(image, width, 7, 2))), 2)
    add = "Sum" if rng.random() < 0.5 else "Add"
    for stage in range(int(rng.integers(2, 5))):
        out, stride = width * (4 if bottleneck else 1), 1 if stage == 0 else 2
        for _ in range(int(rng.integers(1, 4))):
            if bottleneck:
                y = build.unary(normalise(build.conv(x, width, 1, stride)))
                y = build.unary(normalise(build.conv(y, width, 3)))
                y = normalise(build.conv(y, out, 1))
            else:
                y = normalise(build.conv(build.unary(normalise(build.conv(x, width, 3, stride))), out, 3))
            short = x if stride == 1 and x.tensor.shape == y.tensor.shape else normalise(build.conv(x, out, 1, stride))
            x = build.unary(build.net.one(build.at("add"), add, [y, short], y.tensor.shape))
            stride = 1
        width = min(2 * width, 512)
        if x.tensor.shape[2] < 7:
            break
    return build.head(x, _width(rng, 10, 1000))


def separable(rng: np.random.Generator, samples: int = 1) -> DataflowGraph:
    """Depthwise and grouped convolutions, expansions and channel shuffles (MobileNet, ShuffleNet)."""
    build, image = _start("separable", rng, samples, 4 * 224 * 224)
    groups = int(rng.choice([1, 1, 2, 3, 4]))
    width = groups * 4 * _width(rng, 3, 12)
    x = build.unary(build.norm(build.conv(image, width, 3, 2)), "Relu" if rng.random() < 0.6 else "Clip")
    kind = str(rng.choice(["Relu", "Clip", "HardSwish", "Swish"]))
    for _ in range(int(rng.integers(3, 6))):
        stride = 2 if x.tensor.shape[2] > 7 and rng.random() < 0.7 else 1
        wide = width * int(rng.choice([1, 1, 2, 4, 6]))
        y = build.unary(build.norm(build.conv(x, wide, 1, group=groups)), kind)
        if groups > 1:
            y = build.shuffle(y, groups)
        y = build.norm(build.conv(y, wide, int(rng.choice([3, 3, 5])), stride, group=wide))
        y = build.norm(build.conv(build.unary(y, kind), width, 1, group=groups))
        if stride == 1 and y.tensor.shape == x.tensor.shape:
            x = build.net.one(build.at("add"), "Add", [x, y], x.tensor.shape)
        elif stride == 2 and rng.random() < 0.4:
            z = build.pool(x, 2, "AveragePool")
            wider = (*y.tensor.shape[:1], 2 * width, *y.tensor.shape[2:])
            x = build.unary(build.net.one(build.at("concat"), "Concat", [z, y], wider, axis=1))
            width *= 2
        else:
            x = y
    return build.head(x, _width(rng, 10, 1000))


def dense(rng: np.random.Generator, samples: int = 1) -> DataflowGraph:
    """Every layer reads all before it (DenseNet), or branches meet in a concatenation (Inception, SqueezeNet)."""
    build, image = _start("dense", rng, samples, 2 * 224 * 224)
    x = build.unary(build.norm(build.conv(image, _width(rng, 16, 64), int(rng.choice([3, 7])), 2)))
    x = build.pool(x, 2)
    growth, branched = _width(rng, 8, 48), rng.random() < 0.6
    for _ in range(int(rng.integers(1, 4))):
        for _ in range(int(rng.integers(2, 5))):
            if branched:
                parts = [build.unary(build.conv(x, _width(rng, 16, 192), 1))]
                for kernel in (3, 5)[: int(rng.integers(1, 3))]:
                    inner = build.unary(build.conv(x, _width(rng, 16, 96), 1))
                    parts.append(build.unary(build.conv(inner, _width(rng, 16, 256), kernel)))
                if rng.random() < 0.5:
                    pooled = build.pool(x, 1, str(rng.choice(["MaxPool", "AveragePool"])))
                    parts.append(build.unary(build.conv(pooled, _width(rng, 16, 128), 1)))
            else:
                y = build.conv(build.unary(build.norm(x)), 4 * growth, 1)
                parts = [x, build.conv(build.unary(build.norm(y)), growth, 3)]
            channels = summed(part.tensor.shape[1] for part in parts)
            x = build.net.one(build.at("concat"), "Concat", parts, (build.batch, channels, *x.tensor.shape[2:]), axis=1)
        x = build.conv(build.unary(build.norm(x)), max(8, x.tensor.shape[1] // 2), 1)
        if x.tensor.shape[2] < 8:
            break
        x = build.pool(x, 2, "AveragePool" if rng.random() < 0.5 else "MaxPool", 2)
    return build.head(x, _width(rng, 10, 1000))


def attention(rng: np.random.Generator, samples: int = 1) -> DataflowGraph:
    """Transformer blocks as exporters write them: one product for all heads, views, fused attention."""
    heads, depth = int(rng.choice([4, 6, 8, 12, 16])), int(rng.choice([32, 64, 64, 64, 80]))
    hidden, batch = heads * depth, int(rng.choice([1, 1, 2])) * _times(rng, samples)
    tokens = int(rng.choice([16, 32, 64, 128, 128, 197, 256, 384]))
    wide, joined, before = hidden * int(rng.choice([2, 4, 4])), rng.random() < 0.5, rng.random() < 0.5
    act = str(rng.choice(["Gelu", "Gelu", "Relu", "Swish"]))
    net, stream = Network("attention"), (batch, tokens, hidden)

    def linear(name: str, x: Value, out: int) -> Value:
        flat, inner = rng.random() < 0.4, x.tensor.shape[-1]
        weights = [weight_of(f"{name}.weight", out, inner), weight_of(f"{name}.bias", out)]
        if not flat:
            return net.one(name, "Gemm", [x, *weights], (*x.tensor.shape[:-1], out), transB=1)
        rows = int(np.prod(x.tensor.shape[:-1]))
        y = net.one(f"{name}.rows", "Reshape", [x], (rows, inner))
        y = net.one(name, "Gemm", [y, weight_of(f"{name}.weight", inner, out), weights[1]], (rows, out))
        return net.one(f"{name}.back", "Reshape", [y], (*x.tensor.shape[:-1], out))

    def norm(name: str, x: Value) -> Value:
        weights = [weight_of(f"{name}.{k}", hidden) for k in range(2)]
        return net.one(name, "LayerNormalization", [x, *weights], stream)

    rows = _width(rng, 1000, 30000)
    x = net.one("embedding", "Gather", [weight_of("table", rows, hidden), Tensor((batch, tokens), "int64")], stream)
    split = (batch, tokens, heads, depth)
    turned = (batch, heads, tokens, depth)
    for i in range(int(rng.integers(1, 4))):
        at = f"block{i}."
        y = norm(at + "norm1", x) if before else x
        if joined:
            three = linear(at + "qkv", y, 3 * hidden)
            parts = net.add(at + "split", "View", [three], stream, stream, stream, attributes={"axis": 2})
        else:
            parts = [linear(at + name, y, hidden) for name in ("query", "key", "value")]
        qkv = []
        for k, part in enumerate(parts):
            z = net.one(f"{at}heads{k}", "Reshape", [part], split)
            qkv.append(net.one(f"{at}turn{k}", "View", [z], turned))
        z = net.one(at + "attention", "Attention", qkv, turned)
        z = net.one(at + "unturn", "View", [z], split)
        z = net.one(at + "copy", "Copy", [z], split)
        z = linear(at + "output", net.one(at + "merge", "Reshape", [z], stream), hidden)
        x = net.one(at + "add1", "Add", [x, z], stream)
        x = x if before else norm(at + "norm1", x)
        y = norm(at + "norm2", x) if before else x
        y = net.one(at + "act", act, [linear(at + "up", y, wide)], (batch, tokens, wide))
        x = net.one(at + "add2", "Add", [x, linear(at + "down", y, hidden)], stream)
        x = x if before else norm(at + "norm2", x)
    return net.graph()


def separate_heads(rng: np.random.Generator, samples: int = 1) -> DataflowGraph:
    """A transformer in which every head is a separate branch."""
    heads = int(rng.choice([2, 4, 8]))
    hidden = heads * int(rng.choice([16, 32, 64]))
    return transformer(
        int(rng.integers(1, 3)),
        heads,
        hidden,
        int(rng.choice([32, 64, 128, 256])),
        int(rng.choice([1, 2])) * _times(rng, samples),
        int(rng.choice([2, 4])),
        2000,
    )


def recurrent(rng: np.random.Generator, samples: int = 1) -> DataflowGraph:
    """LSTM cells unrolled in time."""
    hidden = _width(rng, 64, 1024)
    return lstm_grid(
        int(rng.integers(1, 4)),
        int(rng.integers(2, 8)),
        hidden,
        int(rng.choice([1, 1, 4, 16])) * _times(rng, samples),
        _width(rng, 32, 512),
    )


GENERATORS: tuple[Callable[[np.random.Generator, int], DataflowGraph], ...] = (
    plain, residual, separable, dense, attention, separate_heads, recurrent, residual, separable, dense, attention,
)  # fmt: skip
"""Generators in the order in which they are drawn; common families occur twice."""


def random_networks(count: int, seed: int = 0, size: Size = CORE) -> list[DataflowGraph]:
    """Random networks of all families in turn, called ``random-<number>-<family>``; larger ones are drawn again."""
    found: list[DataflowGraph] = []
    rng = np.random.default_rng(seed)
    while len(found) < count:
        make = GENERATORS[len(found) % len(GENERATORS)]
        graph = make(rng, size.samples)
        if summed(op.flops for op in graph.operators) <= size.network_flops:
            name = f"random-{len(found)}-{make.__name__}"
            found.append(DataflowGraph(graph.operators, list(graph.edges), name, graph.notes))
    return found
