from __future__ import annotations

import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import onnx
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from hetgym.errors import GraphError, HetgymWarning
from hetgym.graph import from_onnx, load_graph
from hetgym.graph.onnx_types import SMALL
from hetgym.workloads import load_suite

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
F, I64 = TensorProto.FLOAT, TensorProto.INT64


def value(name, shape, dtype=F):
    return helper.make_tensor_value_info(name, dtype, shape)


def ints(name, *numbers):
    return numpy_helper.from_array(np.array(numbers, np.int64), name)


def model(nodes, inputs, outputs, initializers=(), opset=21, functions=(), domains=(), value_info=()):
    graph = helper.make_graph(nodes, "net", inputs, outputs, list(initializers), value_info=list(value_info))
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs.split(","), outputs.split(","), **attributes)


def weight(name, *shape):
    return numpy_helper.from_array(np.zeros(shape, np.float32), name)


@pytest.fixture
def mlp():
    """x -> Gemm -> Relu -> Reshape to [1, 6]: batch 1 is written into it."""
    return model(
        [node("Gemm", "x,w,b", "h", transB=1), node("Relu", "h", "r"), node("Reshape", "r,target", "y")],
        [value("x", [1, 4])],
        [value("y", [1, 3, 2])],
        [weight("w", 6, 4), weight("b", 6), ints("target", 1, 3, 2)],
    )


def test_operands_outputs_attributes_and_edges(mlp):
    graph = from_onnx(mlp)
    gemm, relu, reshape = graph.operators
    assert (gemm.kind, relu.kind, reshape.kind) == ("Gemm", "Relu", "Reshape")
    assert [(t.shape, t.constant, t.name) for t in gemm.inputs] == [
        ((1, 4), False, ""),
        ((6, 4), True, "w"),
        ((6,), True, "b"),
    ]
    assert gemm.attributes == {"transB": 1} and gemm.flops == 6 * 9
    assert reshape.outputs[0].shape == (1, 3, 2)
    assert [tuple(edge) for edge in graph.edges] == [(0, 0, 1), (1, 0, 2)]
    assert graph.name == "net" and [op.name for op in graph.operators] == ["Gemm_0", "Relu_1", "Reshape_2"]


def test_a_model_object_is_not_changed(mlp):
    before = mlp.SerializeToString(deterministic=True)
    from_onnx(mlp, batch=5)
    assert mlp.SerializeToString(deterministic=True) == before


def test_a_file_gives_what_the_object_gives(mlp, tmp_path):
    path = tmp_path / "mlp.onnx"
    onnx.save(mlp, path)
    assert from_onnx(path) == from_onnx(mlp)
    assert from_onnx(str(path)).name == "mlp" and from_onnx(path, name="other").name == "other"


def test_multi_output_operators_keep_slots_and_drop_what_nobody_reads():
    split = node("Split", "x", "a,b,c", axis=1, num_outputs=3)
    graph = from_onnx(
        model([split, node("Relu", "c", "y"), node("Add", "y,a", "z")], [value("x", [2, 6])], [value("z", None)])
    )
    assert [t.shape for t in graph.operators[0].outputs] == [(2, 2), (2, 2)]  # b is gone
    assert [tuple(edge) for edge in graph.edges] == [(0, 1, 1), (0, 0, 2), (1, 0, 2)]


def test_dead_nodes_are_dropped_and_names_made_unique():
    nodes = [node("Relu", "x", "a", name="act"), node("Exp", "x", "dead"), node("Tanh", "a", "y", name="act")]
    graph = from_onnx(model(nodes, [value("x", [2])], [value("y", [2])]))
    assert [(op.name, op.kind) for op in graph.operators] == [("act", "Relu"), ("act_2", "Tanh")]


def test_names_that_say_something_are_kept():
    nodes = [node("Relu", "x", "a", name="mm0"), node("Tanh", "a", "b", name="n1"), node("Exp", "b", "y", name="")]
    graph = from_onnx(model(nodes, [value("x", [2])], [value("y", [2])]))
    assert [op.name for op in graph.operators] == ["mm0", "Tanh_1", "Exp_2"]


