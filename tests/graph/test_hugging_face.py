"""Modules of transformers: key-value caches, and the same products and weights as generated language models."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from hetgym.errors import GraphError
from hetgym.graph import DataflowGraph, from_torch, layer_of, zoo
from hetgym.graph.generators import language_model
from hetgym.graph.transforms import training

transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers and its configurations

SCRIPT = Path(__file__).parents[2] / "studies" / "language_models" / "language_models.py"
SMALL = {"layers": 2, "hidden": 64, "heads": 8, "intermediate": 96, "vocabulary": 100}
CASES: dict[str, dict[str, Any]] = {
    "llama": {"family": "llama", "kv_heads": 2, **SMALL},
    "mixtral": {"family": "llama", "kv_heads": 2, "experts": 4, **SMALL},
    "gpt": {"family": "gpt", "positions": 40, **SMALL},
    "t5": {"family": "t5", "head_size": 16, **SMALL},
}


@cache
def script() -> ModuleType:
    """The benchmark, which makes modules and their arguments."""
    spec = importlib.util.spec_from_file_location("benchmark_language_models", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    sys.path.insert(0, str(SCRIPT.parent))
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


@cache
def small(case: str, phase: str) -> tuple[DataflowGraph, int]:
    """A small case at batch 3, with 20 tokens."""
    return script().imported(CASES[case], 3, 20, phase)


FAST = {("llama", "forward"), ("mixtral", "decode"), ("gpt", "prefill"), ("t5", "decode")}


@pytest.mark.parametrize(
    ("case", "phase"),
    [
        pytest.param(case, phase, marks=[] if (case, phase) in FAST else pytest.mark.slow)
        for case in CASES
        for phase in ("forward", "prefill", "decode")
    ],
)
def test_generated_graphs_have_the_products_and_weights_of_the_module(case: str, phase: str) -> None:
    sizes = CASES[case]
    graph, held = small(case, phase)
    ours = language_model(**sizes, batch=3, sequence=20, phase=phase)
    assert script().flops(ours) == script().flops(graph)
    if (case, phase) != ("t5", "decode"):  # which has no encoder
        assert script().parameters(ours) == held


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
        model = script().module(sizes).to(torch.bfloat16)
        held = transformers.DynamicCache(config=transformers.MistralConfig(sliding_window=8, num_hidden_layers=2))
        state = torch.zeros(3, 2, 19, 8, dtype=torch.bfloat16)
        for layer in range(2):
            held.update(state, state, layer)
        words = torch.zeros(3, 1, dtype=torch.long)
        with pytest.raises(GraphError, match="expected DynamicLayer, without a window") as caught:
            from_torch(model, (), {"input_ids": words, "past_key_values": held})
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama-7b", "mixtral-8x7b", "t5-3b"])
def test_published_sizes_on_the_meta_device(name: str) -> None:
    sizes = dict(zoo.LANGUAGE_MODELS[name].sizes)
    graph, held = script().imported(sizes, 1, 128, "forward")
    ours = zoo.load(name, sequence=128)
    assert script().flops(ours) == script().flops(graph) and script().parameters(ours) == held
