"""Features: the loop sizes of each kind, and that every legal operator has them."""

import numpy as np
import pytest
from hypothesis import given, settings
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


@settings(max_examples=300, deadline=None)
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
