"""Cases of language models on people's machines, as figures; see ``tests/test_cases.py``."""

from collections.abc import Callable
from typing import Any

import hetgym
from hetgym import Device, Link, Platform, Problem
from hetgym.errors import OutOfMemory
from hetgym.graph.from_config import from_config
from hetgym.graph.language_model import LanguageModel
from hetgym.graph.mixes import mixed
from hetgym.llm import LlmPlan, plan_llm
from hetgym.llm.proportional import layer_rule
from hetgym.topology import find_platform


def card(name: str, bandwidth: float, capacity: float, peak: float = 35e12) -> Device:
    """A GPU without a data sheet, whose capacity is what is free."""
    kind = {"float32": peak, "float16": 2 * peak, "bfloat16": 2 * peak}
    return Device(name, "gpu", kind, bandwidth, capacity, launch_overhead=5e-6)


def machine(*devices: Device, rates: tuple[float, ...] = (15.75e9,)) -> Platform:
    """Devices behind one host, each over its own link."""
    links = []
    for k, device in enumerate(devices):
        cpu = device.kind == "cpu"
        rate = device.memory_bandwidth * 0.7 if cpu else rates[min(k, len(rates) - 1)] * 0.78
        latency = 0.0 if cpu else 10e-6
        links += [Link(device.name, "host", latency, rate), Link("host", device.name, latency, rate)]
    return Platform("machine", devices, tuple(links), ("host",))


def unified_memory() -> dict[str, Any]:
    try:
        plan_llm("mixtral-8x7b", find_platform("M2 Max 64GB"))
    except OutOfMemory:
        return {"fits_93_GB_in_64_GB": False}
    return {"fits_93_GB_in_64_GB": True}


def three_cards() -> dict[str, Any]:
    """Two RTX 3090 and a GTX 1660 Super over PCIe 3 x16, x4 and x1, a CPU with two channels of DDR4-3867."""
    cpu = Device("cpu", "cpu", {"float32": 7.4e11}, 61.9e9, 137e9)
    cards = card("gpu0", 936e9, 25.1e9), card("gpu1", 936e9, 25.1e9), card("gpu2", 336e9, 6.2e9, 5e12)
    platform = machine(cpu, *cards, rates=(0.0, 15.75e9, 3.94e9, 0.985e9))
    plan = plan_llm(
        "mixtral-8x22b", platform, quant="Q4_K_M", context=32_768, cache="q8_0", given="-ngl 33 -ts 15/15/3"
    )
    assert plan.given is not None and plan.given.fits
    assert [device.layers for device in plan.given.devices] == [24, 15, 15, 2]
    return {
        "rate_experts_on_cpu_over_whole_layers": 1 / plan.given.of_best,
        "tok_s_whole_layers": plan.given.decode_tokens_per_second,
        "flags_accepted": " -ot 'blk" in plan.flags and "=CPU'" in plan.flags,
    }


def two_16_gb_cards() -> dict[str, Any]:
    """A mixture of 48 layers on cards with 11 and 10 GiB that are free for weights."""
    cpu = Device("cpu", "cpu", {"float32": 1e12}, 80e9, 64e9)
    platform = machine(cpu, card("gpu0", 448e9, 11.8e9), card("gpu1", 448e9, 10.7e9))
    plan = plan_llm("qwen3-next-80b-a3b", platform, quant="Q4_K_M", context=8192, reserve=0.0)
    return {
        "resident_expert_layers_by_card": [device.experts for device in plan.devices[1:]],
        "fits_by_card": all(device.free_bytes >= 0 for device in plan.devices),
    }


