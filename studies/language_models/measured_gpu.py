"""Language models on a GPU, by PyTorch: what prefill, decoding and long contexts take, in time and memory.

    python studies/language_models/measured_gpu.py --out rows.csv

Weights are random. *dense* is Llama-3.1-8B in bfloat16. *mixture* has 16 of the 48 layers of Qwen3-30B-A3B, whose
experts stay in the host's memory and run there on all its cores; all else is on the GPU. Attention is PyTorch's fused
one over a cache of keys and values that is allocated for the whole context. *graph* means that a decoded token is one
CUDA graph, which takes the host out. Times are medians; memory is what PyTorch's allocator held at most, and what the
driver reports.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention.bias import causal_lower_right

BFLOAT = torch.bfloat16
DENSE = {
    "hidden": 4096,
    "layers": 32,
    "heads": 32,
    "kv": 8,
    "head": 128,
    "ffn": 14336,
    "words": 128256,
    "experts": 0,
    "used": 0,
}
MIXTURE = {
    "hidden": 2048,
    "layers": 16,
    "heads": 32,
    "kv": 4,
    "head": 128,
    "ffn": 768,
    "words": 151936,
    "experts": 128,
    "used": 8,
}


def draw(*shape: int) -> torch.Tensor:
    """Random weights on the GPU."""
    return torch.empty(shape, dtype=BFLOAT, device="cuda").normal_(std=0.02)


class Model:
    """A decoder with random weights."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.s = s = sizes
        h, q, kv = s["hidden"], s["heads"] * s["head"], s["kv"] * s["head"]
        self.table, self.out = draw(s["words"], h), draw(s["words"], h)
        self.layers: list[dict[str, Any]] = []
        for _ in range(s["layers"]):
            layer: dict[str, Any] = {
                "norm1": draw(h),
                "norm2": draw(h),
                "qkv": draw(q + 2 * kv, h),
                "o": draw(h, q),
            }
            if s["experts"]:
                layer["router"] = draw(s["experts"], h)
                layer["up"] = draw(s["experts"], 2 * s["ffn"], h).cpu()
                layer["down"] = draw(s["experts"], h, s["ffn"]).cpu()
            else:
                layer["up"], layer["down"] = draw(2 * s["ffn"], h), draw(h, s["ffn"])
            self.layers.append(layer)
        torch.cuda.empty_cache()
        self.norm = draw(h)
        half = torch.arange(0, s["head"], 2, device="cuda") / s["head"]
        self.frequency = 1.0 / 500000.0**half

    def cache(self, batch: int, context: int) -> list[torch.Tensor]:
        """An empty cache of keys and values."""
        s = self.s
        shape = (2, batch, s["kv"], context, s["head"])
        return [torch.zeros(shape, dtype=BFLOAT, device="cuda") for _ in range(s["layers"])]

    def run(self, tokens: torch.Tensor, cache: list[torch.Tensor], at: torch.Tensor, held: int) -> torch.Tensor:
        """Logits of the last position of [batch, n] tokens at positions ``at`` [n]; ``held`` of the cache are read."""
        s = self.s
        batch, n = tokens.shape
        x = self.table[tokens]
        angle = at[:, None].float() * self.frequency
        cos, sin = angle.cos().to(BFLOAT), angle.sin().to(BFLOAT)
        for layer, kept in zip(self.layers, cache, strict=True):
            y = F.rms_norm(x, (s["hidden"],), layer["norm1"])
            qkv = F.linear(y, layer["qkv"]).view(batch, n, s["heads"] + 2 * s["kv"], s["head"]).transpose(1, 2)
            q, k, v = qkv.split([s["heads"], s["kv"], s["kv"]], 1)
            q, k = turn(q, cos, sin), turn(k, cos, sin)
            kept[0].index_copy_(2, at, k)
            kept[1].index_copy_(2, at, v)
            keys, values = kept[0][:, :, :held], kept[1][:, :, :held]
            if n == 1:
                y = F.scaled_dot_product_attention(q, keys, values, enable_gqa=True)
            elif n == held:
                y = F.scaled_dot_product_attention(q, keys, values, is_causal=True, enable_gqa=True)
            else:
                bias = causal_lower_right(n, held)
                y = F.scaled_dot_product_attention(q, keys, values, attn_mask=bias, enable_gqa=True)
            x = x + F.linear(y.transpose(1, 2).reshape(batch, n, -1), layer["o"])
            y = F.rms_norm(x, (s["hidden"],), layer["norm2"])
            x = x + (self.experts(y, layer) if s["experts"] else self.dense(y, layer["up"], layer["down"]))
        return F.linear(F.rms_norm(x[:, -1], (s["hidden"],), self.norm), self.out)

    def dense(self, y: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
        """A gated feed-forward layer."""
        gate, value = F.linear(y, up).chunk(2, -1)
        return F.linear(F.silu(gate) * value, down)

    def experts(self, y: torch.Tensor, layer: dict[str, Any]) -> torch.Tensor:
        """A layer of experts, which run on the host."""
        flat = y.reshape(-1, y.shape[-1])
        weight, chosen = torch.topk(torch.softmax(F.linear(flat, layer["router"]), -1), self.s["used"])
        there, weight, chosen = flat.cpu(), weight.cpu(), chosen.cpu()
        out = torch.zeros_like(there)
        for expert in chosen.unique().tolist():
            row, slot = (chosen == expert).nonzero(as_tuple=True)
            part = self.dense(there[row], layer["up"][expert], layer["down"][expert])
            out.index_add_(0, row, part * weight[row, slot, None])
        return out.cuda().view(y.shape)


def turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def timed(call: Any, least: int = 5, most: float = 1.5) -> tuple[float, int]:
    """Median time of a call [s], and how often it ran."""
    for _ in range(2):
        call()
    times: list[float] = []
    while len(times) < least or (sum(times) < most and len(times) < 40):
        torch.cuda.synchronize()
        began = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return statistics.median(times), len(times)


class Rows:
    """Rows that are written as they come."""

    COLUMNS = (
        "model",
        "phase",
        "batch",
        "tokens",
        "context",
        "way",
        "seconds",
        "runs",
        "allocated",
        "reserved",
        "device_used",
    )

    def __init__(self, path: Path) -> None:
        self.file = path.open("w", newline="")
        self.writer = csv.writer(self.file, lineterminator="\n")
        self.writer.writerow(self.COLUMNS)

    def add(self, *row: Any) -> None:
        """A row, with the memory that is in use."""
        free, total = torch.cuda.mem_get_info()
        memory = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), total - free
        self.writer.writerow([*row, *memory])
        self.file.flush()
        print(*row, *memory, flush=True)