def test_optional_operands_may_be_empty():
    nodes = [node("Clip", "x,,top", "c"), node("Resize", "c,,scales", "y")]
    scales = numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")
    top = numpy_helper.from_array(np.array(6, np.float32), "top")
    graph = from_onnx(model(nodes, [value("x", [1, 2, 3, 3])], [value("y", None)], [scales, top]))
    assert [len(op.inputs) for op in graph.operators] == [2, 2]
    assert graph.operators[1].outputs[0].shape == (1, 2, 6, 6)


# Folding


def test_constants_fold_through_any_chain():
    nodes = [
        helper.make_node("Constant", [], ["k"], value=ints("k", 8, 4)),
        node("ConstantOfShape", "k", "w0"),
        node("Transpose", "w0", "w1", perm=[1, 0]),
        node("Mul", "w1,w1", "w"),
        node("MatMul", "x,w", "y"),
    ]
    graph = from_onnx(model(nodes, [value("x", [2, 4])], [value("y", [2, 8])]))
    (matmul,) = graph.operators
    assert (matmul.inputs[1].shape, matmul.inputs[1].constant, matmul.inputs[1].name) == ((4, 8), True, "w")


def test_huge_weights_are_never_allocated():
    side = 1 << 22  # 64 TiB of floats
    nodes = [node("ConstantOfShape", "k", "w"), node("Neg", "w", "v"), node("MatMul", "x,v", "y")]
    graph = from_onnx(model(nodes, [value("x", [1, side])], [value("y", None)], [ints("k", side, side)]))
    assert graph.weight_bytes.tolist() == [4.0 * side * side]


def test_shape_arithmetic_is_evaluated():
    # flatten(x) as exporters write it: Reshape(x, Concat(Shape(x)[0:1], [-1]))
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s,zero", "n", axis=0),
        node("Unsqueeze", "n,zero", "n1"),
        node("Concat", "n1,rest", "target", axis=0),
        node("Reshape", "x,target", "y"),
    ]
    zero = numpy_helper.from_array(np.array([0], np.int64)[0:1], "zero")
    scalar = numpy_helper.from_array(np.array(0, np.int64), "scalar")
    nodes[1] = node("Gather", "s,scalar", "n", axis=0)
    net = model(nodes, [value("x", ["N", 3, 4])], [value("y", None)], [zero, scalar, ints("rest", -1)])
    graph = from_onnx(net, batch=7)
    assert [op.kind for op in graph.operators] == ["Reshape"]
    assert graph.operators[0].outputs[0].shape == (7, 12)


def test_shapes_that_follow_from_known_values():
    # NonZero of a small constant, as older exporters write index masks
    nodes = [
        node("ConstantOfShape", "k", "ones", value=helper.make_tensor("v", F, [1], [1.0])),
        node("NonZero", "ones", "where"),
        node("Size", "where", "n"),
        node("Unsqueeze", "n,zero", "n1"),
        node("Expand", "x,n1", "y"),
    ]
    graph = from_onnx(model(nodes, [value("x", [1])], [value("y", None)], [ints("k", 5), ints("zero", 0)]))
    assert graph.operators[0].outputs[0].shape == (5,)


@pytest.mark.parametrize(("opset", "attributes"), [(13, {}), (15, {"start": 1}), (15, {"start": -2, "end": -1})])
def test_shape_with_bounds(opset, attributes):
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], **attributes),
        node("ConstantOfShape", "s", "c"),
        node("Add", "c,one", "d"),
        node("Mul", "x,one", "y"),
        node("ReduceSum", "d", "z", keepdims=0),
        node("Add", "y,z", "out"),
    ]
    one = numpy_helper.from_array(np.array(1, np.float32), "one")
    graph = from_onnx(model(nodes, [value("x", [3, 4, 5])], [value("out", None)], [one], opset=opset))
    assert [op.kind for op in graph.operators] == ["Mul", "Add"]


