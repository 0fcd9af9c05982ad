"""Parts of layers of language models: the weights and the cache of an attention, the weights of a feed-forward layer.

Weights have the names of GGUF files. A bias or a norm may be stated by a key of the configuration.

Notes:
    ``src/transformers/models/*/modeling_*.py`` of Hugging Face's transformers. Recurrent states:
    ``src/llama-hparams.cpp`` of llama.cpp.
"""

from __future__ import annotations

from collections.abc import Callable

from hetgym.graph.config_keys import Keys
from hetgym.graph.language_model import Layer, Weight

MOST_EXPERTS = 4096

Part = Callable[[Keys, str, int], Layer]  # keys, prefix of names, number of the layer -> the weights of a part


def matrix(name: str, rows: int, columns: int, bias: bool = False) -> list[Weight]:
    """The weight of a product, and its bias."""
    return [Weight(f"{name}.weight", (rows, columns)), *([Weight(f"{name}.bias", (rows,))] if bias else [])]


def norm(name: str, size: int, bias: bool = False) -> list[Weight]:
    """The weight of a norm, and its bias."""
    return [Weight(f"{name}.{part}", (size,)) for part in ("weight", "bias")[: 1 + bias]]


def heads_attention(
    qkv_bias: bool | str = False, out_bias: bool | str = False, norms: bool | str = False, fused: bool = False,
    sinks: bool = False, gate: bool = False, wide: bool = False, single: str = "",
) -> Part:  # fmt: skip
    """Attention with grouped heads.

    Args:
        qkv_bias: whether queries, keys and values have a bias; it and ``norms`` may be a key that states it.
        out_bias: whether the product behind attention has one.
        norms: whether queries and keys have norms.
        fused: whether one product makes queries, keys and values.
        sinks: whether each head has a sink.
        gate: whether queries are gated.
        wide: whether a norm has weights for all heads; otherwise the heads share them.
        single: key that says whether there is one head of keys and values; true unless stated.
    """

    def part(keys: Keys, at: str, i: int) -> Layer:
        h, a, d = keys.hidden, keys.heads, keys.head_size
        k = 1 if single and keys.flag(single, True) else keys.kv_heads
        bias = keys.flag(qkv_bias)
        if fused:
            weights = matrix(f"{at}attn_qkv", (a + 2 * k) * d, h, bias)
        else:
            weights = matrix(f"{at}attn_q", a * d * (1 + gate), h, bias)
            weights += [w for name in "kv" for w in matrix(f"{at}attn_{name}", k * d, h, bias)]
        weights += matrix(f"{at}attn_output", h, a * d, keys.flag(out_bias))
        for name, heads in ("q", a), ("k", k):
            weights += norm(f"{at}attn_{name}_norm", d * (heads if wide else 1)) if keys.flag(norms) else []
        weights += [Weight(f"{at}attn_sinks", (a,))] if sinks else []
        return Layer(tuple(weights), a, k, d, d)

    return part


def linear_attention(keys: Keys, at: str, i: int) -> Layer:
    """Gated delta rules, whose state does not grow (Yang et al., Gated Delta Networks, ICLR 2025)."""
    h = keys.hidden
    n, groups = (keys.whole(f"linear_num_{x}_heads", most=1 << 16) for x in ("value", "key"))
    own, size = (keys.whole(f"linear_{x}_head_dim") for x in ("value", "key"))
    taps = keys.whole("linear_conv_kernel_dim", most=1 << 10)
    inner, mixed = n * own, n * own + 2 * groups * size
    weights = matrix(f"{at}attn_qkv", mixed, h) + matrix(f"{at}attn_gate", inner, h)
    weights += matrix(f"{at}ssm_alpha", n, h) + matrix(f"{at}ssm_beta", n, h)
    weights += [Weight(f"{at}ssm_conv1d.weight", (mixed, taps))]
    weights += [Weight(f"{at}ssm_dt.bias", (n,)), Weight(f"{at}ssm_a", (n,))]
    weights += norm(f"{at}ssm_norm", own) + matrix(f"{at}ssm_out", h, inner)
    return Layer(tuple(weights), n, state=(taps - 1) * mixed + size * inner)


