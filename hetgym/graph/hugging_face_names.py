"""Names of weights in files of Hugging Face's transformers -> names of weights in GGUF files.

Notes:
    ``src/transformers/models/*/modeling_*.py`` of transformers, ``gguf-py/gguf/tensor_mapping.py`` of llama.cpp, and
    the tensors that AutoGPTQ, AutoAWQ, compressed-tensors, bitsandbytes and MLX write for a packed weight.
"""

import re
from functools import cache
from typing import NamedTuple

_OUTSIDE = {
    "embed_tokens": "token_embd", "wte": "token_embd", "word_embeddings": "token_embd", "embed_in": "token_embd",
    "wpe": "position_embd", "norm": "output_norm", "ln_f": "output_norm", "final_layer_norm": "output_norm",
    "final_layernorm": "output_norm", "lm_head": "output", "embed_out": "output", "output": "output",
    "embed_tokens_per_layer": "per_layer_token_embd", "per_layer_model_projection": "per_layer_model_proj",
    "per_layer_projection_norm": "per_layer_proj_norm", "tok_embeddings": "token_embd",
    "word_embeddings_layernorm": "token_embd_norm",
}  # fmt: skip

_INSIDE: dict[str, tuple[str, ...]] = {
    "self_attn.q_proj": ("attn_q",), "self_attn.k_proj": ("attn_k",), "self_attn.v_proj": ("attn_v",),
    "self_attn.o_proj": ("attn_output",), "self_attn.dense": ("attn_output",), "self_attn.c_proj": ("attn_output",),
    "self_attn.qkv_proj": ("attn_qkv",), "self_attn.c_attn": ("attn_qkv",), "self_attn.query_key_value": ("attn_qkv",),
    "self_attn.q_norm": ("attn_q_norm",), "self_attn.k_norm": ("attn_k_norm",),
    "self_attn.q_a_proj": ("attn_q_a",), "self_attn.q_a_layernorm": ("attn_q_a_norm",),
    "self_attn.q_b_proj": ("attn_q_b",), "self_attn.kv_a_proj_with_mqa": ("attn_kv_a_mqa",),
    "self_attn.kv_a_layernorm": ("attn_kv_a_norm",), "self_attn.kv_b_proj": ("attn_kv_b",),
    "linear_attn.in_proj_qkvz": ("attn_qkv", "attn_gate"), "linear_attn.in_proj_ba": ("ssm_beta", "ssm_alpha"),
    "linear_attn.in_proj_qkv": ("attn_qkv",), "linear_attn.in_proj_z": ("attn_gate",),
    "linear_attn.in_proj_a": ("ssm_alpha",), "linear_attn.in_proj_b": ("ssm_beta",),
    "linear_attn.conv1d": ("ssm_conv1d",), "linear_attn.norm": ("ssm_norm",), "linear_attn.out_proj": ("ssm_out",),
    "mlp.gate_proj": ("ffn_gate",), "mlp.up_proj": ("ffn_up",), "mlp.down_proj": ("ffn_down",),
    "mlp.gate_up_proj": ("ffn_up",), "mlp.c_fc": ("ffn_up",), "mlp.c_proj": ("ffn_down",),
    "mlp.dense_h_to_4h": ("ffn_up",), "mlp.dense_4h_to_h": ("ffn_down",),
    "mlp.fc1": ("ffn_up",), "mlp.fc2": ("ffn_down",), "mlp.c_fc_0": ("ffn_gate",), "mlp.c_fc_1": ("ffn_up",),
    "self_attn.wqkv": ("attn_qkv",), "self_attn.wo": ("attn_output",), "self_attn.out_proj": ("attn_output",),
    "mlp.w1": ("ffn_gate",), "mlp.w3": ("ffn_up",), "mlp.w2": ("ffn_down",),
    "mlp.gate": ("ffn_gate_inp",), "mlp.router": ("ffn_gate_inp",),
    "mlp.experts.gate_up_proj": ("ffn_gate_exps", "ffn_up_exps"),
    "mlp.experts.gate_proj": ("ffn_gate_exps",), "mlp.experts.up_proj": ("ffn_up_exps",),
    "mlp.experts.down_proj": ("ffn_down_exps",), "mlp.experts.w1": ("ffn_gate_exps",),
    "mlp.experts.w3": ("ffn_up_exps",), "mlp.experts.w2": ("ffn_down_exps",),
    "mlp.shared_expert.gate_proj": ("ffn_gate_shexp",), "mlp.shared_expert.up_proj": ("ffn_up_shexp",),
    "mlp.shared_expert.down_proj": ("ffn_down_shexp",), "mlp.shared_expert_gate": ("ffn_gate_inp_shexp",),
    "input_layernorm": ("attn_norm",), "ln_1": ("attn_norm",), "ln_mlp": ("attn_norm",), "ln_attn": ("attn_norm_2",),
    "post_attention_layernorm": ("ffn_norm",), "ln_2": ("ffn_norm",), "pre_feedforward_layernorm": ("ffn_norm",),
    "post_feedforward_layernorm": ("post_ffw_norm",), "attention_norm": ("attn_norm",), "ffn_norm": ("ffn_norm",),
    "post_feedforward_layernorm_1": ("post_ffw_norm_1",), "post_feedforward_layernorm_2": ("post_ffw_norm_2",),
    "pre_feedforward_layernorm_2": ("pre_ffw_norm_2",), "per_layer_input_gate": ("inp_gate",),
    "per_layer_projection": ("proj",), "post_per_layer_input_norm": ("post_norm",),
    "mlp.router.proj": ("ffn_gate_inp",),
    "post_self_attn_layernorm": ("post_attention_norm",), "post_mlp_layernorm": ("post_ffw_norm",),
}  # fmt: skip
"""Module of a layer -> roles of its weights; several where one module holds them side by side."""

