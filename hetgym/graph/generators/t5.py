"""T5: an encoder and a decoder that attends to its results (Raffel et al., JMLR 21, 2020)."""

from typing import NamedTuple

from hetgym.graph.generators.blocks import Shape, add, attend, heads_of, norm, product, read_cache
from hetgym.graph.generators.network import Network, Value, weight_of
from hetgym.graph.ops import Tensor

_BUCKETS = 32  # of relative positions


class Sizes(NamedTuple):
    """Sizes of a T5, as of :func:`~hetgym.graph.generators.language_model`."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate: int
    vocabulary: int


def t5(net: Network, sizes: Sizes, shape: Shape) -> None:
    """Add the operators of a pass."""
    memory = None
    if shape.phase != "decode":
        whole = shape._replace(phase="forward")
        x = _embed(net, "encoder.embed_tokens", sizes, whole)
        bias = _relative(net, "encoder.", sizes, shape.keys, shape.keys)
        for layer in range(sizes.layers):
            at = f"encoder.layers.{layer}."
            x = _attention(net, at, "self_attn", x, None, sizes, whole, bias)
            x = _feed_forward(net, at, x, sizes)
        memory = norm(net, "encoder.norm", x)
    # The first token fills the cache as any other does.
    decoded = shape if shape.phase == "forward" else shape._replace(tokens=1)
    keys = shape.keys if shape.phase != "prefill" else 1
    x = _embed(net, "decoder.embed_tokens", sizes, decoded)
    bias = _relative(net, "decoder.", sizes, decoded.tokens, keys)
    for layer in range(sizes.layers):
        at = f"decoder.layers.{layer}."
        x = _attention(net, at, "self_attn", x, None, sizes, decoded, bias)
        x = _attention(net, at, "encoder_attn", x, memory, sizes, decoded)
        x = _feed_forward(net, at, x, sizes)
    x = norm(net, "decoder.norm", x)
    x = net.one("scale", "Mul", [x], x.tensor.shape)
    product(net, "lm_head", x, sizes.vocabulary, weight="embed_tokens.weight")


def _attention(
    net: Network,
    at: str,
    name: str,
    x: Value,
    memory: Value | None,
    sizes: Sizes,
    shape: Shape,
    bias: Value | None = None,
) -> Value:
    """Self-attention, or attention to the encoder's result, with its norm and residual connection."""
    own, source = f"{at}{name}.", memory
    y = norm(net, f"{at}{name}_layer_norm", x)
    q = _heads(net, own, "q", y, sizes.heads, sizes)
    if name == "self_attn":
        source = y
    held = [
        weight_of(f"{own}{part}_cache", shape.batch, sizes.kv_heads, shape.keys, sizes.head_size)
        for part in ("key", "value")
    ]
    if source is None:  # the keys and values of the encoder are in the cache
        y = read_cache(net, own, q, held)
    else:
        keys = [_heads(net, own, part, source, sizes.kv_heads, sizes) for part in "kv"]
        extra = [] if bias is None else [bias]
        kept = held if shape.phase != "forward" else []
        y = attend(net, own, q, keys, kept, shape, causal=False, extra=extra)
    return add(net, f"{at}{name}_add", x, product(net, own + "o_proj", y, sizes.hidden))


def _heads(net: Network, own: str, part: str, x: Value, heads: int, sizes: Sizes) -> Value:
    y = product(net, f"{own}{part}_proj", x, heads * sizes.head_size)
    return heads_of(net, f"{own}{part}_heads", y, heads, sizes.head_size)


def _feed_forward(net: Network, at: str, x: Value, sizes: Sizes) -> Value:
    y = product(net, at + "mlp.up_proj", norm(net, at + "mlp_layer_norm", x), sizes.intermediate)
    y = net.one(at + "mlp.act", "Relu", [y], y.tensor.shape)
    return add(net, at + "mlp_add", x, product(net, at + "mlp.down_proj", y, sizes.hidden))


def _relative(net: Network, at: str, sizes: Sizes, queries: int, keys: int) -> Value:
    """A learned number for each head and bucket of distances between queries and keys; all layers share it."""
    buckets = Tensor((queries, keys), "int64", constant=True, name=f"{at}buckets")
    table = weight_of(f"{at}relative_bias.weight", _BUCKETS, sizes.heads)
    found = net.one(f"{at}relative_bias", "Gather", [table, buckets], (queries, keys, sizes.heads))
    return net.one(f"{at}relative_bias_heads", "View", [found], (1, sizes.heads, queries, keys))


def _embed(net: Network, name: str, sizes: Sizes, shape: Shape) -> Value:
    table = weight_of("embed_tokens.weight", sizes.vocabulary, sizes.hidden)
    words = Tensor((shape.batch, shape.tokens), "int64")
    return net.one(name, "Gather", [table, words], (shape.batch, shape.tokens, sizes.hidden))
