"""Modules of transformers: key-value caches, and the same products and weights as generated language models."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest
import torch

from hetgym.errors import GraphError
from hetgym.graph import DataflowGraph, from_torch, layer_of, zoo
from hetgym.graph.generators import language_model
from hetgym.graph.transforms import training
from hetgym.graph.transforms.training import weights_of

transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers and its configurations

SMALL = {"layers": 2, "hidden": 64, "heads": 8, "intermediate": 96, "vocabulary": 100}
CASES: dict[str, dict[str, Any]] = {
    "llama": {"family": "llama", "kv_heads": 2, **SMALL},
    "mixtral": {"family": "llama", "kv_heads": 2, "experts": 4, **SMALL},
    "gpt": {"family": "gpt", "positions": 40, **SMALL},
    "t5": {"family": "t5", "head_size": 16, **SMALL},
}


def module(sizes: dict[str, Any]) -> torch.nn.Module:
    """The module of transformers that has these sizes."""
    tf, layers, hidden, heads = transformers, sizes["layers"], sizes["hidden"], sizes["heads"]
    if sizes["family"] == "gpt":
        config = tf.GPT2Config(
            n_embd=hidden,
            n_layer=layers,
            n_head=heads,
            n_inner=sizes.get("intermediate"),
            vocab_size=sizes["vocabulary"],
            n_positions=sizes["positions"],
        )
        return tf.GPT2LMHeadModel(config)
    if sizes["family"] == "t5":
        config = tf.T5Config(
            d_model=hidden,
            d_kv=sizes["head_size"],
            d_ff=sizes["intermediate"],
            num_layers=layers,
            num_heads=heads,
            vocab_size=sizes["vocabulary"],
        )
        return tf.T5ForConditionalGeneration(config)
    common = {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": sizes.get("kv_heads", heads),
        "intermediate_size": sizes["intermediate"],
        "vocab_size": sizes.get("vocabulary", 32000),
    }
    if sizes.get("experts"):
        return tf.MixtralForCausalLM(tf.MixtralConfig(num_local_experts=sizes["experts"], **common))
    return tf.LlamaForCausalLM(tf.LlamaConfig(**common))


def filled(sizes: dict[str, Any], batch: int, length: int) -> Any:
    made = transformers.DynamicCache()
    size = sizes.get("head_size", sizes["hidden"] // sizes["heads"])
    for layer in range(sizes["layers"]):
        held = torch.zeros(batch, sizes.get("kv_heads", sizes["heads"]), length, size, dtype=torch.bfloat16)
        made.update(held, held, layer)
    return made


def arguments(sizes: dict[str, Any], batch: int, sequence: int, phase: str) -> dict[str, Any]:
    """Keyword arguments of the module that make it do what a phase means."""
    tokens = 1 if phase == "decode" else sequence
    found: dict[str, Any] = {"use_cache": phase != "forward"}
    words = torch.zeros(batch, tokens, dtype=torch.long)
    if sizes["family"] != "t5":
        past = {"past_key_values": filled(sizes, batch, sequence - 1)} if phase == "decode" else {}
        return found | past | {"input_ids": words} | ({"logits_to_keep": 1} if phase == "prefill" else {})
    found["decoder_input_ids"] = words if phase == "forward" else words[:, :1]
    if phase != "decode":
        return found | {"input_ids": words}
    encoded = (torch.zeros(batch, sequence, sizes["hidden"], dtype=torch.bfloat16),)
    caches = transformers.EncoderDecoderCache(filled(sizes, batch, sequence - 1), filled(sizes, batch, sequence))
    return found | {"encoder_outputs": encoded, "past_key_values": caches}


@cache
def small(case: str, phase: str) -> tuple[DataflowGraph, int]:
    """A small case at batch 3, with 20 tokens."""
    return imported(CASES[case], 3, 20, phase)


def imported(sizes: dict[str, Any], batch: int, sequence: int, phase: str) -> tuple[DataflowGraph, int]:
    """The imported graph, and the parameters of the module."""
    with torch.device("meta"):
        model = module(sizes).to(torch.bfloat16)
        graph = from_torch(model, (), arguments(sizes, batch, sequence, phase))
    return graph, sum(p.numel() for p in model.parameters())


def flops(graph: DataflowGraph) -> Counter[str]:
    found: Counter[str] = Counter()
    for op in graph.operators:
        if op.spec.family == "matmul":
            found["Attention" if op.kind == "Attention" else "products"] += int(op.flops)
    return found


def parameters(graph: DataflowGraph) -> int:
    return sum(t.size for t in {t for op in graph.operators for t in weights_of(op)})


@pytest.mark.parametrize("phase", ["forward", "prefill", "decode"])
@pytest.mark.parametrize("case", CASES)
def test_generated_graphs_have_the_products_and_weights_of_the_module(case: str, phase: str) -> None:
    sizes = CASES[case]
    graph, held = small(case, phase)
    ours = language_model(**sizes, batch=3, sequence=20, phase=phase)
    assert flops(ours) == flops(graph)
    if (case, phase) != ("t5", "decode"):  # which has no encoder
        assert parameters(ours) == held


def test_caches_enter_and_leave() -> None:
    graph, _ = small("llama", "decode")
    names = [op.name for op in graph.operators]
    grown = graph.operators[names.index("model.layers.1.self_attn.cat_3")]
    assert grown.kind == "Concat" and [t.shape for t in grown.inputs] == [(3, 2, 19, 8), (3, 2, 1, 8)]
    assert not any(t.constant for t in grown.inputs)
    assert {layer_of(name) for name in names} == {"", "model.layers.0", "model.layers.1"}


def test_grouped_products_and_training() -> None:
    graph, _ = small("mixtral", "forward")
    grouped = [op for op in graph.operators if op.kind == "GroupedMatMul"]
    assert [op.flops for op in grouped] == [2 * 120 * 64 * 192, 2 * 120 * 96 * 64] * 2
    assert grouped[0].inputs[1].name == "model.layers.0.mlp.experts.gate_up_proj"
    back = {op.name: op.flops for op in training(graph).operators}
    assert all(back[f"{op.name}/backward"] == 2 * op.flops for op in grouped)


@pytest.mark.filterwarnings("ignore")
def test_other_caches_are_refused_in_one_line() -> None:
    sizes = CASES["llama"]
    with torch.device("meta"):
        model = module(sizes).to(torch.bfloat16)
        held = transformers.DynamicCache(config=transformers.MistralConfig(sliding_window=8, num_hidden_layers=2))
        state = torch.zeros(3, 2, 19, 8, dtype=torch.bfloat16)
        for layer in range(2):
            held.update(state, state, layer)
        words = torch.zeros(3, 1, dtype=torch.long)
        with pytest.raises(GraphError, match="only layers without a window are imported") as caught:
            from_torch(model, (), {"input_ids": words, "past_key_values": held})
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama-7b", "mixtral-8x7b", "t5-3b"])
def test_published_sizes_on_the_meta_device(name: str) -> None:
    sizes = dict(zoo.LANGUAGE_MODELS[name].sizes)
    graph, held = imported(sizes, 1, 128, "forward")
    ours = zoo.load(name, sequence=128)
    assert flops(ours) == flops(graph) and parameters(ours) == held
