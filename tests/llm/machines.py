"""Small language models and machines, drawn at random."""

from typing import Any

import numpy as np

from hetgym import Device, Link, Platform
from hetgym.graph.from_config import from_config
from hetgym.graph.language_model import LanguageModel


def model(rng: np.random.Generator, layers: tuple[int, int] = (2, 6)) -> LanguageModel:
    """A dense model or a mixture, of some hundred megabytes."""
    hidden = 256 * int(rng.integers(1, 9))
    config: dict[str, Any] = {
        "hidden_size": hidden, "num_hidden_layers": int(rng.integers(layers[0], layers[1] + 1)),
        "num_attention_heads": hidden // 64, "vocab_size": 1000 * int(rng.integers(1, 60)),
        "intermediate_size": 4 * hidden, "tie_word_embeddings": bool(rng.integers(2)),
        "max_position_embeddings": 131072,
    }  # fmt: skip
    if rng.integers(2):
        more = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 2 * hidden, "head_dim": 64}
        return from_config({"model_type": "qwen3_moe", **config, **more})
    return from_config({"model_type": "llama", **config})


def machine(rng: np.random.Generator, need: float, gpus: int | None = None, cpu: bool | None = None) -> Platform:
    """GPUs behind a switch, and maybe a CPU, of which each holds some share of the bytes that are needed."""
    count = int(rng.integers(1, 4)) if gpus is None else gpus
    devices, links = [], []
    if rng.integers(2) if cpu is None else cpu:
        devices.append(Device("cpu", "cpu", {"float32": 1e12}, float(rng.uniform(20e9, 100e9)), 3 * need))
        links.append(("cpu", 0.0, 40e9))
    for k in range(count):
        rate, share = float(rng.uniform(100e9, 2000e9)), float(rng.uniform(0.1, 1.3))
        kind = {"float32": 1e13, "float16": 4e13}
        devices.append(Device(f"gpu{k}", "gpu", kind, rate, share * need, memory_reserve=0.0))
        links.append((f"gpu{k}", 10e-6, float(rng.uniform(1e9, 30e9))))
    both = [Link(a, b, t, r) for name, t, r in links for a, b in ((name, "host"), ("host", name))]
    return Platform("drawn", tuple(devices), tuple(both), ("host",))
