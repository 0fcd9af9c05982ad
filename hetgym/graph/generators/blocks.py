"""Parts of language models: products, norms, attention with and without a cache, feed-forward layers."""

from collections.abc import Sequence
from typing import NamedTuple

from hetgym.graph.generators.network import Network, Operand, Value, weight_of
from hetgym.graph.ops import Tensor


class Config(NamedTuple):
    """Sizes of a model, as of :func:`language_model`."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate: int
    vocabulary: int
    experts: int = 0
    top: int = 2
    positions: int = 0


class Shape(NamedTuple):
    """A pass: sequences, tokens of each that it computes or reads, tokens that it computes, and its phase."""

    batch: int
    keys: int
    tokens: int
    phase: str


def norm(net: Network, name: str, x: Value, bias: bool = False) -> Value:
    """RMS norm, or layer norm with a bias."""
    weights = [weight_of(f"{name}.{part}", x.tensor.shape[-1]) for part in ("weight", "bias")[: 1 + bias]]
    kind = "LayerNormalization" if bias else "RMSNormalization"
    return net.one(name, kind, [x, *weights], x.tensor.shape, axis=-1)


def product(net: Network, name: str, x: Value, width: int, bias: bool = False, weight: str = "") -> Value:
    """A product of the last axis with a weight of ``width`` rows."""
    *rows, inner = x.tensor.shape
    weights = [weight_of(weight or f"{name}.weight", width, inner)]
    weights += [weight_of(f"{name}.bias", width)] if bias else []
    return net.one(name, "Gemm", [x, *weights], (*rows, width), transB=1)


def add(net: Network, name: str, x: Value, y: Value) -> Value:
    """The sum of the residual stream and a branch."""
    return net.one(name, "Add", [x, y], x.tensor.shape)


def heads_of(net: Network, at: str, name: str, x: Value, heads: int, size: int) -> Value:
    """A projection, viewed as [batch, heads, tokens, size]."""
    y = product(net, f"{at}{name}_proj", x, heads * size)
    batch, tokens, _ = y.tensor.shape
    return net.one(f"{at}{name}_heads", "View", [y], (batch, heads, tokens, size))


def attend(
    net: Network, at: str, q: Value, k: Value, v: Value, shape: Shape, causal: bool, bias: Value | None = None
) -> Value:
    """Attention to new keys and values, which enter the cache if the phase has one, or to the whole cache."""
    extra: list[Operand] = [] if bias is None else [bias]
    if shape.phase != "forward":
        held = _cache(at, k.tensor.shape[1], shape, k.tensor.shape[-1])
        (done,) = net.add(at + "cache", "TensorScatter", [*held, k, v], (0,))
        if shape.phase == "decode":
            return read_cache(net, at, q, k.tensor.shape[1], shape, [*extra, done])
    y = net.one(at + "sdpa", "Attention", [q, k, v, *extra], q.tensor.shape, is_causal=int(causal))
    return _merged(net, at, y)


def read_cache(net: Network, at: str, q: Value, kv_heads: int, shape: Shape, extra: Sequence[Operand]) -> Value:
    """Attention to the keys and values of the cache."""
    held = _cache(at, kv_heads, shape, q.tensor.shape[-1])
    return _merged(net, at, net.one(at + "sdpa", "Attention", [q, *held, *extra], q.tensor.shape, is_causal=0))


def _cache(at: str, kv_heads: int, shape: Shape, size: int) -> list[Tensor]:
    return [weight_of(f"{at}{name}_cache", shape.batch, kv_heads, shape.keys, size) for name in ("key", "value")]


def _merged(net: Network, at: str, y: Value) -> Value:
    batch, heads, tokens, size = y.tensor.shape
    return net.one(at + "merge", "View", [y], (batch, tokens, heads * size))


def gated(net: Network, at: str, x: Value, config: Config) -> Value:
    """A feed-forward layer whose first product is gated by another (SwiGLU; Shazeer, arXiv 2002.05202)."""
    gate = product(net, at + "gate_proj", x, config.intermediate)
    gate = net.one(at + "act", "Swish", [gate], gate.tensor.shape)
    up = product(net, at + "up_proj", x, config.intermediate)
    return product(net, at + "down_proj", net.one(at + "mul", "Mul", [gate, up], up.tensor.shape), config.hidden)


def mixture(net: Network, at: str, x: Value, config: Config) -> Value:
    """Tokens sorted by expert, two grouped products, and the weighted sum of the results of each token's experts."""
    batch, tokens, hidden = x.tensor.shape
    chosen, rows = (batch, tokens, config.top), batch * tokens * config.top
    scores = product(net, at + "gate", x, config.experts)
    scores = net.one(at + "softmax", "Softmax", [scores], scores.tensor.shape, axis=-1)
    share, expert = net.add(at + "top", "TopK", [scores], chosen, Tensor(chosen, "int64"))
    total = net.one(at + "top_sum", "ReduceSum", [share], (batch, tokens, 1), axis=-1)
    share = net.one(at + "top_share", "Div", [share, total], chosen)
    ids = Tensor((rows,), "int64")
    _, order = net.add(at + "sort", "TopK", [expert], ids, ids)
    counts = net.one(at + "counts", "ReduceSum", [expert], Tensor((config.experts,), "int32"))
    offsets = net.one(at + "offsets", "CumSum", [counts], Tensor((config.experts,), "int32"))
    y = net.one(at + "permute", "Gather", [x, order], (rows, hidden), axis=0)
    weight = weight_of(at + "experts.gate_up_proj.weight", config.experts, 2 * config.intermediate, hidden)
    wide = (rows, config.intermediate)
    y = net.one(
        at + "experts.gate_up_proj", "GroupedMatMul", [y, weight, offsets], (rows, 2 * config.intermediate), transB=1
    )
    gate, up = net.add(at + "experts.split", "View", [y], wide, wide)
    gate = net.one(at + "experts.act", "Swish", [gate], wide)
    y = net.one(at + "experts.mul", "Mul", [gate, up], wide)
    weight = weight_of(at + "experts.down_proj.weight", config.experts, hidden, config.intermediate)
    y = net.one(at + "experts.down_proj", "GroupedMatMul", [y, weight, offsets], (rows, hidden), transB=1)
    y = net.one(at + "unpermute", "Gather", [y, order], (*chosen, hidden), axis=0)
    y = net.one(at + "weigh", "Mul", [y, share], (*chosen, hidden))
    return net.one(at + "mix", "ReduceSum", [y], x.tensor.shape, axis=-2)
