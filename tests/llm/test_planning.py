"""Plans of language models: arguments, contexts, machines, and what the command prints."""

import json
from pathlib import Path
from typing import Any

import pytest

import hetgym
from hetgym.errors import HetgymError, OutOfMemory
from hetgym.graph.model_names import load_language_model
from hetgym.llm import plan_llm
from hetgym.llm.parts import Load
from hetgym.llm.planner import Planner
from hetgym.llm.rules import rules_of
from hetgym.topology import find_platform
from tests.cli.commands import ask

CARDS = "3090+2080Ti, 64GB ddr4-3600"


def test_the_largest_context_fits_and_the_next_does_not() -> None:
    plan = plan_llm("qwen2.5-32b", CARDS, quant="Q4_K_M", context=2048)
    widest = plan_llm("qwen2.5-32b", CARDS, quant="Q4_K_M", context="max")
    assert plan.largest_context == widest.context == widest.largest_context
    assert widest.devices[0].layers == 0 and widest.flags.endswith(f"-c {widest.context}")
    more = plan_llm("qwen2.5-32b", CARDS, quant="Q4_K_M", context=min(widest.context + 256, 131_072))
    assert widest.context == 32_768 or more.devices[0].layers > 0


@pytest.mark.parametrize(
    ("model", "line", "least"),
    [("llama-3.1-8b", "7950X, 64GB ddr5-6000", 131_072), ("llama-3.3-70b", "RTX 3090, 64GB ddr4-3600", 2560)],
)
def test_caches_of_layers_on_the_cpu_may_grow(model: str, line: str, least: int) -> None:
    """The largest context is bounded by memory; no further weights go to the CPU for it."""
    plan = plan_llm(model, line, quant="Q4_K_M", context=2048)
    assert plan.largest_context >= least
    widest = plan_llm(model, line, quant="Q4_K_M", context=plan.largest_context)
    assert widest.devices[0].weights_bytes <= plan.devices[0].weights_bytes * 1.02


def test_the_longest_context_of_what_needs_the_cpu() -> None:
    plan = plan_llm("mixtral-8x7b", "RTX 3060, 64GB ddr4-3200", quant="Q4_K_M", context="max")
    assert plan.context == 32_768
    assert plan.devices[0].experts > 0 and all(device.free_bytes >= 0 for device in plan.devices)


def test_quantised_caches_save_memory_and_not_time() -> None:
    whole, small = (plan_llm("llama-3.1-8b", "RTX 3090", context=32_768, cache=name) for name in ("f16", "q4_0"))
    assert small.devices[-1].cache_bytes == pytest.approx(whole.devices[-1].cache_bytes * 0.28125)
    assert small.decode_tokens_per_second.mid < whole.decode_tokens_per_second.mid
    assert "-fa on -ctk q4_0 -ctv q4_0" in small.flags
    mixed = plan_llm("llama-3.1-8b", "RTX 3090", context=32_768, cache="q8_0,q4_0")
    assert small.devices[-1].cache_bytes < mixed.devices[-1].cache_bytes < whole.devices[-1].cache_bytes


def test_a_tensor_split_needs_equal_shares_of_heads() -> None:
    plan = plan_llm("llama-3.1-8b", "2x RTX 3090", quant="Q8_0")
    layer, tensor = plan.options
    assert tensor.decode_tokens_per_second is not None and layer.decode_tokens_per_second is not None
    assert tensor.decode_tokens_per_second > 1.3 * layer.decode_tokens_per_second
    assert "-sm tensor" in plan.flags and plan.stages == (("gpu0+gpu1", 0, 32),)


@pytest.mark.parametrize(
    ("model", "target", "cards", "ways"),
    [
        ("qwen2.5-7b", "vllm", 7, [2, 4]),  # 28 heads, 4 of keys and values
        ("qwen2.5-32b", "vllm", 6, [2, 4]),  # 40 and 8 heads, 27 648 wide
        ("qwen3.5-27b", "megatron", 6, [2, 4]),  # 16 heads of keys in linear attention, 48 of values
        ("phi-4", "vllm", 4, [2]),  # 40 and 10 heads
        ("llama-3.1-8b", "vllm", 16, [2, 4, 8, 16]),  # 8 heads of keys and values: over 16 cards, each twice
        ("llama-3.1-8b", "llama.cpp", 4, [4]),
        ("llama-3.1-8b", "llama.cpp", 3, []),
    ],
)
def test_degrees_divide_what_they_split(model: str, target: str, cards: int, ways: list[int]) -> None:
    platform = find_platform(f"{cards}x RTX 3090")
    planner = Planner(load_language_model(model), platform, rules_of(target), target, {})
    assert [len(site.groups[0]) for site in planner.sites(Load(256), tensor=True)] == ways


