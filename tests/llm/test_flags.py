"""Flags: accepted by the programs where they run here, else by the grammar of their documentation."""

import json
import re
from typing import Any

import numpy as np
import pytest

from hetgym import Platform
from hetgym.errors import ConfigError, GraphError
from hetgym.graph.from_config import from_config
from hetgym.graph.model_names import load_language_model
from hetgym.llm import LlmPlan, plan_llm
from hetgym.llm.flags import flags, numbers_pattern
from hetgym.llm.given import wanted
from hetgym.llm.parts import Load
from hetgym.llm.planner import Planner
from hetgym.llm.proportional import layer_rule
from hetgym.llm.rules import rules_of
from hetgym.llm.search import Split, Stage
from hetgym.topology import find_platform

SMALL = {
    "hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4, "vocab_size": 1000,
    "max_position_embeddings": 2048,
}  # fmt: skip
CARDS = "3060 + 2080 + 1660 Super, 64GB ddr4-3200"


def _read_back(flags: str, platform: Platform, model: str, quant: str) -> Any:
    planner = Planner(load_language_model(model, quant), platform, rules_of("llama.cpp"), "llama.cpp", {})
    asked = wanted(flags, "llama.cpp")
    return asked.place(planner, asked.load(Load(256), planner.model))


@pytest.mark.parametrize(
    ("layers", "offloaded", "shares", "counts"),
    [
        (56, 33, [15, 15, 3], [24, 15, 15, 3]),
        (100, 101, [26, 25, 25, 25], [0, 26, 25, 25, 25]),
        (64, 99, [1, 1], [0, 33, 32]),
        (64, 99, [0.49, 0.51], [0, 32, 33]),
        (32, 0, [1], [33, 0]),
        (32, 1, [1], [32, 1]),
    ],
)
def test_the_rule_of_llama_cpp(layers: int, offloaded: int, shares: list[float], counts: list[int]) -> None:
    found = layer_rule(layers, offloaded, shares) if offloaded else [-1] * (layers + 1)
    assert [found.count(k) for k in range(-1, len(shares))] == counts
    assert found == sorted(found)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen2.5-32b", "mixtral-8x7b", "qwen3-30b-a3b", "qwen3-0.6b"])
@pytest.mark.parametrize("context", [2048, 16_384])
def test_llama_cpp_does_what_its_flags_say(model: str, context: int) -> None:
    """Read back by llama.cpp's rule of layers, and by its search for patterns in names of tensors."""
    platform = find_platform(CARDS)
    plan = plan_llm(model, platform, quant="Q4_K_M", context=context)
    site, found = _read_back(plan.flags, platform, model, "Q4_K_M")
    assert site.load.context == context
    names = [("+".join(platform[k].name for k in stage.devices), stage.first, stage.end) for stage in found.stages]
    assert tuple(names) == plan.stages
    experts = sum(device.experts for device in plan.devices if device.name != "cpu")
    mixed = [i for i, layer in enumerate(load_language_model(model).layers) if layer.experts]
    on_cpu = [i for stage in plan.stages if stage[0] == "cpu" for i in range(stage[1], stage[2])]
    assert experts == len(set(mixed) - set(found.away) - set(on_cpu))


def _by_accelerate(config: dict[str, Any]) -> LlmPlan:
    return plan_llm(
        from_config(config), find_platform("2x RTX 3060, 64GB ddr4-3200"), target="accelerate", reserve=11e9
    )


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "llama", "intermediate_size": 128, **SMALL},
        {"model_type": "qwen2", "intermediate_size": 128, "tie_word_embeddings": True, **SMALL},
        {"model_type": "mixtral", "intermediate_size": 128, "num_local_experts": 4, "num_experts_per_tok": 2, **SMALL},
        {"model_type": "gpt2", "n_embd": 64, "n_layer": 6, "n_head": 4, "vocab_size": 1000, "n_positions": 64},
        {"model_type": "falcon", "multi_query": True, **SMALL},
        {"model_type": "gpt_neox", "intermediate_size": 128, **SMALL},
    ],
    ids=lambda config: config["model_type"],
)
def test_accelerate_accepts_its_map(config: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    modeling = pytest.importorskip("accelerate.utils.modeling")
    with torch.device("meta"):
        kind = transformers.AutoConfig.for_model(**config)
        module = transformers.AutoModelForCausalLM.from_config(kind)
    found = json.loads(_by_accelerate(config).flags)
    modeling.check_device_map(module, found)
    paths = [path for path, _ in module.named_modules()]
    assert all(path in paths for path in found)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")  # of PyTorch about itself
def test_pytorch_cuts_where_the_split_says() -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pipelining = pytest.importorskip("torch.distributed.pipelining")
    config = {"model_type": "llama", "intermediate_size": 128, **SMALL}
    platform = find_platform("3060 + 2080 + 1660 Super")
    site = Planner(from_config(config), platform, rules_of("pipelining"), "pipelining", {}).sites(Load(256))[-1]
    stages = tuple(Stage((k,), a, b) for k, (a, b) in enumerate(((0, 1), (1, 4), (4, 6))))
    text = flags("pipelining", site, Split(stages), from_config(config))
    points = dict.fromkeys(re.findall(r'"([\w.]+)": SplitPoint.BEGINNING', text), pipelining.SplitPoint.BEGINNING)
    module = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**config, use_cache=False))
    pipe = pipelining.pipeline(module, (torch.zeros((2, 16), dtype=torch.long),), split_spec=points)
    assert pipe.num_stages == 3
    for k, stage in enumerate(stages):
        names = [name for name, _ in pipe.get_stage_module(k).named_parameters()]
        layers = {int(found[1]) for found in map(re.compile(r"model\.layers\.(\d+)\.").match, names) if found}
        assert layers == set(range(stage.first, stage.end))


