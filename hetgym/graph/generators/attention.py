"""Attention of decoders, by the weights of a layer: heads, latent vectors (DeepSeek), recurrences (linear attention).

Each function returns None, and takes no weight, if the weights do not have the shapes that it needs.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from hetgym.graph.generators.blocks import attend, heads_of, linear, merged, read_cache
from hetgym.graph.generators.network import Value
from hetgym.graph.generators.run import Run, Stock
from hetgym.graph.language_model import Layer
from hetgym.graph.ops import Tensor


def attention(run: Run, at: str, x: Value, layer: Layer, stock: Stock) -> Value | None:
    """The attention of a layer, whichever it is; ``x`` is [batch, tokens, hidden], and so is the result."""
    if stock.shape("ssm_out"):
        return recurrence(run, at + "linear_attn.", x, layer, stock)
    if stock.shape("attn_kv_a_mqa"):
        return latent(run, at + "self_attn.", x, layer, stock)
    return heads(run, at + "self_attn.", x, layer, stock)


def heads(run: Run, own: str, x: Value, layer: Layer, stock: Stock) -> Value | None:
    """Attention with grouped heads, to own keys or, in a layer without a cache, to those of one with heads as wide."""
    inner, a, k = x.tensor.shape[-1], layer.heads, layer.kv_heads
    q_rows, k_rows, v_rows, all_rows = (stock.rows(f"attn_{part}", inner) for part in ("q", "k", "v", "qkv"))
    before = next((one[0] for size, one in run.shared.items() if q_rows == a * size), None)
    source = layer if k else before
    if source is None:
        return None
    d, v = source.key_size, source.value_size
    fused = k > 0 and all_rows == (a + k) * d + k * v
    apart = q_rows in (a * d, 2 * a * d) and (k == 0 or (k_rows, v_rows) == (k * d, k * v))
    if a * d * v == 0 or not (fused or apart) or not stock.rows("attn_output", a * v):
        return None
    if fused:
        y = run.project(stock, "attn_qkv", own + "qkv_proj", x)
        shapes = [(run.shape.batch, count, run.shape.tokens, size) for count, size in ((a, d), (k, d), (k, v))]
        q, *keys = run.net.add(own + "qkv_heads", "View", [y], *shapes)
        gate = None
    else:
        q, gate = _queries(run, own, run.project(stock, "attn_q", own + "q_proj", x), a, d)
        keys = [
            heads_of(run.net, f"{own}{n}_heads", run.project(stock, f"attn_{n}", f"{own}{n}_proj", x), k, size)
            for n, size in (("k", d), ("v", v))
            if k
        ]
    q = run.rotated(own + "q_rotary", run.norm(stock, "attn_q_norm", own + "q_norm", q))
    if keys:
        keys[0] = run.rotated(own + "k_rotary", run.norm(stock, "attn_k_norm", own + "k_norm", keys[0]))
    y = _attended(run, own, q, keys, layer, stock)
    if gate is not None:
        gate = run.net.one(own + "gate_act", "Sigmoid", [gate], gate.tensor.shape)
        y = run.net.one(own + "gate_mul", "Mul", [y, gate], y.tensor.shape)
    return run.project(stock, "attn_output", own + "o_proj", y)


def _queries(run: Run, own: str, y: Value, heads: int, size: int) -> tuple[Value, Value | None]:
    """Queries of all heads, and the gate of the results if the projection has one."""
    batch, tokens, width = y.tensor.shape
    if width == heads * size:
        return heads_of(run.net, own + "q_heads", y, heads, size), None
    shapes = ((batch, heads, tokens, size), (batch, tokens, heads * size))
    q, gate = run.net.add(own + "q_heads", "View", [y], *shapes)
    return q, gate


def _attended(run: Run, own: str, q: Value, keys: list[Value], layer: Layer, stock: Stock) -> Value:
    """Attention to new keys and values and to the cache, or to those of another layer."""
    extra = stock.take("attn_sinks", own + "sinks")
    if keys:
        held = run.held(own, layer)
        run.shared[layer.key_size] = layer, keys, held
    else:
        source, keys, held = run.shared[q.tensor.shape[-1]]
        if held and run.shape.phase == "decode":
            return read_cache(run.net, own, q, held, extra, source.value_size)
        held, layer = [], source
    width = keys[1].tensor.shape[-1]
    return attend(
        run.net,
        own,
        q,
        keys,
        held,
        run.shape,
        causal=True,
        width=width,
        extra=extra,
        window=layer.window,
    )


class _Latent(NamedTuple):
    """Sizes of latent attention."""

    vector: int  # numbers of the cached vector that keys and values are made of
    plain: int  # numbers of a key that are made of it
    turned: int  # numbers of a key that are rotated, which all heads share
    value: int  # numbers of a value


def latent(run: Run, own: str, x: Value, layer: Layer, stock: Stock) -> Value | None:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434).

    All heads share one cached vector. A step of decoding attends to it directly: the weight that would make keys of it
    is applied to the queries, and the one that would make values to the results. Other phases make keys and values.
    """
    sizes = _latent_sizes(x.tensor.shape[-1], layer, stock)
    if sizes is None:
        return None
    batch, tokens = run.shape.batch, run.shape.tokens
    if stock.shape("attn_q_a"):
        y = run.project(stock, "attn_q_a", own + "q_a_proj", x)
        y = run.norm(stock, "attn_q_a_norm", own + "q_a_layernorm", y)
        y = run.project(stock, "attn_q_b", own + "q_b_proj", y)
    else:
        y = run.project(stock, "attn_q", own + "q_proj", x)
    parts = [(batch, layer.heads, tokens, size) for size in (sizes.plain, sizes.turned)]
    q, turned = run.net.add(own + "q_heads", "View", [y], *parts)
    turned = run.rotated(own + "q_rotary", turned)
    y = run.project(stock, "attn_kv_a_mqa", own + "kv_a_proj_with_mqa", x)
    shapes = (batch, tokens, sizes.vector), (batch, 1, tokens, sizes.turned)
    vector, key = run.net.add(own + "kv_a_split", "View", [y], *shapes)
    vector = run.norm(stock, "attn_kv_a_norm", own + "kv_a_layernorm", vector)
    key = run.rotated(own + "k_rotary", key)
    weights = _latent_weights(own, layer.heads, sizes, stock)
    held = run.held(own, layer)
    attended = _absorbed if run.shape.phase == "decode" else _expanded
    y = attended(run, own, (q, turned), (vector, key), weights, held)
    return run.project(stock, "attn_output", own + "o_proj", y)


