"""Small models that transformers itself saves: every parameter is found under its name, with its shape."""

from pathlib import Path
from typing import Any

import pytest
import torch

from hetgym import load_graph
from hetgym.graph.model_names import load_language_model

transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers and its configurations

SIZES = {
    "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 96, "intermediate_size": 128,
    "num_key_value_heads": 2,
}  # fmt: skip
HEADS = SIZES | {"head_dim": 32}
MIXED = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
LATENT = SIZES | {
    "num_key_value_heads": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "first_k_dense_replace": 1,
}  # fmt: skip
LINEAR = HEADS | {
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
}  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "Llama": SIZES, "Mistral": SIZES, "Qwen2": SIZES, "Qwen3": HEADS | {"tie_word_embeddings": True},
    "Mixtral": SIZES | {"num_local_experts": 4}, "Qwen3Moe": HEADS | MIXED,
    "Qwen2Moe": SIZES | MIXED | {"shared_expert_intermediate_size": 32, "decoder_sparse_step": 2},
    "Phi3": SIZES | {"pad_token_id": 0}, "Gemma2": HEADS, "Gemma3Text": HEADS,
    "GptOss": HEADS | {"num_local_experts": 4, "num_experts_per_tok": 2},
    "DeepseekV2": LATENT | {"q_lora_rank": None},
    "DeepseekV3": LATENT | {"q_lora_rank": 32, "n_group": 1, "topk_group": 1},
    "Falcon": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 96},
    "GPT2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 96, "n_positions": 64},
    "GPTNeoX": {key: value for key, value in SIZES.items() if key != "num_key_value_heads"},
    "Qwen3Next": LINEAR | MIXED | {"shared_expert_intermediate_size": 32}, "Qwen3_5Text": LINEAR,
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_saved_parameter_is_found(name: str, tmp_path: Path) -> None:
    config = getattr(transformers, f"{name}Config", None)
    if config is None:
        pytest.skip(f"this version of transformers has no {name}")
    net = transformers.AutoModelForCausalLM.from_config(config(**CASES[name])).to(torch.float16)
    net.save_pretrained(tmp_path)
    found = load_language_model(tmp_path)
    corrections = sum(b.numel() for key, b in net.named_buffers() if key.endswith("e_score_correction_bias"))
    assert found.parameters == sum(p.numel() for p in net.parameters()) + corrections
    assert {w.dtype for w in found.weights} <= {"float16", "float32"}
    graph = load_graph(tmp_path, phase="decode", sequence=64)
    assert graph.model_bytes == pytest.approx(
        found.bytes + found.cache_bytes(64, "bfloat16", "bfloat16", 1, 1, unified=False)
    )
