from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pytest

from hetgym import GraphError, workloads
from hetgym.graph import GENERATORS, Tensor, from_networkx, generate_graph, to_networkx


def chain(**attributes):
    graph = nx.DiGraph(name="chain")
    graph.add_node("a", flops=1.0)
    graph.add_node("b", flops=2.0)
    graph.add_edge("a", "b", bytes=10)
    graph.nodes["a"].update(attributes)
    return graph


@pytest.mark.parametrize("name", GENERATORS)
def test_there_and_back(name):
    graph = generate_graph(name, np.random.default_rng(1))
    there = to_networkx(graph)
    assert nx.is_directed_acyclic_graph(there)
    assert there.number_of_nodes() == len(graph) and there.number_of_edges() == len(graph.edges)
    back = from_networkx(there)
    assert back == graph and back.name == graph.name


def test_there_and_back_through_json():
    graph = generate_graph("lstm_grid", layers=2, steps=3)
    data = json.loads(json.dumps(nx.node_link_data(to_networkx(graph), edges="edges")))
    assert from_networkx(nx.node_link_graph(data, edges="edges")) == graph


def test_a_plain_digraph():
    graph = nx.DiGraph()
    graph.add_node(3, flops=5)
    graph.add_node("x", flops=np.float64(7), colour="red")
    graph.add_node("y", kind="Relu")
    graph.add_weighted_edges_from([(3, "x", 100), (3, "y", 50), ("x", "y", 8.0)], weight="bytes")
    result = from_networkx(graph, "mine")
    assert result.name == "mine"
    assert [operator.name for operator in result.operators] == ["3", "x", "y"]
    assert result.flops.tolist() == [5, 7, 0]
    assert result.edge_bytes.tolist() == [100, 50, 8]
    assert result.bytes_read.tolist() == [0, 100, 58]


def test_output_bytes_is_one_tensor_for_all_readers():
    graph = nx.DiGraph([("a", "b"), ("a", "c")])
    nx.set_node_attributes(graph, 1.0, "flops")
    nx.set_node_attributes(graph, 64, "output_bytes")
    result = from_networkx(graph)
    assert result.edge_tensor.tolist() == [0, 0] and result.edge_bytes.tolist() == [64, 64]
    assert result.output_bytes.tolist() == [64, 64, 64]


def test_shapes_and_slots():
    graph = nx.MultiDiGraph()
    graph.add_node("cell", kind="LSTMCell", outputs=[(1, 8), {"shape": [1, 8], "dtype": "float16"}])
    graph.add_node(
        "next", kind="MatMul", inputs=[[1, 8], {"shape": (8, 4), "constant": True}], outputs=[Tensor((1, 4))]
    )
    graph.add_edge("cell", "next")
    graph.add_edge("cell", "next", slot=1, bytes=16)
    result = from_networkx(graph)
    assert [(e.slot, b) for e, b in zip(result.edges, result.edge_bytes, strict=True)] == [(0, 32), (1, 16)]
    assert result.operators[1].flops == 2 * 4 * 8 and result.weight_bytes.tolist() == [0, 128]


def test_an_undirected_graph_a_cycle_and_no_graph():
    with pytest.raises(GraphError, match="the networkx graph is undirected"):
        from_networkx(nx.path_graph(3))
    looped = chain()
    looped.add_edge("b", "a", bytes=1)
    with pytest.raises(GraphError, match="graph 'chain' has a cycle: (a -> b -> a|b -> a -> b)"):
        from_networkx(looped)
    with pytest.raises(GraphError, match="expected a networkx.DiGraph or MultiDiGraph, got list"):
        from_networkx([])
    with pytest.raises(GraphError, match="graph 'graph' has no operators"):
        from_networkx(nx.DiGraph())
    with pytest.raises(GraphError, match="takes a DataflowGraph, not DiGraph"):
        to_networkx(chain())


def test_attributes_of_the_graph_may_be_anything():
    """As in node-link JSON whose field ``graph`` is a number."""
    for attributes, name in ((0.5, "graph"), ({"name": 7}, "7"), ({"name": ""}, "graph"), ([], "graph")):
        g = nx.DiGraph()
        g.add_node("a", flops=1, cost=[1.0])
        g.graph = attributes
        assert from_networkx(g).name == name
        assert workloads.from_networkx(g).name == name


