"""Groups from TVM, where it is installed; the sentence that says how to install it, where it is not."""

from __future__ import annotations

import sys

import pytest

from hetgym import GraphError, MissingExtra
from hetgym.graph import from_onnx, from_tvm

onnx = pytest.importorskip("onnx")
helper = pytest.importorskip("onnx.helper")


def model(kinds):
    """A chain of operators on a [1, 4, 6, 6] tensor."""
    nodes = []
    for i, kind in enumerate(kinds):
        inputs = [f"v{i}"] + (["w"] if kind == "Conv" else [])
        inputs += ["s", "s", "s", "v"] if kind == "BatchNormalization" else []
        nodes.append(helper.make_node(kind, inputs, [f"v{i + 1}"], name=f"op_{kind}_{i}"))
    f32 = onnx.TensorProto.FLOAT
    shape = [1, 4, 6, 6]
    ends = [helper.make_tensor_value_info(name, f32, shape) for name in ("v0", f"v{len(kinds)}")]
    constants = [
        helper.make_tensor("w", f32, [4, 4, 1, 1], [0.5] * 16),
        helper.make_tensor("s", f32, [4], [1.0] * 4),
        helper.make_tensor("v", f32, [4], [2.0] * 4),
    ]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def test_without_tvm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tvm", None)
    monkeypatch.setitem(sys.modules, "tvm.relax", None)
    with pytest.raises(MissingExtra, match=r'^importing TVM\'s groups needs tvm: pip install "hetgym\[tvm\]"$'):
        from_tvm(model(["Relu"]))


@pytest.mark.filterwarnings("ignore")  # TVM's own
class TestWithTvm:
    @pytest.fixture(autouse=True)
    def tvm(self):
        return pytest.importorskip("tvm", exc_type=ImportError)

    @pytest.mark.parametrize(
        ("kinds", "sizes"),
        [
            (["Conv", "Relu", "Conv", "Relu"], [2, 2]),
            (["Relu", "Conv"], [1, 1]),
            (["Conv", "BatchNormalization", "Relu"], [1, 2]),
            (["Sigmoid", "Relu", "Tanh"], [3]),
        ],
    )
    def test_chains(self, kinds, sizes):
        made = from_tvm(model(kinds))
        assert [len(row) for row in made.groups] == sizes
        assert made.fusion.source == from_onnx(model(kinds))
        names = [f"op_{kind}_{i}" for i, kind in enumerate(kinds)]
        assert [name for row in made.groups for name in row] == names
        assert made.kernels == len(made.groups) == len(made.fusion.graph)
        assert not made.split and not made.elided

    def test_an_operator_that_tvm_leaves_out_joins_what_it_reads(self):
        made = from_tvm(model(["Conv", "Identity", "Relu"]))
        assert made.elided == ("op_Identity_1",)
        assert made.groups == (("op_Conv_0", "op_Identity_1", "op_Relu_2"),)

    def test_a_module_after_passes_of_ones_own(self, tvm):
        from hetgym.graph import relax_module

        made = from_tvm(
            model(["Conv", "Relu"]), tvm.relax.transform.LegalizeOps()(relax_module(model(["Conv", "Relu"])))
        )
        assert made.groups == from_tvm(model(["Conv", "Relu"])).groups

    def test_a_module_without_marks(self, tvm):
        from tvm.relax.frontend.onnx import from_onnx as theirs

        with pytest.raises(GraphError, match="no variable of the relax module is marked"):
            from_tvm(model(["Relu"]), theirs(model(["Relu"])))

    def test_an_operator_that_tvm_does_not_know(self):
        with pytest.raises(GraphError, match="TVM cannot import it"), pytest.warns(Warning, match="unknown kind"):
            from_tvm(model(["Nonesuch"]))
