"""The work of a phone's processors for an operator: amounts that cost models of whole networks add up.

A network runs on a phone as one compiled graph; its operators cannot be timed one by one. So a model of such a processor
must be a sum over operators with few coefficients. This module gives, for each operator, the amounts that these
coefficients multiply.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hetgym._types import FloatArray
from hetgym.costs.features import loops
from hetgym.costs.fused import anchor_of
from hetgym.graph.ops import Operator

AMOUNTS: tuple[str, ...] = (
    "operations of products",
    "operations of products of activations",
    "operations of grouped products",
    "operations of recurrent cells",
    "weights",
    "elements of products",
    "elements of grouped products",
    "elements of arithmetic",
    "elements of normalisations",
    "elements of movements",
    "operators",
    "layers moved",
)
"""Columns of a table of amounts.

* *Operations* of convolutions and products of matrices, in tiles of :data:`TILE`: multiply-adds times 2. Grouped products
  are depthwise and grouped convolutions, which compute in vectors, without tiles.
* *Weights*: constant elements that a product reads.
* *Elements* that an operator reads and writes, without weights: of products, of arithmetic (elementwise operators,
  reductions, poolings), of normalisations and softmax, and of movements (transpositions, concatenations, resizing).
* *Operators*: 1 for each that is not a view; *layers moved*: 1 for each movement.
"""

TILE = 32
"""Rows, columns and reduction of the blocks that the matrix unit multiplies; each is padded to a multiple of this."""

_NUMBER = {name: i for i, name in enumerate(AMOUNTS)}
_RUNS_IN_VECTORS = 8  # products with fewer columns in a group than this do not fill a block


def amounts(operators: Sequence[Operator]) -> FloatArray:
    """The table of amounts.

    Args:
        operators: n operators, fused or not.

    Returns:
        [n, a] columns :data:`AMOUNTS`, finite and at least 0; all 0 for views.
    """
    return np.array([_row(op) for op in operators], np.float64).reshape(len(operators), len(AMOUNTS))


def _row(op: Operator) -> list[float]:
    row = [0.0] * len(AMOUNTS)
    if op.spec.family == "view":
        return row
    anchor, _ = anchor_of(op)
    family = anchor.spec.family
    weights = float(sum(t.size for t in op.inputs if t.constant)) if family in ("conv", "matmul", "recurrent") else 0.0
    size = op.outputs[0].bytes / max(op.outputs[0].size, 1) if op.outputs else 4.0
    moved = max((op.bytes_read + op.bytes_written) / max(size, 0.5) - weights, 0.0)
    kind = "arithmetic"
    row[_NUMBER["operators"]] = 1.0
    if anchor.kind == "Attention":
        return _attention(anchor, row)
    if family in ("conv", "matmul"):
        batch, m, n, k = loops(anchor)
        window = _window(anchor)
        if anchor.kind not in ("Conv", "MatMul", "Gemm"):
            name, operations = "operations of products", op.flops
        elif n < _RUNS_IN_VECTORS and batch > 1 and family == "conv":
            name, operations = "operations of grouped products", 2.0 * batch * m * n * k
            kind = "grouped products"
        else:
            padded = batch * _pad(m) * _pad(n) * _pad(k / window) * window
            constant = weights > 0 or family == "conv"
            name = "operations of products" if constant else "operations of products of activations"
            operations = 2.0 * padded
        row[_NUMBER[name]] = operations
        kind = kind if kind == "grouped products" else "products"
        row[_NUMBER["weights"]] = weights
    elif family == "recurrent":
        row[_NUMBER["operations of recurrent cells"]] = op.flops
        row[_NUMBER["weights"]] = weights
        row[_NUMBER["operators"]] = _steps(anchor)
    elif family == "normalise":
        kind = "normalisations"
    elif family == "move":
        kind = "movements"
        row[_NUMBER["layers moved"]] = 1.0
    row[_NUMBER[f"elements of {kind}"]] += moved
    return row


def _attention(op: Operator, row: list[float]) -> list[float]:
    """Two products and a softmax, as these compilers run it."""
    batch, m, n, k = loops(op)
    row[_NUMBER["operations of products of activations"]] = 4.0 * batch * _pad(m) * _pad(n) * _pad(k)
    row[_NUMBER["elements of products"]] = 2.0 * batch * (m * k + n * k + m * n)
    row[_NUMBER["elements of normalisations"]] = 2.0 * batch * m * n
    row[_NUMBER["operators"]] = 4.0
    return row


def _pad(size: float) -> float:
    return math.ceil(size / TILE) * TILE


def _window(op: Operator) -> float:
    if op.spec.family != "conv" or len(op.inputs) < 2:
        return 1.0
    return float(max(math.prod(op.inputs[1].shape[2:]), 1))


def _steps(op: Operator) -> float:
    """Steps of a recurrent operator; each starts operators of its own."""
    shape = op.inputs[0].shape if op.inputs else (1,)
    return float(max(shape[:-1], default=1)) if op.kind in ("LSTM", "GRU", "RNN") else 1.0
