"""Fit coefficients of :class:`hetgym.costs.phone.costs.PhoneCosts` to times of whole networks.

    log seconds = log sum over k of exp(theta[k, board, precision, runtime]) x amount[k]

    theta = start[k] + shared[parent of k] + own[k] + by precision[parent] + by runtime[parent]
        + by precision and runtime[parent] + board[group of k] + board and precision[group] + board and runtime[group]
        + board[k]

Every term is shrunk to zero by a normal prior of its own width, so that boards share what they can. Amounts of one
group (arithmetic, movement, weights, starts, transfers, calls) share the factors of a board, and coefficients that few
networks tell apart have one parent (:data:`KIN`). The loss is a pseudo-Huber function of predicted / measured - 1, the
error that is reported. Each row of a network with many rows counts for less, since errors of one network go together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from _phones import Key, Network, Row
from scipy.optimize import minimize

from hetgym._types import FloatArray
from hetgym.costs.phone.costs import RATES

START: dict[str, float] = {
    "operations of products": 1 / 4e12,
    "operations of strided products": 1 / 4e12,
    "operations of dilated products": 1 / 4e12,
    "operations of pointwise products": 1 / 2e12,
    "operations of strided pointwise products": 1 / 2e12,
    "operations of products of activations": 1 / 2e12,
    "operations of grouped products": 1 / 1e11,
    "operations of products in space": 1 / 4e12,
    "operations of recurrent cells": 1 / 1e11,
    "weights": 1 / 3e10,
    "elements of products": 1 / 4e10,
    "elements of grouped products": 1 / 2e10,
    "elements of arithmetic": 1 / 2e10,
    "elements of reductions": 1 / 1e10,
    "elements of poolings": 1 / 2e10,
    "elements of normalisations": 1 / 1e10,
    "elements of softmax": 1 / 1e10,
    "elements of functions": 1 / 2e10,
    "elements of divisions of pictures": 1 / 2e9,
    "elements of joints": 1 / 3e10,
    "elements of resizing to the nearest": 1 / 2e10,
    "elements of resizing": 1 / 1e10,
    "elements of resizing with corners aligned": 1 / 1e10,
    "elements of movements": 1 / 1e10,
    "elements of views": 1 / 1e10,
    "elements at the start of operators": 1 / 2e10,
    "elements beyond the memory on the chip": 1 / 4e10,
    "operators": 3e-6,
    "views": 3e-6,
    "elements in and out": 1 / 2e9,
    "calls": 2e-4,
}
"""Coefficient -> its size in seconds before anything is fitted: a tenth of the boards' peaks, and round numbers."""

GROUPS = ("operations", "elements", "weights", "operators", "elements in and out", "calls", "elements beyond")
SLOTS = np.array([max((i for i, g in enumerate(GROUPS) if name.startswith(g)), default=0) for name in RATES])
SLOTS[[i for i, name in enumerate(RATES) if name.startswith("operations of grouped")]] = GROUPS.index("elements")
SLOTS[RATES.index("views")] = GROUPS.index("operators")
KIN: dict[str, str] = {
    "operations of strided products": "operations of products",
    "operations of dilated products": "operations of products",
    "operations of products in space": "operations of products",
    "operations of strided pointwise products": "operations of pointwise products",
    "elements of grouped products": "elements of products",
    "elements of softmax": "elements of functions",
    "elements of normalisations": "elements of functions",
    "elements of resizing to the nearest": "elements of resizing",
    "elements of resizing with corners aligned": "elements of resizing",
    "elements of joints": "elements of movements",
    "elements of views": "elements of movements",
}
"""Coefficient -> the one whose terms it shares, its parent; others are their own. Few networks tell kin apart."""

PARENTS = np.array([RATES.index(KIN.get(name, name)) for name in RATES])

WIDTHS: dict[str, float] = {
    "h": 2.0, "k": 0.15, "ph": 0.5, "rh": 0.3, "prh": 0.3, "bg": 1.0, "bpg": 0.3, "brg": 0.3, "bk": 0.2,
}  # fmt: skip
"""Term, by its indices (k coefficient, h its parent, g group, b board, p precision, r runtime) -> width of its
prior."""

NOISE, BEND, POWER = 0.1, 0.15, 0.5
"""Width of errors, where the loss becomes linear, and the power of a network's rows that a row's weight loses. These
and the widths were chosen by cross-validation over the networks of the fit."""


