"""Kernels: what torch computes for every operator of real graphs, and what is refused."""

import math

import pytest

torch = pytest.importorskip("torch")

from hetgym import load_graph  # noqa: E402
from hetgym.errors import UnsupportedOperator  # noqa: E402
from hetgym.graph import Operator, Tensor, ops  # noqa: E402
from hetgym.graph.generators import language_model  # noqa: E402
from hetgym.graph.ops import KINDS  # noqa: E402
from hetgym.profiling.ingraph import GraphRunner  # noqa: E402
from hetgym.profiling.kernels import BUILDERS, Weights, activations, make_kernel  # noqa: E402


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "inception_v1", "gpt2", "nasnet", "lstm", "alexnet"])
def test_real_graphs_run(name):
    seen = set()
    for op in load_graph(name).operators:
        key = (op.kind, op.inputs, op.outputs, tuple(sorted(op.attributes.items())))
        if key in seen or op.weight_bytes > 2e7:
            continue
        seen.add(key)
        results = make_kernel(op)(*activations(op))
        assert [tuple(r.shape) for r in results] == [t.shape for t in op.outputs]
        assert all(torch.isfinite(r).all() for r in results if r.is_floating_point()), op.kind


def _of(shape, *more, out=None, kind, **attributes):
    return Operator("op", kind, (Tensor(shape), *more), (Tensor(out or shape),), attributes)


BINARY = set(ops._BINARY) - {"Where", "BatchNormalization"} | {"RecvReduce"}
OTHERS = ("PRelu", "Where", "RotaryEmbedding")
UNARY = [k for k, s in KINDS.items() if s.family == "elementwise" and k in BUILDERS and k not in OTHERS]


@pytest.mark.parametrize("kind", UNARY)
def test_elementwise_kinds_run(kind):
    binary = kind in BINARY
    x = Tensor((3, 5))
    inputs = (x, x) if binary else (x,)
    if kind == "BatchNormalization":
        inputs = (x, *(Tensor((5,), constant=True),) * 4)
    op = Operator("op", kind, inputs, (x,))
    assert make_kernel(op)(*activations(op))[0].shape == (3, 5)


