"""Memory of language models: what llama.cpp and vLLM report, and sums that agree."""

import pytest

from hetgym import Platform
from hetgym.graph.language_model import LanguageModel
from hetgym.graph.model_names import load_language_model
from hetgym.llm import plan_llm
from hetgym.topology import find_platform

MIB, GB = 2**20, 1e9


def _card(gb: float, count: int = 1) -> Platform:
    return find_platform(f"{count}x RTX 3090 {gb:g}GB, 256GB ddr4-3600")


def _used(model: LanguageModel | str, platform: Platform, **how: object) -> float:
    """Bytes that all GPUs hold."""
    plan = plan_llm(model, platform, reserve=0.0, **how)  # type: ignore[arg-type]
    return sum(d.weights_bytes + d.cache_bytes + d.buffers_bytes for d in plan.devices if d.name.startswith("gpu"))


@pytest.mark.parametrize(
    ("name", "quant", "how", "reported"),
    [
        # One log: model 5061, cache 4352, state 100.5, compute buffer 808 MiB
        ("qwen3.5-9b", "Q4_K_M", {"context": 262_144, "cache": "q8_0", "batch": 2}, 10_321.5 * MIB),
        # README of qwen38-mtp: one card, caches in q4_0
        ("qwen3.5-27b", "Q4_K_M", {"context": 131_072, "cache": "q4_0"}, 18_842 * MIB),
        ("qwen3.5-27b", "Q4_K_M", {"context": 262_144, "cache": "q4_0"}, 21_786 * MIB),
    ],
)
def test_memory_is_what_programs_report(name: str, quant: str, how: dict[str, object], reported: float) -> None:
    used = _used(load_language_model(name, quant), _card(48), **how)
    assert abs(used - reported) <= max(0.05 * reported, 0.7 * GB)


@pytest.mark.parametrize(("context", "reported"), [(8_192, 5_399), (65_536, 7_191), (262_144, 14_171)])
def test_memory_of_a_mac(context: int, reported: int) -> None:
    """A public note: what llama-fit-params prints for Qwen3.5-9B in Q4_0."""
    used = _used(load_language_model("qwen3.5-9b", "Q4_0"), find_platform("M4 Max 64GB"), context=context)
    assert abs(used - reported * MIB) <= max(0.05 * reported * MIB, 0.7 * GB)


def test_a_split_over_two_cards() -> None:
    """With a mix of 16.68 GiB, 20.9 GB were reported for a tensor split, and 21.7 GB by layers."""
    model = load_language_model("qwen3.5-27b", "Q4_K_M")
    plan = plan_llm(model, _card(14, 2), context=131_072, cache="q4_0", reserve=0.0)
    assert plan.stages == (("gpu0+gpu1", 0, 64),)
    used = sum(d.weights_bytes + d.cache_bytes + d.buffers_bytes for d in plan.devices if d.name.startswith("gpu"))
    larger = 16.68 * 2**30 - model.bytes  # of the mix that was measured
    assert used + larger == pytest.approx(20.9 * GB, rel=0.05)
    layers = plan_llm(model, _card(14, 2), context=131_072, cache="q4_0", reserve=0.0, given="-ngl all").given
    assert layers is not None
    used = sum(d.weights_bytes + d.cache_bytes + d.buffers_bytes for d in layers.devices if d.name.startswith("gpu"))
    assert used + larger == pytest.approx(21.7 * GB, rel=0.05)


@pytest.mark.parametrize(
    ("name", "card", "context", "used", "weights"),
    [
        # vLLM's logs: weights, activations and what lies outside PyTorch, without the cache
        ("llama-3-8b", "A100 80GB", 8192, 14.96 + 1.26 + 1.79, 14.96),
        ("qwen2.5-14b", "2x RTX 3090", 4096, 2 * (13.8 + 0.44), 27.6),
    ],
)
def test_memory_of_vllm(name: str, card: str, context: int, used: float, weights: float) -> None:
    plan = plan_llm(name, card, target="vllm", context=context)
    gpus = [device for device in plan.devices if device.name.startswith("gpu")]
    held = sum(device.weights_bytes + device.buffers_bytes for device in gpus) / 2**30
    assert sum(device.weights_bytes for device in gpus) / 2**30 == pytest.approx(weights, rel=0.01)
    room = sum(d.memory_capacity for d in find_platform(card) if d.kind == "gpu") * 0.92 / 2**30
    assert room - held == pytest.approx(room - used, rel=0.05)  # what is left for caches


@pytest.mark.parametrize("slots", [1, 2, 4, 8])
def test_buffers_grow_with_the_sequences(slots: int) -> None:
    """What unsloth measured with one GPU, without the context of the driver and the mask."""
    measured = {1: 36, 2: 492, 4: 1388, 8: 3220}[slots] * MIB
    plan = plan_llm("qwen3.5-27b", _card(80), quant="Q4_K_M", context=256, batch=slots, reserve=0.0)
    (gpu,) = [device for device in plan.devices if device.name.startswith("gpu")]
    assert gpu.buffers_bytes - 0.4 * GB == pytest.approx(measured, rel=0.15)


def test_sums_agree_line_by_line() -> None:
    model = load_language_model("mixtral-8x7b", "Q4_K_M")
    platform = find_platform("2x RTX 3060, 64GB ddr4-3600")
    plan = plan_llm(model, platform, context=16_384)
    assert sum(device.weights_bytes for device in plan.devices) == pytest.approx(model.bytes)
    assert sum(device.cache_bytes for device in plan.devices) == pytest.approx(model.cache_bytes(16_384))
    for device, own in zip(platform, plan.devices, strict=True):
        held = own.weights_bytes + own.cache_bytes + own.buffers_bytes + own.reserve_bytes + own.free_bytes
        assert held == pytest.approx(device.memory_capacity)
        assert own.free_bytes >= 0
    assert sum(device.layers for device in plan.devices) == 32
    assert sum(device.experts for device in plan.devices) == 32