class Fit:
    """Coefficients fitted to rows.

    Args:
        rows: the latencies.
        found: the networks.
        widths: entries of :data:`WIDTHS` to replace.
    """

    def __init__(
        self, rows: Sequence[Row], found: Mapping[Key, Network], widths: Mapping[str, float] | None = None
    ) -> None:
        self.axes = {
            "b": sorted({row.board for row in rows}),
            "p": sorted({row.precision for row in rows}),
            "r": sorted({row.runtime for row in rows}),
        }
        sizes = {name: len(values) for name, values in self.axes.items()} | {
            "k": len(RATES),
            "h": len(RATES),
            "g": len(GROUPS),
        }
        widths = WIDTHS | dict(widths or {})
        self.shapes = {term: tuple(sizes[letter] for letter in term) for term in widths}
        spread = np.concatenate([np.full(int(np.prod(shape)), widths[term]) for term, shape in self.shapes.items()])
        codes = self._codes(rows)
        logs = _logs(rows, found)
        target = np.log([row.seconds for row in rows])
        count = {key: sum(row.key[0] == key for row in rows) for key in {row.key[0] for row in rows}}
        weight = np.array([count[row.key[0]] ** -POWER for row in rows]) / NOISE**2
        onto = {term: self._flat(term, codes) for term in self.shapes}

        def loss(v: FloatArray) -> tuple[float, FloatArray]:
            terms = logs + self._theta(v * spread, onto)
            top = terms.max(axis=1, keepdims=True)
            parts = np.exp(terms - top)
            total = parts.sum(axis=1, keepdims=True)
            error = (top + np.log(total))[:, 0] - target
            ratio = np.exp(np.minimum(error, 20.0))
            root = np.sqrt(1 + ((ratio - 1) / BEND) ** 2)
            pull = (ratio - 1) * ratio / root
            slope = (weight * pull)[:, None] * parts / total
            gradient = [
                np.bincount(at.ravel(), slope.ravel(), int(np.prod(self.shapes[term]))) for term, at in onto.items()
            ]
            value = float((weight * BEND**2 * (root - 1)).sum() + 0.5 * v @ v)
            return value, np.concatenate(gradient) * spread + v

        answer = minimize(loss, np.zeros(len(spread)), jac=True, method="L-BFGS-B", options={"maxiter": 400})
        self.values = answer.x * spread

    def _codes(self, rows: Sequence[Row]) -> dict[str, FloatArray]:
        names = {"b": [r.board for r in rows], "p": [r.precision for r in rows], "r": [r.runtime for r in rows]}
        return {letter: np.array([self.axes[letter].index(name) for name in names[letter]]) for letter in names}

    def _flat(self, term: str, codes: Mapping[str, FloatArray]) -> FloatArray:
        """[rows, k] place of each coefficient's part of a term in the flattened term."""
        count = len(next(iter(codes.values())))
        at = np.zeros((count, len(RATES)), np.int64)
        for letter, size in zip(term, self.shapes[term], strict=True):
            own = {"k": np.arange(len(RATES)), "h": PARENTS, "g": SLOTS}
            index = own[letter] if letter in own else codes[letter][:, None]
            at = at * size + index
        return at

    def _theta(self, values: FloatArray, onto: Mapping[str, FloatArray]) -> FloatArray:
        theta = np.log([START[name] for name in RATES])[None, :]
        begin = 0
        for term, at in onto.items():
            size = int(np.prod(self.shapes[term]))
            theta = theta + values[begin : begin + size][at]
            begin += size
        return theta

    def rates(self, board: str, precision: str, runtime: str) -> FloatArray:
        """[k] logarithms of coefficients; a board that the fit lacks takes the boards' mean."""
        boards = [board] if board in self.axes["b"] else self.axes["b"]
        rows = [Row(("", ""), b, precision, runtime, "", 0, 1.0) for b in boards]
        codes = self._codes(rows)
        return self._theta(self.values, {t: self._flat(t, codes) for t in self.shapes}).mean(axis=0)

    def predict(self, rows: Sequence[Row], found: Mapping[Key, Network]) -> FloatArray:
        """[n] seconds."""
        return np.asarray(self.parts(rows, found).sum(axis=1), np.float64)

    def parts(self, rows: Sequence[Row], found: Mapping[Key, Network]) -> FloatArray:
        """[n, k] seconds of each coefficient's amount."""
        known = {place: self.rates(*place) for place in {(row.board, row.precision, row.runtime) for row in rows}}
        theta = np.array([known[row.board, row.precision, row.runtime] for row in rows])
        return np.asarray(np.exp(_logs(rows, found) + theta), np.float64)


def _logs(rows: Sequence[Row], found: Mapping[Key, Network]) -> FloatArray:
    table = np.array([[*found[row.key].amounts, found[row.key].transferred, 1.0] for row in rows])
    return np.asarray(np.log(np.maximum(table, 1e-30)), np.float64)
