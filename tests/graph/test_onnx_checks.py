"""ONNX files that ask for all memory in a few hundred bytes; each is refused before anything is inferred or run."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hetgym.errors import GraphError, HetgymError
from hetgym.graph import from_onnx, load_graph
from hetgym.graph.onnx_checks import MAX_FOLDED, MAX_INLINED, foldable
from hetgym.graph.onnx_types import SMALL

F, I64 = TensorProto.FLOAT, TensorProto.INT64
HOSTILE = Path(os.environ.get("HETGYM_DATA", "/nonexistent")) / "hostile"


def model(nodes, inputs, outputs, weights=(), functions=(), opset=21):
    graph = helper.make_graph(nodes, "net", inputs, outputs, list(weights))
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)


def value(name, shape, dtype=F):
    return helper.make_tensor_value_info(name, dtype, shape)


def scalar(name, number):
    return numpy_helper.from_array(np.array(number, np.int64), name)


def bomb(depth, width):
    """Functions that call the one before several times: ``width ** depth`` nodes."""
    opset = helper.make_opsetid("", 21)
    functions = []
    for level in range(depth):
        called, domain = ("Relu", "") if level == 0 else (f"f{level - 1}", "own")
        names = ["x", *(f"v{k}" for k in range(width - 1)), "y"]
        nodes = [helper.make_node(called, [names[k]], [names[k + 1]], domain=domain) for k in range(width)]
        functions.append(
            helper.make_function("own", f"f{level}", ["x"], ["y"], nodes, [opset, helper.make_opsetid("own", 1)])
        )
    call = helper.make_node(f"f{depth - 1}", ["x"], ["y"], domain="own")
    return model([call], [value("x", [1])], [value("y", [1])], functions=functions)


def test_functions_unfold_up_to_a_limit():
    assert len(from_onnx(bomb(3, 5))) == 125
    with pytest.raises(GraphError, match=f"unfold to more than {MAX_INLINED} nodes"):
        from_onnx(bomb(10, 10))


def test_functions_that_call_themselves():
    net = bomb(3, 2)
    net.functions[0].node[0].op_type, net.functions[0].node[0].domain = "f2", "own"
    with pytest.raises(GraphError, match="calls itself"):
        from_onnx(net)


def test_functions_nested_too_deeply():
    with pytest.raises(GraphError, match="nested too deeply"):
        from_onnx(bomb(1500, 1))


def test_calls_within_subgraphs_count():
    net = bomb(10, 10)
    branch = helper.make_graph([net.graph.node[0]], "branch", [], [value("y", [1])])
    node = helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch)
    outer = model([node], [value("x", [1]), value("c", [], TensorProto.BOOL)], [value("z", [1])])
    outer.functions.extend(net.functions)
    with pytest.raises(GraphError, match="unfold to more than"):
        from_onnx(outer)


@pytest.mark.parametrize("opset", [8, 13, 21])
def test_operands_that_say_how_many_dimensions_there_are(opset):
    net = model(
        [helper.make_node("Expand", ["x", "s"], ["y"])],
        [value("x", [2]), value("s", [1 << 40], I64)],
        [value("y", None)],
        opset=opset,
    )
    with pytest.raises(GraphError, match=r"node 0 \(Expand\) makes a tensor of 1099511627776 dimensions"):
        from_onnx(net)


@pytest.mark.parametrize("number", [2**31 - 1, 3, 1, 0])
def test_split_into_another_number_of_parts_than_it_has_outputs(number):
    """More would be allocated; with fewer, ONNX's inference ends the process."""
    node = helper.make_node("Split", ["x"], ["a", "b"], num_outputs=number)
    with pytest.raises(GraphError, match=f"num_outputs {number}, but 2 outputs"):
        from_onnx(model([node], [value("x", [6])], [value("a", None)]))


@pytest.mark.parametrize("number", [-(2**31), 2**40])
def test_batch_dimensions_that_cannot_be(number):
    node = helper.make_node("GatherND", ["x", "i"], ["y"], batch_dims=number)
    with pytest.raises(GraphError, match="batch_dims"):
        from_onnx(model([node], [value("x", [2, 3]), value("i", [2, 1], I64)], [value("y", None)]))


@pytest.mark.parametrize("kind", ["Range", "Expand", "Tile", "ConstantOfShape"])
def test_operators_that_make_tensors_at_versions_that_lack_them(kind):
    """ONNX infers no shape, so what the model declares is believed; the values are not worked out."""
    weights = {
        "Range": [scalar("a", 0), scalar("b", 2 * 10**8), scalar("c", 1)],
        "Expand": [scalar("a", 1), numpy_helper.from_array(np.array([10**9]), "b")],
        "Tile": [numpy_helper.from_array(np.array([1]), "a"), numpy_helper.from_array(np.array([10**9]), "b")],
        "ConstantOfShape": [numpy_helper.from_array(np.array([10**9]), "a")],
    }[kind]
    nodes = [helper.make_node(kind, [w.name for w in weights], ["r"]), helper.make_node("Mul", ["x", "r"], ["y"])]
    net = model(nodes, [value("x", [1], I64)], [value("y", [1], I64)], weights, opset=1)
    net.graph.value_info.append(value("r", [1], I64))
    with suppress(GraphError):  # Tile at version 1 has another form
        assert len(from_onnx(net)) == 1


