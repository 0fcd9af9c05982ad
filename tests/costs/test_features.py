"""Features: the loop sizes of each kind, and that every legal operator has them."""

from dataclasses import replace

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from hetgym import load_graph
from hetgym.costs.features import COLUMN, FEATURES, class_of, features, loops, physics
from hetgym.device import Device
from hetgym.graph import Operator, Tensor
from hetgym.graph.ops import KINDS
from hetgym.graph.transforms import fuse, training

CPU = Device("cpu", "cpu", {"float32": 1e11}, 1e10, launch_overhead=1e-6, processors=1, cache_bytes=2e6)
GPU = Device("gpu", "gpu", {"float32": 1e13, "float16": 1e14}, 1e12, launch_overhead=5e-6)


def weight(*shape):
    return Tensor(shape, constant=True)


@pytest.mark.parametrize(
    ("op", "name", "expected"),
    [
        (
            Operator("c", "Conv", (Tensor((2, 8, 10, 10)), weight(16, 8, 3, 3)), (Tensor((2, 16, 8, 8)),)),
            "Conv",
            (1, 128, 16, 72),
        ),
        (
            Operator("c", "Conv", (Tensor((1, 8, 4, 4)), weight(8, 1, 3, 3)), (Tensor((1, 8, 2, 2)),), {"group": 8}),
            "Conv-depthwise",
            (8, 4, 1, 9),
        ),
        (
            Operator("c", "Conv", (Tensor((2, 8, 4, 4)), weight(6, 8, 1, 1)), (Tensor((2, 6, 4, 4)),)),
            "Conv-pointwise",
            (1, 32, 6, 8),
        ),
        (
            Operator("c", "Conv", (Tensor((1, 8, 4, 4)), weight(6, 4, 3, 3)), (Tensor((1, 6, 2, 2)),), {"group": 2}),
            "Conv-grouped",
            (2, 4, 3, 36),
        ),
        (
            Operator("p", "MaxPool", (Tensor((2, 8, 6, 6)),), (Tensor((2, 8, 2, 3)),), {"kernel_shape": (3, 2)}),
            "MaxPool",
            (16, 6, 3, 6),
        ),
        (Operator("r", "ReduceSum", (Tensor((6, 11)),), (Tensor((11,)),)), "ReduceSum", (1, 11, 6, 1)),
        (
            Operator("s", "Split", (Tensor((2, 8, 4)),), (Tensor((2, 3, 4)), Tensor((2, 5, 4))), {"axis": 1}),
            "Split",
            (1, 2, 32, 2),
        ),
        (
            Operator("g", "Gather", (weight(50, 7), Tensor((3, 2), "int64")), (Tensor((3, 2, 7)),)),
            "Gather",
            (1, 6, 7, 50),
        ),
        (Operator("g", "Gemm", (Tensor((5, 7)), weight(3, 7)), (Tensor((5, 3)),), {"transB": 1}), "Gemm", (1, 5, 3, 7)),
        (
            Operator("m", "MatMul", (Tensor((4, 5, 7)), Tensor((4, 7, 3))), (Tensor((4, 5, 3)),)),
            "MatMul-batched",
            (4, 5, 3, 7),
        ),
        (Operator("m", "MatMul", (Tensor((4, 5, 7)), weight(7, 3)), (Tensor((4, 5, 3)),)), "Gemm", (1, 20, 3, 7)),
        (
            Operator(
                "a",
                "Attention",
                (Tensor((2, 3, 5, 8)), Tensor((2, 3, 9, 8)), Tensor((2, 3, 9, 8))),
                (Tensor((2, 3, 5, 8)),),
            ),
            "Attention",
            (6, 5, 9, 8),
        ),
        (Operator("s", "Softmax", (Tensor((6, 11)),), (Tensor((6, 11)),)), "Softmax", (1, 6, 11, 1)),
        (Operator("r", "ReduceSum", (Tensor((6, 11)),), (Tensor((6,)),)), "ReduceSum", (1, 6, 11, 11)),
        (
            Operator("k", "Concat", (Tensor((2, 3, 4)), Tensor((2, 5, 4))), (Tensor((2, 8, 4)),), {"axis": -2}),
            "Concat",
            (1, 2, 32, 2),
        ),
        (
            Operator("t", "Transpose", (Tensor((2, 3, 4)),), (Tensor((3, 2, 4)),), {"perm": (1, 0, 2)}),
            "Transpose",
            (1, 6, 4, 12),
        ),
    ],
)
def test_loops_and_classes(op, name, expected):
    assert class_of(op) == name
    assert loops(op) == expected


def test_columns_are_what_they_say():
    op = Operator("g", "Gemm", (Tensor((128, 64)), weight(256, 64)), (Tensor((128, 256)),), {"transB": 1})
    (row,) = features([op], CPU, False)
    assert row[COLUMN["log2_flops"]] == pytest.approx(np.log2(2 * 128 * 64 * 256))
    assert row[COLUMN["log2_weights"]] == pytest.approx(np.log2(256 * 64 * 4))
    assert (row[COLUMN["align_m"]], row[COLUMN["align_n"]], row[COLUMN["in_graph"]]) == (6, 6, 0)
    assert row[COLUMN["log2_waves"]] == 3
    assert row[COLUMN["tile_efficiency"]] == 1
    (seconds,) = physics([op], CPU)
    assert seconds == pytest.approx(2 * 128 * 64 * 256 / 1e11 + 1e-6)


