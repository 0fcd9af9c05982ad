"""Language models of any size: a pass over whole sequences, filling a cache of keys and values, a step of decoding.

An operator is a kernel that a framework launches: a product, attention in one pass, a normalisation, a rotary
embedding, an element-wise operation. Sizes of published models are in :data:`hetgym.graph.zoo.LANGUAGE_MODELS`.
"""

from hetgym.errors import GraphError, shown, unknown_name
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.generators.blocks import (
    Config,
    Shape,
    add,
    attend,
    gated,
    heads_of,
    mixture,
    norm,
    product,
    read_cache,
)
from hetgym.graph.generators.network import Network, Value, weight_of
from hetgym.graph.generators.tasks import bounded, whole, wholes
from hetgym.graph.ops import Tensor
from hetgym.graph.transforms.casting import FLOATS, cast

FAMILIES = ("llama", "gpt", "t5")
"""Families of models: layers of Llama and Mixtral, of GPT-2 and GPT-3, and of the encoder and decoder of T5."""

PHASES = ("forward", "prefill", "decode")
"""Passes: whole sequences without a cache, whole sequences that fill it, and one more token of each sequence."""

_BUCKETS = 32  # of T5's relative positions


def language_model(
    family: str = "llama",
    layers: int = 2,
    hidden: int = 256,
    heads: int = 8,
    kv_heads: int | None = None,
    head_size: int | None = None,
    intermediate: int | None = None,
    vocabulary: int = 32000,
    experts: int = 0,
    top: int = 2,
    positions: int = 1024,
    batch: int = 1,
    sequence: int = 128,
    phase: str = "forward",
    dtype: str = "bfloat16",
) -> DataflowGraph:
    """A language model in one of three phases.

    ``forward`` passes whole sequences and scores every token; it is the graph that
    :func:`~hetgym.graph.transforms.training` takes. ``prefill`` passes whole sequences, writes the cache and scores the
    last token. ``decode`` passes token number ``sequence`` of each sequence; the keys and values of those before it are
    in the cache. With ``t5`` the encoder and the decoder each pass ``sequence`` tokens; ``prefill`` is the encoder and
    the decoder's first token, and ``decode`` is the decoder alone.

    Operators are named after their place, as in ``layers.3.self_attn.q_proj``; see :func:`hetgym.graph.layer_of`. A
    weight is called ``<operator>.weight``. The cache consists of constants ``layers.3.self_attn.key_cache`` and
    ``value_cache`` of shape [batch, kv_heads, sequence, head_size], which are resident in memory like weights;
    ``layers.3.self_attn.cache`` writes new keys and values in place. When decoding, attention reads the cache.

    Args:
        family: ``llama`` (RMS norm, rotary positions, SwiGLU, no bias), ``gpt`` (layer norm, learned positions, GELU)
            or ``t5`` (encoder and decoder, RMS norm, relative bias, ReLU). The last two tie the table of words.
        layers: layers; with ``t5`` of the encoder, and as many of the decoder.
        hidden: width of the residual stream.
        heads: heads of queries.
        kv_heads: heads of keys and values, which divide ``heads``; as many by default.
        head_size: numbers of a head; ``hidden / heads`` by default.
        intermediate: width of the feed-forward layers; by default 4 times ``hidden``.
        vocabulary: rows of the table of words.
        experts: with ``llama``, feed-forward networks of each layer; 0 for one that takes all tokens.
        top: experts that a token passes through.
        positions: with ``gpt``, rows of the table of positions.
        batch: number of sequences.
        sequence: tokens of a sequence.
        phase: one of :data:`PHASES`.
        dtype: format of weights and activations.

    Raises:
        UnknownName: no such family or phase.
        GraphError: a parameter out of range.

    Notes:
        Touvron et al., arXiv 2302.13971 and 2307.09288 (Llama); Jiang et al., arXiv 2401.04088 (Mixtral); Brown et al.,
        NeurIPS 2020 (GPT-3); Raffel et al., JMLR 21, 2020 (T5).

    >>> language_model("llama", layers=2, kv_heads=2, phase="decode", sequence=64)
    DataflowGraph('language_model', 45 operators, 54 edges)
    """
    for what, value, known in (("family", family, FAMILIES), ("phase", phase, PHASES)):
        if not isinstance(value, str) or value not in known:
            raise unknown_name(what, value, known)
    if dtype not in FLOATS:
        raise GraphError(f"language_model: dtype is {shown(dtype)}; it must be one of {', '.join(FLOATS)}")
    sizes = {"layers": layers, "hidden": hidden, "heads": heads, "vocabulary": vocabulary, "top": top}
    sizes |= {"positions": positions, "batch": batch, "sequence": sequence}
    sizes |= {"kv_heads": heads if kv_heads is None else kv_heads}
    sizes |= {"intermediate": 4 * hidden if intermediate is None else intermediate}
    wholes("language_model", **sizes)
    whole("language_model: experts", experts, 0)
    bounded("language_model", 70 * layers + 20, 100 * layers + 20)
    if head_size is None and hidden % heads:
        raise GraphError(f"language_model: hidden is {hidden}, which {heads} heads do not divide; state head_size")
    head_size = hidden // heads if head_size is None else whole("language_model: head_size", head_size)
    if heads % sizes["kv_heads"]:
        raise GraphError(f"language_model: {kv_heads} heads of keys and values do not divide {heads} heads")
    if experts and (family != "llama" or top > experts):
        raise GraphError(f"language_model: top is {top} of {experts} experts, family {family}; experts need llama")
    if family == "gpt" and sequence > positions:
        raise GraphError(f"language_model: sequence is {sequence}, but there are {positions} positions")
    shape = Shape(batch, sequence, sequence if phase != "decode" else 1, phase)
    config = Config(layers, hidden, heads, sizes["kv_heads"], head_size, sizes["intermediate"], vocabulary)
    config = config._replace(experts=experts, top=top, positions=positions)
    net = Network("language_model")
    {"llama": _llama, "gpt": _gpt, "t5": _t5}[family](net, config, shape)
    return cast(net.graph(), dtype)


