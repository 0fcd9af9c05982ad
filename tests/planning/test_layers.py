"""Whole layers instead of operators, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from hetgym import Problem, ProblemError, load_graph, load_platform
from hetgym.planning.layers import LAYER, by_layers, layers_of, whole_layers

NAMES = ["embed", "layers.0.a", "layers.0.b", "layers.1.a", "layers.1.b", "head"]


def model(edges: list[tuple[int, int, float]], tensors: list[int]) -> Problem:
    """Operators of 1 to 6 s and as many bytes of weights; results of 10 bytes each."""
    cost = np.arange(1.0, 7.0)[:, None] * [1.0, 2.0]
    cost[2, 1] = np.inf
    return Problem.from_arrays(
        cost,
        edges,
        tensors=tensors,
        weight_bytes=np.arange(1.0, 7.0),
        output_bytes=np.full(6, 10.0),
        occupancy=np.repeat([[0.1], [0.5], [0.2], [0.3], [0.4], [1.0]], 2, axis=1),
        operator_names=NAMES,
        operator_kinds=["Gather", "MatMul", "Add", "MatMul", "Add", "MatMul"],
    )


def test_a_layer_is_the_sum_of_its_operators() -> None:
    """Layer 0 hands a tensor of up to 7 bytes to two operators of layer 1, and 5 bytes to the head."""
    edges = [(0, 1, 3.0), (1, 2, 4.0), (1, 3, 6.0), (1, 4, 7.0), (2, 5, 5.0), (3, 4, 9.0), (4, 5, 8.0)]
    merged = by_layers(model(edges, [0, 1, 2, 2, 3, 4, 5]))
    assert merged.operator_names == ("embed", "layers.0", "layers.1", "head")
    assert merged.operator_kinds == ("Gather", LAYER, LAYER, "MatMul")
    assert merged.cost.tolist() == [[1.0, 2.0], [5.0, np.inf], [9.0, 18.0], [6.0, 12.0]]
    assert merged.weight_bytes.tolist() == [1.0, 5.0, 9.0, 6.0]
    assert merged.occupancy[:, 0].tolist() == [0.1, 0.5, 0.4, 1.0]
    ends = zip(merged.edge_source.tolist(), merged.edge_target.tolist(), merged.edge_tensor.tolist(), strict=True)
    assert sorted(ends) == [(0, 1, 0), (1, 2, 2), (1, 3, 3), (2, 3, 5)]
    assert merged.edge_bytes[merged.edge_tensor == 2].tolist() == [7.0]
    assert merged.output_bytes.tolist() == [3.0, 7.0 + 5.0, 8.0, 10.0]  # the head has no readers


def test_an_operator_may_be_a_layer_by_itself() -> None:
    """As in lists of plain products, whether their operators have a name of their own or not."""
    names = ["x", "layers.0", "h.1.linear", "blocks.2/backward", "layers.3.a", "layers.3.b"]
    found = by_layers(model([(0, 1, 1.0), (4, 5, 1.0)], [0, 1]).replace(operator_names=names))
    assert found.operator_names == ("x", "layers.0", "h.1", "blocks.2", "layers.3")
    assert found.operator_kinds == ("Gather", *[LAYER] * 4)
    single = by_layers(model([], []).replace(operator_names=["a", *(f"layers.{k}.linear" for k in range(5))]))
    assert single.operator_names[1:] == tuple(f"layers.{k}" for k in range(5))


def test_layers_have_the_order_of_their_first_operators() -> None:
    number, names = layers_of(model([], []))
    assert (number.tolist(), names) == ([0, 1, 1, 2, 2, 3], ["embed", "layers.0", "layers.1", "head"])


def test_operators_outside_layers_go_with_what_they_read_or_else_with_their_first_reader() -> None:
    layer, early, count = whole_layers(model([(0, 3, 1.0), (1, 5, 1.0), (4, 5, 1.0)], [0, 1, 2]))
    assert (layer.tolist(), early.tolist(), count) == ([1, 0, 0, 1, 1, 1], [True] + 5 * [False], 2)
    layer, early, _ = whole_layers(model([(0, 1, 1.0), (2, 5, 1.0)], [0, 1]))
    assert layer.tolist() == [0, 0, 0, 1, 1, 0] and early.tolist() == [True] + 5 * [False]
    layer, early, _ = whole_layers(model([(0, 5, 1.0)], [0]))  # of these two no layer reads
    assert layer.tolist() == [0, 0, 0, 1, 1, 0] and np.flatnonzero(early).tolist() == [0, 5]
    assert whole_layers(model([], []).replace(operator_names=list("abcdef")))[2] == 0


def test_the_decoder_of_t5_begins_with_its_own_table() -> None:
    problem = Problem.build(load_graph("t5-3b"), load_platform("cpu-gpu"))
    layer, early, count = whole_layers(problem)
    at = {name: (int(layer[k]), bool(early[k])) for k, name in enumerate(problem.operator_names)}
    assert count == 48 and at["encoder.embed_tokens"] == at["encoder.relative_bias"] == (0, True)
    assert at["encoder.norm"] == (23, False) and at["decoder.embed_tokens"] == (24, True)
    assert at["decoder.norm"] == at["scale"] == at["lm_head"] == (47, False)


def test_what_cannot_be_merged() -> None:
    with pytest.raises(ProblemError, match="layers cannot be placed as wholes: .*cycle"):
        by_layers(model([(1, 3, 1.0), (3, 2, 1.0)], [0, 1]))
    with pytest.raises(ProblemError, match="no operators are named after layers"):
        by_layers(Problem.from_arrays([[1.0]] * 2, []))
