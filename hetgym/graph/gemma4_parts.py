"""Parts of the layers of Gemma 4: wider heads in full attention, shared caches, experts beside a dense layer.

Notes:
    ``src/transformers/models/gemma4/modeling_gemma4.py`` of transformers; names of weights: ``gguf-py`` of llama.cpp.
"""

from __future__ import annotations

from hetgym.graph.config_keys import Keys
from hetgym.graph.language_model import Layer, Weight
from hetgym.graph.layer_parts import MOST_EXPERTS, Part, expert_weights, matrix, norm


def gemma4_attention(full: bool) -> Part:
    """Attention of one kind of layers; the last layers read the caches of others and have no keys and values."""

    def part(keys: Keys, at: str, i: int) -> Layer:
        h, a = keys.hidden, keys.heads
        d = keys.whole("global_head_dim") if full else keys.head_size
        same = full and keys.flag("attention_k_eq_v")  # keys are the values, too
        k = keys.whole("num_global_key_value_heads", most=1 << 16) if same else keys.kv_heads
        weights = matrix(f"{at}attn_q", a * d, h) + norm(f"{at}attn_q_norm", d)
        if not _shares(keys, i):
            weights += matrix(f"{at}attn_k", k * d, h) + norm(f"{at}attn_k_norm", d)
            weights += [] if same else matrix(f"{at}attn_v", k * d, h)
        weights += matrix(f"{at}attn_output", h, a * d)
        return Layer(tuple(weights), a) if _shares(keys, i) else Layer(tuple(weights), a, k, d, d)

    return part


def gemma4_feed(keys: Keys, at: str, i: int) -> Layer:
    """A dense layer, experts beside it, and the embedding that each layer has of a word."""
    h, own = keys.hidden, keys.whole("hidden_size_per_layer_input", low=0)
    width = keys.whole("intermediate_size") * (1 + (keys.flag("use_double_wide_mlp") and _shares(keys, i)))
    weights = matrix(f"{at}ffn_gate", width, h) + matrix(f"{at}ffn_up", width, h) + matrix(f"{at}ffn_down", h, width)
    weights += [Weight(f"{at}layer_output_scale.weight", (1,))]
    if own:
        weights += matrix(f"{at}inp_gate", own, h) + matrix(f"{at}proj", h, own) + norm(f"{at}post_norm", h)
    if not keys.flag("enable_moe_block"):
        return Layer(tuple(weights))
    e, f = keys.whole("num_experts", most=MOST_EXPERTS), keys.whole("moe_intermediate_size")
    top = keys.whole("top_k_experts", most=MOST_EXPERTS if keys.missing else e)
    for name in ("post_ffw_norm_1", "post_ffw_norm_2", "pre_ffw_norm_2"):
        weights += norm(at + name, h)
    weights += matrix(f"{at}ffn_gate_inp", e, h) + [Weight(f"{at}ffn_gate_inp.scale", (h,))]
    weights += [Weight(f"{at}ffn_down_exps.scale", (e,)), *expert_weights(at, e, h, f)]
    return Layer(tuple(weights), top=top)


def gemma4_table(keys: Keys) -> list[Weight]:
    """The embeddings of words that each layer has, and what projects those of the model onto them."""
    own = keys.whole("hidden_size_per_layer_input", low=0)
    if not own:
        return []
    words, width = keys.whole("vocab_size_per_layer_input"), keys.layers * own
    table = [Weight("per_layer_token_embd.weight", (words, width))]
    return table + matrix("per_layer_model_proj", width, keys.hidden) + norm("per_layer_proj_norm", own)


def _shares(keys: Keys, i: int) -> bool:
    """Whether a layer reads the cache of another."""
    return i >= keys.layers - keys.whole("num_kv_shared_layers", default=0, low=0)
