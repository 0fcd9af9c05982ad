"""Configurations of published models, as their ``config.json`` states them."""

from typing import Any

LINEAR = {
    "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
}  # fmt: skip
LATENT = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}


def config(
    family: str,
    hidden: int,
    layers: int,
    heads: int,
    words: int,
    wide: int = 0,
    kv: int = 0,
    size: int = 0,
    **more: Any,
) -> dict[str, Any]:
    """A configuration; sizes of 0 are left out."""
    found: dict[str, Any] = {"model_type": family, "max_position_embeddings": 131072}
    found |= {"hidden_size": hidden, "num_hidden_layers": layers, "vocab_size": words}
    rest = {"num_attention_heads": heads, "intermediate_size": wide, "num_key_value_heads": kv, "head_dim": size}
    return found | {key: value for key, value in rest.items() if value} | more


def mixture(experts: int, top: int, wide: int = 0, **more: Any) -> dict[str, Any]:
    """Keys of a mixture of the Qwen family."""
    return {"num_experts": experts, "num_experts_per_tok": top, "moe_intermediate_size": wide, **more}


_GEMMA = {"sliding_window": 4096}
_OSS = {"num_experts_per_tok": 4, "sliding_window": 128}
_NEXT = {"shared_expert_intermediate_size": 512, "linear_num_value_heads": 32, **LINEAR}

CONFIGS: dict[str, dict[str, Any]] = {
    "llama-3.1-8b": config("llama", 4096, 32, 32, 128256, 14336, 8),
    "mistral-7b": config("mistral", 4096, 32, 32, 32000, 14336, 8, sliding_window=None),
    "qwen2.5-7b": config("qwen2", 3584, 28, 28, 152064, 18944, 4),
    "qwen2.5-32b": config("qwen2", 5120, 64, 40, 152064, 27648, 8),
    "qwen2.5-0.5b": config("qwen2", 896, 24, 14, 151936, 4864, 2, tie_word_embeddings=True),
    "qwen3-8b": config("qwen3", 4096, 36, 32, 151936, 12288, 8, 128),
    "qwen3-0.6b": config("qwen3", 1024, 28, 16, 151936, 3072, 8, 128, tie_word_embeddings=True),
    "phi-3-mini": config("phi3", 3072, 32, 32, 32064, 8192, 32, sliding_window=2047),
    "gemma-2-9b": config("gemma2", 3584, 42, 16, 256000, 14336, 8, 256, **_GEMMA),
    "gemma-3-27b": {
        "model_type": "gemma3", "vision_config": {"hidden_size": 1152},
        "text_config": config("gemma3_text", 5376, 62, 32, 262208, 21504, 16, 128, sliding_window=1024),
    },
    "gemma-3-4b": {  # as published: heads, words and positions are the defaults of the class
        "model_type": "gemma3", "vision_config": {"hidden_size": 1152},
        "text_config": {
            "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
            "sliding_window": 1024,
        },
    },
    "mixtral-8x7b": config("mixtral", 4096, 32, 32, 32000, 14336, 8, num_local_experts=8, num_experts_per_tok=2),
    "qwen1.5-moe": config(
        "qwen2_moe", 2048, 24, 16, 151936, 5632, 16, **mixture(60, 4, 1408, shared_expert_intermediate_size=5632)
    ),
    "qwen3-30b-a3b": config("qwen3_moe", 2048, 48, 32, 151936, 6144, 4, 128, **mixture(128, 8, 768)),
    "qwen3-next-80b": config("qwen3_next", 2048, 48, 16, 151936, 5120, 2, 256, **mixture(512, 10, 512, **_NEXT)),
    "qwen3.5-27b": config("qwen3_5", 5120, 64, 24, 248320, 17408, 4, 256, linear_num_value_heads=48, **LINEAR),
    "qwen3.5-9b": config("qwen3_5", 4096, 32, 16, 248320, 12288, 4, 256, linear_num_value_heads=32, **LINEAR),
    "gpt-oss-20b": config("gpt_oss", 2880, 24, 64, 201088, 2880, 8, 64, num_local_experts=32, **_OSS),
    "gpt-oss-120b": config("gpt_oss", 2880, 36, 64, 201088, 2880, 8, 64, num_local_experts=128, **_OSS),
    "deepseek-v2-lite": config(
        "deepseek_v2", 2048, 27, 16, 102400, 10944, 16, n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6,
        moe_intermediate_size=1408, first_k_dense_replace=1, q_lora_rank=None, **LATENT,
    ),
    "deepseek-v3": config(
        "deepseek_v3", 7168, 61, 128, 129280, 18432, 128, n_routed_experts=256, n_shared_experts=1,
        num_experts_per_tok=8, moe_intermediate_size=2048, first_k_dense_replace=3, q_lora_rank=1536, **LATENT,
    ),
    "falcon-7b": config("falcon", 4544, 32, 71, 65024, multi_query=True, max_position_embeddings=None),
    "gpt2": {
        "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "n_positions": 1024,
    },
    "neox-20b": config("gpt_neox", 6144, 44, 64, 50432, 24576),
}  # fmt: skip
