"""Language models: the published sizes, what each phase computes, reads and keeps, and training steps."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from hetgym import DataflowGraph, GraphError, Problem, UnknownName, load_graph, load_platform, simulate, validate
from hetgym.baselines import heft
from hetgym.graph import KINDS, generate_graph, layer_of, to_json, zoo
from hetgym.graph.generators import language_model
from hetgym.graph.transforms import cast, fuse, training
from hetgym.graph.transforms.training import weights_of

# Billion parameters: of the published weights, or as their papers say.
PUBLISHED = {
    "gpt2-xl": 1.558,
    "gpt3-175b": 175.0,
    "llama-7b": 6.738,
    "llama-2-70b": 68.98,
    "llama-3-8b": 8.030,
    "llama-3-70b": 70.55,
    "mixtral-8x7b": 46.70,
    "t5-3b": 2.85,
    "t5-11b": 11.3,
}
SMALL = {"layers": 2, "hidden": 64, "heads": 8, "intermediate": 96, "vocabulary": 100}
CASES = {
    "llama": {"family": "llama", "kv_heads": 2, **SMALL},
    "mixtral": {"family": "llama", "kv_heads": 2, "experts": 4, **SMALL},
    "gpt": {"family": "gpt", "positions": 40, **SMALL},
    "t5": {"family": "t5", "head_size": 16, **SMALL},
}


GOLDEN = {
    "llama": ("092f627a6d2e", "4e0a59b5609b", "be9ed7f43f0b"),
    "mixtral": ("c05f8809e38a", "cc3188d6ce2c", "04944b79905a"),
    "gpt": ("9e59bee4ec58", "1ff78aa9c2ca", "142a644d7e7c"),
    "t5": ("b6f7719566f7", "fc895290e478", "c4f0c7e4bb70"),
}
"""Case -> digests of the documents of its graphs: plans and results that were saved refer to these operators."""


def parameters(graph: DataflowGraph) -> int:
    """Elements of distinct weights that can be learnt."""
    return sum(t.size for t in {t for op in graph.operators for t in weights_of(op)})


def products(graph: DataflowGraph) -> float:
    return sum(op.flops for op in graph.operators if op.spec.family == "matmul")


def by_name(graph: DataflowGraph) -> dict:
    return {op.name: op for op in graph.operators}


def test_every_language_model_has_a_published_size() -> None:
    assert sorted(PUBLISHED) == zoo.language_models()
    assert not set(zoo.language_models()) & set(zoo.names())


@pytest.mark.parametrize("name", zoo.language_models())
def test_published_parameters(name: str) -> None:
    graph = load_graph(name)
    assert parameters(graph) / 1e9 == pytest.approx(PUBLISHED[name], rel=0.004)
    assert graph.model_bytes == pytest.approx(2 * parameters(graph), rel=0.005)  # and rotary tables, buckets
    assert graph.name == name and {op.kind for op in graph.operators} <= KINDS.keys()


@pytest.mark.parametrize("case", CASES)
def test_operators_edges_and_names_do_not_change(case: str) -> None:
    texts = [
        to_json(language_model(**CASES[case], phase=phase, batch=2, sequence=20))
        for phase in ("forward", "prefill", "decode")
    ]
    assert tuple(hashlib.sha256(text.encode()).hexdigest()[:12] for text in texts) == GOLDEN[case]


@pytest.mark.parametrize("phase", ["forward", "prefill", "decode"])
@pytest.mark.parametrize("case", CASES)
def test_operators_read_what_their_edges_carry(case: str, phase: str) -> None:
    graph = language_model(**CASES[case], phase=phase, batch=3, sequence=20)
    incoming: dict[int, list] = {i: [] for i in range(len(graph))}
    for edge in graph.edges:
        incoming[edge.target].append(graph.operators[edge.source].outputs[edge.slot])
    for i, op in enumerate(graph.operators):
        free = [t for t in op.inputs if not t.constant]
        words = [t for t in free if t.dtype == "int64" and op.name.endswith("embed_tokens")]
        assert sorted(map(repr, incoming[i])) == sorted(map(repr, free[len(words) :] if not words else [])), op.name
    assert all(t.dtype in ("bfloat16", "int64", "int32") for op in graph.operators for t in (*op.inputs, *op.outputs))


@pytest.mark.parametrize("phase", ["forward", "prefill", "decode"])
@pytest.mark.parametrize("case", CASES)
def test_flops_grow_with_the_batch_and_no_weight_does(case: str, phase: str) -> None:
    one, four = (language_model(**CASES[case], phase=phase, batch=b, sequence=20) for b in (1, 4))
    assert one.edges == four.edges and parameters(one) == parameters(four)
    assert products(four) == 4 * products(one)


def test_products_of_llama_by_hand() -> None:
    tokens, hidden, wide, words = 3 * 20, 64, 96, 100
    graph = language_model(**CASES["llama"], batch=3, sequence=20)
    layer = hidden * hidden * 2 + 2 * hidden * 16 + 3 * hidden * wide  # q and o, k and v, the three of SwiGLU
    assert sum(op.flops for op in graph.operators if op.kind == "Gemm") == 2 * tokens * (2 * layer + hidden * words)
    ops = by_name(graph)
    sdpa = ops["layers.1.self_attn.sdpa"]
    assert [t.shape for t in sdpa.inputs] == [(3, 8, 20, 8), (3, 2, 20, 8), (3, 2, 20, 8)]
    assert sdpa.attributes["is_causal"] == 1 and sdpa.flops == 3 * 8 * 20 * 20 * (4 * 8 + 5)
    assert ops["layers.0.self_attn.k_rotary"].inputs[1].name == "rotary.cos"


def test_the_cache_is_resident_and_read_by_every_step() -> None:
    filled, step = (language_model(**CASES["llama"], batch=3, sequence=20, phase=p) for p in ("prefill", "decode"))
    cache = 2 * 2 * 3 * 2 * 20 * 8 * 2  # layers, keys and values, batch, heads, tokens, numbers, bytes
    plain = language_model(**CASES["llama"], batch=3, sequence=20)
    assert filled.model_bytes - plain.model_bytes == cache
    rotary = 2 * 19 * 8 * 2  # tables of one position instead of 20
    assert step.model_bytes - plain.model_bytes == cache - rotary
    ops = by_name(step)
    sdpa, write = ops["layers.0.self_attn.sdpa"], ops["layers.0.self_attn.cache"]
    assert [t.name.rpartition(".")[2] for t in sdpa.inputs[1:3]] == ["key_cache", "value_cache"]
    assert sdpa.bytes_read == 3 * 8 * 8 * 2 + cache / 2 and sdpa.attributes["is_causal"] == 0
    assert write.bytes_read == 2 * (2 * 3 * 2 * 8 * 2) and write.bytes_written == 0
    reached = [op.name for op in step.operators]
    assert step.reaches(reached.index("layers.0.self_attn.cache"), reached.index("layers.0.self_attn.sdpa"))


def test_prefill_scores_the_last_token() -> None:
    whole, filled = (by_name(language_model(**CASES["gpt"], sequence=20, phase=p)) for p in ("forward", "prefill"))
    assert whole["lm_head"].outputs[0].shape == (1, 20, 100) and filled["lm_head"].outputs[0].shape == (1, 1, 100)
    assert whole["lm_head"].inputs[1].name == "embed_tokens.weight"


def test_few_tokens_read_few_experts() -> None:
    one, many = (by_name(language_model(**CASES["mixtral"], batch=b, phase="decode")) for b in (1, 16))
    name = "layers.0.mlp.experts.gate_up_proj"
    weight = 4 * 2 * 96 * 64 * 2
    assert one[name].flops == 2 * 2 * 64 * 2 * 96 and one[name].inputs[0].shape == (2, 64)
    assert one[name].bytes_read == weight / 2 + 2 * 64 * 2 + 4 * 4  # two of four experts, rows, offsets
    assert many[name].bytes_read == weight + 32 * 64 * 2 + 4 * 4


def test_t5_decodes_without_its_encoder() -> None:
    whole, step = (language_model(**CASES["t5"], sequence=20, phase=p) for p in ("forward", "decode"))
    assert {layer_of(op.name) for op in step.operators} == {"", "decoder.layers.0", "decoder.layers.1"}
    assert parameters(step) < parameters(whole)
    ops = by_name(step)
    assert ops["decoder.layers.0.encoder_attn.sdpa"].inputs[1].shape == (1, 8, 20, 16)
    assert ops["decoder.layers.0.self_attn.sdpa"].inputs[3].shape == (1, 8, 1, 20)  # the relative bias
    assert "decoder.layers.0.encoder_attn.k_proj" not in ops


@pytest.mark.parametrize("case", CASES)
def test_a_training_step_has_twice_the_products_backward(case: str) -> None:
    graph = language_model(**CASES[case], batch=3, sequence=20)
    step = training(graph, "adam")
    back = by_name(step)
    for op in graph.operators:
        if op.spec.family == "matmul":
            assert back[f"{op.name}/backward"].flops == 2 * op.flops, op.name
    assert sum(op.name.endswith("/update") for op in step.operators) == len(
        {t.name for op in graph.operators for t in weights_of(op)}
    )
    assert all("float" in t.dtype for op in step.operators if op.name.endswith("/backward") for t in op.outputs)
    grown = step.model_bytes - graph.model_bytes
    assert grown == pytest.approx(2 * 2 * parameters(graph))  # two states of each weight


def test_backward_reads_saved_activations() -> None:
    step = training(language_model(**CASES["llama"], batch=3, sequence=20))
    names = [op.name for op in step.operators]
    saved = {names[e.source] for e in step.edges if names[e.target].endswith("/backward")}
    at = "layers.1."
    assert {f"{at}input_layernorm", f"{at}self_attn.merge", f"{at}mlp.mul", f"{at}self_attn.q_rotary"} <= saved
    assert {layer_of(name) for name in names if name.startswith(at)} == {"layers.1"}


def test_a_graph_with_a_cache_is_not_trained() -> None:
    with pytest.raises(GraphError, match="writes a cache of keys and values; train the phase 'forward'"):
        training(language_model(**CASES["gpt"], phase="prefill", sequence=20))


@pytest.mark.parametrize("phase", ["forward", "decode"])
def test_layers_are_equal_and_complete(phase: str) -> None:
    graph = load_graph("llama-3-8b", batch=2, sequence=256, phase=phase)
    layers = np.array([layer_of(op.name) for op in graph.operators])
    totals = {layer: float(graph.flops[layers == layer].sum()) for layer in dict.fromkeys(layers)}
    assert len(totals) == 33 and len({totals[f"layers.{i}"] for i in range(32)}) == 1
    outside = {op.name for op in graph.operators if not layer_of(op.name)}
    assert outside == {"embed_tokens", "norm", "lm_head"}


def test_layers_of_other_names() -> None:
    for name in ("lm_head", "layers.norm", "players.3.x", "embed.h", ""):
        assert layer_of(name) == ""
    assert layer_of("model.layers.10.mlp.up_proj.linear") == "model.layers.10"
    assert layer_of("embed_tokens.weight/update") == ""


@pytest.mark.parametrize("phase", ["forward", "decode"])
def test_graphs_are_planned_fused_and_cast(phase: str) -> None:
    graph = language_model(**CASES["mixtral"], batch=2, sequence=20, phase=phase)
    assert len(fuse(graph).graph) < len(graph)
    halved = cast(graph, "float32")
    assert halved.model_bytes > 1.9 * graph.model_bytes
    problem = Problem.build(graph, load_platform("cpu-gpu"), costs="roofline")
    schedule = heft(problem)
    validate(problem, schedule)
    assert simulate(problem, schedule).makespan > 0


def test_load_graph_takes_the_options() -> None:
    graph = load_graph("llama-7b", batch=2, dims={"sequence": 64}, phase="decode", dtype="float16")
    assert graph == load_graph("llama-7b", batch=2, sequence=64, phase="decode", dtype="float16")
    assert graph.name == "llama-7b-decode" and graph.operators[0].dtype == "float16"
    assert load_graph("llama-7b").operators[0].outputs[0].shape == (1, 2048, 4096)


@pytest.mark.parametrize(
    ("name", "options", "error", "sentence"),
    [
        ("llama-7b", {"dims": {"S": 3}}, GraphError, "unknown dimension 'S'; language models have the dimension"),
        ("llama-7b", {"sequenze": 3}, GraphError, "no option 'sequenze'; did you mean 'sequence'"),
        ("llama-7b", {"layers": 3}, GraphError, "no option 'layers'"),
        ("llama-7b", {"phase": "decoding"}, UnknownName, "unknown phase 'decoding'; did you mean 'decode'"),
        ("llama-7b", {"sequence": 0}, GraphError, "sequence is 0; it must be a whole number of at least 1"),
        ("llama-7b", {"dtype": "int8"}, GraphError, "dtype is 'int8'; it must be one of float16, bfloat16"),
        ("llama-7b", {"batch": 0}, GraphError, "batch must be"),
        ("gpt2-xl", {"sequence": 1025}, GraphError, "sequence is 1025, but there are 1024 positions"),
        ("alexnet", {"phase": "decode"}, GraphError, "option 'phase' is for language models: gpt2-xl"),
        ("llama7b", {}, UnknownName, "unknown graph 'llama7b'; did you mean 'llama-7b'"),
    ],
)
def test_load_graph_refuses(name: str, options: dict, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        load_graph(name, **options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kv_heads": 3}, "3 heads of keys and values do not divide 8 heads"),
        ({"heads": 7}, "hidden is 256, which 7 heads do not divide; state head_size"),
        ({"experts": 2, "top": 3}, "top is 3 of 2 experts"),
        ({"experts": 2, "family": "gpt"}, "experts need llama"),
        ({"layers": 10**6}, "the graph may have"),
        ({"hidden": "wide"}, "hidden is 'wide'"),
        ({"experts": -1}, "experts is -1"),
    ],
)
def test_bad_sizes(options: dict, sentence: str) -> None:
    with pytest.raises(GraphError, match=sentence):
        generate_graph("language_model", **options)
