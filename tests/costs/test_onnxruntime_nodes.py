"""The script that holds node times of ONNX Runtime against hetgym's groups, on a model small enough to see through."""

from __future__ import annotations

import importlib.util
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

SCRIPT = Path(__file__).parents[2] / "studies" / "onnxruntime_nodes" / "onnxruntime_nodes.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("benchmark_costs_onnxruntime", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


@pytest.fixture
def model(tmp_path):
    """Convolution, batch normalisation, activation, pooling; weights as the light models have them."""
    make = onnx.helper.make_node
    shapes = {"w": (8, 3, 3, 3), **{name: (8,) for name in ("scale", "bias", "mean", "var")}}
    value = onnx.helper.make_tensor("value", onnx.TensorProto.FLOAT, [1], [0.02])
    nodes = [make("ConstantOfShape", [f"{name}_shape"], [name], value=value) for name in shapes]
    nodes += [
        make("Conv", ["x", "w"], ["conv"], kernel_shape=(3, 3), pads=(1, 1, 1, 1)),
        make("BatchNormalization", ["conv", "scale", "bias", "mean", "var"], ["normal"]),
        make("Relu", ["normal"], ["relu"]),
        make("MaxPool", ["relu"], ["y"], kernel_shape=(2, 2), strides=(2, 2)),
    ]
    held = [onnx.numpy_helper.from_array(np.array(shape, np.int64), f"{name}_shape") for name, shape in shapes.items()]
    kind = onnx.TensorProto.FLOAT
    ends = [onnx.helper.make_tensor_value_info(n, kind, s) for n, s in (("x", (1, 3, 32, 32)), ("y", (1, 8, 16, 16)))]
    graph = onnx.helper.make_graph(nodes, "small", ends[:1], ends[1:], held)
    path = tmp_path / "light_small.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 9)], ir_version=4), str(path))
    return path


def test_weights_are_stored_and_vary(script, model):
    made = script.prepared(model)
    assert [node.name for node in made.graph.node] == ["Conv_0", "BatchNormalization_1", "Relu_2", "MaxPool_3"]
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
    assert set(weights) == {"w", "scale", "bias", "mean", "var"}
    assert (weights["var"] > 0.4).all() and len(np.unique(weights["w"])) > 200
    assert 0.5 < weights["w"].var() / (2 / 27) < 2


def test_a_model_is_timed_and_its_pieces_are_matched(script, model, tmp_path):
    with ThreadPoolExecutor(1) as apart:  # flushing denormals is a state of the thread, and would outlast the test
        rows, parts = apart.submit(script.study, model, tmp_path, 0.05).result()
    assert [(row["level"], row["nodes"]) for row in rows[:2]] == [("as written", 4), ("fused", 2)]
    assert all(row["sum"] > 0 and row["wall"] > 0 and row["groups"] == 2 for row in rows)
    assert sorted(part["what"] for part in parts) == ["Conv + BatchNormalization + Relu", "MaxPool"]
    assert all(part["before"] > 0 and part["after"] > 0 and part["groups"] == part["nodes"] == 1 for part in parts)
    assert [row["count"] for row in script.summed(parts + parts)] == [2, 2]


def test_a_node_counts_in_the_runs_that_count(script):
    events = [{"name": "model_run", "ts": ts, "dur": 9} for ts in (0, 10, 20)]
    events += [
        {"name": "a_kernel_time", "cat": "Node", "ts": ts, "dur": dur} for ts, dur in ((1, 1), (11, 5), (21, 900))
    ]
    assert script.per_node(events, np.array([False, True, False])) == {"a": pytest.approx(5e-6)}