def test_labels_that_read_alike():
    graph = nx.DiGraph()
    graph.add_nodes_from([1, "1"], flops=0)
    with pytest.raises(GraphError, match="operators 0 and 1 are both named '1'"):
        from_networkx(graph)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"flops": -1}, "node 'a': flops is -1; it must be a finite non-negative number"),
        ({"flops": float("nan")}, "node 'a': flops is nan"),
        ({"flops": "many"}, "node 'a': flops is 'many'"),
        ({"kind": 3}, "node 'a': kind is 3, expected text"),
        ({"attributes": [1]}, r"node 'a': attributes is \[1\], expected a mapping"),
        ({"attributes": {"flops": -2.0}}, "node 'a': flops is -2.0"),
        ({"attributes": {"x": None}}, "node 'a': attribute 'x' is None"),
        ({"output_bytes": 0.5}, "node 'a': output_bytes is 0.5; it must be a whole number"),
        ({"output_bytes": 10, "outputs": []}, "both outputs and output_bytes"),
        ({"output_bytes": 11}, "edge 'a' -> 'b': bytes is 10, but output 0 has 11 bytes"),
        ({"outputs": []}, "edge 'a' -> 'b': slot is 0, but 'a' has 0 outputs"),
        ({"outputs": 10}, "node 'a': outputs is 10, expected a list of tensors"),
        ({"outputs": [(-1,)]}, r"node 'a': outputs\[0\]: shape is \(-1,\)"),
        ({"outputs": [{"shape": [10], "dtype": "uint9"}]}, "unknown dtype 'uint9'; did you mean"),
        ({"outputs": [{"shap": [10]}]}, "unknown key 'shap'; did you mean 'shape'"),
        ({"inputs": "x"}, "node 'a': inputs is 'x'"),
    ],
)
def test_bad_nodes(attributes, message):
    with pytest.raises(GraphError, match=message):
        from_networkx(chain(**attributes))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "edge 'a' -> 'b': attribute 'bytes' is missing"),
        ({"bytes": -5}, "edge 'a' -> 'b': bytes is -5"),
        ({"bytes": float("inf")}, "edge 'a' -> 'b': bytes is inf"),
        ({"bytes": None}, "edge 'a' -> 'b': bytes is None"),
        ({"bytes": 1.25}, "edge 'a' -> 'b': bytes is 1.25; it must be a whole number"),
    ],
)
def test_bad_edges(attributes, message):
    graph = chain()
    graph["a"]["b"].clear()
    graph["a"]["b"].update(attributes)
    with pytest.raises(GraphError, match=message):
        from_networkx(graph)


def test_a_task_needs_its_work():
    graph = nx.DiGraph()
    graph.add_node("a")
    with pytest.raises(GraphError, match="node 'a': attribute 'flops' is missing"):
        from_networkx(graph)


@pytest.mark.parametrize(
    ("node", "edge", "words"),
    [
        ({"flops": 10**400}, {"bytes": 1}, "flops is a huge number"),
        ({"flops": 1}, {"bytes": 10**400}, "bytes is a huge number"),
        ({"flops": 1}, {"bytes": 1e300}, "out of range"),
        ({"flops": 1, "output_bytes": 1e300}, {}, "out of range"),
        ({"flops": 1, "outputs": [[10**30]]}, {}, "out of range"),
        ({"flops": 1, "outputs": [[1] * 99]}, {}, "99 dimensions"),
        ({"flops": 1, "outputs": [{"shape": [1], "dtype": ["float32"]}]}, {}, "unknown dtype"),
        ({"flops": 1, "kind": "x", "attributes": {"a": {"b": 1}}}, {"bytes": 1}, "attribute 'a' is"),
        ({"flops": "x" * 100_000}, {"bytes": 1}, "flops is 'xxx"),
    ],
    ids=range(9),
)
def test_numbers_beyond_floats_and_values_of_another_type(node, edge, words):
    graph = nx.DiGraph()
    graph.add_node("a", **node)
    graph.add_node("b", flops=1)
    graph.add_edge("a", "b", **edge)
    with pytest.raises(GraphError, match=words) as refused:
        from_networkx(graph)
    assert len(str(refused.value)) <= 600


def test_a_label_that_cannot_be_written_out():
    graph = nx.DiGraph()
    graph.add_node(10**5000, flops=1)
    with pytest.raises(GraphError, match="node a huge number"):
        from_networkx(graph)
