"""Language models of any size: a pass over whole sequences, filling a cache of keys and values, a step of decoding.

An operator is a kernel that a framework launches: a product, attention in one pass, a normalisation, a rotary
embedding, an element-wise operation. Sizes of published models are in :data:`hetgym.graph.zoo.LANGUAGE_MODELS`.
"""

from hetgym.errors import GraphError, shown, unknown_name
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.generators.blocks import Shape
from hetgym.graph.generators.decoder import PHASES as PHASES
from hetgym.graph.generators.decoder import decoder
from hetgym.graph.generators.network import Network
from hetgym.graph.generators.t5 import Sizes, t5
from hetgym.graph.generators.tasks import bounded, whole, wholes
from hetgym.graph.language_model import LanguageModel, Layer, Weight
from hetgym.graph.layer_parts import matrix, norm
from hetgym.graph.transforms.casting import FLOATS, cast

FAMILIES = ("llama", "gpt", "t5")
"""Families of models: layers of Llama and Mixtral, of GPT-2 and GPT-3, and of the encoder and decoder of T5."""


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
    own = Sizes(layers, hidden, heads, sizes["kv_heads"], head_size, sizes["intermediate"], vocabulary)
    if family == "t5":
        net = Network("language_model")
        t5(net, own, Shape(batch, sequence, sequence if phase != "decode" else 1, phase))
        return cast(net.graph(), dtype)
    made = _llama(own, experts, top) if family == "llama" else _gpt(own, positions)
    return decoder(made.cast(dtype), batch, sequence, phase, dtype, allocated=False)


def _llama(sizes: Sizes, experts: int, top: int) -> LanguageModel:
    """Layers of Llama, or of Mixtral with the first two products of experts in one."""
    h, wide, size = sizes.hidden, sizes.intermediate, sizes.head_size
    layers = []
    for i in range(sizes.layers):
        at = f"blk.{i}."
        weights = norm(f"{at}attn_norm", h) + matrix(f"{at}attn_q", sizes.heads * size, h)
        weights += [w for part in "kv" for w in matrix(f"{at}attn_{part}", sizes.kv_heads * size, h)]
        weights += matrix(f"{at}attn_output", h, sizes.heads * size) + norm(f"{at}ffn_norm", h)
        if experts:
            weights += matrix(f"{at}ffn_gate_inp", experts, h)
            weights += [Weight(f"{at}ffn_gate_up_exps.weight", (experts, 2 * wide, h))]
            weights += [Weight(f"{at}ffn_down_exps.weight", (experts, h, wide))]
        else:
            weights += matrix(f"{at}ffn_gate", wide, h) + matrix(f"{at}ffn_up", wide, h)
            weights += matrix(f"{at}ffn_down", h, wide)
        layers.append(Layer(tuple(weights), sizes.heads, sizes.kv_heads, size, size, top=top if experts else 0))
    head = (*norm("output_norm", h), *matrix("output", sizes.vocabulary, h))
    table = tuple(matrix("token_embd", sizes.vocabulary, h))
    return LanguageModel("language_model", "llama", h, sizes.vocabulary, tuple(layers), table, head)


def _gpt(sizes: Sizes, positions: int) -> LanguageModel:
    """Layers of GPT-2, with a table of positions and a head that is tied to the words."""
    h, wide, heads, size = sizes.hidden, sizes.intermediate, sizes.heads, sizes.head_size
    layers = []
    for i in range(sizes.layers):
        at = f"blk.{i}."
        weights = norm(f"{at}attn_norm", h, True) + matrix(f"{at}attn_qkv", 3 * heads * size, h, True)
        weights += matrix(f"{at}attn_output", h, heads * size, True) + norm(f"{at}ffn_norm", h, True)
        weights += matrix(f"{at}ffn_up", wide, h, True) + matrix(f"{at}ffn_down", h, wide, True)
        layers.append(Layer(tuple(weights), heads, heads, size, size))
    table = (*matrix("token_embd", sizes.vocabulary, h), *matrix("position_embd", positions, h))
    head = tuple(norm("output_norm", h, True))
    return LanguageModel("language_model", "gpt", h, sizes.vocabulary, tuple(layers), table, head, True)
