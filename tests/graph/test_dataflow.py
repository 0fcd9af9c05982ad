from __future__ import annotations

import copy
import pickle

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetgym
from hetgym import DataflowGraph, GraphError
from hetgym.graph import FEATURES, Edge, Operator, Tensor
from hetgym.graph.dataflow import DENSE_LIMIT

SMALL, LARGE = Tensor((4,)), Tensor((16,), "float16")


def op(name, kind="Relu", outputs=(SMALL, LARGE)):
    return Operator(name, kind, (SMALL,), outputs)


def build(n, edges, name="g"):
    return DataflowGraph([op(f"n{i}") for i in range(n)], edges, name)


DIAMOND = build(5, [(0, 0, 1), (0, 1, 2), (1, 0, 3), (2, 0, 3), (3, 0, 4)])


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 14))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    density = draw(st.sampled_from([0.0, 0.1, 0.3, 0.7]))
    label = rng.permutation(n)  # ids need not be in topological order
    edges = [
        (int(label[i]), int(rng.integers(2)), int(label[j]))
        for i in range(n)
        for j in range(i + 1, n)
        for _ in range(2)
        if rng.random() < density
    ]
    return build(n, edges)


def oracle(graph):
    result = nx.DiGraph()
    result.add_nodes_from(range(len(graph)))
    result.add_edges_from((e.source, e.target) for e in graph.edges)
    return result


def test_a_diamond_by_hand():
    assert DIAMOND.topological_order.tolist() == [0, 1, 2, 3, 4]
    assert DIAMOND.depth.tolist() == [0, 1, 1, 2, 3]
    assert DIAMOND.height.tolist() == [3, 2, 2, 1, 0]
    assert DIAMOND.is_fork.tolist() == [True, False, False, False, False]
    assert DIAMOND.is_join.tolist() == [False, False, False, True, False]
    assert DIAMOND.on_trunk.tolist() == [True, False, False, True, True]
    assert DIAMOND.edge_bytes.tolist() == [16, 32, 16, 16, 16]
    assert DIAMOND.edge_tensor.tolist() == [0, 1, 2, 3, 4]


def test_a_skip_connection_takes_what_it_bypasses_off_the_trunk():
    skip = build(4, [(0, 0, 1), (1, 0, 2), (2, 0, 3), (0, 0, 2)])
    assert skip.on_trunk.tolist() == [True, False, True, True]


def test_edges_are_sorted_and_repeated_ones_count_once():
    graph = build(3, [(1, 0, 2), (0, 1, 2), (0, 0, 2), (0, 0, 1), (0, 0, 2)])
    assert graph.edges == (Edge(0, 0, 1), Edge(0, 0, 2), Edge(0, 1, 2), Edge(1, 0, 2))
    assert graph.edge_tensor.tolist() == [0, 0, 1, 2]
    assert graph.is_join.tolist() == [False, False, True] and graph.in_degree.tolist() == [0, 1, 3]


@given(graphs())
def test_structure_agrees_with_networkx(graph):
    plain = oracle(graph)
    n = len(graph)
    order = graph.topological_order.tolist()
    assert order == list(nx.lexicographical_topological_sort(plain))
    depth = {}
    for level, nodes in enumerate(nx.topological_generations(plain)):
        depth.update(dict.fromkeys(nodes, level))
    height = {}
    for level, nodes in enumerate(nx.topological_generations(plain.reverse())):
        height.update(dict.fromkeys(nodes, level))
    below = {i: nx.descendants(plain, i) for i in range(n)}
    for i in range(n):
        assert graph.depth[i] == depth[i] and graph.height[i] == height[i]
        assert graph.is_fork[i] == (plain.out_degree(i) > 1)
        assert graph.is_join[i] == (plain.in_degree(i) > 1)
        for j in range(n):
            assert graph.reaches(i, j) == (j in below[i])
            assert graph.dependency_matrix()[i, j] == plain.has_edge(i, j)
    sources, sinks = ([i for i in range(n) if degree(i) == 0] for degree in (plain.in_degree, plain.out_degree))
    plain.add_edges_from([("in", i) for i in sources] + [(i, "out") for i in sinks])
    for i in range(n):
        without = plain.subgraph(set(plain) - {i})
        assert graph.on_trunk[i] == (not nx.has_path(without, "in", "out"))


@given(graphs())
def test_adjacency_agrees_with_the_edge_arrays(graph):
    for rows, key, value in (
        (graph.successors, graph.edge_source, graph.edge_target),
        (graph.predecessors, graph.edge_target, graph.edge_source),
    ):
        for i in range(len(graph)):
            mine = slice(rows.pointer[i], rows.pointer[i + 1])
            assert sorted(rows.node[mine].tolist()) == rows.node[mine].tolist() == sorted(value[key == i].tolist())
            assert (key[rows.edge[mine]] == i).all() and (value[rows.edge[mine]] == rows.node[mine]).all()