Pair = tuple[Value, Value]


def _absorbed(run: Run, own: str, q: Pair, k: Pair, weights: tuple[Tensor, Tensor], held: Sequence[Tensor]) -> Value:
    """Attention of a step to the cached vectors."""
    net, (batch, a, tokens, _) = run.net, q[0].tensor.shape
    c, width = k[0].tensor.shape[-1], held[0].shape[-1]
    absorbed = net.one(own + "k_b_proj", "MatMul", [q[0], weights[0]], (batch, a, tokens, c))
    query = net.one(own + "q_join", "View", [absorbed, q[1]], (batch, a, tokens, width))
    key = net.one(own + "kv_join", "View", k, (batch, 1, tokens, width))
    (done,) = net.add(own + "cache", "TensorScatter", [*held, key], (0,))
    y = net.one(own + "sdpa", "Attention", [query, *held, done], (batch, a, tokens, c), is_causal=0)
    value = weights[1].shape[-1]
    return merged(net, own, net.one(own + "v_b_proj", "MatMul", [y, weights[1]], (batch, a, tokens, value)))


def _expanded(run: Run, own: str, q: Pair, k: Pair, weights: tuple[Tensor, Tensor], held: Sequence[Tensor]) -> Value:
    """Attention to the keys and values of all heads, which are made of the vectors; these fill the cache."""
    net, (batch, a, tokens, plain) = run.net, q[0].tensor.shape
    width, value = plain + q[1].tensor.shape[-1], weights[1].shape[-1]
    if held:
        joined = net.one(own + "kv_join", "View", k, (batch, 1, tokens, held[0].shape[-1]))
        net.add(own + "cache", "TensorScatter", [*held, joined], (0,))
    c = k[0].tensor.shape[-1]
    flat = [replace(weight, shape=(weight.size // c, c)) for weight in weights]
    y = linear(net, own + "k_b_proj", k[0], flat[:1])
    query = net.one(own + "q_join", "View", q, (batch, a, tokens, width))
    keys = net.one(own + "k_heads", "View", [y, k[1]], (batch, a, tokens, width))
    values = heads_of(net, own + "v_heads", linear(net, own + "v_b_proj", k[0], flat[1:]), a, value)
    return attend(net, own, query, [keys, values], [], run.shape, causal=True, width=value)


def _latent_sizes(inner: int, layer: Layer, stock: Stock) -> _Latent | None:
    """The sizes, if the weights agree on them."""
    a, rank = layer.heads, stock.rows("attn_q_a", inner)
    q_rows = stock.rows("attn_q_b", rank) if rank else stock.rows("attn_q", inner)
    both, k_b, v_b = (stock.shape(f"attn_{part}_b") for part in ("kv", "k", "v"))
    if not a or q_rows % a or stock.rows("attn_kv_a_mqa", inner) != layer.key_size:
        return None
    if len(both) == 2 and both[0] % a == 0:
        c = both[1]
        nope = q_rows // a - (layer.key_size - c)
        v = both[0] // a - nope
    elif len(k_b) == len(v_b) == 3 and k_b[0] == v_b[0] == a and k_b[1] == v_b[2]:
        c, nope, v = k_b[1], k_b[2], v_b[1]
    else:
        return None
    rope = layer.key_size - c
    whole = q_rows == a * (nope + rope) and stock.rows("attn_output", a * v) > 0
    return _Latent(c, nope, rope, v) if whole and min(c, nope, rope, v) > 0 else None


def _latent_weights(own: str, a: int, sizes: _Latent, stock: Stock) -> tuple[Tensor, Tensor]:
    """Weights that make keys and values of the vector; one weight that makes both is cut in two."""
    shapes = (a, sizes.plain, sizes.vector), (a, sizes.vector, sizes.value)
    if stock.shape("attn_kv_b"):
        pair = stock.take("attn_kv_b", own)[:1] * 2
    else:
        pair = [stock.take(f"attn_{part}_b", own)[0] for part in "kv"]
    names = (own + "k_b_proj.weight", own + "v_b_proj.weight")
    first, second = (replace(w, shape=s, name=n) for w, s, n in zip(pair, shapes, names, strict=True))
    return first, second


_INPUTS = ("attn_qkv", "attn_gate", "ssm_in", "ssm_ba", "ssm_beta_alpha", "ssm_alpha", "ssm_beta")
_TITLES = {"attn_qkv": "in_proj_qkv", "attn_gate": "in_proj_z", "ssm_alpha": "in_proj_a", "ssm_beta": "in_proj_b"}


def recurrence(run: Run, own: str, x: Value, layer: Layer, stock: Stock) -> Value | None:
    """Linear attention (gated delta rule: Yang et al., arXiv 2412.06464) and state spaces (Mamba).

    One operator is the short convolution and the recurrence; it reads a float32 state for each sequence.
    """
    net, hidden = run.net, x.tensor.shape[-1]
    roles = [role for role in _INPUTS if stock.rows(role, hidden)]
    out = stock.shape("ssm_out")
    if not roles or len(out) != 2 or out[0] != hidden:
        return None
    found = {role: run.project(stock, role, own + _TITLES.get(role, role), x) for role in roles}
    gate = found.pop("attn_gate", None)
    norms = stock.take("ssm_norm", own + "norm")
    taps = stock.shape("ssm_conv1d")
    state = [Tensor((run.shape.batch, layer.state), "float32", True, own + "state")] if layer.state else []
    constants = stock.rest(own, "ssm_", "ssm_out") + (state if run.shape.phase != "forward" else [])
    rows = run.shape.batch * run.shape.tokens
    # A number of the state is scaled, read for the key, changed and read for the query: seven operations.
    flops = rows * (7.0 * layer.state + 2.0 * (taps[0] * taps[-1] if taps else 0))
    shape = (run.shape.batch, run.shape.tokens, out[1])
    y = net.one(own + "recurrence", "Task", [*found.values(), *constants], shape, flops=flops)
    if norms:
        kind = "LayerNormalization" if len(norms) > 1 else "RMSNormalization"
        y = net.one(own + "norm", kind, [y, *norms], shape, axis=-1)
    if gate is not None and gate.tensor.shape == shape:
        gate = net.one(own + "gate_act", "Swish", [gate], shape)
        y = net.one(own + "gate_mul", "Mul", [y, gate], shape)
    return run.project(stock, "ssm_out", own + "out_proj", y)
