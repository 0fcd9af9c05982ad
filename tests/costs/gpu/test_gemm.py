from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetgym import PlatformError
from hetgym.costs import CostModel, Roofline
from hetgym.costs.batches import DOUBLINGS
from hetgym.costs.gpu.gemm import (
    FLOOR,
    GEMM_FEATURES,
    GEMM_GPUS,
    LAUNCH,
    MEMORY_EFFICIENCY,
    GemmCosts,
    GemmGpu,
    gemm_dimensions,
    gemm_features,
    gemm_physics,
)
from hetgym.device import Device
from hetgym.graph import DataflowGraph, Operator, Tensor
from hetgym.graph.transforms import fuse

GPU = GemmGpu(peak_flops=1e12, memory_bandwidth=1e10, processors=10, cache_bytes=1e6)
DEVICE = Device("gpu", "gpu", {"float32": 1e11, "bfloat16": 1e12}, 1e10, launch_overhead=1e-3)


class Counting:
    """Trees that say how full the last wave of 128 x 128 tiles is, and count what they were asked."""

    def __init__(self) -> None:
        self.rows = 0

    def predict(self, x):
        self.rows += len(x)
        return -np.log(x[:, GEMM_FEATURES.index("filling of the waves, tiles of 128 x 128")])


def product(m, k, n, dtype="bfloat16", batch=(), kind="MatMul", name="mm"):
    left, right, out = Tensor((*batch, m, k), dtype), Tensor((*batch, k, n), dtype), Tensor((*batch, m, n), dtype)
    return Operator(name, kind, (left, right), (out,))


def test_features_by_hand():
    x = dict(zip(GEMM_FEATURES, gemm_features(*np.array([[200.0], [256.0], [512.0]]), GPU)[0], strict=True))
    assert x["log2 seconds of the FLOPs at peak"] == pytest.approx(math.log2(2 * 200 * 256 * 512 / 1e12))
    assert x["log2 m"] == pytest.approx(math.log2(200)) and x["m modulo 128"] == 72 and x["m divisible by 8"] == 1
    assert x["log2 waves, tiles of 128 x 128"] == pytest.approx(math.log2(4 / 10))  # 2 x 2 tiles, 10 processors
    assert x["filling of the waves, tiles of 128 x 128"] == pytest.approx(0.4)
    assert x["filling of the tiles, tiles of 128 x 128"] == pytest.approx(200 / 256)
    fullest = x["log2 outputs x k of the fullest processor, tiles of 128 x 128"]
    assert fullest == pytest.approx(math.log2(128 * 128 * 512))
    assert len(x) == len(GEMM_FEATURES)  # no name twice


def test_dimensions_of_every_form():
    w = Tensor((30, 20), "bfloat16", constant=True)
    y = Tensor((4, 7, 30), "bfloat16")
    linear = Operator("fc", "Gemm", (Tensor((4, 7, 20), "bfloat16"), w, Tensor((30,), "bfloat16")), (y,), {"transB": 1})
    assert gemm_dimensions(linear) == (1, 28, 30, 20)
    turned = Operator("t", "Gemm", (Tensor((20, 7)), Tensor((20, 30))), (Tensor((7, 30)),), {"transA": 1})
    assert gemm_dimensions(turned) == (1, 7, 30, 20)
    assert gemm_dimensions(product(5, 6, 7, batch=(2, 3))) == (6, 5, 7, 6)
    assert gemm_dimensions(Operator("mv", "MatMul", (Tensor((5, 6)), Tensor((6,))), (Tensor((5,)),))) == (1, 5, 1, 6)
    assert gemm_dimensions(Operator("dot", "MatMul", (Tensor((6,)), Tensor((6,))), (Tensor(()),))) == (1, 1, 1, 6)
    assert gemm_dimensions(Operator("vm", "MatMul", (Tensor((6,)), Tensor((6, 7))), (Tensor((7,)),))) == (1, 1, 7, 6)
    assert gemm_dimensions(Operator("r", "Relu", (y,), (y,))) is None


@given(*(st.integers(1, 300),) * 4)
def test_dimensions_agree_with_the_vocabulary(batch, m, n, k):
    for op in (product(m, k, n, batch=(batch,)), product(m, k, n)):
        b, *sizes = gemm_dimensions(op)
        assert 2.0 * b * math.prod(sizes) == op.flops


def test_physics_times_what_the_trees_say():
    model = GemmCosts(Counting(), GPU, (-5.0, 5.0))
    big = product(1280, 4096, 1280)  # 100 tiles: full waves
    assert model.predict([big], DEVICE)[0] == pytest.approx(FLOOR + 2 * 1280 * 4096 * 1280 / 1e12)
    partial = product(384, 8192, 640)  # 15 tiles on 10 processors
    assert model.predict([partial], DEVICE)[0] == pytest.approx((FLOOR + 2 * 384 * 8192 * 640 / 1e12) * 2 / 1.5)