@pytest.mark.parametrize(
    ("kind", "operands", "fine"),
    [
        ("Range", [0, 10**6, 1], True),
        ("Range", [0, 10**9, 1], False),
        ("Range", [0, 1, 0], False),
        ("Range", [0.0, np.nan, 1.0], False),
        ("ConstantOfShape", [[1000, 1000]], True),
        ("ConstantOfShape", [[2**40, 2**40]], False),
        ("Expand", [np.ones(SMALL), [1, SMALL]], True),
        ("Expand", [np.ones(4), [2**60]], False),
        ("Tile", [np.ones(4), [2**62]], False),
        ("Where", [np.ones((1, 1, SMALL)), np.ones((1, SMALL, 1)), np.ones((SMALL, 1, 1))], False),
        ("Max", [np.ones(SMALL)] * 9, True),
        ("Concat", [np.ones(SMALL)] * 100, True),
        ("Add", [np.ones((SMALL, 1)), np.ones(SMALL)], True),
    ],
)
def test_folded_sizes_are_known_beforehand(kind, operands, fine):
    arrays = [np.asarray(operand) for operand in operands]
    assert foldable(helper.make_node(kind, [], []), arrays) is fine
    assert SMALL * SMALL <= MAX_FOLDED


def test_tensors_of_more_dimensions_than_there_are():
    with pytest.raises(GraphError, match="70 dimensions; a tensor has at most 64"):
        from_onnx(model([helper.make_node("Relu", ["x"], ["y"])], [value("x", [1] * 70)], [value("y", None)]))


@pytest.mark.parametrize("version", [-5, 10**6, 2**62])
def test_operator_sets_that_there_are_not(version):
    net = model([helper.make_node("Relu", ["x"], ["y"])], [value("x", [1])], [value("y", None)])
    net.opset_import[0].version = version
    with pytest.raises(GraphError, match=f"imports the impossible version {version} of operator set ''"):
        from_onnx(net)


def attribute(name, type_, **fields):
    made = onnx.AttributeProto(name=name, type=type_)
    for key, item in fields.items():
        if isinstance(item, list):
            getattr(made, key).extend(item)
        else:
            setattr(made, key, item)
    return made


@pytest.mark.parametrize(
    "odd",
    [
        attribute("value_int", onnx.AttributeProto.TENSOR),
        attribute("value_ints", onnx.AttributeProto.STRINGS, strings=[b"x"]),
        attribute("value_floats", onnx.AttributeProto.GRAPH),
        attribute("value", onnx.AttributeProto.INT, i=3),
        attribute("value", 0),
        attribute("value_string", onnx.AttributeProto.STRING, s=b"x"),
    ],
    ids=range(6),
)
def test_constants_of_another_type_than_their_name_says(odd):
    node = onnx.NodeProto(op_type="Constant", output=["c"], attribute=[odd])
    net = model([node, helper.make_node("Add", ["x", "c"], ["y"])], [value("x", [1])], [value("y", None)])
    with pytest.raises(GraphError, match=r"node 0 \(Constant\) holds no tensor of numbers"):
        from_onnx(net)


@pytest.mark.parametrize(
    "type_", [onnx.AttributeProto.TENSOR, onnx.AttributeProto.GRAPH, onnx.AttributeProto.STRINGS, 99]
)
def test_attributes_of_odd_types_are_left_out(type_):
    node = helper.make_node("Own", ["x"], ["y"], domain="own")
    node.attribute.append(onnx.AttributeProto(name="axes"))
    node.attribute[0].ParseFromString(node.attribute[0].SerializeToString() + bytes([0xA0, 0x01, type_]))
    net = model([node], [value("x", [1])], [value("y", [1])])
    with pytest.warns(UserWarning, match="unknown kind"):
        assert dict(from_onnx(net).operators[0].attributes) == {}


@pytest.mark.skipif(not HOSTILE.is_dir(), reason="set HETGYM_DATA to a folder that holds hostile/*.onnx")
@pytest.mark.filterwarnings("ignore::hetgym.errors.HetgymWarning")
def test_hostile_files():
    for path in sorted(HOSTILE.glob("*.onnx")):
        try:
            assert len(load_graph(path)) < 10
        except HetgymError as error:
            assert str(error).startswith(str(path)) and str(error).isprintable()