def test_features_are_the_columns_by_name():
    table = DIAMOND.features()
    assert table.dtype.names == tuple(feature.name for feature in FEATURES)
    for name in table.dtype.names:
        np.testing.assert_array_equal(table[name], getattr(DIAMOND, name))
    assert all(feature.meaning and feature.unit for feature in FEATURES)


def test_intensity_of_an_operator_that_moves_nothing_is_zero():
    view = Operator("v", "Reshape", (SMALL,), (SMALL,))
    relu = op("r", outputs=(SMALL,))
    graph = DataflowGraph([view, relu], [(0, 0, 1)])
    np.testing.assert_array_equal(graph.intensity, [0.0, 4 / 32])


def test_nothing_can_be_changed():
    fresh = build(3, [(0, 0, 1), (1, 0, 2)])
    before = dict(fresh.__dict__)
    for name in [*before, "depth", "something"]:
        with pytest.raises(AttributeError, match="immutable"):
            setattr(fresh, name, None)
    columns = (
        "edge_bytes",
        "edge_source",
        "edge_slot",
        "edge_target",
        "edge_tensor",
        "topological_order",
        "depth",
        "height",
        "is_fork",
        "is_join",
        "on_trunk",
        "flops",
        "in_degree",
        "reachability",
        "intensity",
        "fusion_class",
    )
    for name in columns:
        with pytest.raises(ValueError, match="read-only"):
            getattr(fresh, name)[0] = 0
    assert fresh == build(3, [(0, 0, 1), (1, 0, 2)])


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))], ids=["deepcopy", "pickle"])
def test_copies_are_equal_and_read_only(twin):
    DIAMOND.depth  # noqa: B018  a cached column must not leak into the copy
    other = twin(DIAMOND)
    assert other == DIAMOND and other.name == "g" and not other.edge_bytes.flags.writeable


def test_equality_is_by_operators_and_edges():
    assert build(2, [(0, 0, 1)], "a") == build(2, [(0, 0, 1)], "b")
    assert build(2, [(0, 0, 1)]) != build(2, [(0, 1, 1)])
    assert build(2, []) != "a graph"
    with pytest.raises(TypeError):
        hash(DIAMOND)


def test_the_dense_matrix_has_a_limit():
    n = DENSE_LIMIT + 1
    with pytest.raises(GraphError, match=f"graph 'g' has {n} operators"):
        build(n, []).dependency_matrix()


@pytest.mark.parametrize(
    ("n", "edges", "message"),
    [
        (0, [], "graph 'g' has no operators"),
        (2, [(0, 0, 2)], "edge 0 -> 2 is outside the range 0..1"),
        (2, [(-1, 0, 1)], "edge -1 -> 1 is outside the range"),
        (2, [(0, 2, 1)], "edge reads output 2 of 'n0', which has 2"),
        (2, [(0, -1, 1)], "edge reads output -1"),
        (1, [(0, 0, 0)], "has a cycle: n0 -> n0"),
        (4, [(0, 0, 1), (1, 0, 2), (2, 0, 3), (3, 0, 1)], "has a cycle: .*n1 -> n2.*"),
    ],
)
def test_bad_graphs(n, edges, message):
    with pytest.raises(GraphError, match=message):
        build(n, edges)


def test_names_are_unique():
    with pytest.raises(GraphError, match="operators 0 and 2 are both named 'a'"):
        DataflowGraph([op("a"), op("b"), op("a")], [])


def test_a_shared_weight_is_resident_once() -> None:
    x, w, b = Tensor((1, 8)), Tensor((8, 8), constant=True, name="w"), Tensor((8,), constant=True)
    operators = [Operator(name, "MatMul", (x, w, b), (x,)) for name in ("a", "b", "c", "d")]
    graph = DataflowGraph(operators, [(0, 0, 1), (1, 0, 2), (2, 0, 3)])
    assert graph.weight_bytes.sum() == 4 * (256 + 32)
    assert graph.resident_bytes.tolist() == [256 + 32] * 4 and graph.model_bytes == 256 + 4 * 32
    assert graph.shared_weights.pairs() == [([0, 1, 2, 3], 256)]
    assert hetgym.Problem.build(graph, hetgym.load_platform("cpu-gpu")).model_bytes == 256 + 4 * 32
    twice = DataflowGraph([Operator("a", "MatMul", (x, w, w), (x,))], [])
    assert twice.resident_bytes.tolist() == [256]