def test_random_operators_do_not_fold():
    nodes = [helper.make_node("RandomNormal", [], ["r"], shape=[2, 3]), node("Add", "x,r", "y")]
    with pytest.warns(HetgymWarning, match="RandomNormal"):
        graph = from_onnx(model(nodes, [value("x", [2, 3])], [value("y", None)]))
    assert [op.kind for op in graph.operators] == ["RandomNormal", "Add"]


def test_external_data_is_not_opened(tmp_path):
    tensor = weight("w", 4, 8)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="nowhere.bin")
    net = model([node("MatMul", "x,w", "y")], [value("x", [2, 4])], [value("y", None)], [tensor])
    (tmp_path / "m.onnx").write_bytes(net.SerializeToString())
    assert from_onnx(tmp_path / "m.onnx").weight_bytes.tolist() == [128.0]


def test_initializers_that_are_also_inputs_are_weights(mlp):
    mlp.graph.input.append(value("w", [6, 4]))
    assert from_onnx(mlp) == from_onnx(mlp, batch=1)
    assert from_onnx(mlp).operators[0].inputs[1].constant


# Binding


def dynamic():
    inputs = [value("x", ["N", "S", 4]), value("z", ["N", 1, 1])]
    nodes = [node("MatMul", "x,w", "h"), node("Add", "h,z", "y")]
    return model(nodes, inputs, [value("y", None)], [weight("w", 4, 6)])


def test_dims_and_batch_bind_dynamic_axes():
    graph = from_onnx(dynamic(), batch=3, dims={"S": 5})
    assert graph == from_onnx(dynamic(), dims={"N": 3, "S": 5})
    assert graph.operators[1].outputs[0].shape == (3, 5, 6)
    assert from_onnx(dynamic(), batch=8, dims={"N": 2, "S": 5}).operators[0].outputs[0].shape == (2, 5, 6)


def test_one_name_is_one_size_on_every_axis():
    net = model([node("MatMul", "x,z", "y")], [value("x", ["N", 4]), value("z", [4, "N"])], [value("y", None)])
    assert from_onnx(net, batch=3).operators[0].outputs[0].shape == (3, 3)


def test_an_axis_without_a_name():
    net = model([node("Relu", "x", "y")], [value("x", [None, None])], [value("y", None)])
    with pytest.raises(
        GraphError,
        match=r"axis 1 of input 'x' is dynamic; .* --dims x:1=… or, in Python, dims=\{'x:1': …\}",
    ):
        from_onnx(net, batch=2)
    assert from_onnx(net, batch=2, dims={"x:1": 9}).operators[0].outputs[0].shape == (2, 9)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, r"axis 1 \('S'\) of input 'x' is dynamic; .* --dims S=… or, in Python, dims=\{'S'"),
        (
            {"batch": 2},
            r"axis 1 \('S'\) of input 'x' is dynamic; .* --dims S=… or, in Python, dims=\{'S'",
        ),
        ({"batch": 2, "dims": {"T": 1}}, "no dynamic axis is called 'T'; known: N, S"),
        ({"batch": 2, "dims": {"S": 0}}, r"dims\['S'\] must be a positive whole number, not 0"),
        ({"batch": 2, "dims": {"S": True}}, "not True"),
        ({"batch": 2, "dims": {"S": 2.5}}, "not 2.5"),
        ({"batch": 2, "dims": [("S", 5)]}, r"dims is \[\('S', 5\)\], not a mapping from names to sizes"),
        ({"batch": 2, "dims": 5}, "dims is 5, not a mapping"),
        ({"batch": 0, "dims": {"S": 5}}, "batch must be a whole number"),
        ({"batch": True, "dims": {"S": 5}}, "batch must be a whole number"),
        ({"batch": 1 << 40, "dims": {"S": 5}}, "batch must be a whole number"),
    ],
)
def test_unbound_and_wrong_sizes(options, sentence):
    with pytest.raises(GraphError, match=sentence):
        from_onnx(dynamic(), **options)


