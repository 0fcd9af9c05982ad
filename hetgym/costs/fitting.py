"""Fitting of cost models to tables of measurements, and splits that keep test rows out of the fit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hetgym._groups import gathered
from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.costs.features import class_of, family_of, features, physics
from hetgym.costs.learned import REGRESSORS, ClassModel, LearnedCosts
from hetgym.costs.regressor import Regressor, grouped_folds
from hetgym.device import Device
from hetgym.errors import ArtefactError, check_name
from hetgym.graph.ops import Operator
from hetgym.graph.transforms.training import gradient_operator
from hetgym.measurements.table import Measurements

LEAST_ROWS = 12  # Least number of measurements for a model of a class; a smaller class takes the model of its family

_FOLDS = 2  # enough for the percentiles of the error


@dataclass(frozen=True)
class Score:
    """Absolute percentage errors of predictions."""

    n: int  # number of predictions
    mean: float  # mean of |predicted / measured - 1|
    median: float  # median of the same
    p90: float  # ninetieth percentile of the same
    bias: float  # mean of predicted / measured - 1

    @classmethod
    def of(cls, predicted: npt.ArrayLike, measured: npt.ArrayLike) -> Score:
        """Compare predictions with measurements, both [n] seconds; all NaN if there are none."""
        error = np.asarray(predicted, np.float64) / np.asarray(measured, np.float64) - 1.0
        if not error.size:
            return cls(0, *[float("nan")] * 4)
        size = np.abs(error)
        return cls(
            error.size, float(size.mean()), float(np.median(size)), float(np.quantile(size, 0.9)), float(error.mean())
        )

    def __str__(self) -> str:
        shares = f"mean {self.mean:6.1%}  median {self.median:6.1%}  P90 {self.p90:6.1%}  bias {self.bias:+6.1%}"
        return f"n {self.n:6d}  {shares}"


def shape_group(operator: Operator) -> str:
    """The shape group of an operator, which a split must not divide: the same layer at every batch size."""
    parts = [class_of(operator)]
    for tensor in (*operator.inputs, *operator.outputs):
        parts.append("x".join(map(str, tensor.shape if tensor.constant else tensor.shape[1:])))
    parts += [f"{key}={operator.attributes[key]}" for key in sorted(operator.attributes)]
    return " ".join(parts)


def group_numbers(operators: Sequence[Operator]) -> IntArray:
    """[n] a number for the shape group of each operator; equal numbers mean equal groups."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(shape_group(op), len(numbers)) for op in operators], np.int32)


def held_out(operators: Sequence[Operator], share: float = 0.2, seed: int = 0) -> BoolArray:
    """[n] True for operators to hold out from a fit: a share of all shape groups, by a hash of the group and ``seed``.

    The same shape is therefore on the same side in every table.
    """
    limit = int(share * 2**32)
    digests = (hashlib.sha256(f"{seed} {shape_group(op)}".encode()).digest()[:4] for op in operators)
    return np.array([int.from_bytes(digest, "big") < limit for digest in digests], np.bool_)


def fit(
    table: Measurements,
    device: Device,
    model: str = "boosted",
    *,
    seed: int = 0,
    spread: bool = True,
    only: Sequence[Operator] | None = None,
    card: dict[str, object] | None = None,
    progress: Callable[[str], None] | None = None,
) -> LearnedCosts:
    """Fit a cost model to measurements of one device.

    Args:
        table: measurements. Rows without a time are ignored; a backward row is fitted as the backward operator of a
            training step.
        device: the device that the table was measured on.
        model: a key of :data:`~hetgym.costs.learned.REGRESSORS`.
        seed: seed of all randomness.
        spread: True to fit percentiles, too, which takes two more fits of each class.
        only: operators that will be priced; models that none of them needs are not fitted. None fits all.
        card: description that is kept with the model.
        progress: called with the name of each class before it is fitted.

    Raises:
        UnknownName: no such kind of model.
        ArtefactError: no row has a time.
        MissingExtra: a library that fits this kind of model is not installed.
    """
    check_name("kind of cost model", model, REGRESSORS)
    rows = table.timed()
    if not len(rows):
        raise ArtefactError(f"{table.name}: no operator in the table has a time, so there is nothing to fit")
    operators = priced(rows)
    x = features(operators, device, [row.context == "graph" for row in rows])
    y = np.log(np.maximum(rows.seconds, 1e-8) / physics(operators, device))
    groups = group_numbers(operators)
    members = gathered((of(op), i) for i, op in enumerate(operators) for of in (class_of, family_of))
    enough = {name for name, at in members.items() if len(at) >= LEAST_ROWS or name.startswith("*")}
    if only is not None:
        enough &= {name if (name := class_of(op)) in enough else family_of(op) for op in only}
    classes = {}
    for name in sorted(members):
        at = np.array(members[name])
        if name in enough:
            if progress is not None:
                progress(name)
            classes[name] = _fit_class(REGRESSORS[model], x[at], y[at], groups[at], seed, spread)
    return LearnedCosts(model, classes, dict(card or {}))


def _fit_class(
    kind: type[Regressor], x: FloatArray, y: FloatArray, groups: IntArray, seed: int, spread: bool
) -> ClassModel:
    """Fit one class; the spread is taken from the errors on held-out folds of shapes."""
    median = float(np.median(y))
    error = y - median
    if spread and len(y) >= 2 * LEAST_ROWS and len(np.unique(groups)) >= _FOLDS:
        part = grouped_folds(groups, _FOLDS, np.random.default_rng(seed))
        for fold in range(_FOLDS):
            inner, held = part != fold, part == fold
            regressor = kind.fit(x[inner], y[inner], groups[inner], seed)
            error[held] = y[held] - regressor.predict(x[held])[0]
    p10, p90 = np.clip(np.quantile(error, (0.1, 0.9)), [-3.0, 0.0], [0.0, 3.0]).tolist()
    return ClassModel(kind.fit(x, y, groups, seed), median, p10, p90, len(y))


def priced(table: Measurements) -> list[Operator]:
    """[n] the operator that each row measures; for a backward row the gradient operator."""
    return [gradient_operator(row.operator) if row.direction == "backward" else row.operator for row in table]


def predict_rows(costs: LearnedCosts, table: Measurements, device: Device) -> FloatArray:
    """[n] predictions for the rows of a table, in the context in which each row was measured [s].

    Where the model has neither the class nor the family, they are those of the roofline.
    """
    operators, within = priced(table), np.array([row.context == "graph" for row in table])
    seconds = np.empty(len(operators))
    for in_graph in (False, True):
        at = np.flatnonzero(within == in_graph).tolist()
        model = replace(costs, in_graph=in_graph, _known={})
        seconds[at] = model.predict([operators[i] for i in at], device)
    return seconds
