"""Fusion on graphs small enough to know the answer, on random ones and on the zoo."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetgym import DataflowGraph, GraphError, Problem, Schedule, load_platform, validate
from hetgym.baselines import heft
from hetgym.graph import KINDS, FusionClass, Operator, Tensor, from_json, generate_graph, load_graph, to_json, zoo
from hetgym.graph.transforms import apply_groups, fuse, post_dominators

X = Tensor((2, 4, 6, 6))
W = Tensor((4, 4, 1, 1), constant=True, name="w")


def node(name, kind, operands=1, **attributes):
    inputs = (X,) * operands + ((W,) if kind == "Conv" else ())
    return Operator(name, kind, inputs, (X,), {"kernel_shape": (1, 1), **attributes})


def build(kinds, edges):
    """Operators by kind, with as many operands as edges end at them."""
    degree = [max(1, sum(target == i for _, target in edges)) for i in range(len(kinds))]
    nodes = [node(f"n{i}", kind, degree[i]) for i, kind in enumerate(kinds)]
    return DataflowGraph(nodes, [(s, 0, t) for s, t in edges], "net")


def chain(*kinds):
    return build(kinds, [(i, i + 1) for i in range(len(kinds) - 1)])


DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3)]

# Kinds, edges and the groups that the rules give.
CASES = {
    "convolution takes its tail": (["Conv", "BatchNormalization", "Relu"], [(0, 1), (1, 2)], [[0, 1, 2]]),
    "one convolution a group": (["Conv", "Relu", "Conv", "Relu"], [(0, 1), (1, 2), (2, 3)], [[0, 1], [2, 3]]),
    "nothing before a convolution": (["Relu", "Conv"], [(0, 1)], [[0], [1]]),
    "two convolutions meet: the first takes the sum": (["Conv", "Conv", "Add", "Relu"], [(0, 2), (1, 2), (2, 3)],
                                                      [[1], [0, 2, 3]]),
    "elementwise joins a sum behind a convolution": (["Conv", "Tanh", "Add"], [(0, 2), (1, 2)], [[0, 1, 2]]),
    "a fork between is fine if all is elementwise": (["Conv", "Sigmoid", "Tanh", "Mul"], DIAMOND, [[0, 1, 2, 3]]),
    "a fork to a convolution is not": (["Conv", "Sigmoid", "Conv", "Mul"], DIAMOND, [[0], [1, 2, 3]]),
    "a fork without a meeting is not": (["Conv", "Relu", "Relu"], [(0, 1), (0, 2)], [[0], [1], [2]]),
    "a convolution takes no move": (["Conv", "Relu", "Transpose"], [(0, 1), (1, 2)], [[0, 1], [2]]),
    "moves and views chain": (["Reshape", "Transpose", "Reshape"], [(0, 1), (1, 2)], [[0, 1, 2]]),
    "elementwise goes into a move": (["Relu", "Transpose"], [(0, 1)], [[0, 1]]),
    "a reduction takes what is before it": (["Transpose", "Mul", "ReduceSum", "Sqrt"], [(0, 1), (1, 2), (2, 3)],
                                           [[0, 1, 2], [3]]),
    "opaque stays alone": (["Relu", "Softmax", "Relu"], [(0, 1), (1, 2)], [[0], [1], [2]]),
    "a pool takes elementwise": (["AveragePool", "AveragePool", "Add"], [(0, 2), (1, 2)], [[1], [0, 2]]),
    "a skip around opaque keeps apart": (["Relu", "Softmax", "Add"], [(0, 1), (1, 2), (0, 2)], [[0], [1], [2]]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_groups(case):
    kinds, edges, groups = CASES[case]
    fusion = fuse(build(kinds, edges))
    assert sorted(map(list, fusion.members)) == sorted(groups)
    assert fusion.group.tolist() == [
        next(g for g, row in enumerate(fusion.members) if i in row) for i in range(len(kinds))
    ]


def test_a_fused_operator_by_hand():
    graph = build(["Conv", "BatchNormalization", "Add", "Relu", "Softmax"], [(0, 1), (1, 2), (4, 2), (2, 3)])
    fusion = fuse(graph)
    assert fusion.members == ((4,), (0, 1, 2, 3))
    softmax, fused = fusion.graph.operators
    assert softmax is graph.operators[4]
    assert (fused.name, fused.kind, fused.spec.family) == ("n0", "Fused-conv", "conv")
    assert fused.attributes["anchor"] == "Conv" and fused.attributes["kernel_shape"] == (1, 1)
    assert fused.attributes["fused"] == "Conv+BatchNormalization+Add+Relu"
    assert fused.inputs == (X, W, X) and fused.outputs == (X,)
    assert fused.flops == X.size * (8 + 2 + 1 + 1)
    assert (fused.bytes_read, fused.bytes_written) == (2 * X.bytes + W.bytes, X.bytes)
    assert fused.weight_bytes == W.bytes
    assert fusion.graph.edges == ((0, 0, 1),)


def test_views_cost_nothing_and_hide_nothing():
    for kinds in (["Reshape", "Relu"], ["Relu", "Reshape"], ["Reshape", "Reshape", "Relu", "Flatten"]):
        (fused,) = fuse(chain(*kinds)).graph.operators
        assert fused.kind == "Fused-elementwise"
        assert (fused.bytes_read, fused.bytes_written, fused.flops) == (X.bytes, X.bytes, X.size)
    (views,) = fuse(chain("Reshape", "Flatten")).graph.operators
    assert (views.kind, views.bytes_read, views.bytes_written) == ("Fused-view", 0.0, 0.0)


def test_values_that_are_read_twice_count_once():
    square = Operator("square", "Mul", (X, X), (X,))
    graph = DataflowGraph([node("conv", "Conv"), square], [(0, 0, 1)])
    assert fuse(graph).graph.operators[0].bytes_read == X.bytes + W.bytes
    fork = build(["Softmax", "Sigmoid", "Mul"], [(0, 1), (0, 2), (1, 2)])
    assert fuse(fork).graph.operators[1].bytes_read == X.bytes


def test_a_lookup_reads_what_it_returns():
    table = Tensor((1000, 8), constant=True, name="table")
    row = Tensor((3, 8))
    lookup = Operator("lookup", "Gather", (table, Tensor((3,), "int64")), (row,))
    graph = DataflowGraph([lookup, Operator("t", "Transpose", (row,), (row,))], [(0, 0, 1)])
    (fused,) = fuse(graph).graph.operators
    assert fused.bytes_read == row.bytes + 24 == lookup.bytes_read
    assert fused.weight_bytes == table.bytes


def test_outputs_that_nobody_reads_are_results():
    two = Operator("two", "Split", (X,), (X, X))
    graph = DataflowGraph([two, node("relu", "Relu")], [(0, 1, 1)])
    fusion = fuse(graph)
    assert fusion.members == ((0, 1),)
    assert fusion.graph.operators[0].outputs == (X, X)


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 16))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    density = draw(st.sampled_from([0.05, 0.15, 0.4]))
    words = draw(
        st.sampled_from(
            [
                ("Relu", "Add", "Tanh"),
                ("Conv", "Relu", "Add"),
                ("Conv", "MaxPool", "Relu", "Add", "Reshape", "Transpose", "ReduceMax", "Softmax"),
            ]
        )
    )
    label = rng.permutation(n)  # ids need not be in topological order
    edges = [
        (int(label[i]), int(label[j]))
        for i in range(n)
        for j in range(i + 1, n)
        if j == i + 1 and rng.random() < 0.6 or rng.random() < density
    ]
    return build([words[int(rng.integers(len(words)))] for _ in range(n)], edges)


@given(graphs())
def test_post_dominators_agree_with_networkx(graph):
    backward = nx.DiGraph([(e.target, e.source) for e in graph.edges])
    backward.add_nodes_from(range(len(graph)))
    backward.add_edges_from([("exit", i) for i in range(len(graph)) if graph.out_degree[i] == 0])
    expected = nx.immediate_dominators(backward, "exit")
    found = post_dominators(graph).tolist()
    assert found == [-1 if expected[i] == "exit" else expected[i] for i in range(len(graph))]


def assert_sound(graph):
    fusion = fuse(graph)
    fused = fusion.graph
    assert sorted(i for row in fusion.members for i in row) == list(range(len(graph)))
    assert all(e.source < e.target for e in fused.edges), "numbered in topological order, hence no cycle"
    assert fused.flops.sum() == pytest.approx(graph.flops.sum(), rel=1e-12)
    moved = graph.bytes_read + graph.bytes_written
    for number, row in enumerate(fusion.members):
        operator = fused.operators[number]
        assert operator.bytes_read + operator.bytes_written <= moved[list(row)].sum()
        classes = [graph.operators[i].spec.fusion for i in row]
        assert len(row) == 1 or FusionClass.OPAQUE not in classes
        assert sum(c == FusionClass.OUT_FUSABLE for c in classes) <= 1
        leaves = {e.source for e in graph.edges if fusion.group[e.source] == number != fusion.group[e.target]}
        assert leaves <= {row[-1]}
        if len(row) > 1:
            assert operator.kind in KINDS
    crossing = {(int(fusion.group[e.source]), int(fusion.group[e.target])) for e in graph.edges}
    assert {(e.source, e.target) for e in fused.edges} == {(a, b) for a, b in crossing if a != b}
    assert fused.model_bytes == pytest.approx(graph.model_bytes, rel=1e-12)
    assert from_json(to_json(fused)) == fused
    return fusion


@given(graphs())
def test_random_graphs(graph):
    assert_sound(graph)


FUSED = {
    "alexnet": 17, "bert_base": 160, "densenet121": 242, "gpt2": 208, "inception_v1": 85, "inception_v2": 95,
    "lstm": 99, "nasnet": 256, "resnet50": 58, "shufflenet": 76, "squeezenet": 39, "vgg19": 28,
    "vit_b16": 161, "zfnet512": 15,
}  # fmt: skip


@pytest.mark.parametrize("name", zoo.names())
def test_the_zoo(name):
    """ResNet-50 becomes 53 convolutions, two pools, a view, a product and a softmax; ONNX Runtime runs 59 nodes."""
    assert len(assert_sound(load_graph(name)).graph) == FUSED[name]


@pytest.mark.parametrize("net", ["transformer", "inception", "lstm_grid"])
def test_generated_networks(net):
    assert_sound(generate_graph(net))


def test_a_fused_plan_is_a_plan_of_the_operators():
    graph = load_graph("inception_v1")
    fusion = fuse(graph)
    platform = load_platform("cpu-gpu-balanced")
    plan = heft(Problem.build(fusion.graph, platform))
    assignment = fusion.expand(plan.assignment)
    order = fusion.expand_order(plan.order)
    validate(Problem.build(graph, platform), Schedule(assignment, order=order))
    assert len(set(assignment.tolist())) == 2
    with pytest.raises(GraphError, match="expected 85 values, one per fused operator"):
        fusion.expand([0, 1])


def test_fusing_makes_a_single_device_faster():
    platform = load_platform("cpu-gpu-balanced")
    graph = load_graph("resnet50")
    before = Problem.build(graph, platform).cost.sum(axis=0)
    after = Problem.build(fuse(graph).graph, platform).cost.sum(axis=0)
    assert (after < 0.9 * before).all()


def test_groups_of_ones_own():
    """A group may have several ways out, and comes after what it reads."""
    graph = build(["Relu", "Softmax", "Tanh", "Abs", "Add"], [(0, 1), (0, 2), (1, 3), (1, 4), (3, 4)])
    fusion = apply_groups(graph, [[2, 0], [4, 3], [1]])
    assert fusion.members == ((0, 2), (1,), (3, 4))
    assert fusion.graph.operators[0].outputs == (X, X), "of Tanh, which nobody reads, then of Relu"
    assert fusion.graph.edges == ((0, 1, 1), (1, 0, 2))
    late = apply_groups(build(["Relu", "Softmax", "Tanh"], [(0, 1)]), [[0, 2], [1]])
    assert late.members == ((0, 2), (1,)), "ends later but is read earlier"


@pytest.mark.parametrize("groups", [[[0, 1]], [[0, 1], [1, 2]], [[0, 1, 2], []], [[0, 1], [2, 3]]])
def test_groups_hold_each_operator_once(groups):
    with pytest.raises(GraphError, match="each of the 3 operators of 'net' once"):
        apply_groups(chain("Relu", "Tanh", "Abs"), groups)


def test_groups_in_a_circle():
    with pytest.raises(GraphError, match="depends on itself through others"):
        apply_groups(chain("Relu", "Tanh", "Abs"), [[0, 2], [1]])


@given(graphs())
def test_applying_the_groups_again_changes_nothing(graph):
    fusion = fuse(graph)
    again = apply_groups(graph, [row[::-1] for row in reversed(fusion.members)])
    assert again.graph == fusion.graph and again.members == fusion.members


def test_a_value_that_is_read_in_part_and_whole_counts_whole() -> None:
    table, few = Tensor((1000,), constant=True, name="w"), Tensor((10,))
    whole, part = Operator("whole", "Relu", (table,), (Tensor((1000,)),)), Operator("part", "Slice", (table,), (few,))
    for nodes in ([whole, part], [part, whole]):
        (fused,) = apply_groups(DataflowGraph(nodes, []), [[0, 1]]).graph.operators
        assert fused.attributes["reads"] == 4000.0 and fused.inputs == (table,)
    assert part.bytes_read == 40.0


def test_the_operands_of_the_anchor_come_first() -> None:
    a, w, y = Tensor((4, 8)), Tensor((8, 2), constant=True, name="w"), Tensor((4, 2))
    nodes = [Operator("r", "Relu", (a,), (a,)), Operator("p", "MatMul", (a, w), (y,))]
    (fused,) = apply_groups(DataflowGraph(nodes, [(0, 0, 1)]), [[0, 1]]).graph.operators
    assert (fused.kind, fused.inputs, fused.attributes["operands"]) == ("Fused-matmul", (w, a), 2)
    assert fused.attributes["anchor_inner"] == (0, 4, 8) and fused.attributes["fused"] == "Relu+MatMul"
