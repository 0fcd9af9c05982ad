"""Splitting: shapes, FLOPs and edges of the pieces, and what cancels."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetgym import DataflowGraph, GraphError, Problem, UnknownName, load_graph, load_platform
from hetgym.graph import Operator, Tensor, from_json, to_json
from hetgym.graph.transforms import AXES, fuse, pieces, sizes, split


def weight(*shape, name="w"):
    return Tensor(shape, constant=True, name=name)


def conv(name="conv", batch=4, inner=6, outer=8, side=10, kernel=3, stride=1, bias=True, group=1):
    half = kernel // 2
    out = (side + 2 * half - kernel) // stride + 1
    inputs = [Tensor((batch, inner, side, side)), weight(outer, inner // group, kernel, kernel)]
    inputs += [weight(outer, name="b")] if bias else []
    attributes = {"kernel_shape": (kernel, kernel), "strides": (stride, stride), "pads": (half,) * 4, "group": group}
    return Operator(name, "Conv", tuple(inputs), (Tensor((batch, outer, out, out)),), attributes)


def product(name="fc", rows=4, inner=6, columns=8, bias=False, lead=()):
    inputs = [Tensor((*lead, rows, inner)), weight(inner, columns)] + ([weight(columns, name="b")] if bias else [])
    return Operator(name, "Gemm" if bias else "MatMul", tuple(inputs), (Tensor((*lead, rows, columns)),))


def relu(name, tensor):
    return Operator(name, "Relu", (tensor,), (tensor,))


def between(*operators):
    """A Relu, the operators, a Relu, in a chain."""
    first, last = operators[0].inputs[0], operators[-1].outputs[0]
    nodes = [relu("before", first), *operators, relu("after", last)]
    return DataflowGraph(nodes, [(i, 0, i + 1) for i in range(len(nodes) - 1)], "chain")


def shapes(op):
    return [t.shape for t in op.inputs], [t.shape for t in op.outputs]


def test_pieces_of_a_convolution_by_hand():
    op = conv()
    data, kernel, out = (4, 6, 10, 10), (8, 6, 3, 3), (4, 8, 10, 10)
    assert [shapes(p) for p in pieces(op, "batch", (3, 1))] == [
        ([(3, 6, 10, 10), kernel, (8,)], [(3, 8, 10, 10)]),
        ([(1, 6, 10, 10), kernel, (8,)], [(1, 8, 10, 10)]),
    ]
    assert [shapes(p) for p in pieces(op, "output", (6, 2))] == [
        ([data, (6, 6, 3, 3), (6,)], [(4, 6, 10, 10)]),
        ([data, (2, 6, 3, 3), (2,)], [(4, 2, 10, 10)]),
    ]
    assert [shapes(p) for p in pieces(op, "reduction", (2, 4))] == [
        ([(4, 2, 10, 10), (8, 2, 3, 3), (8,)], [out]),
        ([(4, 4, 10, 10), (8, 4, 3, 3)], [out]),
    ]
    top, bottom = pieces(op, "spatial", (5, 5))  # rows -1..6 and 4..11 of ten: the window reaches one row further
    assert shapes(top) == ([(4, 6, 6, 10), kernel, (8,)], [(4, 8, 5, 10)])
    assert shapes(bottom) == ([(4, 6, 6, 10), kernel, (8,)], [(4, 8, 5, 10)])
    assert top.attributes["pads"] == (1, 1, 0, 1) and bottom.attributes["pads"] == (0, 1, 1, 1)


def test_rows_of_a_strided_convolution():
    first, second = pieces(conv(side=11, kernel=3, stride=2), "spatial", (2, 4))  # rows -1..3 and 3..11
    assert [p.inputs[0].shape[2] for p in (first, second)] == [4, 8]


def test_grouped_convolutions_split_by_whole_groups():
    op = conv(inner=6, outer=12, group=3)
    assert sizes(op, "output", 2) == (8, 4)
    left, right = pieces(op, "output", (8, 4))
    assert [shapes(p)[0][0] for p in (left, right)] == [(4, 4, 10, 10), (4, 2, 10, 10)]
    assert (left.attributes["group"], right.attributes["group"]) == (2, 1)
    assert left.flops + right.flops == op.flops
    with pytest.raises(GraphError, match="'conv' \\(Conv\\) cannot be split by reduction"):
        split(between(op), "conv", "reduction")


def test_pieces_of_products_by_hand():
    op = product(bias=True)
    assert [shapes(p) for p in pieces(op, "batch", (1, 3))] == [
        ([(1, 6), (6, 8), (8,)], [(1, 8)]),
        ([(3, 6), (6, 8), (8,)], [(3, 8)]),
    ]
    assert [shapes(p) for p in pieces(op, "output", (4, 4))] == [([(4, 6), (6, 4), (4,)], [(4, 4)])] * 2
    assert [shapes(p) for p in pieces(op, "reduction", (2, 4))] == [
        ([(4, 2), (2, 8), (8,)], [(4, 8)]),
        ([(4, 4), (4, 8)], [(4, 8)]),
    ]
    swapped = Operator("t", "Gemm", (Tensor((6, 4)), weight(8, 6)), (Tensor((4, 8)),), {"transA": 1, "transB": 1})
    assert [shapes(p)[0] for p in pieces(swapped, "output", (4, 4))] == [[(6, 4), (4, 6)]] * 2
    assert [shapes(p)[0] for p in pieces(swapped, "reduction", (3, 3))] == [[(3, 4), (8, 3)]] * 2
    assert [shapes(p)[0] for p in pieces(swapped, "batch", (2, 2))] == [[(6, 2), (8, 6)]] * 2
    heads = product(lead=(3,))
    assert [shapes(p)[0] for p in pieces(heads, "batch", (1, 2))] == [[(1, 4, 6), (6, 8)], [(2, 4, 6), (6, 8)]]
    assert [shapes(p)[0] for p in pieces(heads, "spatial", (2, 2))] == [[(3, 2, 6), (6, 8)]] * 2


@given(
    axis=st.sampled_from(AXES),
    parts=st.one_of(st.integers(2, 4), st.lists(st.floats(0.1, 9), min_size=2, max_size=4)),
    kernel=st.sampled_from([1, 3, 5]),
    stride=st.integers(1, 2),
    bias=st.booleans(),
    product_too=st.booleans(),
)
def test_flops_are_conserved(axis, parts, kernel, stride, bias, product_too):
    op = (
        product(rows=12, inner=16, columns=20, bias=bias)
        if product_too
        else conv(batch=12, inner=16, outer=20, side=24, kernel=kernel, stride=stride, bias=bias)
    )
    graph = between(op)
    try:
        result = split(graph, op.name, axis, parts)
    except GraphError as error:
        assert "part would be empty" in str(error) or (product_too and axis == "spatial")  # noqa: PT017
        return
    by_name = {o.name: o for o in result.operators}
    parted = [o for name, o in by_name.items() if name.startswith(f"{op.name}/") and name.split("/")[1].isdigit()]
    assert sum(p.flops for p in parted) == op.flops
    assert sum(p.weight_bytes for p in parted if axis in ("output", "reduction")) in (0.0, op.weight_bytes)
    extra = op.outputs[0].size if axis == "reduction" else 0  # the sum
    assert result.flops.sum() == graph.flops.sum() + extra
    assert from_json(to_json(result)) == result
    for e in result.edges:
        assert result.operators[e.source].outputs[e.slot] in result.operators[e.target].inputs


def test_the_graph_around_a_split():
    result = split(between(conv()), "conv", "batch", [3, 1])
    assert [op.name for op in result.operators] == [
        "before",
        "conv/scatter0",
        "conv/0",
        "conv/1",
        "conv/gather",
        "after",
    ]
    assert [(e.source, e.slot, e.target) for e in result.edges] == [
        (0, 0, 1),
        (1, 0, 2),
        (1, 1, 3),
        (2, 0, 4),
        (3, 0, 4),
        (4, 0, 5),
    ]
    deal, join = result.operators[1], result.operators[4]
    assert (deal.flops, deal.bytes_read, deal.bytes_written) == (0, 0, 0)
    assert join.kind == "Concat" and join.attributes == {"axis": 0, "sizes": (3, 1)}
    assert join.bytes_read == join.bytes_written == conv().output_bytes
    whole = split(between(conv()), "conv", "output", 2)
    assert [op.name for op in whole.operators] == ["before", "conv/0", "conv/1", "conv/gather", "after"]
    summed = split(between(conv()), 1, "reduction", 2)
    assert summed.operators[4].kind == "Sum" and summed.operators[4].inputs == conv().outputs * 2


def test_neighbours_split_alike_cancel():
    graph = between(conv("one", inner=6, outer=8), conv("two", inner=8, outer=6))
    once = split(graph, "one", "batch", [3, 1])
    twice = split(once, "two", "batch", [3, 1])
    names = [op.name for op in twice.operators]
    assert names == ["before", "one/scatter0", "one/0", "one/1", "two/0", "two/1", "two/gather", "after"]
    edges = {(names[e.source], names[e.target]) for e in twice.edges}
    assert {("one/0", "two/0"), ("one/1", "two/1")} <= edges and ("one/0", "two/1") not in edges
    other = split(once, "two", "batch", [1, 3])
    assert {"one/gather", "two/scatter0"} <= {op.name for op in other.operators}


def test_columns_then_rows_need_one_sum():
    """Shoeybi et al., Megatron-LM, 2019: output of the first product, reduction of the second."""
    graph = between(product("up", columns=16), relu("act", Tensor((4, 16))), product("down", inner=16, columns=6))
    for name, axis in (("up", "output"), ("act", "output"), ("down", "reduction")):
        graph = split(graph, name, axis, 2)
    names = [op.name for op in graph.operators]
    assert names == ["before", "up/0", "up/1", "act/0", "act/1", "down/0", "down/1", "down/gather", "after"]
    assert graph.operators[7].kind == "Sum"


def test_a_gather_that_others_read_stays():
    a, b = conv("a", inner=8), conv("b", inner=8)
    nodes = [a, b, relu("other", a.outputs[0])]
    graph = DataflowGraph(nodes, [(0, 0, 1), (0, 0, 2)])
    result = split(split(graph, "a", "batch", 2), "b", "batch", 2)
    names = [op.name for op in result.operators]
    assert "a/gather" in names and "b/scatter0" not in names


def test_rows_of_convolutions_do_not_cancel_for_the_windows_overlap():
    graph = between(conv("one", inner=8), conv("two", inner=8))
    result = split(split(graph, "one", "spatial", 2), "two", "spatial", 2)
    assert {"one/gather", "two/scatter0"} <= {op.name for op in result.operators}


def test_fused_operators_split_with_what_is_fused_to_them():
    batch_norm = Operator(
        "bn", "BatchNormalization", (conv().outputs[0], *(weight(8, name=n) for n in "smv")), conv().outputs
    )
    add = Operator("add", "Add", conv().outputs * 2, conv().outputs)
    skip = Operator("skip", "Softmax", add.outputs, add.outputs)
    nodes = [relu("before", conv().inputs[0]), conv(), batch_norm, skip, add]
    graph = fuse(DataflowGraph(nodes, [(0, 0, 1), (1, 0, 2), (2, 0, 4), (3, 0, 4)])).graph
    fused = next(op for op in graph.operators if op.kind == "Fused-conv")
    for axis, lengths in (("batch", (3, 1)), ("output", (6, 2)), ("spatial", (7, 3))):
        parted = pieces(fused, axis, lengths)
        assert sum(p.flops for p in parted) == fused.flops
        assert [p.bytes_read for p in parted] == [sum(t.bytes for t in p.inputs) for p in parted]
        assert from_json(to_json(split(graph, fused.name, axis, lengths))) == split(graph, fused.name, axis, lengths)
    by_channel = pieces(fused, "output", (6, 2))[0]
    assert [t.shape for t in by_channel.inputs] == [
        (4, 6, 10, 10),
        (6, 6, 3, 3),
        (6,),
        (6,),
        (6,),
        (6,),
        (4, 6, 10, 10),
    ]
    with pytest.raises(GraphError, match="cannot be split by reduction"):
        split(graph, fused.name, "reduction")


@pytest.mark.parametrize("name", ["resnet50", "inception_v1", "bert_base", "nasnet"])
def test_every_heavy_operator_of_a_network_splits(name):
    fused = fuse(load_graph(name, batch=4)).graph
    total, done = fused.flops.sum(), 0
    for op in fused.operators:
        if op.spec.family in ("conv", "matmul") and op.kind != "Attention":
            for axis in ("batch", "output"):
                parted = pieces(op, axis, sizes(op, axis, 2))
                assert math.isclose(sum(p.flops for p in parted), op.flops, rel_tol=1e-12)
                done += 1
    assert done > 40
    chosen = max(range(len(fused)), key=lambda i: (fused.operators[i].kind.endswith("conv"), fused.flops[i]))
    result = split(fused, chosen, "batch", 2)
    assert result.flops.sum() == pytest.approx(total, rel=1e-12)
    Problem.build(result, load_platform("cpu-gpu-npu"))


def test_what_cannot_be_split_is_said_in_a_sentence():
    graph = between(conv(batch=3))
    for arguments, error, sentence in (
        (("convv", "batch"), GraphError, "unknown operator of graph 'chain' 'convv'; did you mean 'conv'"),
        ((9, "batch"), GraphError, "graph 'chain' has no operator 9; its operators are 0..2"),
        (("conv", "bath"), UnknownName, "unknown axis 'bath'; did you mean 'batch'"),
        (("conv", "batch", 4), GraphError, "3 in steps of 1 cannot be divided as 4; a part would be empty"),
        (("conv", "output", 2, 8), GraphError, "8 in steps of 8 cannot be divided as 2"),
        (("conv", "batch", 1), GraphError, "at least two positive ratios"),
        (("conv", "batch", [1.0, -1.0]), GraphError, "at least two positive ratios"),
        (("before", "reduction"), GraphError, r"operator 'before' \(Relu\) cannot be split by reduction"),
    ):
        with pytest.raises(error, match=sentence):
            split(graph, *arguments)
