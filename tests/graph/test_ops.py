from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from hetgym.graph import FAMILIES, KINDS, FusionClass, Operator, Tensor
from hetgym.graph.ops import DTYPE_BYTES

X = Tensor((2, 3, 8, 8))


def weight(*shape):
    return Tensor(shape, constant=True)


def op(kind, inputs, outputs, **attributes):
    return Operator("op", kind, tuple(inputs), tuple(outputs), attributes)


# Each by hand: a multiply-add is 2 FLOPs.
CASES = {
    # 2 x 16 x 6 x 6 outputs, each a product over 3 x 3 x 3 and one bias
    "conv": (op("Conv", [X, weight(16, 3, 3, 3), weight(16)], [Tensor((2, 16, 6, 6))], kernel_shape=(3, 3)),
             2 * 16 * 36 * (2 * 27 + 1)),
    "conv without bias": (op("Conv", [X, weight(16, 3, 3, 3)], [Tensor((2, 16, 6, 6))]), 2 * 16 * 36 * 54),
    # depthwise: each output channel sees one input channel
    "depthwise": (op("Conv", [X, weight(3, 1, 3, 3)], [X], group=3), 2 * 3 * 64 * 18),
    "conv 1d": (op("Conv", [Tensor((1, 4, 10)), weight(5, 4, 3)], [Tensor((1, 5, 8))]), 5 * 8 * 2 * 12),
    # each input element is multiplied into 16 x 2 x 2 outputs
    "transposed conv": (op("ConvTranspose", [X, weight(3, 16, 2, 2)], [Tensor((2, 16, 16, 16))]), 2 * 3 * 64 * 2 * 64),
    "matmul": (op("MatMul", [Tensor((7, 5, 4)), weight(4, 6)], [Tensor((7, 5, 6))]), 7 * 5 * 6 * 8),
    "vector product": (op("MatMul", [Tensor((4,)), Tensor((4,))], [Tensor(())]), 8),
    "gemm": (op("Gemm", [Tensor((5, 4)), weight(4, 6), weight(6)], [Tensor((5, 6))]), 5 * 6 * 9),
    "gemm, transposed": (op("Gemm", [Tensor((4, 5)), weight(4, 6)], [Tensor((5, 6))], transA=1), 5 * 6 * 8),
    # batch 2, input 5, hidden 3: W [12, 5], R [12, 3]; 12 gate rows, about 10 operations each
    "lstm cell": (op("LSTMCell", [Tensor((2, 5)), Tensor((2, 3)), Tensor((2, 3)), weight(12, 5), weight(12, 3),
                                  weight(24)], [Tensor((2, 3))] * 2),
                  2 * (2 * (60 + 36) + 10 * 12)),
    # 7 steps of the same
    "lstm": (op("LSTM", [Tensor((7, 2, 5)), weight(1, 12, 5), weight(1, 12, 3), weight(1, 24)],
                [Tensor((7, 1, 2, 3))]), 7 * 2 * (2 * (60 + 36) + 10 * 12)),
    # scores 4 x 6 and context 4 x 8, both 2 x 8 per score; softmax 5 a score
    "attention": (op("Attention", [Tensor((4, 8)), Tensor((6, 8)), Tensor((6, 8))], [Tensor((4, 8))]), 24 * (32 + 5)),
    "einsum": (op("Einsum", [Tensor((2, 3)), Tensor((3, 5))], [Tensor((2, 5))], equation="ij,jk->ik"), 2 * 2 * 3 * 5),
    # two multiply-adds for each combination of four indices
    "einsum of three": (op("Einsum", [Tensor((2, 3)), Tensor((3, 5)), Tensor((5, 7))], [Tensor((2, 7))],
                           equation="ij, jk, kl -> il"), 2 * 2 * 210),
    "einsum of one": (op("Einsum", [Tensor((2, 3))], [Tensor((3, 2))], equation="ij->ji"), 0),
    "einsum of batches": (op("Einsum", [Tensor((4, 6, 2, 3)), Tensor((6, 3, 5))], [Tensor((4, 6, 2, 5))],
                             equation="...ij,...jk->...ik"), 2 * 24 * 30),
    "pool": (op("MaxPool", [X], [Tensor((2, 3, 4, 4))], kernel_shape=(2, 2)), 2 * 3 * 16 * 4),
    "global pool": (op("GlobalAveragePool", [X], [Tensor((2, 3, 1, 1))]), 2 * 3 * 64),
    "relu": (op("Relu", [X], [X]), 384),
    "add": (op("Add", [X, X], [X]), 384),
    "softmax": (op("Softmax", [X], [X]), 8 * 384),
    "concat": (op("Concat", [X, X], [Tensor((2, 6, 8, 8))]), 0),
    "reshape": (op("Reshape", [X], [Tensor((2, 192))]), 0),
    "task": (op("Task", [], [], flops=12.5), 12.5),
    "unknown": (op("MyOwn", [X], [X]), 0),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_flops_by_hand(case):
    operator, flops = CASES[case]
    assert operator.flops == flops


def test_bytes_by_hand():
    conv = CASES["conv"][0]
    weights = (16 * 27 + 16) * 4
    assert conv.bytes_read == 2 * 3 * 64 * 4 + weights
    assert conv.weight_bytes == weights
    assert conv.bytes_written == conv.output_bytes == 2 * 16 * 36 * 4
    view = CASES["reshape"][0]
    assert view.bytes_read == view.bytes_written == 0 and view.output_bytes == 384 * 4


def test_a_selection_reads_what_it_returns_not_its_table():
    gather = op("Gather", [weight(30000, 64), Tensor((10,), "int64")], [Tensor((10, 64))])
    assert gather.bytes_read == 10 * 64 * 4 + 10 * 8
    assert gather.weight_bytes == 30000 * 64 * 4


def test_grouped_products_read_one_matrix_for_each_row_at_most():
    rows, out, matrices = Tensor((3, 8)), Tensor((3, 16)), Tensor((12, 8, 16), constant=True, name="w")
    few = op("GroupedMatMul", [rows, matrices, Tensor((12,), "int32")], [out])
    assert few.flops == 2 * 3 * 8 * 16 and few.bytes_read == 4 * (3 * 8 + 3 * 8 * 16) + 48
    many = op("GroupedMatMul", [Tensor((20, 8)), matrices], [Tensor((20, 16))])
    assert many.bytes_read == 4 * (20 * 8 + 12 * 8 * 16)
    of_weights = op("GroupedMatMul", [Tensor((8, 20)), Tensor((20, 16))], [Tensor((12, 8, 16))])
    assert of_weights.flops == 2 * 20 * 8 * 16


def test_an_update_in_place_moves_what_it_replaces():
    held = Tensor((1, 8, 100, 4), constant=True, name="cache")
    update = op("TensorScatter", [held, Tensor((1, 8, 1, 4))], [Tensor((0,))])
    assert update.bytes_read == 2 * 32 * 4 and update.bytes_written == update.flops == 0


@pytest.mark.parametrize(("dtype", "size"), DTYPE_BYTES.items())
def test_bytes_follow_the_dtype(dtype, size):
    assert Tensor((10, 3), dtype).bytes == 30 * size
    assert Tensor((), dtype).size == 1


def test_the_dtype_of_an_operator():
    assert op("Cast", [Tensor((1,), "float16")], [Tensor((1,), "int8")]).dtype == "int8"
    assert op("Sink", [Tensor((1,), "float16")], []).dtype == "float16"
    assert op("Nothing", [], []).dtype == "float32"


def test_the_vocabulary_is_consistent():
    assert {kind.family for kind in KINDS.values()} == set(FAMILIES)
    assert tuple(sorted(FAMILIES)) == FAMILIES
    assert KINDS["Conv"].fusion is FusionClass.OUT_FUSABLE and KINDS["Relu"].fusion is FusionClass.ELEMENTWISE
    assert op("MyOwn", [], []).spec.fusion is FusionClass.OPAQUE


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_prices_an_operator_with_plain_operands(kind):
    x = Tensor((2, 4, 6, 6))
    operator = op(kind, [x, weight(4, 4, 1, 1), weight(4)], [x], kernel_shape=(1, 1), flops=1.0)
    assert operator.flops >= 0 and operator.bytes_read >= 0 and operator.bytes_written >= 0


def test_text_in_place_of_a_number_counts_as_missing() -> None:
    gemm = [Tensor((5, 4)), weight(4, 6)], [Tensor((5, 6))]
    assert op("Gemm", *gemm, transA="x").flops == op("Gemm", *gemm).flops


def test_operators_and_tensors_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        X.shape = (1,)  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        CASES["relu"][0].kind = "Tanh"  # type: ignore[misc]


def test_attributes_are_a_read_only_copy_that_survives_pickling() -> None:
    given = {"transB": 1}
    fc = Operator("fc", "Gemm", (Tensor((1, 2)),), (Tensor((1, 2)),), given)
    given["transB"] = 0
    for again in (fc, pickle.loads(pickle.dumps(fc)), copy.deepcopy(fc), dataclasses.replace(fc)):
        assert again == fc and hash(again) == hash(fc) and again.attributes == {"transB": 1}
        with pytest.raises(TypeError):
            again.attributes["transB"] = 0
    assert dataclasses.replace(fc, attributes={}) != fc
