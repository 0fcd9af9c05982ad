"""Parts that all language models have: products, norms, attention with and without a cache."""

from collections.abc import Sequence
from typing import NamedTuple

from hetgym.graph.generators.network import Network, Operand, Value, weight_of
from hetgym.graph.ops import Tensor


class Shape(NamedTuple):
    """A pass: sequences, tokens of each that it computes or reads, tokens that it computes, and its phase."""

    batch: int
    keys: int
    tokens: int
    phase: str


def norm(net: Network, name: str, x: Value, weights: Sequence[Tensor] = ()) -> Value:
    """RMS norm, or layer norm if there is a bias; by default an RMS norm with a weight of the last axis."""
    held = weights or (weight_of(f"{name}.weight", x.tensor.shape[-1]),)
    kind = "LayerNormalization" if len(held) > 1 else "RMSNormalization"
    return net.one(name, kind, [x, *held], x.tensor.shape, axis=-1)


def linear(net: Network, name: str, x: Value, weights: Sequence[Tensor]) -> Value:
    """A product of the last axis with a weight [rows, columns], and a bias if there is one."""
    return net.one(name, "Gemm", [x, *weights], (*x.tensor.shape[:-1], weights[0].shape[0]), transB=1)


def product(net: Network, name: str, x: Value, width: int, weight: str = "") -> Value:
    """A product of the last axis with a weight of ``width`` rows."""
    return linear(net, name, x, [weight_of(weight or f"{name}.weight", width, x.tensor.shape[-1])])


def add(net: Network, name: str, x: Value, y: Value) -> Value:
    """The sum of the residual stream and a branch."""
    return net.one(name, "Add", [x, y], x.tensor.shape)


def heads_of(net: Network, name: str, y: Value, heads: int, size: int) -> Value:
    """The result of a projection, viewed as [batch, heads, tokens, size]."""
    batch, tokens, _ = y.tensor.shape
    return net.one(name, "View", [y], (batch, heads, tokens, size))


def attend(
    net: Network, at: str, q: Value, keys: Sequence[Value], held: Sequence[Tensor], shape: Shape, *,
    causal: bool, width: int = 0, extra: Sequence[Operand] = (), window: int = 0,
) -> Value:  # fmt: skip
    """Attention to new keys and values, which enter the cache if the phase has one, or to the whole cache.

    Args:
        net: the network.
        at: prefix of names.
        q: queries [batch, heads, tokens, size].
        keys: new keys and values.
        held: their caches; empty if nothing is kept.
        shape: the pass.
        causal: whether a token sees no later ones.
        width: numbers of a head's result; by default those of a query.
        extra: further operands, such as a bias of the scores.
        window: earlier tokens that a token sees; 0 for all.
    """
    more = list(extra)
    if held:
        (done,) = net.add(at + "cache", "TensorScatter", [*held, *keys], (0,))
        if shape.phase == "decode":
            return read_cache(net, at, q, held, [*more, done], width)
    attributes = {"window": window} if window else {}
    result = (*q.tensor.shape[:-1], width or q.tensor.shape[-1])
    y = net.one(at + "sdpa", "Attention", [q, *keys, *more], result, is_causal=int(causal), **attributes)
    return merged(net, at, y)


def read_cache(
    net: Network, at: str, q: Value, held: Sequence[Tensor], extra: Sequence[Operand] = (), width: int = 0
) -> Value:
    """Attention to the keys and values of a cache; arguments as of :func:`attend`."""
    result = (*q.tensor.shape[:-1], width or q.tensor.shape[-1])
    return merged(net, at, net.one(at + "sdpa", "Attention", [q, *held, *extra], result, is_causal=0))


def merged(net: Network, at: str, y: Value) -> Value:
    """The results of all heads, side by side."""
    batch, heads, tokens, size = y.tensor.shape
    return net.one(at + "merge", "View", [y], (batch, tokens, heads * size))


def last(net: Network, x: Value, shape: Shape) -> Value:
    """The last token of each sequence where no other is scored."""
    if shape.phase != "prefill":
        return x
    return net.one("last", "View", [x], (shape.batch, 1, x.tensor.shape[-1]))