@pytest.mark.slow
@given(batch=st.integers(1, 64))
@settings(max_examples=10)
def test_a_fixed_batch_of_one_is_rebound(batch):
    graph = from_onnx(LIGHT / "light_shufflenet.onnx", batch=batch)
    ones = from_onnx(LIGHT / "light_shufflenet.onnx")
    assert graph.edges == ones.edges
    for op, one in zip(graph.operators, ones.operators, strict=True):
        assert op.inputs[1:] == one.inputs[1:] or op.kind in ("Sum", "Concat")
        assert [t.shape for t in op.outputs] == [(batch, *t.shape[1:]) for t in one.outputs]
    np.testing.assert_allclose(graph.flops, batch * ones.flops)


@pytest.mark.parametrize(
    ("data", "target", "batch_shape"),
    [
        ([1, 3, 4], [1, 12], (5, 12)),
        ([1, 3, 4], [1, -1], (5, 12)),
        ([1, 3, 4], [-1, 12], (5, 12)),
        ([1, 3, 4], [0, 12], (5, 12)),
        ([1, 3, 4], [3, 4], (15, 4)),  # the batch joins the leading axis
        ([1, 12], [1, 1, 3, 4], (5, 1, 3, 4)),
    ],
)
def test_reshape_targets_that_carry_the_batch(data, target, batch_shape):
    net = model([node("Reshape", "x,t", "y")], [value("x", data)], [value("y", None)], [ints("t", *target)])
    assert from_onnx(net, batch=5).operators[0].outputs[0].shape == batch_shape


def test_a_batch_behind_another_axis_is_found_where_a_one_shows_it():
    # [1, 6, 4] -> transpose [6, 1, 4] -> [6, 1, 2, 2]
    nodes = [node("Transpose", "x", "t", perm=[1, 0, 2]), node("Reshape", "t,shape", "y")]
    net = model(nodes, [value("x", [1, 6, 4])], [value("y", None)], [ints("shape", 6, 1, 2, 2)])
    assert from_onnx(net, batch=5).operators[1].outputs[0].shape == (6, 5, 2, 2)
    net = model(nodes, [value("x", [1, 6, 4])], [value("y", None)], [ints("shape", 6, 2, 2)])
    with pytest.raises(GraphError, match="fixed at 1 and cannot become 5.* does not show which axis is the batch"):
        from_onnx(net, batch=5)


def test_a_batch_that_cannot_be_rebound():
    nodes = [node("Concat", "token,x", "y", axis=1)]  # a class token expanded to batch 1
    net = model(nodes, [value("x", [1, 6, 4])], [value("y", None)], [weight("token", 1, 1, 4)])
    with pytest.raises(GraphError, match="net.*cannot become 2: node 0 .Concat.*dynamic batch axis") as caught:
        from_onnx(net, batch=2)
    assert "\n" not in str(caught.value)


def test_a_batch_that_is_fixed_at_another_size():
    net = model([node("Relu", "x", "y")], [value("x", [4, 2])], [value("y", None)])
    assert from_onnx(net, batch=4) == from_onnx(net)
    with pytest.raises(GraphError, match="leading axis of input 'x' is fixed at 4; leave the batch out"):
        from_onnx(net, batch=2)


# Operators that the vocabulary does not know


def test_unknown_kinds_are_kept_with_one_warning():
    nodes = [
        node("Alpha", "x,w", "a", domain="lab"),
        node("Beta", "a", "b", domain="lab"),
        node("Asin", "b", "y"),
        node("Conv", "y", "z", domain="lab"),
    ]
    net = model(nodes, [value("x", [2, 3])], [value("z", None)], [weight("w", 9)], domains=["lab"])
    with pytest.warns(HetgymWarning) as caught:
        graph = from_onnx(net)
    (warning,) = caught
    assert "Alpha, Asin, Beta, lab::Conv" in str(warning.message)
    assert "assumed as large as the first input: Alpha, Beta, lab::Conv" in str(warning.message)
    assert warning.filename == __file__
    alpha = graph.operators[0]
    assert (alpha.kind, alpha.flops, alpha.bytes_read, alpha.bytes_written) == ("Alpha", 0.0, 60.0, 24.0)