def test_every_column_of_a_convolution_by_hand():
    """Two groups of 4 x 12 channels, a window of 3 x 3, 8 x 8 pixels of two images; 34240 bytes in all."""
    y = Tensor((2, 24, 8, 8))
    conv = Operator("c", "Conv", (Tensor((2, 8, 17, 17)), weight(24, 4, 3, 3)), (y,), {"group": 2, "strides": (2, 2)})
    read, written, flops = 4 * (2 * 8 * 289 + 24 * 4 * 9), 4 * 2 * 24 * 64, 2 * 2 * 24 * 64 * 36
    expected = {
        "log2_flops": np.log2(flops), "log2_read": np.log2(read), "log2_written": np.log2(written),
        "log2_weights": np.log2(4 * 24 * 4 * 9), "log2_compute": np.log2(flops / 1e11 * 1e9),
        "log2_memory": np.log2((read + written) / 1e10 * 1e9),
        "log2_balance": np.log2(flops / 1e11) - np.log2((read + written) / 1e10),
        "log2_batch": 1, "log2_m": 7, "log2_n": np.log2(12), "log2_k": np.log2(36), "window": np.log2(9), "stride": 2,
        "log2_group": 1, "log2_side": 3, "align_m": 6, "align_n": 2, "align_k": 2, "fill_n": 12 / 16, "fill_k": 4 / 16,
        "log2_waves": np.log2(2 * 2 / 3), "wave_efficiency": 4 / 3 / 2, "tile_efficiency": 128 * 12 / (2 * 64 * 64),
        "log2_waves_128": np.log2(2 / 3), "wave_efficiency_128": 2 / 3, "tile_efficiency_128": 128 * 12 / 128**2,
        "log2_working_set": np.log2((read + written) / 2e6), "log2_first": np.log2(4 * 2 * 8 * 289), "operands": 2,
        "log2_dim1": np.log2(17), "log2_dim2": np.log2(17), "log2_dim3": 3, "log2_dim4": 1, "permutation": 0,
        "in_graph": 1,
    }  # fmt: skip
    assert tuple(expected) == FEATURES
    (row,) = features([conv], replace(CPU, processors=3))
    assert dict(zip(FEATURES, row, strict=True)) == pytest.approx(expected)


def test_figures_that_a_device_lacks_are_typical_ones():
    relu = Operator("r", "Relu", (Tensor((128, 640)),), (Tensor((128, 640)),))
    for device, processors, cache in ((GPU, 80, 6e6), (replace(CPU, processors=None, cache_bytes=None), 1, 32e6)):
        (row,) = features([relu], device)
        assert row[COLUMN["log2_waves"]] == pytest.approx(np.log2(20 / processors))
        assert row[COLUMN["log2_working_set"]] == pytest.approx(np.log2(2 * 128 * 640 * 4 / cache))
    instant = replace(CPU, launch_overhead=0.0)
    assert physics([relu], instant) == pytest.approx(2 * 128 * 640 * 4 / 1e10 + 1e-7)
    wide = Operator("g", "MatMul", (Tensor((2, 2), "float64"), Tensor((2, 2), "float64")), (Tensor((2, 2), "float64"),))
    assert physics([wide], CPU).tolist() == [np.inf] and np.isfinite(features([wide], CPU)).all()


def test_permutations_are_digits():
    op = Operator("t", "Transpose", (Tensor((2, 3, 4)),), (Tensor((3, 2, 4)),), {"perm": (1, 0, 2)})
    assert features([op], CPU)[0, COLUMN["permutation"]] == 0o102


@pytest.mark.parametrize("device", [CPU, GPU])
def test_whole_graphs_have_finite_features(device):
    for graph in (load_graph("gpt2"), fuse(load_graph("inception_v1")).graph, training(load_graph("squeezenet"))):
        x = features(graph.operators, device)
        assert x.shape == (len(graph), len(FEATURES))
        assert np.isfinite(x).all()
        assert (physics(graph.operators, device) > 0).all()


SHAPES = st.lists(st.integers(0, 2**40), max_size=5).map(tuple)
TENSORS = st.builds(Tensor, SHAPES, st.sampled_from(["float32", "int64", "bool", "float16"]), st.booleans())
SAFE = [kind for kind, spec in KINDS.items() if spec.family not in ("conv", "matmul", "recurrent", "pool")]


@examples(300)
@given(
    st.sampled_from([*SAFE, "Unheard", "Fused-conv", "Gradient-matmul", "Gradient-pool"]),
    st.lists(TENSORS, max_size=4),
    st.lists(TENSORS, min_size=1, max_size=3),
    st.dictionaries(
        st.sampled_from(["axis", "group", "perm", "strides"]),
        st.one_of(st.integers(-3, 9), st.just((2, 2)), st.just((1, 0)), st.just("x")),
        max_size=3,
    ),
)
def test_no_operator_breaks_them(kind, inputs, outputs, attributes):
    try:
        flops = Operator("op", kind, tuple(inputs), tuple(outputs), attributes).flops
    except (IndexError, ValueError):  # an operator that its own kind cannot count
        return
    assert flops >= 0
    op = Operator("op", kind, tuple(inputs), tuple(outputs), attributes)
    assert np.isfinite(features([op], CPU)).all()
    assert np.isfinite(physics([op], CPU)).all()
    assert class_of(op)