def test_onnxruntime_takes_its_setting() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    plan = plan_llm("qwen3-0.6b", "RTX 3060, 64GB ddr4-3600", target="onnxruntime")
    found = re.fullmatch(r'([\w.]+)="([^"]+)"', plan.flags)
    assert found is not None
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry(*found.groups())
    assert options.get_session_config_entry(found[1]) == found[2]


@pytest.mark.parametrize("seed", range(30))
def test_patterns_match_their_numbers_and_no_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = np.flatnonzero(rng.random(130) < rng.random()).tolist() or [0]
    pattern = re.compile(rf"blk\.({numbers_pattern(numbers)})\.ffn")
    assert [i for i in range(200) if pattern.search(f"blk.{i}.ffn")] == numbers


@pytest.mark.parametrize("target", ["vllm", "pipelining", "megatron", "onnxruntime", "ollama", "exo"])
def test_flags_follow_the_grammar(target: str) -> None:
    platform = find_platform("3090 + 3090 + 3060, 128GB ddr4-3200")
    plan = plan_llm("qwen2.5-32b", platform, quant="int8" if target != "ollama" else "Q4_K_M", target=target)
    layers = sum(end - first for _, first, end in plan.stages)
    assert layers == 64
    if target == "vllm":
        sizes = [end - first for _, first, end in plan.stages]
        listed = re.search(r"VLLM_PP_LAYER_PARTITION=([\d,]+) ", plan.flags)
        assert listed is None or [int(x) for x in listed[1].split(",")] == sizes
        ways = plan.stages[0][0].count("+") + 1
        assert len(sizes) == 1 or f"--pipeline-parallel-size {len(sizes)}" in plan.flags
        assert ways == 1 or f"--tensor-parallel-size {ways}" in plan.flags
    elif target == "pipelining":
        points = re.findall(r'"model\.layers\.(\d+)": SplitPoint\.BEGINNING', plan.flags)
        assert [int(point) for point in points] == [first for _, first, _ in plan.stages[1:]]
    elif target == "megatron":
        layout = re.search(r'--pipeline-model-parallel-layout "E(t\*\d+(?:\|t\*\d+)*)L"', plan.flags)
        assert layout is not None
        assert sum(int(n) for n in re.findall(r"t\*(\d+)", layout[1])) == 64
    elif target == "onnxruntime":
        assert re.fullmatch(r'session\.resource_cuda_partitioning_settings="\d+,\S+\.csv"', plan.flags)
    elif target == "ollama":
        assert re.search(r"^PARAMETER num_gpu \d+$", plan.flags, re.MULTILINE)


def test_another_order_of_cards_is_named() -> None:
    platform = find_platform("2x RTX 3060 + RX 7900 XTX, 64GB ddr4-3200")
    plan = plan_llm("qwen2.5-14b", platform, quant="Q8_0", context=1024)
    assert [name for name, _, _ in plan.stages] == ["gpu2"]
    assert "--device ROCm2" in plan.flags


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("-ngl x", "-ngl is 'x'; it must be a whole number"),
        ("-ts 1,2,3,4", "-ts has 4 shares for 3 GPUs"),
        ("-ts a", "-ts 'a' has no shares such as 3,1"),
        ("-ts 0,0", "-ts '0,0' has no shares such as 3,1"),
        ("--device CUDA7", "the arguments name GPU 7, and the platform has 3"),
        ("--device best", "--device 'best' has no names of GPUs such as CUDA0,CUDA1"),
        ("-sm none -mg 3", "the arguments name GPU 3, and the platform has 3"),
        ("-sm row", "-sm 'row': only layer, none and tensor are understood"),
        ("-ngl 9 -sm tensor", "llama.cpp cannot split the tensors of llama-3.1-8b here"),
        ("-ot 'ffn=CUDA2'", "-ot moves blk.0.ffn_norm.weight to 'CUDA2': only experts on the CPU are understood"),
        ("-ot 'ffn_up=CPU'", "-ot moves blk.0.ffn_up.weight to 'CPU': only experts on the CPU are understood"),
        ("-ot exps", "-ot 'exps' is not a rule such as 'exps=CPU'"),
        ("-np 0", "batch is 0; it must be a whole number above 0"),
        ("-ub 0", "step is 0; it must be a whole number above 0"),
        ("-c 9999999", "context is 9999999; it must be 'max' or a whole number from 1 to"),
        ("-nkvo", "-nkvo places something that plans do not know"),
        ("all layers", "'all layers' has no option of llama.cpp, such as -ngl 99"),
        ("-ctk q3_0", "cache is 'q3_0'; it must be one format"),
        ("-ot '(=CPU'", "-ot '(=CPU' is not a regular expression"),
        ("-ngl 'a", 'the arguments "-ngl \'a" are not quoted right'),
        ("a" * 100_000, "the given split must be a text of at most 65536 characters"),
    ],
)
def test_given_splits_that_are_not_ones(given: str, message: str) -> None:
    with pytest.raises((ConfigError, GraphError)) as caught:
        plan_llm("llama-3.1-8b", find_platform(CARDS), quant="Q4_K_M", given=given)
    assert str(caught.value).startswith(message)