def fresh() -> None:
    """Forget what was held."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def prefill(model: Model, name: str, rows: Rows, batch: int, tokens: int, before: int = 0) -> None:
    """A pass over tokens with ``before`` tokens in the cache."""
    fresh()
    cache, held = model.cache(batch, before + tokens), before + tokens
    given = torch.randint(0, 1000, (batch, tokens), device="cuda")
    at = torch.arange(before, held, device="cuda")
    seconds, runs = timed(lambda: model.run(given, cache, at, held), 3, 1.0)
    rows.add(name, "prefill", batch, tokens, held, "eager", seconds, runs)


def decode(model: Model, name: str, rows: Rows, batch: int, context: int, graph: bool) -> None:
    """One token after a context."""
    fresh()
    cache = model.cache(batch, context)
    given = torch.randint(0, 1000, (batch, 1), device="cuda")
    at = torch.full((1,), context - 1, device="cuda")
    call: Any = lambda: model.run(given, cache, at, context)  # noqa: E731
    if graph:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            call()
        torch.cuda.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            call()
        call = captured.replay
    seconds, runs = timed(call)
    rows.add(name, "decode", batch, 1, context, "graph" if graph else "eager", seconds, runs)


def largest(model: Model, name: str, rows: Rows) -> None:
    """The largest context, in thousands of tokens, at whose end a pass of 512 tokens fits."""
    low, high = 0, 4096
    while high - low > 4:
        middle = (low + high) // 2
        fresh()
        try:
            cache = model.cache(1, 1024 * middle)
            given = torch.randint(0, 1000, (1, 512), device="cuda")
            model.run(given, cache, torch.arange(1024 * middle - 512, 1024 * middle, device="cuda"), 1024 * middle)
            torch.cuda.synchronize()
            low = middle
            rows.add(name, "largest", 1, 512, 1024 * middle, "fits", 0.0, 1)
        except torch.OutOfMemoryError:
            high = middle
            rows.add(name, "largest", 1, 512, 1024 * middle, "does not fit", 0.0, 1)
        cache = given = None


@torch.inference_mode()
def main() -> None:
    """Measure all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    rows = Rows(parser.parse_args().out)
    print(torch.__version__, torch.cuda.get_device_name(), torch.get_num_threads(), flush=True)
    fresh()
    rows.add("none", "idle", 0, 0, 0, "", 0.0, 0)
    model = Model(DENSE)
    rows.add("dense", "loaded", 0, 0, 0, "", 0.0, 0)
    for context in (128, 1024, 4096, 16384, 65536):
        for graph in (True, False):
            decode(model, "dense", rows, 1, context, graph)
    for batch, context in ((2, 1024), (8, 1024), (8, 16384), (32, 1024)):
        decode(model, "dense", rows, batch, context, True)
    for batch, tokens in ((1, 128), (1, 512), (1, 2048), (1, 8192), (4, 2048)):
        prefill(model, "dense", rows, batch, tokens)
    prefill(model, "dense", rows, 1, 512, 15872)
    largest(model, "dense", rows)
    del model
    fresh()
    model = Model(MIXTURE)
    rows.add("mixture", "loaded", 0, 0, 0, "", 0.0, 0)
    for context in (128, 4096, 16384):
        decode(model, "mixture", rows, 1, context, False)
    decode(model, "mixture", rows, 8, 1024, False)
    for tokens in (128, 512, 2048):
        prefill(model, "mixture", rows, 1, tokens)


if __name__ == "__main__":
    main()