def _llama(net: Network, config: Config, shape: Shape) -> None:
    x = _embed(net, "embed_tokens", config, shape)
    tables = tuple(weight_of(f"rotary.{name}", shape.tokens, config.head_size) for name in ("cos", "sin"))
    for layer in range(config.layers):
        at = f"layers.{layer}."
        y = norm(net, at + "input_layernorm", x)
        own = at + "self_attn."
        q = heads_of(net, own, "q", y, config.heads, config.head_size)
        k = heads_of(net, own, "k", y, config.kv_heads, config.head_size)
        v = heads_of(net, own, "v", y, config.kv_heads, config.head_size)
        q, k = (
            net.one(f"{own}{name}_rotary", "RotaryEmbedding", [value, *tables], value.tensor.shape)
            for name, value in (("q", q), ("k", k))
        )
        y = attend(net, own, q, k, v, shape, causal=True)
        x = add(net, at + "attn_add", x, product(net, own + "o_proj", y, config.hidden))
        y = norm(net, at + "post_attention_layernorm", x)
        y = mixture(net, at + "mlp.", y, config) if config.experts else gated(net, at + "mlp.", y, config)
        x = add(net, at + "mlp_add", x, y)
    x = _last(net, norm(net, "norm", x), shape)
    product(net, "lm_head", x, config.vocabulary)


def _gpt(net: Network, config: Config, shape: Shape) -> None:
    x = _embed(net, "embed_tokens", config, shape)
    places = Tensor((shape.tokens,), "int64", constant=True, name="positions")
    table = weight_of("embed_positions.weight", config.positions, config.hidden)
    x = add(net, "embed_add", x, net.one("embed_positions", "Gather", [table, places], (shape.tokens, config.hidden)))
    for layer in range(config.layers):
        at = f"layers.{layer}."
        own = at + "self_attn."
        y = norm(net, at + "input_layernorm", x, bias=True)
        y = product(net, own + "qkv_proj", y, 3 * config.heads * config.head_size, bias=True)
        split = (shape.batch, config.heads, shape.tokens, config.head_size)
        q, k, v = net.add(own + "qkv_heads", "View", [y], split, split, split)
        y = attend(net, own, q, k, v, shape, causal=True)
        x = add(net, at + "attn_add", x, product(net, own + "o_proj", y, config.hidden, bias=True))
        y = norm(net, at + "post_attention_layernorm", x, bias=True)
        y = product(net, at + "mlp.up_proj", y, config.intermediate, bias=True)
        y = net.one(at + "mlp.act", "Gelu", [y], y.tensor.shape)
        x = add(net, at + "mlp_add", x, product(net, at + "mlp.down_proj", y, config.hidden, bias=True))
    x = _last(net, norm(net, "norm", x, bias=True), shape)
    product(net, "lm_head", x, config.vocabulary, weight="embed_tokens.weight")