def test_programs_split_no_tensors_of_some_families() -> None:
    assert plan_llm("deepseek-v2-lite", "2x RTX 3090", quant="Q4_K_M").options == ()
    assert plan_llm("deepseek-v2-lite", "2x RTX 3090", target="vllm").options[1].name == "tensor"


def test_layers_fill_equal_gpus_evenly() -> None:
    plan = plan_llm("qwen2.5-32b", "2x RTX 3090", quant="int8", target="pipelining")
    first, second = plan.devices
    assert abs(first.free_bytes - second.free_bytes) < 1.1e9  # a layer and the head


def test_the_reserve_is_given_up_before_layers_go_to_the_cpu() -> None:
    """And more memory of the CPU never makes an answer worse."""
    plans = [plan_llm("qwen3-32b", line, quant="Q4_K_M", context=18_000) for line in ("RTX 3090", "RTX 3090, 64GB")]
    assert {plan.decode_tokens_per_second.mid for plan in plans} == {plans[0].decode_tokens_per_second.mid}
    assert [plan.devices[-1].reserve_bytes for plan in plans] == [pytest.approx(0.25 * 2**30)] * 2
    assert plan_llm("qwen3-32b", "RTX 3090", quant="Q4_K_M", context="max").context < 18_000
    assert plan_llm("qwen3-32b", "RTX 3090", quant="Q4_K_M", context="max", reserve=0.0).context > 18_000


def test_vllm_keeps_its_utilisation() -> None:
    most = plan_llm("llama-3.1-8b", "RTX 3090", target="vllm", context="max")
    assert "--gpu-memory-utilization 0.92" in most.flags
    with pytest.raises(OutOfMemory, match=f"the largest context is {most.context}"):
        plan_llm("llama-3.1-8b", "RTX 3090", target="vllm", context=most.context + 256)
    wider = plan_llm("llama-3.1-8b", "RTX 3090", target="vllm", context=most.context + 256, reserve=0.5e9)
    assert "--gpu-memory-utilization 0.98" in wider.flags


def test_an_empty_cache_is_faster_and_a_long_prompt_slower() -> None:
    plans = [plan_llm("llama-3.1-8b", "RTX 3090", quant="Q4_K_M", context=65_536, prompt=n) for n in (512, 65_536)]
    for plan in plans:
        assert plan.empty_tokens_per_second.mid > 1.5 * plan.decode_tokens_per_second.mid
    short, long = (plan.prefill_tokens_per_second.mid for plan in plans)
    assert 0.2 * short < long < 0.7 * short
    assert plans[1].first_token_seconds == pytest.approx(65_536 / long, rel=0.01)


@pytest.mark.parametrize(
    ("target", "model", "how", "message"),
    [
        ("llama.cpp", "llama-3.1-8b", {"cache": "fp8"}, "llama.cpp has no caches in float8; it has"),
        ("vllm", "llama-3.1-8b", {"cache": "q8_0"}, "vLLM has no caches in q8_0; it has"),
        ("ollama", "llama-3.1-8b", {"cache": "q8_0,q4_0"}, "ollama keeps keys and values in one format"),
        ("vllm", "qwen3-8b", {"quant": "Q4_K_M"}, "vLLM does not read weights in q4_k; another --quant"),
        ("llama.cpp", "qwen3-8b", {"quant": "awq"}, "llama.cpp does not read weights in awq4"),
        ("vllm", "gpt2", {"context": 4096}, "gpt2 was made for 1024 tokens, and vLLM takes no more"),
    ],
)
def test_programs_refuse_what_they_lack(target: str, model: str, how: dict[str, Any], message: str) -> None:
    with pytest.raises(HetgymError) as caught:
        plan_llm(model, "RTX 3090, 64GB ddr4-3600", target=target, **how)
    assert str(caught.value).startswith(message)


def test_without_a_gpu_accelerate_runs_on_the_cpu() -> None:
    plan = plan_llm("qwen3-0.6b", "generic cpu, 64GB ddr5-6000", target="accelerate")
    assert 5 < plan.decode_tokens_per_second.mid < 100


def test_rules_of_programs_cost_something_and_the_answer_says_so() -> None:
    free = plan_llm("mixtral-8x7b", "RTX 3090, 64GB ddr4-3200", quant="Q4_K_M")
    bound = plan_llm("mixtral-8x7b", "RTX 3090, 64GB ddr4-3200", quant="Q4_K_M", target="ollama")
    assert bound.free_of_rules.decode_tokens_per_second is not None
    assert bound.free_of_rules.decode_tokens_per_second > 1.1 * bound.decode_tokens_per_second.mid
    assert free.free_of_rules.decode_tokens_per_second == pytest.approx(free.decode_tokens_per_second.mid, rel=0.01)