@pytest.mark.parametrize(
    ("state", "note"),
    [
        (value("next", [1, 64]), None),
        (value("next", ["n", 64]), "shape of 'looped' unknown, assumed to be that of the state's start"),
        (helper.make_tensor_value_info("next", TensorProto.FLOAT, None), "'looped' unknown"),
    ],
)
def test_results_of_loops_have_the_types_of_their_states(state, note):
    """Not that of the first operand, the number of rounds: a scalar is a known shape."""
    flag = helper.make_tensor_value_info("go", TensorProto.BOOL, [])
    number = helper.make_tensor_value_info("i", TensorProto.INT64, [])
    body = helper.make_graph(
        [node("Identity", "cond", "go"), node("Relu", "state", "next"), node("Identity", "state", "each")],
        "body",
        [number, helper.make_tensor_value_info("cond", TensorProto.BOOL, []), value("state", [1, 64])],
        [flag, state, value("each", [1, 64])],
    )
    rounds = helper.make_tensor("rounds", TensorProto.INT64, [], [32])
    yes = helper.make_tensor("yes", TensorProto.BOOL, [], [True])

    def looping(last: str) -> onnx.ModelProto:
        nodes = [node("Loop", "rounds,yes,x", "looped,all", body=body), node("MatMul", f"{last},w", "y")]
        return model(nodes, [value("x", [1, 64])], [value("y", None)], [rounds, yes, weight("w", 64, 8)])

    if note is None:
        graph = from_onnx(looping("looped"), strict=True)
    else:
        with pytest.warns(HetgymWarning, match=note):
            graph = from_onnx(looping("looped"))
        with pytest.raises(GraphError, match="strict=True"):
            from_onnx(looping("looped"), strict=True)
    assert graph.operators[0].outputs[0].shape == (1, 64) and graph.operators[1].outputs[0].shape == (1, 8)
    assert graph.operators[0].flops == 32 * 64  # of Relu, round by round
    with pytest.warns(HetgymWarning, match="shape of 'all' unknown, assumed to be that of 32 rounds of the loop"):
        graph = from_onnx(looping("all"))
    assert graph.operators[0].outputs[0].shape == (32, 1, 64) and graph.operators[1].outputs[0].shape == (32, 1, 8)


def test_a_loop_without_a_known_number_of_rounds_has_one():
    flag, number = (
        helper.make_tensor_value_info(n, t, []) for n, t in (("go", TensorProto.BOOL), ("i", TensorProto.INT64))
    )
    nodes = [node("Identity", "cond", "go"), node("Relu", "state", "next"), node("Identity", "state", "each")]
    inside = [number, helper.make_tensor_value_info("cond", TensorProto.BOOL, []), value("state", [4])]
    for each, shape in (
        (value("each", [4]), (1, 4)),
        (helper.make_tensor_value_info("each", TensorProto.FLOAT, None), None),
    ):
        body = helper.make_graph(nodes, "body", inside, [flag, value("next", [4]), each])
        yes = helper.make_tensor("yes", TensorProto.BOOL, [], [True])
        loop = [node("Loop", "rounds,yes,x", "last,all", body=body), node("Relu", "all", "y")]
        rounds = helper.make_tensor_value_info("rounds", TensorProto.INT64, [])
        net = model(loop, [value("x", [4]), rounds], [value("y", None)], [yes])
        if shape is None:
            with pytest.raises(GraphError, match="shape of 'all' unknown; it depends on data or is not stated"):
                from_onnx(net)
            continue
        with pytest.warns(HetgymWarning, match="rounds that depend on data are priced as one: Loop") as caught:
            assert from_onnx(net).operators[1].outputs[0].shape == shape
        assert "shape of 'all' unknown, assumed to be that of 1 round of the loop" in str(caught[0].message)


