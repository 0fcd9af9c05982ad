from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from hetgym.costs.gpu.eager import COLUMNS
from hetgym.costs.gpu.work import (
    CLASSES,
    FALLING,
    FLOOR,
    RISING,
    TILES,
    WORK,
    Gpu,
    class_of,
    features,
    physics,
    times,
    work,
)
from hetgym.device import Device
from hetgym.graph import Operator, Tensor
from hetgym.graph.ops import KINDS

GPU = Gpu(bandwidth=1e10, processors=10, cache=1e6, peak=1e12)


def product(batch, m, k, n):
    left, right, out = Tensor((batch, m, k)), Tensor((batch, k, n)), Tensor((batch, m, n))
    return Operator("bmm", "MatMul", (left, right), (out,))


def linear(m, k, n):
    weights = Tensor((n, k), constant=True)
    return Operator("fc", "Gemm", (Tensor((m, k)), weights), (Tensor((m, n)),), {"transB": 1})


def conv(images, channels, filters, side, window, stride=1, group=1):
    out = Tensor((images, filters, side // stride, side // stride))
    weights = Tensor((filters, channels // group, window, window), constant=True)
    attributes = {"strides": (stride, stride), "group": group, "kernel_shape": (window, window)}
    return Operator("conv", "Conv", (Tensor((images, channels, side, side)), weights), (out,), attributes)


def rows(kind, m, n):
    return Operator(kind, kind, (Tensor((m, n)),), (Tensor((m, n)),))


EXAMPLES = {
    "linear": linear(200, 512, 256),
    "batched": product(6, 100, 64, 128),
    "conv": conv(8, 64, 128, 28, 3, 2),
    "elementwise": rows("Relu", 500, 300),
    "softmax": rows("Softmax", 500, 300),
    "layernorm": rows("LayerNormalization", 500, 300),
}


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_has_features_under_their_names(kind):
    op = EXAMPLES[kind]
    assert class_of(op) == kind
    table = work([op, op])
    x = features(kind, table, GPU, GPU.peak)
    assert table.shape == (2, len(WORK)) and x.shape == (2, len(COLUMNS[kind]))
    assert len(set(COLUMNS[kind])) == len(COLUMNS[kind])
    named = dict(zip(COLUMNS[kind], x[0], strict=True))
    moved = op.bytes_read + op.bytes_written
    assert named["log2 seconds of the bytes at peak"] == pytest.approx(math.log2(moved / 1e10 * 1e9))
    assert named["log2 bytes / cache"] == pytest.approx(math.log2(moved / 1e6))
    assert ("log2 bandwidth" in named) == (kind in ("elementwise", "softmax", "layernorm"))


def test_product_features_by_hand():
    x = dict(zip(COLUMNS["linear"], features("linear", work([EXAMPLES["linear"]]), GPU, GPU.peak)[0], strict=True))
    assert (x["log2 m"], x["log2 n"], x["log2 k"]) == (math.log2(200), 8, 9)
    assert (x["alignment of m"], x["alignment of n"], x["alignment of k"], x["alignment of n and k"]) == (3, 6, 6, 6)
    assert x["log2 waves, tiles of 128 x 128"] == pytest.approx(math.log2(4 / 10))
    assert x["filling of the waves, tiles of 64 x 64"] == pytest.approx(16 / 20)  # 4 x 4 tiles on 10 processors
    assert x["filling of the tiles, tiles of 128 x 128"] == pytest.approx(200 / 256)


def test_conv_features_by_hand():
    x = dict(zip(COLUMNS["conv"], features("conv", work([EXAMPLES["conv"]]), GPU, GPU.peak)[0], strict=True))
    assert (x["log2 images"], x["log2 side"], x["log2 window"], x["stride"]) == (3, math.log2(14), math.log2(9), 2)
    assert (x["log2 m"], x["log2 n"], x["log2 k"]) == (math.log2(8 * 14 * 14), 7, math.log2(64 * 9))


def test_physics_is_the_sum_of_a_small_kernel_arithmetic_and_memory():
    table = work([linear(1024, 1024, 1024)])
    compute, memory = (seconds[0] for seconds in times("linear", table, GPU, 1e12))
    assert compute == pytest.approx(2 * 1024**3 / 1e12) and memory == pytest.approx(3 * 4 * 1024**2 / 1e10)
    assert physics("linear", table, GPU, 1e12)[0] == pytest.approx(FLOOR + compute + memory)
    table = work([product(10, 128, 4096, 128)])
    assert physics("batched", table, GPU, 1e12)[0] == pytest.approx(FLOOR + max(times("batched", table, GPU, 1e12))[0])


def test_physics_of_batches_counts_the_best_tiles():
    table = work([product(10, 128, 4096, 128)])  # one tile of 128 x 128 for each processor
    assert times("batched", table, GPU, 1e10)[0][0] == pytest.approx(2 * 10 * 128 * 128 * 4096 / 1e10)
    alone = work([product(1, 32, 65536, 32)])  # one small tile, nine processors idle
    assert times("batched", alone, GPU, 1e10)[0][0] == pytest.approx(10 * 2 * 32 * 32 * 65536 / 1e10 / TILES[32, 32])


@pytest.mark.parametrize("kind", CLASSES)
def test_what_depends_on_the_speed_of_a_board_is_known_by_its_name(kind):
    """Twice the bandwidth, and twice the peak: features change in the direction that their names say, or not at all."""
    table = work([EXAMPLES[kind]])
    first = features(kind, table, GPU, GPU.peak)[0]
    changed = set()
    for gpu in (replace(GPU, bandwidth=2e10), replace(GPU, peak=2e12)):
        for name, one, two in zip(COLUMNS[kind], first, features(kind, table, gpu, gpu.peak)[0], strict=True):
            assert two <= one if name.startswith(RISING) else two >= one if name.startswith(FALLING) else two == one
            changed |= {name} if one != two else set()
    assert changed == {name for name in COLUMNS[kind] if name.startswith((*RISING, *FALLING))}


@given(st.sampled_from(sorted(KINDS)), st.integers(1, 2**40), st.integers(1, 2**40), st.integers(0, 3))
def test_any_operator_has_finite_features(kind, m, n, operands):
    op = Operator("any", kind, (Tensor((m, n)),) * operands, (Tensor((m, n)),))
    try:
        assume(op.flops >= 0)
    except (IndexError, ValueError, ZeroDivisionError):  # operands that the kind does not have
        reject()
    name = class_of(op)
    assert (name is None) == (op.spec.family == "view")
    if name is not None:
        table = work([op])
        assert np.isfinite(table).all() and (table >= 0).all()
        assert np.isfinite(features(name, table, GPU, GPU.peak)).all()
        assert 0 < physics(name, table, GPU, GPU.peak)[0] < math.inf


def test_what_a_device_does_not_say_is_filled_in():
    sparse = Gpu.of(Device("g", "gpu", {"float16": 1e14}, 1e12))
    assert sparse.peak == 1e14 and sparse.processors >= 8 and sparse.cache > 0
    full = Gpu.of(Device("g", "gpu", {"float32": 1e13}, 1e12, processors=56, cache_bytes=4e6))
    assert (full.peak, full.processors, full.cache) == (1e13, 56, 4e6)
    assert (full.power, full.process, full.lanes) == (0, 0, 0)


def test_a_product_is_known_by_its_name():
    """The description wins over the product's sheet; the longest name that fits wins over shorter ones."""
    gpu = Device("NVIDIA A100 80GB PCIe", "gpu", {"float32": 1.95e13}, 1.9e12)
    assert (Gpu.of(gpu).power, Gpu.of(gpu).process, Gpu.of(gpu).lanes) == (300, 7e-9, 16)
    capped = replace(gpu, power_limit=150.0, name="gpu0", model="NVIDIA A100-PCIE-40GB")
    assert (Gpu.of(capped).power, Gpu.of(capped).lanes, Gpu.of(capped).clock) == (150, 16, 0)
    assert Gpu.of(replace(capped, power_limit=None)).clock == 0.9
    assert Gpu.of(replace(gpu, name="A100")).power == 0


def test_features_of_products_do_not_tell_boards_apart():
    """Two boards that relate alike to the work get equal features of products, whatever their size."""
    table = work([EXAMPLES["linear"]])
    twice = table.copy()
    twice[:, 4:7] *= 2  # the other board is twice as fast in everything but has as many processors
    other = replace(GPU, bandwidth=2e10, peak=2e12, cache=2e6)
    one, two = (dict(zip(COLUMNS["linear"], features("linear", t, g, g.peak)[0], strict=True)) for t, g in
                ((table, GPU), (twice, other)))  # fmt: skip
    same = [name for name in one if one[name] == pytest.approx(two[name])]
    assert set(one) - set(same) == {"log2 left operand / cache", "log2 right operand / cache"}
