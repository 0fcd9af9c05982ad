"""Scores: errors of a kind of cost model on held-out shapes and graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from hetgym._types import BoolArray, FloatArray
from hetgym.costs.features import class_of
from hetgym.costs.fitting import Score, fit, held_out, predict_rows, priced
from hetgym.costs.learned import LearnedCosts
from hetgym.device import Device
from hetgym.errors import ArtefactError
from hetgym.measurements import Measurements

SHORT = 50e-6  # Least run time of operators in scores [s]; most of a shorter time is dispatch


class Scores:
    """Errors on shapes and on graphs that were held out.

    Args:
        shapes: rows whose shape group was held out, and their predictions [s].
        graphs: graph -> predicted and measured sum over its operators [s].
        costs: the model that predicted the graphs.
    """

    def __init__(
        self, shapes: tuple[Measurements, FloatArray], graphs: dict[str, tuple[float, float]], costs: LearnedCosts
    ) -> None:
        self.shapes = shapes
        self.graphs = graphs
        self.costs = costs

    @classmethod
    def of(
        cls,
        table: Measurements,
        device: Device,
        model: str,
        seed: int,
        progress: Callable[[str], None] | None = None,
        spread: bool = False,
    ) -> Scores:
        """Score two fits: one without a fifth of the shape groups, and one without any named model.

        Rows must have times; too few to fit are an ArtefactError. With ``spread`` the model that is fitted without
        named models gets all of its classes, with percentiles, to be used further.
        """
        named = named_graphs(table)
        rest = table.where(~named)
        if not len(rest):
            raise ArtefactError(
                f"{table.name}: all rows are of named models, which serve as the test set; measure designs or networks"
            )
        held = held_out(rest.operators)
        if held.all():
            raise ArtefactError(f"{table.name}: too few shapes to hold some out; measure more")
        test = rest.where(held)
        asked = priced(test)
        fitted = fit(rest.where(~held), device, model, seed=seed, spread=False, only=asked, progress=progress)
        found = predict_rows(fitted, test, device)
        rows = table.where(named)
        only = None if spread else priced(rows)
        whole = fit(rest, device, model, seed=seed, spread=spread, only=only, progress=progress)
        predicted = predict_rows(whole, rows, device)
        graphs: dict[str, tuple[float, float]] = {}
        for name in sorted({row.source for row in rows}):
            at = [i for i, row in enumerate(rows) if row.source == name]
            count = np.array([rows.rows[i].count for i in at])
            graphs[name] = (float(predicted[at] @ count), float(rows.seconds[at] @ count))
        return cls((test, found), graphs, whole)

    def long(self, context: str | None = None) -> Score:
        """Score of held-out forward operators of at least :data:`SHORT`, ``isolated``, of a ``graph``, or both."""
        test, _ = self.shapes
        mask = self._long("forward")
        if context is not None:
            mask &= np.array([row.context == context for row in test], np.bool_)
        return self._score(mask)

    def backward(self) -> Score:
        """Score of held-out gradients of at least :data:`SHORT`."""
        return self._score(self._long("backward"))

    def by_class(self) -> dict[str, Score]:
        """Class -> score of held-out operators of at least :data:`SHORT`, without classes that have none."""
        test, _ = self.shapes
        classes = np.array([class_of(op) for op in priced(test)])
        masks = {name: (classes == name) & (test.seconds >= SHORT) for name in sorted(set(classes.tolist()))}
        return {name: self._score(mask) for name, mask in masks.items() if mask.any()}

    def whole(self) -> Score:
        """Score of held-out models, each as the sum over its operators."""
        pairs = np.array(list(self.graphs.values()), np.float64).reshape(-1, 2)
        return Score.of(pairs[:, 0], pairs[:, 1])

    def document(self) -> dict[str, Any]:
        """All scores as JSON values."""
        return {
            "held-out shapes, at least 50 us": _plain(self.long()),
            "alone": _plain(self.long("isolated")),
            "within graphs": _plain(self.long("graph")),
            "backward": _plain(self.backward()),
            "held-out models": _plain(self.whole()),
            "model errors": {name: round(p / m - 1, 4) for name, (p, m) in self.graphs.items()},
        }

    def lines(self) -> list[str]:
        """Errors of whole models, as lines of text."""
        if not self.graphs:
            return []
        rows = [
            f"{name:16s} predicted {p * 1e3:9.2f} ms  measured {m * 1e3:9.2f} ms  {p / m - 1:+7.1%}"
            for name, (p, m) in self.graphs.items()
        ]
        return ["held-out models, sum over operators", *rows, f"{'':16s} {self.whole()}", ""]

    def _long(self, direction: str) -> BoolArray:
        test, _ = self.shapes
        mask: BoolArray = (test.seconds >= SHORT) & np.array([row.direction == direction for row in test], np.bool_)
        return mask

    def _score(self, mask: BoolArray) -> Score:
        test, found = self.shapes
        return Score.of(found[mask], test.seconds[mask])


def named_graphs(table: Measurements) -> BoolArray:
    """[n] True for rows of named models, as opposed to random networks."""
    return np.array([row.context == "graph" and not row.source.startswith("random-") for row in table], np.bool_)


def _plain(score: Score) -> dict[str, float]:
    return {key: round(float(value), 4) for key, value in asdict(score).items()} if score.n else {"n": 0}