def test_given_arguments_state_the_load_and_the_mode() -> None:
    platform, how = find_platform("2x RTX 3090"), {"quant": "Q4_K_M"}
    plan = plan_llm("llama-3.3-70b", platform, given="-ngl all -c 8192 -ctk q8_0 -ctv q8_0 -np 2 -ub 256", **how)
    same = plan_llm("llama-3.3-70b", platform, context=8192, cache="q8_0", batch=2, step=256, **how)
    assert plan.given is not None and plan.context == 8192
    assert plan.given.devices[0].cache_bytes + plan.given.devices[1].cache_bytes == pytest.approx(
        sum(device.cache_bytes for device in same.devices)
    )
    assert plan_llm("llama-3.1-8b", "RTX 3090", given="-c 0", **how).context == 131_072
    alone = plan_llm("llama-3.3-70b", platform, given="-ngl 99 -sm none -mg 1", **how).given
    assert alone is not None and not alone.fits
    assert [device.layers for device in alone.devices] == [0, 80]
    plan = plan_llm("llama-3.3-70b", platform, **how)
    assert "-sm tensor" in plan.flags
    again = plan_llm("llama-3.3-70b", platform, given=plan.flags, **how).given
    assert again is not None and again.fits and again.change is None
    assert again.of_best == pytest.approx(1.0)


def test_given_experts() -> None:
    """A third of the experts' weights, all of them, and those of some layers."""
    found = {}
    for text in ("-ot ffn_up_exps=CPU", "--cpu-moe", "-ot 'blk\\.[0-9]\\.ffn=CUDA0' -ot exps=CPU", "--n-cpu-moe 24"):
        given = plan_llm("qwen3-30b-a3b", "RTX 3090, 64GB ddr4-3200", quant="Q8_0", given=text).given
        assert given is not None
        found[text] = given.devices[0].weights_bytes
    model = load_language_model("qwen3-30b-a3b", "Q8_0")
    experts = [sum(weight.bytes for weight in layer.experts) for layer in model.layers]
    table = sum(weight.bytes for weight in model.table)
    expected = [sum(experts) / 3, sum(experts), sum(experts[10:]), sum(experts[:24])]
    assert [size - table for size in found.values()] == pytest.approx(expected)


def test_a_given_split_is_never_better_than_the_best() -> None:
    """Both may use the same memory."""
    given = plan_llm(
        "qwen3-30b-a3b", "RTX 2080, 64GB ddr4-3200", quant="Q4_K_M", given="-ngl 99 --n-cpu-moe 36"
    ).given  # fmt: skip
    assert given is not None and given.of_best <= 1 + 1e-9
    assert given.change is None or given.change.decode_tokens_per_second is not None
    far = plan_llm("qwen3-30b-a3b", "RTX 3090, 64GB ddr4-3200", quant="Q8_0", given="-ngl 20").given
    assert far is not None and far.change is not None and far.change.decode_tokens_per_second is not None
    assert "--n-cpu-moe" in far.change.flags
    assert far.change.decode_tokens_per_second > 1.5 * far.decode_tokens_per_second


def test_given_partitions_and_maps() -> None:
    platform = find_platform("2x RTX 3090, 64GB ddr4-3200")
    half = plan_llm("llama-3.1-8b", platform, target="vllm", given="VLLM_PP_LAYER_PARTITION=20,12").given
    assert half is not None and half.fits
    assert [device.layers for device in half.devices] == [0, 20, 12]
    layers = {f"model.layers.{i}": "cpu" if i < 2 else i % 2 for i in range(32)}
    mapped = plan_llm("llama-3.1-8b", platform, target="accelerate", given=json.dumps(layers)).given
    assert mapped is not None
    assert [device.layers for device in mapped.devices] == [2, 15, 15]
    assert mapped.of_best < 0.6
    assert mapped.change is not None
    near = plan_llm("llama-3.1-8b", platform, target="accelerate", given='{"": 1, "model.layers.31": 0}').given
    assert near is not None
    assert [device.layers for device in near.devices] == [0, 1, 31]
    for text in ("1,2", '{"model.layers.0": 7}', "{", "[]"):
        with pytest.raises(ConfigError):
            plan_llm("llama-3.1-8b", platform, target="vllm", given=text)
