"""Graphs of language models by their numbers: constants are what is resident, whatever the architecture."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from hetgym import DataflowGraph, GraphError, Problem, UnknownName, load_graph, load_platform
from hetgym.baselines import heft
from hetgym.graph import KINDS, Operator, from_json, layer_of, to_json
from hetgym.graph.from_config import from_config
from hetgym.graph.generators.decoder import decoder
from hetgym.graph.language_model import LanguageModel, Layer, Weight
from hetgym.graph.mixes import mixed
from hetgym.graph.transforms import training
from hetgym.planning.layers import by_layers
from tests.graph.gguf_files import write_model
from tests.graph.models import CONFIGS

TINY = {
    "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1024, "max_position_embeddings": 4096,
}  # fmt: skip
PHASES = ("forward", "prefill", "decode")


def by_name(graph: DataflowGraph) -> dict[str, Operator]:
    return {op.name: op for op in graph.operators}


@pytest.mark.parametrize(("phase", "quant"), [("forward", ""), ("prefill", "Q4_K_M"), ("decode", "Q4_K_M")])
@pytest.mark.parametrize("name", CONFIGS)
def test_constants_are_the_weights_and_the_cache(name: str, phase: str, quant: str) -> None:
    model = from_config(CONFIGS[name], name)
    model = mixed(model, quant) if quant else model
    graph = decoder(model, 3, 1024, phase, cache=("q8_0", "q4_0"))
    step = 1 if phase == "decode" else 1024
    cache = 0.0 if phase == "forward" else model.cache_bytes(1024, "q8_0", "q4_0", 3, step, unified=False)
    assert graph.model_bytes == pytest.approx(model.bytes + cache, rel=1e-12)
    assert not graph.notes and {op.kind for op in graph.operators} <= KINDS.keys()
    layers = {layer_of(op.name) for op in graph.operators}
    assert layers == {"", *(f"layers.{i}" for i in range(len(model.layers)))}


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("name", CONFIGS)
def test_operators_read_what_their_edges_carry(name: str, phase: str) -> None:
    graph = decoder(from_config(CONFIGS[name], name), 2, 64, phase, dtype="float16")
    incoming: dict[int, list[str]] = {i: [] for i in range(len(graph))}
    for edge in graph.edges:
        incoming[edge.target].append(repr(graph.operators[edge.source].outputs[edge.slot]))
    for i, op in enumerate(graph.operators):
        free = [repr(t) for t in op.inputs if not t.constant and not (t.dtype == "int64" and "embed" in op.name)]
        assert sorted(set(incoming[i])) == sorted(set(free)), op.name
    ends = {op.name for op, out in zip(graph.operators, graph.out_degree, strict=True) if not out}
    assert {name for name in ends if not name.endswith(".cache")} == {"lm_head"}


@pytest.mark.parametrize("name", CONFIGS)
def test_products_of_a_token_are_two_for_each_active_parameter(name: str) -> None:
    model = from_config(CONFIGS[name], name)
    graph = decoder(model, 1, 1024, "decode")
    active = sum(w.size for layer in model.layers for w in layer.weights if w not in layer.experts)
    active += sum(w.size * layer.top // w.shape[0] for layer in model.layers for w in layer.experts)
    active += model.scoring.size
    found = sum(op.flops for op in graph.operators if op.kind in ("Gemm", "MatMul", "GroupedMatMul"))
    assert found == pytest.approx(2 * active, rel=0.01)


def test_operators_of_a_layer_have_the_names_of_the_zoo() -> None:
    ours = decoder(from_config(TINY), 1, 64, "decode")
    zoo = load_graph("llama-7b", phase="decode", sequence=64)
    assert {op.name for op in ours.operators if layer_of(op.name) == "layers.1"} == {
        op.name for op in zoo.operators if layer_of(op.name) == "layers.1"
    }
    ops = by_name(ours)
    assert ops["layers.1.self_attn.q_proj"].inputs[1].name == "layers.1.self_attn.q_proj.weight"
    assert ops["layers.0.self_attn.sdpa"].inputs[1].name == "layers.0.self_attn.key_cache"


def test_a_tied_head_reads_the_table_of_words() -> None:
    graph = decoder(from_config(TINY | {"tie_word_embeddings": True}), 1, 64, "decode")
    assert by_name(graph)["lm_head"].inputs[1] == by_name(graph)["embed_tokens"].inputs[0]


def test_a_window_bounds_the_cache_and_the_scores() -> None:
    model = from_config(CONFIGS["gemma-3-27b"])
    step, filled = (by_name(decoder(model, 1, 8192, phase)) for phase in ("decode", "prefill"))
    cells = [step[f"layers.{i}.self_attn.sdpa"].inputs[1].shape[2] for i in (0, 5)]
    assert cells == [1024 + 256, 8192]
    local, whole = (filled[f"layers.{i}.self_attn.sdpa"].flops for i in (0, 5))
    assert whole == 8 * local


def test_latent_attention_decodes_from_one_cached_vector() -> None:
    model = from_config(CONFIGS["deepseek-v2-lite"])
    ops = by_name(decoder(model, 2, 1024, "decode"))
    sdpa = ops["layers.3.self_attn.sdpa"]
    assert [t.shape for t in sdpa.inputs] == [(2, 16, 1, 576), (2, 1, 1024, 576), (0,)]
    assert sdpa.flops == 2 * 16 * 1024 * (2 * (576 + 512) + 5)
    filled = by_name(decoder(model, 2, 1024, "prefill"))["layers.3.self_attn.sdpa"]
    assert [t.shape[-1] for t in (*filled.inputs, *filled.outputs)] == [192, 192, 128, 128]


def test_linear_attention_reads_its_state() -> None:
    model = from_config(CONFIGS["qwen3.5-9b"])
    recurrence = by_name(decoder(model, 2, 1024, "decode"))["layers.0.linear_attn.recurrence"]
    state = next(t for t in recurrence.inputs if t.name.endswith(".state"))
    assert state.shape == (2, model.layers[0].state) and state.dtype == "float32"
    assert recurrence.flops > 7 * state.size and recurrence.bytes_read > state.bytes


def test_few_tokens_read_few_experts() -> None:
    model = mixed(from_config(CONFIGS["qwen3-30b-a3b"]), "Q4_K_M")
    product = by_name(decoder(model, 1, 256, "decode"))["layers.5.mlp.experts.up_proj"]
    experts = product.inputs[1]
    assert experts.dtype == "q4_k" and experts.shape == (128, 768, 2048)
    rest = sum(t.bytes for t in product.inputs) - experts.bytes
    assert product.bytes_read == experts.bytes * 8 / 128 + rest


def test_weights_of_unknown_roles_are_read_and_noted() -> None:
    base = from_config(TINY)
    odd = (Weight("blk.0.mystery.weight", (3, 5)), Weight("blk.0.ffn_up_exps.weight", (4, 7, 9)))
    layers = (Layer((*base.layers[0].weights, *odd), 8, 2, 32, 32), base.layers[1])
    table = (*base.table, Weight("rope_freqs.weight", (16,), "float32"))
    model = LanguageModel("odd", "odd", 256, 1024, layers, table, base.head)
    graph = decoder(model, 1, 256, "decode")
    assert graph.model_bytes == model.bytes + model.cache_bytes(256)
    assert {t.name for t in by_name(graph)["layers.0.other"].inputs[1:]} == {
        "layers.0.other.mystery.weight", "layers.0.other.ffn_up_exps.weight",
    }  # fmt: skip
    assert graph.notes == ("3 weights of unknown roles, such as embed_other.rope_freqs.weight, are read whole",)


def test_layers_without_a_cache_attend_to_those_before_them() -> None:
    base = from_config(TINY)
    kept = tuple(w for w in base.layers[1].weights if w.role not in ("attn_k", "attn_v"))
    model = LanguageModel("s", "s", 256, 1024, (base.layers[0], Layer(kept, 8)), base.table, base.head)
    for phase in PHASES:
        graph = decoder(model, 2, 256, phase)
        cache = model.cache_bytes(256, sequences=2, unified=False) if phase != "forward" else 0.0
        assert graph.model_bytes == model.bytes + cache and not graph.notes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "config.json").write_text(json.dumps(TINY))
    return tmp_path / "tiny"


def test_load_graph_reads_configurations_folders_and_files(folder: Path) -> None:
    file = folder / "config.json"
    whole = load_graph(file)
    assert whole.name == "tiny" and whole == load_graph(folder) and whole.operators[0].outputs[0].shape[1] == 2048
    step = load_graph(str(file), batch=2, dims={"sequence": 512}, phase="decode", quant="Q4_K_M", cache="q8_0,f16")
    model = mixed(from_config(TINY), "Q4_K_M")
    assert step.name == "tiny-decode"
    assert step.model_bytes == model.bytes + model.cache_bytes(512, "q8_0", sequences=2, unified=False)
    write_model(folder / "t.gguf", model, "llama")
    assert load_graph(folder / "t.gguf", phase="decode", sequence=512, cache="f16").model_bytes == pytest.approx(
        model.bytes + model.cache_bytes(512)
    )


def test_names_that_the_zoo_has_are_the_zoos_unless_it_lacks_an_option() -> None:
    assert any(t.name == "rotary.cos" for op in load_graph("llama-3-8b").operators for t in op.inputs)
    quantised = load_graph("llama-3-8b", quant="Q4_0", phase="decode", sequence=256)
    assert quantised.model_bytes == pytest.approx(4.68e9, rel=0.01)
    assert load_graph("gpt2").name == "gpt2" and load_graph("gpt2", phase="decode").name == "gpt2-decode"


def test_graphs_of_configurations_are_planned_saved_and_played(folder: Path) -> None:
    graph = load_graph(folder / "config.json", phase="decode", quant="Q4_K_M")
    assert from_json(json.loads(to_json(graph))) == graph
    problem = Problem.build(graph, load_platform("cpu-gpu"))
    assert heft(problem).makespan > 0
    assert by_layers(problem).num_operators == 2 + 3
    env = gym.make("HetSchedule-v0", graph=str(folder / "config.json"), platform="cpu-gpu")
    env.reset(seed=0)


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"sequenze": 3}, GraphError, "no option 'sequenze'; did you mean 'sequence'"),
        ({"phase": "decoding"}, UnknownName, "unknown phase 'decoding'; did you mean 'decode'"),
        ({"sequence": 0}, GraphError, "sequence is 0; it must be a whole number of at least 1"),
        ({"dtype": "q4_0"}, GraphError, "dtype is 'q4_0'; it must be one of float16"),
        ({"quant": "Q4_K_X"}, UnknownName, "unknown format of weights 'Q4_K_X'; did you mean 'Q4_K_"),
        ({"quant": 4}, GraphError, "quant is 4; it must be the name of a format"),
        ({"cache": "q4_k"}, GraphError, "cache is 'q4_k'; it must be one format, or two with a comma"),
        ({"batch": 0}, GraphError, "batch must be"),
        ({"dims": {"S": 2}}, GraphError, "unknown dimension 'S'"),
    ],
)
def test_load_graph_refuses(folder: Path, options: dict[str, Any], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        load_graph(folder / "config.json", **options)


@pytest.mark.parametrize("name", ["qwen2.5-8b", "qwen3-next-8b"])
def test_unknown_names_get_the_nearest(name: str) -> None:
    with pytest.raises(UnknownName, match=f"unknown graph '{name}'; did you mean 'qwen"):
        load_graph(name, phase="decode", quant="Q4_K_M")


def test_quantised_weights_are_not_trained(folder: Path) -> None:
    graph = load_graph(folder / "config.json", sequence=64)
    assert len(training(graph)) > len(graph)
    with pytest.raises(GraphError, match="has weights in q4_k, which are not trained; leave quant out"):
        training(load_graph(folder / "config.json", sequence=64, quant="Q4_K_M"))


def test_positions_bound_the_sequence() -> None:
    with pytest.raises(GraphError, match="gpt2: sequence is 1025, but there are 1024 positions"):
        load_graph("gpt2", sequence=1025, phase="decode")
    assert load_graph("gpt2-xl", cache="f16", phase="decode").name == "gpt2-xl-decode"


def test_a_layer_that_shares_a_cache_which_no_layer_holds() -> None:
    base = from_config(TINY)
    layers = tuple(replace(layer, kv_heads=0) for layer in base.layers)
    graph = decoder(replace(base, layers=layers), 1, 64, "decode")
    assert graph.model_bytes == pytest.approx(base.bytes, rel=0.01)
