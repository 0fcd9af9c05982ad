"""Halves and doubles of batches, by hand."""

from __future__ import annotations

import numpy as np

from hetgym.costs.batches import DOUBLINGS, halves, never_faster, not_below_halves
from hetgym.graph import Operator, Tensor


def test_what_follows_the_batch() -> None:
    """Weights stay, and a row of four numbers beside outputs of two axes; traffic is halved beyond the weights."""
    x, w, row, y = Tensor((4, 8)), Tensor((8, 2), constant=True), Tensor((4,)), Tensor((4, 2))
    stated = {"flops": 128.0, "reads": float(w.bytes + 256), "axis": 1}
    found = list(halves(Operator("fc", "Fused-matmul", (x, w, row), (y, row), stated)))
    assert [op.inputs[0].shape for op in found] == [(4, 8), (2, 8), (1, 8)]
    assert [op.outputs[0].shape for op in found] == [(4, 2), (2, 2), (1, 2)]
    assert all(op.inputs[1:] == (w, row) and op.outputs[1] == row and op.attributes["axis"] == 1 for op in found)
    assert [op.attributes["flops"] for op in found] == [128.0, 64.0, 32.0]
    assert [op.attributes["reads"] - w.bytes for op in found] == [256.0, 128.0, 64.0]


def test_a_row_follows_an_output_of_one_axis() -> None:
    shapes = [op.inputs[0].shape for op in halves(Operator("r", "Relu", (Tensor((6,)),), (Tensor((6,)),)))]
    assert shapes == [(6,), (3,)]
    constant = Operator("r", "Relu", (Tensor((6,), constant=True),), (Tensor((6,)),))
    assert list(halves(constant)) == [constant]


def test_prices_are_at_least_those_of_half_the_batch() -> None:
    price = {1: 5.0, 2: 1.0, 4: 3.0, 8: 9.0}
    operators = [Operator("r", "Relu", (Tensor((n,)),), (Tensor((n,)),)) for n in price]
    found = not_below_halves(operators, lambda some: np.array([[price[op.outputs[0].shape[0]]] for op in some]))
    assert found.tolist() == [[5.0], [5.0], [5.0], [9.0]]


def test_prices_are_at_most_those_of_larger_batches() -> None:
    """The second column doubles beyond its fixed 10; larger batches are tried until none can be cheaper."""
    price, tried = {1: 5.0, 2: 7.0, 3: 4.0, 4: 3.0, 6: 2.0, 8: 9.0}, []

    def looked_up(table: np.ndarray) -> np.ndarray:
        tried.append(table[:, 1].tolist())
        return np.array([price.get(int(size) - 10, 99.0) for size in table[:, 1]])

    table = np.array([[1.0, 11.0], [1.0, 13.0]])
    grows = np.array([[False, True], [False, True]])
    found = never_faster(looked_up, lambda some: (some[:, 1] - 10) / 2, table, grows, np.array([0.0, 10.0]))
    assert found.tolist() == [3.0, 2.0]
    assert tried == [[11.0, 13.0], [12.0, 16.0], [14.0]]  # 12 and 18 are not below half of them
    assert table.tolist() == [[1.0, 11.0], [1.0, 13.0]]


def test_doublings_end() -> None:
    calls = []
    never_faster(lambda t: calls.append(1) or np.ones(1), lambda t: np.zeros(1), np.ones((1, 1)), np.ones((1, 1), bool))
    assert len(calls) == DOUBLINGS + 1
