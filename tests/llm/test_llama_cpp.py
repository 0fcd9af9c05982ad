"""llama.cpp itself, where its package for Python is installed: bytes of models and caches, and flags that place.

Files with holes instead of weights are mapped, so that models of any size load. The package is built from source
(``pip install llama-cpp-python``), which takes some minutes; these tests skip without it.
"""

import ctypes
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetgym.graph.from_config import from_config
from hetgym.graph.from_gguf import from_gguf
from hetgym.graph.language_model import LanguageModel, cache_formats
from hetgym.graph.mixes import mixed
from hetgym.llm import plan_llm
from hetgym.llm.llama_arguments import read_arguments
from tests.graph.gguf_files import write_model
from tests.graph.models import CONFIGS

llama = pytest.importorskip("llama_cpp")

USUAL = {"context_length": 131_072, "attention.layer_norm_rms_epsilon": 1e-6}
TYPES = {"f16": 1, "q4_0": 2, "q8_0": 8}  # format of a cache -> number of ggml


@pytest.fixture
def log() -> Iterator[list[str]]:
    """What llama.cpp says."""
    lines: list[str] = []

    @llama.llama_log_callback
    def note(level: int, text: bytes, data: Any) -> None:
        lines.append(text.decode(errors="replace"))

    llama.llama_log_set(note, ctypes.c_void_p(0))
    llama.llama_backend_init()
    yield lines
    llama.llama_log_set(ctypes.cast(None, type(note)), ctypes.c_void_p(0))


def _load(path: Path, change: Callable[[Any], None] = lambda how: None) -> Any:
    how = llama.llama_model_default_params()
    how.use_mmap, how.use_extra_bufts = True, False
    change(how)
    return llama.llama_model_load_from_file(str(path).encode(), how)


def _context(model: Any, tokens: int, cache: str, step: int = 512) -> Any:
    how = llama.llama_context_default_params()
    how.n_ctx, how.n_ubatch, how.type_k, how.type_v = tokens, step, TYPES[cache], TYPES[cache]
    how.flash_attn_type, how.kv_unified, how.swa_full = 1, True, False
    return llama.llama_init_from_model(model, how)


@pytest.mark.parametrize(
    ("name", "family", "more"),
    [
        ("llama-3.1-8b", "llama", {"feed_forward_length": 14_336}),
        ("qwen3-0.6b", "qwen3", {"feed_forward_length": 3072}),
        ("mixtral-8x7b", "llama", {"feed_forward_length": 14_336, "expert_count": 8}),
        ("gemma-2-9b", "gemma2", {"feed_forward_length": 14_336, "attention.sliding_window": 4096}),
        ("gemma-3-27b", "gemma3", {"feed_forward_length": 21_504, "attention.sliding_window": 1024}),
        (
            "qwen3-30b-a3b",
            "qwen3moe",
            {"feed_forward_length": 6144, "expert_count": 128, "expert_feed_forward_length": 768},
        ),
    ],
)
@pytest.mark.parametrize("cache", TYPES)
def test_bytes_are_those_of_llama_cpp(
    name: str, family: str, more: dict[str, Any], cache: str, tmp_path: Path, log: list[str]
) -> None:
    model = mixed(from_config(CONFIGS[name]), "Q4_K_M")
    write_model(tmp_path / "model.gguf", model, family, vocab_size=model.vocabulary, **USUAL, **more)
    loaded = _load(tmp_path / "model.gguf")
    assert loaded, [line for line in log if "error" in line]
    assert llama.llama_model_n_params(loaded) == sum(weight.size for weight in model.weights)
    assert llama.llama_model_size(loaded) == model.bytes == from_gguf(tmp_path / "model.gguf").bytes
    context = _context(loaded, 5000, cache)
    reported = sum(float(x) for x in re.findall(r"KV buffer size = +([\d.]+) MiB", "".join(log)))
    key, value = cache_formats(cache)
    assert reported == pytest.approx(model.cache_bytes(5000, key, value) / 2**20, abs=0.02)
    llama.llama_free(context)
    llama.llama_model_free(loaded)


def _small(path: Path, layers: int) -> LanguageModel:
    """Write a mixture of some MB with the gguf package."""
    gguf = pytest.importorskip("gguf")
    model = from_config(
        {
            "model_type": "mixtral", "hidden_size": 128, "num_hidden_layers": layers, "num_attention_heads": 4,
            "num_key_value_heads": 2, "intermediate_size": 32, "num_local_experts": 4, "num_experts_per_tok": 2,
            "vocab_size": 512, "max_position_embeddings": 4096,
        }
    )  # fmt: skip
    out, rng = gguf.GGUFWriter(path, "llama"), np.random.default_rng(0)
    out.add_block_count(layers)
    out.add_context_length(4096)
    out.add_embedding_length(128)
    out.add_feed_forward_length(32)
    out.add_head_count(4)
    out.add_head_count_kv(2)
    out.add_expert_count(4)
    out.add_expert_used_count(2)
    out.add_vocab_size(512)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_tokenizer_model("no_vocab")
    for weight in model.weights:
        dtype = np.float32 if len(weight.shape) < 2 or weight.role == "ffn_gate_inp" else np.float16
        out.add_tensor(weight.name, rng.normal(0, 0.05, weight.shape).astype(dtype))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return from_gguf(path)


class _Override(ctypes.Structure):
    _fields_ = (("pattern", ctypes.c_char_p), ("buffer", ctypes.c_void_p))


@pytest.mark.parametrize("model", ["mixtral-8x7b", "qwen3-30b-a3b"])
def test_flags_place_what_the_plan_says(model: str, tmp_path: Path, log: list[str]) -> None:
    """A plan's pattern moves the experts that it names and no others, in a small model with as many layers."""
    plan = plan_llm(model, "RTX 3060, 64GB", quant="Q4_K_M")
    small = _small(tmp_path / "model.gguf", sum(end - first for _, first, end in plan.stages))
    asked = read_arguments(plan.flags)
    patterns = [pattern for pattern, _ in asked.overrides]
    patterns += [rf"blk\.{i}\.ffn_(up|down|gate|gate_up)_(ch|)exps" for i in range(asked.moe)]  # --n-cpu-moe
    folder = Path(llama.__file__).parent / "lib"
    find = ctypes.CDLL(str(folder / "libggml-base.so")).ggml_backend_cpu_buffer_type
    find.restype = ctypes.c_void_p
    rules = (_Override * (len(patterns) + 1))(*((pattern.encode(), find()) for pattern in patterns), (None, None))

    def change(how: Any) -> None:
        how.n_gpu_layers = asked.offloaded
        how.tensor_buft_overrides = ctypes.cast(rules, ctypes.c_void_p)

    loaded = _load(tmp_path / "model.gguf", change)
    moved = set(re.findall(r"tensor (\S+) .* buffer type overridden to CPU", "".join(log)))
    experts = {device.name: device.experts for device in plan.devices}
    assert len(moved) == 3 * experts["cpu"] > 0
    assert all("_exps" in name for name in moved)
    context = _context(loaded, 1024, "f16")
    token = (ctypes.c_int32 * 1)(7)
    assert llama.llama_decode(context, llama.llama_batch_get_one(token, 1)) == 0
    scores = np.ctypeslib.as_array(llama.llama_get_logits(context), (small.vocabulary,))
    assert np.isfinite(scores).all() and scores.std() > 0
    llama.llama_free(context)
    llama.llama_model_free(loaded)