def _t5(net: Network, config: Config, shape: Shape) -> None:
    memory = None
    if shape.phase != "decode":
        whole_pass = shape._replace(phase="forward")
        x = _embed(net, "encoder.embed_tokens", config, whole_pass, "embed_tokens.weight")
        bias = _relative(net, "encoder.", config, shape.keys, shape.keys)
        for layer in range(config.layers):
            at = f"encoder.layers.{layer}."
            x = _t5_attention(net, at, "self_attn", x, None, config, whole_pass, bias)
            x = _t5_feed_forward(net, at, x, config)
        memory = norm(net, "encoder.norm", x)
    # The first token fills the cache as any other does.
    decoded = shape if shape.phase == "forward" else shape._replace(tokens=1)
    keys = shape.keys if shape.phase != "prefill" else 1
    x = _embed(net, "decoder.embed_tokens", config, decoded, "embed_tokens.weight")
    bias = _relative(net, "decoder.", config, decoded.tokens, keys)
    for layer in range(config.layers):
        at = f"decoder.layers.{layer}."
        x = _t5_attention(net, at, "self_attn", x, None, config, decoded, bias)
        x = _t5_attention(net, at, "encoder_attn", x, memory, config, decoded)
        x = _t5_feed_forward(net, at, x, config)
    x = norm(net, "decoder.norm", x)
    x = net.one("scale", "Mul", [x], x.tensor.shape)
    product(net, "lm_head", x, config.vocabulary, weight="embed_tokens.weight")


def _t5_attention(
    net: Network,
    at: str,
    name: str,
    x: Value,
    memory: Value | None,
    config: Config,
    shape: Shape,
    bias: Value | None = None,
) -> Value:
    """Self-attention, or attention to the encoder's result, with its norm and residual connection."""
    own, source = f"{at}{name}.", memory
    y = norm(net, f"{at}{name}_layer_norm", x)
    q = heads_of(net, own, "q", y, config.heads, config.head_size)
    if name == "self_attn":
        source = y
    if source is None:  # the keys and values of the encoder are in the cache
        y = read_cache(net, own, q, config.kv_heads, shape, [])
    else:
        k, v = (heads_of(net, own, part, source, config.kv_heads, config.head_size) for part in "kv")
        y = attend(net, own, q, k, v, shape, causal=False, bias=bias)
    return add(net, f"{at}{name}_add", x, product(net, own + "o_proj", y, config.hidden))


def _t5_feed_forward(net: Network, at: str, x: Value, config: Config) -> Value:
    y = product(net, at + "mlp.up_proj", norm(net, at + "mlp_layer_norm", x), config.intermediate)
    y = net.one(at + "mlp.act", "Relu", [y], y.tensor.shape)
    return add(net, at + "mlp_add", x, product(net, at + "mlp.down_proj", y, config.hidden))


def _relative(net: Network, at: str, config: Config, queries: int, keys: int) -> Value:
    """A learned number for each head and bucket of distances between queries and keys; all layers share it."""
    buckets = Tensor((queries, keys), "int64", constant=True, name=f"{at}buckets")
    table = weight_of(f"{at}relative_bias.weight", _BUCKETS, config.heads)
    found = net.one(f"{at}relative_bias", "Gather", [table, buckets], (queries, keys, config.heads))
    return net.one(f"{at}relative_bias_heads", "View", [found], (1, config.heads, queries, keys))


def _embed(net: Network, name: str, config: Config, shape: Shape, weight: str = "") -> Value:
    table = weight_of(weight or f"{name}.weight", config.vocabulary, config.hidden)
    words = Tensor((shape.batch, shape.tokens), "int64")
    return net.one(name, "Gather", [table, words], (shape.batch, shape.tokens, config.hidden))


def _last(net: Network, x: Value, shape: Shape) -> Value:
    """The last token of each sequence where no other is scored."""
    if shape.phase != "prefill":
        return x
    return net.one("last", "View", [x], (shape.batch, 1, x.tensor.shape[-1]))