def test_declared_types_serve_operators_without_inference():
    nodes = [node("Alpha", "x", "a", domain="lab"), node("Relu", "a", "y")]
    declared = [value("a", ["N", 7])]
    net = model(nodes, [value("x", ["N", 3])], [value("y", None)], domains=["lab"], value_info=declared)
    with pytest.warns(HetgymWarning, match="Alpha") as caught:
        graph = from_onnx(net, batch=2)
    assert graph.operators[1].outputs[0].shape == (2, 7) and "assumed" not in str(caught[0].message)


def test_operators_of_onnx_runtime_are_ours_under_another_name():
    net = model(
        [node("FastGelu", "x", "y", domain="com.microsoft")],
        [value("x", [2, 3])],
        [value("y", None)],
        domains=["com.microsoft"],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HetgymWarning)
        assert from_onnx(net).operators[0].kind == "Gelu"


def test_subgraphs_are_one_operator_that_reads_what_their_bodies_read():
    then = helper.make_graph([node("Add", "h,w", "t")], "then", [], [value("t", [2, 3])])
    other = helper.make_graph([node("Identity", "h", "e")], "else", [], [value("e", [2, 3])])
    nodes = [node("Relu", "x", "h"), helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    net = model(nodes, [value("x", [2, 3]), value("c", [], TensorProto.BOOL)], [value("y", None)], [weight("w", 2, 3)])
    graph = from_onnx(net, strict=True)
    branch = graph.operators[1]
    assert branch.flops == 6 and branch.bytes_read == 3 * 24  # of the dearest branch, the sum of two operands
    assert branch.kind == "If" and branch.outputs[0].shape == (2, 3)
    assert [(t.shape, t.constant) for t in branch.inputs] == [((), False), ((2, 3), False), ((2, 3), True)]
    assert [tuple(edge) for edge in graph.edges] == [(0, 0, 1)]


def _loop(rounds: int, nodes: list, states: str, results: str, shape: list[int]) -> onnx.NodeProto:
    """A loop of one state, whose body also reads values from outside."""
    number, flag, go = (
        helper.make_tensor_value_info(*one, [])
        for one in (("i", TensorProto.INT64), ("cond", TensorProto.BOOL), ("go", TensorProto.BOOL))
    )
    inside = [*nodes, node("Identity", "cond", "go")]
    body = helper.make_graph(inside, "body", [number, flag, value("state", shape)], [go, value("next", shape)])
    return node("Loop", f"rounds{rounds},yes,{states}", results, body=body)


def test_loops_take_their_rounds_times_their_bodies():
    """Loops in loops, too; and a Scan takes a slice in each round."""
    yes = helper.make_tensor("yes", TensorProto.BOOL, [], [True])
    numbers = [helper.make_tensor(f"rounds{n}", TensorProto.INT64, [], [n]) for n in (5, 100)]
    product = node("MatMul", "state,w", "next")
    plain = _loop(100, [product], "x", "y", [8, 64])
    inner = _loop(5, [product], "state", "next", [8, 64])
    for loop, rounds in ((plain, 100), (_loop(100, [inner], "x", "y", [8, 64]), 500)):
        net = model([loop], [value("x", [8, 64])], [value("y", [8, 64])], [*numbers, yes, weight("w", 64, 64)])
        (operator,) = from_onnx(net, strict=True).operators
        assert operator.kind == "Loop" and operator.flops == rounds * 2 * 8 * 64 * 64
        assert operator.bytes_read >= rounds * 64 * 64 * 4
    body = helper.make_graph(
        [node("Add", "sum,slice", "next"), node("Identity", "next", "each")],
        "body",
        [value("sum", [7]), value("slice", [7])],
        [value("next", [7]), value("each", [7])],
    )
    scan = helper.make_node("Scan", ["start", "x"], ["last", "y"], body=body, num_scan_inputs=1, scan_input_axes=[1])
    net = model([scan], [value("start", [7]), value("x", [7, 30])], [value("last", [7]), value("y", [30, 7])])
    (operator,) = from_onnx(net).operators
    assert operator.flops == 30 * 7


def test_functions_of_the_model_are_inlined():
    body = [node("Exp", "a", "e"), node("Neg", "e", "b")]
    function = helper.make_function("lab", "Fall", ["a"], ["b"], body, [helper.make_opsetid("", 21)])
    net = model(
        [node("Fall", "x", "y", domain="lab")],
        [value("x", [3])],
        [value("y", None)],
        functions=[function],
        domains=["lab"],
    )
    assert [op.kind for op in from_onnx(net).operators] == ["Exp", "Neg"]


def test_recurrent_layers():
    nodes = [helper.make_node("LSTM", ["x", "w", "r", "b", "", "h0"], ["", "last"], hidden_size=3)]
    initializers = [weight("w", 1, 12, 5), weight("r", 1, 12, 3), weight("b", 1, 24), weight("h0", 1, 2, 3)]
    graph = from_onnx(model(nodes, [value("x", [7, 2, 5])], [value("last", None)], initializers))
    (lstm,) = graph.operators
    assert [t.shape for t in lstm.outputs] == [(1, 2, 3)] and lstm.attributes["hidden_size"] == 3
    assert lstm.flops == 14 * (2 * (60 + 36) + 10 * 12)


# Bad input


def broken(change):
    net = model([node("Relu", "x", "y")], [value("x", [2])], [value("y", None)])
    change(net)
    return net


@pytest.mark.parametrize(
    ("net", "sentence"),
    [
        (onnx.ModelProto(), "has no outputs"),
        (broken(lambda m: m.graph.ClearField("node")), "the model's output reads 'y', which no earlier node makes"),
        (broken(lambda m: m.graph.node[0].ClearField("output")), "output size 0 not in range"),
        (model([helper.make_node("Shape", [], ["y"])], [], [value("y", None)]), "lacks an operand or a result"),
        (model([helper.make_node("Constant", [], [])], [], [value("y", None)]), "lacks an operand or a result"),
        (broken(lambda m: m.graph.node.add(op_type="Relu", input=["x"], output=["y"])), "makes 'y', which exists"),
        (broken(lambda m: m.graph.node.insert(0, node("Add", "x,y", "z"))), "node 0 .Add. reads 'y'"),
        (broken(lambda m: m.graph.input[0].type.Clear()), "input 'x' is not a tensor of known rank"),
        (broken(lambda m: m.graph.input[0].type.CopyFrom(helper.make_tensor_type_proto(99, [2]))), "element type 99"),
        (broken(lambda m: m.graph.input[0].type.CopyFrom(value("x", [2], 8).type)), "unknown dtype 'string'"),
        (broken(lambda m: m.graph.input[0].type.CopyFrom(value("x", [1 << 62] * 3).type)), "out of range"),
        (broken(lambda m: m.graph.output[0].CopyFrom(value("x", [2]))), "nothing is computed"),
        (broken(lambda m: m.graph.initializer.append(TensorProto(name="w", data_type=1, dims=[3]))), "'w' is damaged"),
        (
            model([node("Add", "x,z", "y")], [value("x", [2]), value("z", [3])], [value("y", None)]),
            r"node 0 .Add.: ONNX infers no shape from 'x' \[2\], 'z' \[3\]",
        ),
        (
            model([node("Reshape", "x,t", "y")], [value("x", [6])], [value("y", None)], [ints("t", 2, 2)]),
            r"cannot turn shape \[6\] into \[2, 2\]",
        ),
        (model([node("NonZero", "x", "y")], [value("x", [6])], [value("y", None)]), "depends on data or is not stated"),
        (model([node("Conv", "x,w", "y")], [value("x", [1, 3, 8, 8])], [value("y", None)], [weight("w", 3)]), "Conv"),
        (model([helper.make_node("Constant", [], ["y"], value_string="a")], [], [value("y", None)]), "no tensor of"),
        (model([node("SequenceConstruct", "x", "y")], [value("x", [6])], [value("y", None)]), "sequence"),
    ],
)
def test_broken_models(net, sentence):
    with pytest.raises(GraphError, match=sentence) as caught:
        from_onnx(net)
    assert "\n" not in str(caught.value)


def test_broken_files(tmp_path):
    path = tmp_path / "m.onnx"
    with pytest.raises(GraphError, match=r"m\.onnx: no such file"):
        from_onnx(path)
    with pytest.raises(GraphError, match="cannot be read"):
        from_onnx(tmp_path)
    with pytest.raises(GraphError, match="cannot be read"):
        from_onnx("a\0b.onnx")
    with pytest.raises(GraphError, match="an ONNX model is read from a path, not from int"):
        from_onnx(3)
    path.write_bytes(b"this is no model")
    with pytest.raises(GraphError, match=r"m\.onnx: not an ONNX model, or damaged"):
        from_onnx(path)
    path.write_bytes(b"")
    with pytest.raises(GraphError, match="has no outputs"):
        from_onnx(path)


@given(seed=st.integers(0, 2**32 - 1))
@examples(60)
def test_damaged_files_give_a_graph_or_one_sentence(seed, tmp_path_factory):
    rng = np.random.default_rng(seed)
    data = bytearray((LIGHT / "light_bvlc_alexnet.onnx").read_bytes())
    for at in rng.integers(0, len(data), rng.integers(1, 6)):
        data[at] = rng.integers(256)
    path = tmp_path_factory.mktemp("fuzz") / "m.onnx"
    path.write_bytes(data[: rng.integers(1, len(data))] if rng.random() < 0.3 else data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HetgymWarning)
        try:
            graph = from_onnx(path, batch=int(rng.integers(1, 4)))
        except GraphError as error:
            assert "\n" not in str(error)
        else:
            assert len(graph) > 0


def test_small_values_stay_small():
    nodes = [node("Range", "zero,limit,one", "r"), node("Add", "x,r", "y")]
    scalars = [
        numpy_helper.from_array(np.array(v, np.float32), k) for k, v in (("zero", 0), ("limit", 1e9), ("one", 1))
    ]
    graph = from_onnx(model(nodes, [value("x", [1])], [value("y", None)], scalars))
    assert graph.operators[0].inputs[1].shape == (10**9,) and SMALL < 10**5


@pytest.mark.parametrize(("leading", "size"), [(4, 4), (1, 1), ("N", 1), (None, 1)])
def test_by_default_the_batch_is_the_one_that_the_model_fixes_or_1(leading, size, tmp_path):
    """In Python, in environments and in suites."""
    nodes = [node("Relu", "x", "h"), node("Sigmoid", "h", "y")]
    net = model(nodes, [value("x", [leading, 3])], [value("y", None)])
    onnx.save(net, tmp_path / "net.onnx")
    (tmp_path / "suite.yaml").write_text("problems:\n  - graphs: [net.onnx]\n    platforms: [cpu-gpu]\n")
    assert from_onnx(net).operators[0].outputs[0].shape == (size, 3)
    assert load_graph(tmp_path / "net.onnx").operators[0].outputs[0].shape == (size, 3)
    env = gym.make("HetSchedule-v0", graph=tmp_path / "net.onnx", platform="cpu-gpu")
    (spec,) = load_suite(tmp_path / "suite.yaml").specs
    problem = env.unwrapped.lanes.source.items[0]
    assert problem.output_bytes.tolist() == [size * 3 * 4] * 2 == spec.build().output_bytes.tolist()
