"""Architectures of language models: how the layers of a ``model_type`` attend and feed forward.

Notes:
    Keys and layers: ``src/transformers/models/*/configuration_*.py`` and ``modeling_*.py`` of Hugging Face's
    transformers. InternLM2 and EXAONE 3 bring their own code in their repositories.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from hetgym.errors import GraphError, shown
from hetgym.graph.config_keys import Keys
from hetgym.graph.gemma4_parts import gemma4_attention, gemma4_feed, gemma4_table
from hetgym.graph.language_model import Weight
from hetgym.graph.layer_parts import (
    Part,
    falcon_attention,
    gated,
    heads_attention,
    latent_attention,
    linear_attention,
    mixture,
    plain,
)

FULL, SLIDING, LINEAR, CHUNKED = (f"{kind}_attention" for kind in ("full", "sliding", "linear", "chunked"))


class Pattern(NamedTuple):
    """Kinds of layers where the configuration does not list them: each ``every``-th is full."""

    others: str  # kind of the other layers
    every: int
    key: str = "sliding_window_pattern"  # key that states another ``every``


class Architecture(NamedTuple):
    """How the layers of a family attend and feed forward; flags may be keys of the configuration that state them."""

    attention: Part
    feed: Part
    norms: tuple[str, ...] = ("attn_norm", "ffn_norm")  # norms of a layer beside those of its parts
    bias: bool = False  # whether norms have a bias
    tied: bool = False  # whether the table of words scores words unless the configuration says otherwise
    head_bias: bool | str = False  # whether the weight that scores words has a bias
    parallel: str = ""  # key that says whether attention and feed-forward layer share a norm
    places: bool = False  # whether positions have a table
    table_norm: bool = False  # whether a norm follows the table of words
    special: Mapping[str, Part] = MappingProxyType({})  # kind of layers -> their attention if it is another
    tables: Callable[[Keys], list[Weight]] | None = None  # weights before the layers beside the table of words
    pattern: Pattern | None = None
    needs: tuple[str, ...] = ()  # keys for which the family's default is another model's number
    usual: Mapping[str, int] = MappingProxyType({})  # defaults of the family that its published files rely on


def layer_kinds(keys: Keys, architecture: Architecture, count: int) -> tuple[str, ...]:
    """``full_attention``, ``sliding_attention``, ``linear_attention`` or ``chunked_attention`` for each layer.

    Raises:
        GraphError: ``layer_types`` has another length, or names another kind.
    """
    stated, pattern = keys.words("layer_types"), architecture.pattern
    if stated:
        if len(stated) != count:
            raise GraphError(f"{keys.where}: layer_types has {len(stated)} entries for {count} layers")
        known = (FULL, SLIDING, CHUNKED, *architecture.special)
        odd = [kind for kind in stated if kind not in known]
        if odd:
            raise GraphError(f"{keys.where}: unknown kind of layer {shown(odd[0])} in layer_types")
        return stated
    if pattern:
        every = keys.whole(pattern.key, default=pattern.every)
        return tuple(FULL if (i + 1) % every == 0 else pattern.others for i in range(count))
    if "use_sliding_window" in keys.config or str(keys.config.get("model_type")).startswith("qwen"):
        first = keys.whole("max_window_layers", default=0, low=0) if keys.flag("use_sliding_window") else count
        return tuple(FULL if i < first else SLIDING for i in range(count))
    return (SLIDING if keys.config.get("sliding_window") is not None else FULL,) * count


_FOUR = ("attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm")
_BEHIND = ("post_attention_norm", "post_ffw_norm")
_BIASED = heads_attention("attention_bias", "attention_bias")
_NORMED = heads_attention("attention_bias", "attention_bias", norms=True)
_QWEN2 = heads_attention(True)
_GPT = heads_attention(True, True, fused=True)
_SHARED = mixture("num_experts", shared="shared_expert_intermediate_size", shared_gate=True)
_COUNTED = mixture("n_routed_experts", shared="n_shared_experts", corrected=True)
_WIDE = heads_attention("attention_bias", "attention_bias", norms=True, wide=True)

_LLAMA = Architecture(_BIASED, gated("mlp_bias"))
_QWEN2_DENSE = Architecture(_QWEN2, gated())
_QWEN3 = Architecture(_NORMED, gated(), needs=("head_dim",))
_QWEN3_MOE = Architecture(_NORMED, mixture("num_experts"), needs=("head_dim",))
_NEXT = Architecture(
    heads_attention(norms=True, gate=True), _SHARED, special={LINEAR: linear_attention},
    pattern=Pattern(LINEAR, 4, "full_attention_interval"), needs=("head_dim",),
)  # fmt: skip
_DENSE_NEXT = _NEXT._replace(feed=gated())
_GEMMA = Architecture(heads_attention("attention_bias", "attention_bias"), gated(), tied=True, needs=("head_dim",))
_GEMMA2 = _GEMMA._replace(norms=_FOUR, pattern=Pattern(SLIDING, 2), needs=("head_dim", "sliding_window"))
_GEMMA3 = _GEMMA2._replace(
    attention=_NORMED, pattern=Pattern(SLIDING, 6),
    usual={
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 131072,
        "vocab_size": 262208,
    },
)  # fmt: skip
_GEMMA4 = Architecture(
    gemma4_attention(full=False), gemma4_feed, norms=_FOUR, tied=True, special={FULL: gemma4_attention(full=True)},
    tables=gemma4_table, pattern=Pattern(SLIDING, 6), needs=("head_dim", "sliding_window"),
)  # fmt: skip
_DEEPSEEK = Architecture(latent_attention, _COUNTED)
_OLMO2 = Architecture(_WIDE, gated(), norms=_BEHIND)
_COHERE = Architecture(
    heads_attention("attention_bias", "attention_bias", norms="use_qk_norm", wide=True), gated(), norms=("attn_norm",),
    tied=True,
)  # fmt: skip
_GLM = Architecture(heads_attention("attention_bias"), gated(fused=True), needs=("head_dim",))

ARCHITECTURES: dict[str, Architecture] = {
    "llama": _LLAMA, "granite": _LLAMA, "smollm3": _LLAMA._replace(tied=True),
    "internlm2": Architecture(heads_attention("bias", "bias", fused=True), gated()),
    "exaone": Architecture(heads_attention(), gated()),
    "seed_oss": Architecture(heads_attention("attention_bias", "attention_out_bias"), gated("mlp_bias")),
    "ernie4_5": Architecture(heads_attention("use_bias", "use_bias"), gated("use_bias"), tied=True),
    "mistral": Architecture(heads_attention(), gated(), usual={"num_attention_heads": 32}),  # of pixtral-12b
    "ministral3": Architecture(heads_attention(), gated(), needs=("head_dim",)),
    "mixtral": Architecture(heads_attention(), mixture("num_local_experts", "intermediate_size")),
    "granitemoe": Architecture(_BIASED, mixture("num_local_experts", "intermediate_size")),
    "phimoe": Architecture(
        _BIASED, mixture("num_local_experts", "intermediate_size"), bias=True, head_bias="lm_head_bias",
    ),
    "minimax_m2": Architecture(
        heads_attention(norms=True, wide=True), mixture("num_local_experts", "intermediate_size", corrected=True),
        needs=("head_dim",),
    ),
    "ernie4_5_moe": Architecture(
        heads_attention("use_bias", "use_bias"),
        mixture("moe_num_experts", shared="moe_num_shared_experts", corrected=True), tied=True,
    ),
    "qwen2": _QWEN2_DENSE, "qwen2_vl": _QWEN2_DENSE, "qwen2_vl_text": _QWEN2_DENSE,
    "qwen2_5_vl": _QWEN2_DENSE, "qwen2_5_vl_text": _QWEN2_DENSE,
    "qwen2_moe": Architecture(_QWEN2, _SHARED),
    "qwen3": _QWEN3, "qwen3_vl_text": _QWEN3, "qwen3_moe": _QWEN3_MOE, "qwen3_vl_moe_text": _QWEN3_MOE,
    "qwen3_next": _NEXT, "qwen3_5_moe": _NEXT, "qwen3_5_moe_text": _NEXT,
    "qwen3_5": _DENSE_NEXT, "qwen3_5_text": _DENSE_NEXT,
    "gemma": _GEMMA, "gemma2": _GEMMA2, "gemma3": _GEMMA3, "gemma3_text": _GEMMA3,
    "gemma4_text": _GEMMA4,
    "phi": Architecture(
        heads_attention(True, True), plain(), norms=("attn_norm",), bias=True, head_bias=True,
    ),
    "phi3": Architecture(heads_attention(fused=True), gated(fused=True)),
    "gpt_oss": Architecture(
        heads_attention(True, True, sinks=True), mixture("num_local_experts", "intermediate_size", bias=True),
        pattern=Pattern(SLIDING, 2), needs=("head_dim", "sliding_window"),
    ),
    "llama4_text": Architecture(
        heads_attention("attention_bias", "attention_bias"),
        mixture(
            "num_local_experts", "intermediate_size", shared="intermediate_size",
            dense=gated(width="intermediate_size_mlp"),
        ),
        pattern=Pattern(CHUNKED, 4, "no_rope_layer_interval"), needs=("head_dim", "attention_chunk_size"),
    ),
    "deepseek_v2": _DEEPSEEK._replace(feed=mixture("n_routed_experts", shared="n_shared_experts")),
    "deepseek_v3": _DEEPSEEK, "kimi_k2": _DEEPSEEK,
    "glm": _GLM, "glm4": _GLM._replace(norms=_FOUR),
    "glm4_moe": Architecture(heads_attention("attention_bias", norms="use_qk_norm"), _COUNTED, needs=("head_dim",)),
    "dots1": Architecture(_NORMED, _COUNTED),
    "cohere": _COHERE,
    "cohere2": _COHERE._replace(attention=_BIASED, pattern=Pattern(SLIDING, 4), needs=("head_dim", "sliding_window")),
    "olmo2": _OLMO2, "olmo3": _OLMO2._replace(pattern=Pattern(SLIDING, 4), needs=("sliding_window",)),
    "olmoe": Architecture(_WIDE, mixture("num_experts", "intermediate_size")),
    "exaone4": Architecture(heads_attention(norms=True), gated(), norms=_BEHIND, pattern=Pattern(SLIDING, 4)),
    "stablelm": Architecture(
        heads_attention("use_qkv_bias", norms="qk_layernorm", wide=True), gated(), bias=True,
        parallel="use_parallel_residual",
    ),
    "starcoder2": Architecture(heads_attention("use_bias", "use_bias"), plain("use_bias"), bias=True, tied=True),
    "nemotron": Architecture(_BIASED, plain("mlp_bias"), bias=True),
    "falcon": Architecture(
        falcon_attention, plain("bias"), norms=("attn_norm",), bias=True, tied=True,
        usual={"max_position_embeddings": 2048},
    ),
    "gpt2": Architecture(_GPT, plain(), bias=True, tied=True, places=True),
    "gpt_bigcode": Architecture(
        heads_attention(True, True, fused=True, single="multi_query"), plain(), bias=True, tied=True, places=True,
    ),
    "gpt_neox": Architecture(_GPT, plain(), bias=True),
    "bloom": Architecture(
        _GPT, plain(), bias=True, tied=True, table_norm=True, usual={"max_position_embeddings": 2048},
    ),
}  # fmt: skip
"""``model_type`` of a configuration -> its architecture."""
