"""Graphs of decoders: a pass of a :class:`~hetgym.graph.language_model.LanguageModel`, whatever its architecture.

The layers are written down by the weights that they have. Weights of an unknown role go to an operator ``other`` of
their layer, which reads them, so no byte is lost.
"""

from collections.abc import Sequence

from hetgym.errors import GraphError, check_name, shown
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.generators.attention import attention
from hetgym.graph.generators.blocks import Shape, add, last, linear
from hetgym.graph.generators.feed_forward import feed_forward
from hetgym.graph.generators.network import Network, Value
from hetgym.graph.generators.run import Run, Stock
from hetgym.graph.generators.tasks import bounded, whole
from hetgym.graph.language_model import CACHE_DTYPES, LanguageModel, Layer
from hetgym.graph.ops import Tensor
from hetgym.graph.transforms.casting import FLOATS

PHASES = ("forward", "prefill", "decode")
"""Passes: whole sequences without a cache, whole sequences that fill it, and one more token of each sequence."""

SEQUENCE = 2048  # tokens of a sequence by default, of models that were made for as many

_PARALLEL = (
    "gpt_neox",
    "gptneox",
)  # families whose feed-forward layer reads what attention reads, through its own norm


def decoder(
    model: LanguageModel,
    batch: int = 1,
    sequence: int | None = None,
    phase: str = "forward",
    dtype: str = "bfloat16",
    cache: Sequence[str] = (),
    allocated: bool = True,
) -> DataflowGraph:
    """A pass of a language model; phases and names are those of :func:`~hetgym.graph.generators.language_model`.

    Weights have the formats that they are stored in. In the phases with a cache, constants take as many bytes as
    :attr:`LanguageModel.bytes` and :meth:`LanguageModel.cache_bytes` state for separate sequences and one step of the
    pass's tokens.

    Args:
        model: the model.
        batch: number of sequences.
        sequence: tokens of a sequence; by default 2048, or the most that the model was made for.
        phase: one of :data:`PHASES`.
        dtype: format of activations, one of ``float16``, ``bfloat16``, ``float32`` and ``float64``.
        cache: formats of cached keys and of values; that of activations by default.
        allocated: see :class:`~hetgym.graph.generators.run.Run`.

    Raises:
        UnknownName: no such phase.
        GraphError: a parameter out of range.
    """
    check_name("phase", phase, PHASES)
    usual = min(SEQUENCE, model.positions) if model.positions else SEQUENCE
    keys = whole(f"{model.name}: sequence", usual if sequence is None else sequence)
    if dtype not in FLOATS:
        raise GraphError(f"{model.name}: dtype is {shown(dtype)}; it must be one of {', '.join(FLOATS)}")
    key, value = (cache[0], cache[-1]) if cache else (dtype, dtype)
    for kind in (key, value):
        if cache and kind not in CACHE_DTYPES:
            raise GraphError(f"{model.name}: cache format {shown(kind)}; it must be one of {', '.join(CACHE_DTYPES)}")
    bounded(model.name, 70 * len(model.layers) + 20, 100 * len(model.layers) + 20)
    shape = Shape(whole(f"{model.name}: batch", batch), keys, keys if phase != "decode" else 1, phase)
    places = next((weight.shape[0] for weight in model.table if weight.role == "position_embd"), 0)
    if 0 < places < keys:
        raise GraphError(f"{model.name}: sequence is {keys}, but there are {places} positions")
    run = Run(Network(model.name, dtype), shape, key, value, allocated, rotary=not places)
    if run.rotary and not allocated:
        size = model.layers[0].key_size
        run.tables = tuple(Tensor((shape.tokens, size), dtype, True, f"rotary.{name}") for name in ("cos", "sin"))
    return _written(run, model)


def _written(run: Run, model: LanguageModel) -> DataflowGraph:
    """The graph of all operators."""
    unknown: list[Tensor] = []
    x = _embedded(run, model, unknown)
    for i, layer in enumerate(model.layers):
        x = _layer(run, i, x, layer, model.family in _PARALLEL, unknown)
    stock = Stock(model.head)
    x = last(run.net, run.norm(stock, "output_norm", "norm", x), run.shape)
    scoring = stock.take("output", "lm_head")
    if model.tied:
        table = model.scoring
        scoring = [Tensor(table.shape, table.dtype, True, "embed_tokens.weight")]
    x = _other(run, "other", x, stock, unknown)
    linear(run.net, "lm_head", x, scoring)
    few = f"{len(unknown)} weights of unknown roles, such as {unknown[0].name}, are read whole" if unknown else ""
    return run.net.graph([few] if few else [])


def _embedded(run: Run, model: LanguageModel, unknown: list[Tensor]) -> Value:
    """The rows of words, and of positions if the model has a table of them."""
    net, shape, stock = run.net, run.shape, Stock(model.table)
    place = (shape.batch, shape.tokens, model.hidden)
    words = Tensor((shape.batch, shape.tokens), "int64")
    x = net.one("embed_tokens", "Gather", [*stock.take("token_embd", "embed_tokens"), words], place)
    if not run.rotary:
        ids = Tensor((shape.tokens,), "int64", not run.allocated, "" if run.allocated else "positions")
        table = stock.take("position_embd", "embed_positions")
        x = add(net, "embed_add", x, net.one("embed_positions", "Gather", [*table, ids], place[1:]))
    for role in [weight.role for weight in model.table]:
        rows = stock.shape(role)
        if len(rows) == 2 and rows[0] == model.vocabulary:  # a row of each word, as that of Gemma 3n
            name = f"embed_{role}"
            net.one(name, "Gather", [*stock.take(role, name), words], (*place[:2], rows[1]))
    return _other(run, "embed_other", x, stock, unknown)


def _layer(run: Run, i: int, x: Value, layer: Layer, parallel: bool, unknown: list[Tensor]) -> Value:
    """A layer: attention and feed-forward, each with its norms and residual connection."""
    at, stock = f"layers.{i}.", Stock(layer.weights, f"blk.{i}.")
    y = normed = run.norm(stock, "attn_norm", at + "input_layernorm", x)
    if stock.shape("attn_norm_2"):
        y = run.norm(stock, "attn_norm_2", at + "attention_layernorm", x)
    before, four = x, bool(stock.shape("ffn_norm") and stock.shape("post_attention_norm"))
    found = attention(run, at, y, layer, stock)
    if found is not None:
        if four:
            found = run.norm(stock, "post_attention_norm", at + "post_attention_layernorm", found)
        x = add(run.net, at + "attn_add", x, found)
    role = "ffn_norm" if stock.shape("ffn_norm") else "post_attention_norm"
    name = at + ("pre_feedforward_layernorm" if four else "post_attention_layernorm")
    y = run.norm(stock, role, name, before if parallel else x) if stock.shape(role) else normed
    found = feed_forward(run, at + "mlp.", y, layer, stock)
    if found is not None:
        found = run.norm(stock, "post_ffw_norm", at + "post_feedforward_layernorm", found)
        x = add(run.net, at + "mlp_add", x, found)
    return _other(run, at + "other", x, stock, unknown)


def _other(run: Run, name: str, x: Value, stock: Stock, unknown: list[Tensor]) -> Value:
    """An operator that reads the weights that are left; the value itself if none is."""
    rest = stock.rest(name + ".")
    unknown += rest
    return run.net.one(name, "Other", [x, *rest], x.tensor.shape) if rest else x
