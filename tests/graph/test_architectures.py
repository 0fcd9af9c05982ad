"""Architectures against the modules of transformers: each weight has the size of the tensors that make it up."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from hetgym.graph.architectures import ARCHITECTURES
from hetgym.graph.from_config import from_config
from hetgym.graph.hugging_face_names import target
from tests.graph.models import LATENT, config

transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers and its configurations

_MOE = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
_LINEAR = {
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
}  # fmt: skip
_LOCAL = {"num_local_experts": 4, "num_experts_per_tok": 2}
_ROUTED = {"n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "head_dim": 16, **_MOE}
_LATENT = _ROUTED | LATENT | {"q_lora_rank": 32, "num_key_value_heads": 4, "head_dim": 64}
_QWEN_MOE = {"num_experts": 4, "decoder_sparse_step": 1, **_MOE}
_ERNIE = {
    "moe_num_experts": 4, "moe_k": 2, "moe_num_shared_experts": 2, "moe_intermediate_size": 32,
    "moe_layer_start_index": 1, "moe_layer_interval": 1,
}  # fmt: skip

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"attention_bias": True, "mlp_bias": True}, "granite": {}, "smollm3": {"pad_token_id": 0},
    "seed_oss": {"attention_bias": True, "attention_out_bias": False, "head_dim": 16},
    "ernie4_5": {"use_bias": False, "head_dim": 16}, "mistral": {}, "ministral3": {"head_dim": 16},
    "mixtral": _LOCAL, "granitemoe": _LOCAL, "phimoe": {"attention_bias": True, "lm_head_bias": True, **_LOCAL},
    "minimax_m2": {"head_dim": 16, **_LOCAL}, "ernie4_5_moe": _ERNIE,
    "qwen2": {}, "qwen2_moe": {"shared_expert_intermediate_size": 48, **_QWEN_MOE}, "qwen3": {"head_dim": 16},
    "qwen3_moe": {"head_dim": 16, **_QWEN_MOE},
    "qwen3_next": {"head_dim": 16, "shared_expert_intermediate_size": 48, **_QWEN_MOE, **_LINEAR},
    "gemma": {"head_dim": 16}, "gemma2": {"head_dim": 16, "sliding_window": 64},
    "gemma3_text": {"head_dim": 16, "sliding_window": 64}, "phi": {"num_key_value_heads": 4},
    "gemma4_text": {
        "head_dim": 16, "global_head_dim": 32, "num_global_key_value_heads": 1, "sliding_window": 64,
        "attention_k_eq_v": True, "num_kv_shared_layers": 2, "use_double_wide_mlp": True, "enable_moe_block": True,
        "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32, "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": 128, "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
    "phi3": {"pad_token_id": 0}, "gpt_oss": {"head_dim": 16, "sliding_window": 64, **_LOCAL},
    "llama4_text": {
        "head_dim": 16, "attention_chunk_size": 64, "intermediate_size_mlp": 80, "interleave_moe_layer_step": 2,
        **_LOCAL,
    },
    "deepseek_v2": _LATENT, "deepseek_v3": _LATENT,
    "glm": {"head_dim": 16, "attention_bias": True, "pad_token_id": 0},
    "glm4": {"head_dim": 16, "attention_bias": True, "pad_token_id": 0},
    "glm4_moe": {"use_qk_norm": True, "attention_bias": True, **_ROUTED},
    "dots1": _ROUTED, "cohere": {"use_qk_norm": True}, "cohere2": {"head_dim": 16, "sliding_window": 64},
    "olmo2": {}, "olmo3": {"sliding_window": 64}, "olmoe": {"num_experts": 4, "num_experts_per_tok": 2},
    "exaone4": {"sliding_window": 64},
    "stablelm": {"use_qkv_bias": True, "qk_layernorm": True, "use_parallel_residual": True},
    "starcoder2": {"use_bias": True}, "nemotron": {"head_dim": 16},
    "falcon": {"new_decoder_architecture": True, "num_kv_heads": 2, "bias": False, "ffn_hidden_size": 96},
    "gpt2": {}, "gpt_bigcode": {}, "gpt_neox": {"num_key_value_heads": 4},
    "bloom": {"num_key_value_heads": 4, "intermediate_size": 256, "n_layer": 4, "n_head": 4},
}  # fmt: skip
"""``model_type`` -> keys beside the usual ones, such that each flag of the family is on in some case."""


def case(family: str) -> dict[str, Any]:
    found = config(family, 64, 4, 4, 128, 96, 2, max_position_embeddings=256, tie_word_embeddings=False)
    if family in ("gpt2", "gpt_bigcode"):
        found = {"model_type": family, "n_embd": 64, "n_layer": 4, "n_head": 4, "vocab_size": 128, "n_positions": 256}
        found["tie_word_embeddings"] = False
    return found | FAMILIES[family]


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_are_those_of_the_module(family: str) -> None:
    document = case(family)
    numbers = {key: value for key, value in document.items() if key != "model_type"}
    made = transformers.AutoConfig.for_model(family, **numbers)
    with torch.device("meta"):
        module = transformers.AutoModelForCausalLM.from_config(made)
    held: Counter[tuple[str, ...]] = Counter()
    unknown = []
    for name, tensor in module.state_dict().items():
        found = target(name, family)
        if found is None:
            unknown.append(name)
        else:
            held[found.weights] += tensor.numel()
    ours = {weight.name: weight.size for weight in from_config(document).weights}
    assert not unknown
    assert dict(held) == {names: sum(ours.get(name, 0) for name in names) for names in held}
    assert {name for names in held for name in names} == ours.keys()


def test_every_family_is_compared() -> None:
    same = {"kimi_k2", "gemma3", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"}
    same |= {name for name in ARCHITECTURES if name.startswith(("qwen2_vl", "qwen2_5_vl", "qwen3_vl"))}
    own = {"internlm2", "exaone"}  # whose code lies in their repositories
    assert FAMILIES.keys() == ARCHITECTURES.keys() - same - own