def largest_context() -> dict[str, Any]:
    """100 layers on four cards of 22 GB, of which an encoder of images takes 7.8 GB of the first."""
    sizes = {"hidden_size": 8192, "num_hidden_layers": 100, "num_attention_heads": 64, "num_key_value_heads": 8}
    sizes |= {"intermediate_size": 28_672, "vocab_size": 128_256, "max_position_embeddings": 131_072}
    config = {"model_type": "llama", **sizes}
    model = mixed(from_config(config), "Q4_K_M")
    platform = machine(*(card(f"gpu{k}", 616e9, 23.6e9, 13e12) for k in range(4)))
    taken = {"gpu0": 7.8e9, "gpu3": 1e9}
    default = [layer_rule(100, 101, [26, 25, 25, 25]).count(k) for k in range(4)]
    plan = plan_llm(model, platform, context=8192, reserve=taken)
    least = _context_of("-ngl 101 -ts 26,25,25,25", model, platform, taken)
    return {
        "default_split": [*default[:3], default[3] - 1],
        "context_best_split_over_default": plan.largest_context / least,
    }


def _context_of(given: str, model: LanguageModel, platform: Platform, taken: dict[str, float]) -> int:
    """The largest context of a given split."""
    low, high = 1, 1 << 9
    while low < high:
        middle = (low + high + 1) // 2
        plan = plan_llm(model, platform, context=256 * middle, reserve=taken, given=given)
        assert plan.given is not None
        low, high = (middle, high) if plan.given.fits else (low, middle - 1)
    return 256 * low


def two_unequal_cards() -> dict[str, Any]:
    def planned(platform: Platform, context: int) -> LlmPlan:
        return plan_llm("qwen2.5-32b", platform, quant="Q5_K_M", context=context)

    newer = planned(machine(card("gpu0", 1008e9, 24.155e9, 82.6e12), card("gpu1", 1792e9, 32.496e9, 105e12)), 111_323)
    older = planned(machine(card("gpu0", 936e9, 24.8e9), card("gpu1", 616e9, 11.2e9, 13.4e12)), 32_768)
    spare = sum(x.free_bytes + x.reserve_bytes + x.buffers_bytes for x in newer.devices)
    return {
        "1820_fits_gb_to_spare": spare / 1e9,
        "1820_layers": [device.layers for device in newer.devices],
        "7956_gb_by_card": [(device.weights_bytes + device.cache_bytes) / 1e9 for device in older.devices],
    }


def two_nodes() -> dict[str, Any]:
    """80 equal layers of 40 GB on nodes of 400 GB/s with 64 GB and 800 GB/s with 12.1 GB, a hop of 1 ms."""
    cost = [[0.5e9 / 400e9, 0.5e9 / 800e9]] * 80
    edges = [(i, i + 1, 16e3) for i in range(79)]
    sizes = {"weight_bytes": 0.5e9, "output_bytes": 16e3, "memory_capacity": [64e9, 12.1e9]}
    problem = Problem.from_arrays(cost, edges, latency=1e-3, bandwidth=1e9, **sizes)  # type: ignore[arg-type]
    plan = hetgym.plan(problem, runtime="links", budget="500ms")
    layers = [int(device) for device in plan.assignment]
    return {"layers": [layers.count(0), layers.count(1)], "ms_a_token": plan.makespan * 1e3}


def tensor_or_layer() -> dict[str, Any]:
    """A dense model of 27 billion parameters on two RTX 5060 Ti over PCIe 3 x8 without peer access."""
    platform = find_platform("2x RTX 5060 Ti 16GB, pcie 3")
    plan = plan_llm("qwen3.5-27b", platform, quant="Q4_K_M", context=4096)
    rate = {option.name: option.decode_tokens_per_second for option in plan.options}
    layer, tensor = rate["layer"], rate["tensor"]
    assert layer is not None and tensor is not None
    return {"tok_s_layer": layer, "tok_s_tensor": tensor, "tensor_over_layer": tensor / layer}


CASES: dict[str, Callable[..., dict[str, Any]]] = {
    "00-unified-memory": unified_memory,
    "01-8x22b-three-cards": three_cards,
    "05-moe-two-16gb-cards": two_16_gb_cards,
    "10-largest-context": largest_context,
    "11-3090-2080ti, 13-32b-two-cards": two_unequal_cards,
    "14-exo-two-nodes": two_nodes,
    "15-tensor-or-layer-split": tensor_or_layer,
}