_WHOLE = {
    "mlp.router.scale": "ffn_gate_inp.scale", "mlp.router.per_expert_scale": "ffn_down_exps.scale",
    "layer_scalar": "layer_output_scale.weight", "self_attn.sinks": "attn_sinks",
    "linear_attn.A_log": "ssm_a", "linear_attn.dt_bias": "ssm_dt.bias",
} | dict.fromkeys(
    (
        "mlp.gate.e_score_correction_bias", "mlp.e_score_correction_bias", "mlp.moe_statics.e_score_correction_bias",
        "mlp.gate.moe_statics.e_score_correction_bias",
    ),
    "exp_probs_b.bias",
)  # fmt: skip
"""Tensor of a layer that is not of a module -> its name in a layer of a GGUF file."""

# Families whose post_attention_layernorm is not that before the feed-forward layer
_BEHIND_ATTENTION = ("gemma2", "gemma3", "gemma3_text", "gemma4_text", "olmo2", "olmo3", "exaone4")

_PREFIX = re.compile(r"(?:(?:model|language_model|transformer|gpt_neox)\.)*")
_LAYER = re.compile(r"(?:layers|h)\.(\d{1,4})\.(.+)")
_RENAMED = (
    (re.compile(r"^(?:attn\.attention|attn|attention|self_attention)\."), "self_attn."),
    (re.compile(r"^(?:block_sparse_moe|feed_forward)\."), "mlp."),
    (re.compile(r"^(?=router\.|experts\.)"), "mlp."),
    (re.compile(r"^mlp\.(?:experts|switch_mlp)\.(?:\d{1,4}\.)?"), "mlp.experts."),
    (re.compile(r"^mlp\.shared_experts\."), "mlp.shared_expert."),
    (re.compile(r"^self_attn\.([qk])_layernorm\.norms\.\d{1,4}\."), r"self_attn.\1_norm."),
)
_FUSED = re.compile(r"(mlp\.experts\.\w+?_proj)(?:_(bias|blocks|scales))?")
_PARTS = ("weight", "bias", "qweight", "qzeros", "scales", "biases", "g_idx", "SCB")


class Target(NamedTuple):
    """The weights that a tensor is part of."""

    module: str  # the module of the tensor, for messages
    weights: tuple[str, ...]  # their names in a GGUF file
    part: str  # ``weight`` or ``bias`` for a plain tensor, else the part of a packed weight


def target(tensor: str, family: str) -> Target | None:
    """The weights that a tensor of a file is part of; None for one that no language model has.

    Args:
        tensor: name in the file.
        family: ``model_type`` of the configuration.

    >>> target("model.layers.3.mlp.experts.7.down_proj.weight", "qwen3_moe").weights
    ('blk.3.ffn_down_exps.weight',)
    >>> target("model.layers.3.self_attn.q_proj.qzeros", "llama").part
    'qzeros'
    """
    name = tensor[_PREFIX.match(tensor).end() :]  # type: ignore[union-attr]
    layer = _LAYER.fullmatch(name)
    if layer is None:
        module, part = _split(name)
        role = _OUTSIDE.get(module)
        return Target(tensor, (f"{role}.{_kind(part)}",), part) if role and part else None
    at, name = f"blk.{int(layer[1])}.", layer[2]
    for pattern, new in _RENAMED:
        name = pattern.sub(new, name)
    if name in _WHOLE:
        return Target(tensor, (at + _WHOLE[name],), "weight")
    fused = _FUSED.fullmatch(name)
    module, part = (fused[1], fused[2] or "weight") if fused else _split(name)
    roles = _INSIDE.get(module, ())
    if module == "post_attention_layernorm" and family in _BEHIND_ATTENTION:
        roles = ("post_attention_norm",)
    if not roles or not part:
        return None
    stem = tensor[: len(tensor) - len(part) - 1] if part != "weight" or not fused else tensor
    return Target(stem, tuple(f"{at}{role}.{_kind(part)}" for role in roles), part)


@cache
def _holders() -> dict[str, tuple[str, ...]]:
    """Role -> modules that may hold a weight of it, in the spellings of files."""
    found: dict[str, list[str]] = {}
    for module, roles in (*((name, (role,)) for name, role in _OUTSIDE.items()), *_INSIDE.items()):
        for role in roles:
            found.setdefault(role, []).append(module)
    spelled = {"mlp.experts.": "mlp.experts.0.", "mlp.shared_expert.": "mlp.shared_experts."}
    for modules in found.values():
        modules += [name.replace(old, new) for name in modules for old, new in spelled.items() if old in name]
        modules += [f"block_sparse_moe.{name[4:]}" for name in modules if name.startswith("mlp.")]
    return {role: tuple(modules) for role, modules in found.items()}


def modules_of(weight: str) -> tuple[str, ...]:
    """Modules that may hold a weight of a GGUF name, without the prefixes of models.

    >>> modules_of("blk.3.ffn_gate_inp.weight")[:2]
    ('layers.3.mlp.gate', 'layers.3.mlp.router')
    """
    words = weight.split(".")
    at, role = (f"layers.{words[1]}.", words[2]) if words[0] == "blk" else ("", words[0])
    return tuple(at + name for name in _holders().get(role, ()))


def _kind(part: str) -> str:
    return "bias" if part == "bias" else "weight"


def _split(name: str) -> tuple[str, str]:
    """Module and part of a name; the part is empty if there is none."""
    words = name.split(".")
    for k, word in enumerate(words):
        if k and (word in _PARTS or word.startswith("weight_")):
            return ".".join(words[:k]), ".".join(words[k:])
    return name, ""