@pytest.mark.parametrize(
    ("line", "quant", "nodes"),
    [
        ("M2 Ultra 192GB + M3 Max 64GB", "IQ2_XS", ["gpu0"]),  # the fewest nodes that hold the model
        ("M2 Ultra 192GB + M3 Max 64GB", "Q6_K", ["gpu0", "gpu1"]),
        ("4x 3090, 2x EPYC 7402, 256GB", "Q2_K", ["gpu0", "gpu1", "gpu2", "gpu3"]),
        ("7950X, 64GB | 4x 3090, 64GB", "IQ3_S", ["cpu0", "gpu0", "gpu1"]),
        ("192GB ddr5-6000", "Q4_K_M", ["cpu"]),
    ],
)
def test_a_cpu_beside_a_gpu_is_not_a_node_of_exo(line: str, quant: str, nodes: list[str]) -> None:
    plan = plan_llm("qwen3-235b-a22b", line, quant=quant, target="exo")
    assert [device.name for device in plan.devices if device.layers] == nodes


def test_exo_follows_memory() -> None:
    cards = "2x RTX 3060 + RTX 3090, 128GB ddr4-3200"
    plan = plan_llm("qwen2.5-32b", cards, quant="Q8_0", context=32_768, target="exo")
    assert [(name, end - first) for name, first, end in plan.stages] == [("gpu0", 16), ("gpu1", 16), ("gpu2", 32)]


def test_ollama_follows_memory() -> None:
    """A log: qwen3-30b-a3b with 76 000 tokens on two cards of 24 GB gets --tensor-split 25,24."""
    plan = plan_llm("qwen3-30b-a3b", "2x RTX 3090, 128GB", quant="Q4_K_M", target="ollama", context=76_000)
    assert [(name, end - first) for name, first, end in plan.stages] == [("gpu0", 25), ("gpu1", 23)]
    part = plan_llm("llama-3.1-70b", "RTX 3090, 64GB", quant="Q4_K_M", target="ollama")
    on_cpu, on_gpu = (end - first for _, first, end in part.stages)
    assert on_cpu + on_gpu == 80 and f"num_gpu {on_gpu + 1}" in part.flags
    assert part.devices[-1].free_bytes < 0.6e9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "lama-3-8b"}, "unknown language model 'lama-3-8b'; did you mean 'llama-3-8b'"),
        ({"target": "llamacpp"}, "unknown target 'llamacpp'; did you mean 'llama.cpp'?"),
        ({"quant": "Q4_K_X"}, "unknown format of weights 'Q4_K_X'; did you mean"),
        ({"context": 0}, "context is 0; it must be 'max' or a whole number from 1 to"),
        ({"context": "all"}, "context is 'all'; it must be 'max' or a whole number"),
        ({"cache": "q3_0"}, "cache is 'q3_0'; it must be one format, or two with a comma"),
        ({"batch": 0}, "batch is 0; it must be a whole number above 0"),
        ({"reserve": 1e12}, "reserve of gpu0 is 1000000000000.0; it must be from 0 to less than 25.8 GB"),
        ({"reserve": {"gpu7": 1e9}}, "unknown device 'gpu7'; did you mean"),
        ({"platform": "RTX 3091"}, "'RTX 3091': unknown word '3091'; did you mean 'RTX 3090'"),
    ],
)
def test_bad_input_gives_one_sentence(changes: dict[str, Any], message: str) -> None:
    given = {"model": "llama-3.1-8b", "platform": CARDS} | changes
    with pytest.raises(HetgymError) as caught:
        plan_llm(given.pop("model"), given.pop("platform"), **given)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_the_command_prints_what_the_function_gives(tmp_path: Path) -> None:
    words = ("llm", "qwen3:8b", "--platform", CARDS, "--context", "8K")
    done = ask(*words, "--json", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == "qwen3:8b names packed files without a format: Q4_K_M is taken.\n"
    plan = hetgym.plan_llm("qwen3-8b", CARDS, quant="Q4_K_M", context=8192)
    assert json.loads(done.stdout) == json.loads(json.dumps(plan.to_dict()))
    shown = ask(*words, "--given", "-ngl 20", cwd=tmp_path)
    assert plan.flags in shown.stdout and "the given split fits" in shown.stdout
    assert len(shown.stdout.splitlines()) < 45


def test_machines_side_by_side(tmp_path: Path) -> None:
    words = ("llm", "llama-3.1-70b", "--quant", "Q4_K_M", "--platform", "2x RTX 3090", "--platform", "RTX 3060")
    done = ask(*words, cwd=tmp_path)
    assert done.returncode == 1
    assert "2x RTX 3090" in done.stdout and "RTX 3060: llama-3.1-70b does not fit" in " ".join(done.stdout.split())
    alone = ask(*words[:-2][:4], "--platform", "RTX 3060", cwd=tmp_path)
    assert alone.returncode == 2 and "does not fit RTX 3060" in alone.stderr


def test_nothing_fits_a_machine_without_memory() -> None:
    with pytest.raises(OutOfMemory, match="no context fits"):
        plan_llm("llama-3.1-70b", "RTX 3060")