def latent_attention(keys: Keys, at: str, i: int) -> Layer:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): one latent vector is cached for all heads."""
    h, a, c = keys.hidden, keys.heads, keys.whole("kv_lora_rank")
    nope, rope, own = (keys.whole(x) for x in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    rank, bias = keys.whole("q_lora_rank", default=0), keys.flag("attention_bias")
    if rank:
        weights = matrix(f"{at}attn_q_a", rank, h, bias) + norm(f"{at}attn_q_a_norm", rank)
        weights += matrix(f"{at}attn_q_b", a * (nope + rope), rank)
    else:
        weights = matrix(f"{at}attn_q", a * (nope + rope), h)
    weights += matrix(f"{at}attn_kv_a_mqa", c + rope, h, bias) + norm(f"{at}attn_kv_a_norm", c)
    weights += matrix(f"{at}attn_kv_b", a * (nope + own), c) + matrix(f"{at}attn_output", h, a * own, bias)
    return Layer(tuple(weights), a, 1, c + rope, 0)


def falcon_attention(keys: Keys, at: str, i: int) -> Layer:
    """Attention with one head of keys and values, or some in the new architecture of Falcon."""
    h, a, d, bias = keys.hidden, keys.heads, keys.head_size, keys.flag("bias")
    k = 1 if keys.flag("multi_query", True) else a
    if keys.flag("new_decoder_architecture"):
        k = keys.whole("num_kv_heads", default=a, most=1 << 16)
    weights = matrix(f"{at}attn_qkv", (a + 2 * k) * d, h, bias) + matrix(f"{at}attn_output", h, a * d, bias)
    two = keys.flag("new_decoder_architecture") or not keys.flag("parallel_attn", True)
    weights += norm(f"{at}attn_norm_2", h, True) if two else []
    return Layer(tuple(weights), a, k, d, d)


def gated(bias: bool | str = False, fused: bool = False, width: str = "intermediate_size") -> Part:
    """A feed-forward layer whose first product is gated by another; ``fused`` if one product makes both."""

    def part(keys: Keys, at: str, i: int) -> Layer:
        h, f, own = keys.hidden, keys.whole(width), keys.flag(bias)
        weights = [] if fused else matrix(f"{at}ffn_gate", f, h, own)
        weights += matrix(f"{at}ffn_up", f * (1 + fused), h, own)
        return Layer(tuple(weights + matrix(f"{at}ffn_down", h, f, own)))

    return part


def plain(bias: bool | str = True) -> Part:
    """A feed-forward layer of two products."""

    def part(keys: Keys, at: str, i: int) -> Layer:
        h, own = keys.hidden, keys.flag(bias)
        f = keys.whole("intermediate_size", "n_inner", "ffn_hidden_size", default=4 * h)
        return Layer(tuple(matrix(f"{at}ffn_up", f, h, own) + matrix(f"{at}ffn_down", h, f, own)))

    return part


def mixture(
    count: str, width: str = "moe_intermediate_size", shared: str = "", shared_gate: bool = False, bias: bool = False,
    corrected: bool = False, dense: Part | None = None,
) -> Part:  # fmt: skip
    """Experts, each for some tokens, and dense layers among the layers.

    Args:
        count: key of the number of experts.
        width: key of the width of an expert.
        shared: key of the number of experts for all tokens if it ends with ``_experts``, else of their whole width.
        shared_gate: whether shared experts are gated.
        bias: whether router and experts have biases.
        corrected: whether a bias corrects the scores of experts.
        dense: layers without experts; gated ones by default.
    """

    def part(keys: Keys, at: str, i: int) -> Layer:
        names = dict.fromkeys((count, "num_local_experts"))  # transformers 5 writes the second one for some families
        e = keys.whole(*names, default=0 if count == "n_routed_experts" else None, most=MOST_EXPERTS)
        if not e or _dense(keys, i):
            return (dense or gated())(keys, at, i)
        h, f = keys.hidden, keys.whole(width)
        most = MOST_EXPERTS if keys.missing else e
        top = keys.whole("num_experts_per_tok", "experts_per_token", "moe_k", most=most)
        weights = matrix(f"{at}ffn_gate_inp", e, h, bias)
        weights += expert_weights(at, e, h, f, bias)
        weights += [Weight(f"{at}exp_probs_b.bias", (e,))] if corrected else []
        return Layer((*weights, *_shared(keys, at, f, shared, shared_gate)), top=top)

    return part


def expert_weights(at: str, count: int, hidden: int, width: int, bias: bool = False) -> list[Weight]:
    """The three products of some experts."""
    weights = []
    for name, rows, columns in (("gate", width, hidden), ("up", width, hidden), ("down", hidden, width)):
        weights += [Weight(f"{at}ffn_{name}_exps.weight", (count, rows, columns))]
        weights += [Weight(f"{at}ffn_{name}_exps.bias", (count, rows))] if bias else []
    return weights


def _shared(keys: Keys, at: str, width: int, key: str, gate: bool) -> list[Weight]:
    """The weights of experts for all tokens."""
    counted = key.endswith("_experts")
    h, own = keys.hidden, keys.whole(key, default=0 if counted else None, low=0) if key else 0
    own *= width if counted else 1
    if not own:
        return []
    weights = matrix(f"{at}ffn_gate_shexp", own, h) + matrix(f"{at}ffn_up_shexp", own, h)
    weights += matrix(f"{at}ffn_down_shexp", h, own)
    return weights + ([Weight(f"{at}ffn_gate_inp_shexp.weight", (h,))] if gate else [])


def _dense(keys: Keys, i: int) -> bool:
    """Whether a layer of a mixture has no experts."""
    step = keys.whole("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval", default=1)
    first = keys.whole("first_k_dense_replace", "moe_layer_start_index", default=0, low=0)
    return i in keys.wholes("mlp_only_layers") or (i + 1) % step != 0 or i < first
