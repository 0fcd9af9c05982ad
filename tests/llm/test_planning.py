"""Plans of language models: arguments, contexts, machines, and what the command prints."""

import json
from pathlib import Path
from typing import Any

import pytest

import hetgym
from hetgym.errors import HetgymError, OutOfMemory
from hetgym.llm import plan_llm
from tests.cli.commands import ask

CARDS = "3090+2080Ti, 64GB ddr4-3600"


def test_the_largest_context_fits_and_the_next_does_not() -> None:
    plan = plan_llm("qwen2.5-32b", CARDS, quant="Q4_K_M", context=2048)
    widest = plan_llm("qwen2.5-32b", CARDS, quant="Q4_K_M", context="max")
    assert plan.largest_context == widest.context == widest.largest_context
    assert widest.devices[0].layers == 0 and widest.flags.endswith(f"-c {widest.context}")
    more = plan_llm("qwen2.5-32b", CARDS, quant="Q4_K_M", context=min(widest.context + 256, 131_072))
    assert widest.context == 32_768 or more.devices[0].layers > 0


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
    three = plan_llm("qwen2.5-7b", "3x RTX 3090", quant="Q8_0", target="vllm")  # 28 heads
    assert three.stages[0][0].count("+") < 2


def test_rules_of_programs_cost_something_and_the_answer_says_so() -> None:
    free = plan_llm("mixtral-8x7b", "RTX 3090, 64GB ddr4-3200", quant="Q4_K_M")
    bound = plan_llm("mixtral-8x7b", "RTX 3090, 64GB ddr4-3200", quant="Q4_K_M", target="ollama")
    assert bound.free_of_rules.decode_tokens_per_second is not None
    assert bound.free_of_rules.decode_tokens_per_second > 1.1 * bound.decode_tokens_per_second.mid
    assert free.free_of_rules.decode_tokens_per_second == pytest.approx(free.decode_tokens_per_second.mid, rel=0.01)


def test_exo_follows_memory() -> None:
    plan = plan_llm("llama-3.1-8b", "2x RTX 3060 + RTX 3090", quant="Q8_0", target="exo")
    assert [end - first for _, first, end in plan.stages] == [8, 8, 16]


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
    words = ("llm", "qwen3-8b", "--quant", "Q4_K_M", "--platform", CARDS, "--context", "8192")
    done = ask(*words, "--json", cwd=tmp_path)
    assert done.returncode == 0
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
