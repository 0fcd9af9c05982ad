"""Quantised weights: no model prices an operator below its stored bytes, and smaller formats are never dearer."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetgym import load_platform
from hetgym.costs import AutoCosts, Roofline, artefact, load_costs
from hetgym.costs.rates import quantised
from hetgym.device import Device
from hetgym.graph import Operator, Tensor
from hetgym.graph.formats import FORMATS
from hetgym.graph.language_model import CACHE_DTYPES
from hetgym.graph.ops import DTYPE_BYTES
from hetgym.platform import platform_names

DEVICES = list({(d.kind, d.model): d for name in platform_names() for d in load_platform(name)}.values())
BY_SIZE = sorted([*FORMATS, "float32", "bfloat16", "float16"], key=lambda name: -DTYPE_BYTES[name])
ROUNDING = 1 + 1e-9


@st.composite
def operators(draw: st.DrawFn) -> tuple[Operator, ...]:
    """One operator with a constant in each format, largest first."""
    rows = draw(st.sampled_from([1, 1, 2, 7, 32]))
    n, k = (256 * draw(st.integers(1, 64)) for _ in "nk")
    act = draw(st.sampled_from(["bfloat16", "float16", "float32"]))
    kind = draw(st.sampled_from(["Gemm", "GroupedMatMul", "Gather", "Attention", "Other"]))
    x, y = Tensor((rows, k), act), Tensor((rows, n), act)
    heads = draw(st.sampled_from([1, 2, 8]))
    query, cache = Tensor((rows, 8, 1, 128), act), (rows, heads, n, 128)

    def made(dtype: str) -> Operator:
        if kind == "Attention":
            return Operator("a", kind, (query, *(Tensor(cache, dtype, True, s) for s in "kv")), (query,))
        if kind == "Gather":
            return Operator("a", kind, (Tensor((n, k), dtype, True, "w"), Tensor((rows,), "int64")), (x,))
        if kind == "GroupedMatMul":
            return Operator("a", kind, (x, Tensor((8, n, k), dtype, True, "w")), (y,), {"transB": 1})
        return Operator("a", kind, (x, Tensor((n, k), dtype, True, "w")), (y,), {"transB": 1})

    return tuple(made(dtype) for dtype in (CACHES if kind == "Attention" else BY_SIZE))


CACHES = sorted(set(CACHE_DTYPES) - {"float8"}, key=lambda name: -DTYPE_BYTES[name])


@settings(max_examples=60, deadline=None)
@given(operators(), st.sampled_from(DEVICES), st.floats(0.1, 10))
def test_the_roofline_reads_stored_bytes(formats: tuple[Operator, ...], device: Device, scale: float) -> None:
    device = replace(device, memory_bandwidth=scale * device.memory_bandwidth)
    seconds = Roofline().predict(formats, device)
    moved = np.array([op.bytes_read + op.bytes_written for op in formats])
    assert (seconds * ROUNDING >= moved / device.memory_bandwidth).all()
    assert (seconds[1:] <= seconds[:-1] * ROUNDING).all()
    assert len({op.flops for op in formats}) == 1  # arithmetic is that of the activations


@settings(max_examples=60, deadline=None)
@given(operators(), st.sampled_from(DEVICES))
def test_every_model_of_a_device_does_too(formats: tuple[Operator, ...], device: Device) -> None:
    packed = [op for op in formats if quantised(op)]
    seconds = AutoCosts().predict(packed, device)
    moved = np.array([op.bytes_read + op.bytes_written for op in packed])
    outside = moved > (device.cache_bytes or 0)
    assert (seconds[outside] * ROUNDING >= moved[outside] / device.memory_bandwidth).all()
    assert (seconds[1:] <= seconds[:-1] * ROUNDING).all()
    assert (seconds > 0).all() and np.isfinite(seconds).all()


@pytest.mark.parametrize("name", artefact.names())
def test_shipped_models_leave_quantised_weights_to_the_roofline_or_scale_their_own_price(name: str) -> None:
    model = load_costs(name)
    gpu = load_platform("8gpu-node")[0]
    device = gpu if name.startswith("gpu") else load_platform("cpu-gpu")[0]
    x = Tensor((1, 4096), "bfloat16")
    plain, packed = (
        Operator("a", "Gemm", (x, Tensor((4096, 4096), dtype, True, "w")), (x,), {"transB": 1})
        for dtype in ("bfloat16", "q4_k")
    )
    both, alone = model.predict([plain, packed], device), model.predict([packed], device)
    assert both[1] == alone[0] and both[0] == model.predict([plain], device)[0]
    told = model.explain(packed, device)
    assert told.seconds == alone[0]
    if name == "gpu-half":
        assert both[1] < both[0]
    else:
        assert alone[0] == Roofline().predict([packed], device)[0]
        assert "quantised weights were not measured: the roofline prices operators that read them" in told.rules