def test_limits_hold():
    class Far:
        def predict(self, x):
            return np.where(x[:, GEMM_FEATURES.index("log2 n")] > 6, 1e9, -np.inf)

    low, high = GemmCosts(Far(), GPU, (-1.0, 2.0)).seconds(64, [64, 128], 64) / gemm_physics(
        np.ones(2), *(np.array(size, np.float64) for size in ([64, 64], [64, 128], [64, 64])), GPU
    )
    assert high / low == pytest.approx(math.exp(3))


def test_a_batch_takes_its_own_traffic():
    model = GemmCosts(Counting(), GPU, (0.0, 0.0))
    batched = model.predict([product(8, 512, 512, batch=(64,))], DEVICE)[0]
    assert batched == pytest.approx(FLOOR + 64 * 2 * (8 * 512 + 512 * 512 + 8 * 512) / 1e10)


def test_a_fused_product_is_its_product_and_what_else_it_moves():
    x, w, bias, y = (
        Tensor((64, 256), "bfloat16"),
        Tensor((256, 512), "bfloat16", constant=True),
        Tensor((512,), "bfloat16", constant=True),
        Tensor((64, 512), "bfloat16"),
    )
    other = Tensor((64, 512), "bfloat16", constant=True, name="positions")
    graph = DataflowGraph(
        [
            Operator("mm", "MatMul", (x, w), (y,)),
            Operator("bias", "Add", (y, bias), (y,)),
            Operator("sum", "Add", (y, other), (y,)),
            Operator("relu", "Relu", (y,), (y,)),
        ],
        edges=[(0, 0, 1), (1, 0, 2), (2, 0, 3)],
        name="linear",
    )
    (fused,) = fuse(graph).graph.operators
    assert fused.kind == "Fused-matmul" and gemm_dimensions(fused) == (1, 64, 512, 256)
    model = GemmCosts(Counting(), GPU, (-5.0, 5.0))
    alone, together = model.predict([graph.operators[0], fused], DEVICE)
    assert together - alone == pytest.approx((bias.bytes + other.bytes) / (1e10 * MEMORY_EFFICIENCY))
    batched = fuse(
        DataflowGraph(
            [product(8, 16, 32, batch=(4, 3)), Operator("r", "Relu", (t := Tensor((4, 3, 8, 32), "bfloat16"),), (t,))],
            edges=[(0, 0, 1)],
            name="scores",
        )
    )
    assert [gemm_dimensions(op) for op in batched.graph.operators] == [(12, 8, 32, 16)]


def test_other_operators_and_devices_are_the_rooflines():
    model = GemmCosts(Counting(), GPU, (-5.0, 5.0))
    x = Tensor((1000, 1000), "bfloat16")
    relu = Operator("relu", "Relu", (x,), (x,))
    assert model.predict([relu], DEVICE)[0] == pytest.approx(LAUNCH + 4e6 / (1e10 * MEMORY_EFFICIENCY))
    wide = product(64, 64, 64, "float32")
    like = Device("d", "gpu", DEVICE.peak_flops, 1e10, launch_overhead=LAUNCH, memory_efficiency=MEMORY_EFFICIENCY)
    np.testing.assert_array_equal(model.predict([wide, relu], DEVICE), Roofline().predict([wide, relu], like))
    cpu = Device("cpu", "cpu", {"float32": 1e11}, 1e10)
    operators = [wide, relu, product(64, 64, 64)]
    np.testing.assert_array_equal(model.predict(operators, cpu), Roofline().predict(operators, cpu))
    assert isinstance(model, CostModel) and model.predict([], DEVICE).shape == (0,)


def test_shapes_are_remembered():
    trees = Counting()
    model = GemmCosts(trees, GPU, (-5.0, 5.0))
    operators = [product(m, 64, 64, name=f"{i}-{m}") for i in range(100) for m in (1, 2, 3)]
    first = model.predict(operators, DEVICE)
    asked = trees.rows
    assert 3 <= asked <= 3 * (1 + DOUBLINGS)
    np.testing.assert_array_equal(model.predict(operators[::-1], DEVICE)[::-1], first)
    assert trees.rows == asked


def test_spread_is_that_of_cross_validation():
    model = GemmCosts(Counting(), GPU, (-5.0, 5.0), (math.log(0.9), math.log(1.2)))
    x = Tensor((8,), "bfloat16")
    operators = [product(256, 256, 256), Operator("relu", "Relu", (x,), (x,))]
    middle = model.predict(operators, DEVICE)
    low, high = model.spread(operators, DEVICE)
    np.testing.assert_allclose([low / middle, high / middle], [[0.9, 1.0], [1.2, 1.0]])


def test_a_data_sheet_is_checked():
    with pytest.raises(PlatformError, match="GPU: processors"):
        GemmGpu(1e12, 1e9, 0, 1e6)
    assert set(GEMM_GPUS) == {"a100", "h100", "h200"}


@given(*(st.integers(0, 2**40),) * 4)
def test_any_shape_has_a_positive_finite_time(batch, m, n, k):
    model = GemmCosts(Counting(), GEMM_GPUS["h100"], (-2.0, 2.0))
    seconds = model.predict([product(m, k, n, batch=(batch,)), product(m, k, n), product(1, k, n)], DEVICE)
    assert np.isfinite(seconds).all() and (seconds > 0).all()
