"""Text frames of splitting."""

from __future__ import annotations

import math

from hetgym import DataflowGraph, Platform
from hetgym.device import Device, Link
from hetgym.envs import (
    HetSplitEnv,
)
from hetgym.graph import Operator, Tensor


def machine(ratio: float = 1.0, memory: float = math.inf, latency: float = 1e-6, devices: int = 2) -> Platform:
    """Devices of 1 TFLOP/s, the first ``ratio`` times slower, links of 1 TB/s, without launch overhead."""
    perfect = {"matmul": 1.0, "conv": 1.0, "elementwise": 1.0}
    made = [
        Device(
            f"d{k}",
            "gpu",
            {"float32": 1e12 / (ratio if k == 0 else 1.0)},
            1e18,
            memory,
            efficiency=perfect,
            memory_efficiency=1.0,
        )
        for k in range(devices)
    ]
    names = [device.name for device in made]
    return Platform("made", made, [Link(a, b, latency, 1e12) for a in names for b in names if a != b])


def products(count: int = 1, size: int = 1024) -> DataflowGraph:
    """A chain of products of square matrices: 2 size^3 FLOP each."""
    x = Tensor((size, size))
    nodes = [
        Operator(f"p{k}", "MatMul", (x, Tensor((size, size), constant=True, name=f"w{k}")), (x,)) for k in range(count)
    ]
    return DataflowGraph(nodes, [(k, 0, k + 1) for k in range(count - 1)], "products")


def test_text_frames_name_what_is_split() -> None:
    env = HetSplitEnv(products(2), machine(), render_mode="ansi")
    env.reset(seed=0)
    assert "0/2 decided" in env.render() and "next: p0 (MatMul): leave, batch x2 equal" in env.render()
    env.step(1)
    assert "p0: batch x2 equal" in env.render()
    env.step(0)
    assert "done: makespan" in env.render()