@pytest.mark.parametrize(
    ("op", "expect"),
    [
        (_of((2, 3), kind="Transpose", out=(3, 2), perm=(1, 0)), lambda x: x.T),
        (_of((2, 4), kind="Softmax", axis=-1), lambda x: torch.softmax(x, -1)),
        (_of((2, 3, 8, 8), kind="GlobalAveragePool", out=(2, 3, 1, 1)), lambda x: x.mean((2, 3), keepdim=True)),
        (_of((2, 6), kind="ReduceSum", out=(2,)), lambda x: x.sum(1)),
        (_of((2, 6, 4), kind="ReduceMax", out=(2, 1, 4), axes=(1,), keepdims=1), lambda x: x.amax(1, keepdim=True)),
        (
            _of((1, 2, 5, 5), kind="MaxPool", out=(1, 2, 3, 3), kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
            lambda x: torch.nn.functional.max_pool2d(x, 3, 2, 1),
        ),
        (_of((4, 6), kind="View", out=(6, 4)), lambda x: x.T),
        (_of((4, 6), kind="Reshape", out=(2, 12)), lambda x: x.reshape(2, 12)),
        (_of((2, 1), kind="Expand", out=(2, 7)), lambda x: x.expand(2, 7)),
        (_of((3, 4), kind="CumSum", axis=1), lambda x: x.cumsum(1)),
    ],
    ids=lambda value: value.kind if isinstance(value, Operator) else "",
)
def test_results_are_those_of_the_operator(op, expect):
    (x,) = activations(op)
    torch.testing.assert_close(make_kernel(op)(x)[0], expect(x))


def test_convolution_with_uneven_padding():
    w = Tensor((4, 2, 3, 3), constant=True)
    op = Operator(
        "conv", "Conv", (Tensor((1, 2, 7, 7)), w), (Tensor((1, 4, 4, 4)),), {"strides": (2, 2), "pads": (0, 0, 2, 2)}
    )
    kernel, (x,) = make_kernel(op), activations(op)
    padded = torch.nn.functional.pad(x, (0, 2, 0, 2))
    torch.testing.assert_close(kernel(x)[0], torch.nn.functional.conv2d(padded, kernel.constants[0], stride=2))


def test_products_in_onnx_and_torch_order():
    a, b, c = Tensor((5, 3)), Tensor((5, 4), constant=True), Tensor((4,), constant=True)
    op = Operator("gemm", "Gemm", (a, b, c), (Tensor((3, 4)),), {"transA": 1})
    kernel, (x,) = make_kernel(op), activations(op)
    torch.testing.assert_close(kernel(x)[0], x.T @ kernel.constants[0] + kernel.constants[1])
    op = Operator(
        "linear", "Gemm", (Tensor((2, 7, 3)), Tensor((4, 3), constant=True)), (Tensor((2, 7, 4)),), {"transB": 1}
    )
    kernel, (x,) = make_kernel(op), activations(op)
    torch.testing.assert_close(kernel(x)[0], x @ kernel.constants[0].T)


def test_recurrent_cells_find_their_operands_in_either_order():
    x, h, w, b = Tensor((2, 3)), Tensor((2, 5)), Tensor((20, 3), constant=True), Tensor((20,), constant=True)
    u = Tensor((20, 5), constant=True)
    one = Operator("cell", "LSTMCell", (x, h, h, w, u, b, b), (h, h), {"hidden_size": 5})
    two = Operator("cell", "LSTMCell", (x, w, u, b, b, h, h), (h, h), {"hidden_size": 5})
    given = activations(one)
    for first, second in zip(make_kernel(one)(*given), make_kernel(two)(*given), strict=True):
        torch.testing.assert_close(first, second)


def test_rotary_embedding_turns_pairs_of_numbers():
    x, table = Tensor((1, 2, 5, 4)), Tensor((5, 2))
    op = Operator("r", "RotaryEmbedding", (x, *(Tensor((5, 4), constant=True),) * 2), (x,))
    (given,), angles = activations(op), torch.rand(table.shape)
    cos, sin = (torch.cat((values, values), -1) for values in (angles.cos(), angles.sin()))
    kernel = make_kernel(op)
    for constant, values in zip(kernel.constants, (cos, sin), strict=True):
        constant.copy_(values)
    turned = torch.view_as_complex(torch.stack(given.chunk(2, -1), -1)) * torch.polar(torch.ones(5, 2), angles)
    torch.testing.assert_close(kernel(given)[0], torch.cat((turned.real, turned.imag), -1))


def test_new_keys_and_values_enter_their_caches():
    held, new = Tensor((1, 2, 6, 4), constant=True), Tensor((1, 2, 1, 4))
    op = Operator("c", "TensorScatter", (held, held, new, new), (Tensor((0,)),))
    kernel, given = make_kernel(op), activations(op)
    (done,) = kernel(*given)
    assert done.shape == (0,)
    for cache, values in zip(kernel.constants, given, strict=True):
        assert torch.equal(cache[:, :, -1:], values) and not torch.equal(cache[:, :, :1], values)


def test_one_product_gives_the_heads_of_queries_keys_and_values():
    op = Operator("v", "View", (Tensor((2, 3, 32)),), (Tensor((2, 4, 3, 4)), *(Tensor((2, 2, 3, 4)),) * 2))
    (given,) = activations(op)
    parts = make_kernel(op)(given)
    assert torch.equal(torch.cat([part.transpose(1, 2).flatten(2) for part in parts], 2), given)
    assert all(part.untyped_storage().data_ptr() == given.untyped_storage().data_ptr() for part in parts)


@pytest.mark.parametrize("phase", ["forward", "prefill", "decode"])
@pytest.mark.parametrize("family", ["gpt", "llama", "t5"])
def test_language_models_run(family: str, phase: str) -> None:
    graph = language_model(family, layers=1, hidden=32, heads=2, sequence=8, phase=phase)
    assert GraphRunner(graph).time(1, 0).seconds.shape == (len(graph), 1)


def test_same_seed_same_weights():
    op = Operator("p", "MatMul", (Tensor((2, 3)), Tensor((3, 4), constant=True)), (Tensor((2, 4)),))
    assert torch.equal(make_kernel(op).constants[0], make_kernel(op).constants[0])
    other = make_kernel(op, rng=torch.Generator().manual_seed(7)).constants[0]
    assert not torch.equal(make_kernel(op).constants[0], other)
    assert math.isclose(float(make_kernel(op)(*activations(op))[0].abs().sum()), 0.0) is False


def test_operators_of_a_graph_share_the_weights_of_one_name():
    def cell(name, named):
        w = Tensor((3, 4), constant=True, name=named)
        return Operator(name, "MatMul", (Tensor((2, 3)), w), (Tensor((2, 4)),))

    weights = Weights(seed=3)
    first, second = (make_kernel(cell(name, "w"), weights=weights) for name in ("first", "second"))
    assert first.constants[0] is second.constants[0]
    other, alone = make_kernel(cell("third", "v"), weights=weights), make_kernel(cell("fourth", ""), weights=weights)
    assert not torch.equal(first.constants[0], other.constants[0])
    assert not torch.equal(first.constants[0], alone.constants[0])
    # another process, which makes the kernels in another order, has the same numbers
    again = Weights(seed=3)
    make_kernel(cell("third", "v"), weights=again)
    assert torch.equal(make_kernel(cell("second", "w"), weights=again).constants[0], first.constants[0])
    assert not torch.equal(make_kernel(cell("first", "w"), weights=Weights(4)).constants[0], first.constants[0])


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (Operator("t", "Task", (Tensor((2,)),), (Tensor((2,)),)), "no torch kernel"),
        (_of((2, 3), kind="Relu", out=(3, 3)), r"shapes \[\(2, 3\)\]"),
        (Operator("m", "MatMul", (Tensor((2, 3)), Tensor((4, 5))), (Tensor((2, 5)),)), "cannot run it"),
        (Operator("q", "Relu", (Tensor((2,), "int4"),), (Tensor((2,), "int4"),)), "int4"),
        (Operator("l", "LSTMCell", (Tensor((2, 3)),), (Tensor((2, 3)),)), "do not fit its kind, LSTMCell"),
    ],
)
def test_what_cannot_run_is_refused(op, words):
    with pytest.raises(UnsupportedOperator, match=words):
        make_kernel(op)


@pytest.mark.parametrize("mask", [(), (Tensor((1, 1, 1, 6)),)])
def test_heads_of_queries_share_heads_of_keys(mask):
    q, k = Tensor((2, 8, 1, 4)), Tensor((2, 2, 6, 4))
    op = Operator("attention", "Attention", (q, k, k, *mask), (q,))
    query, key, value, *rest = activations(op)
    wide = [x.repeat_interleave(4, 1) for x in (key, value)]
    expected = torch.nn.functional.scaled_dot_product_attention(query, *wide, *rest)
    torch.testing.assert_close(make_kernel(op)(query, key, value, *rest)[0], expected)
