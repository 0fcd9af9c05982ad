"""Polynomial: ridge regression on products of several parameters; cross-validation chooses the degree."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.costs.learned_models.seen import Seen
from hetgym.costs.regressor import Arrays, check_rows, checked, grouped_folds, refuse_others, settled

MAX_DEGREE = 4
MAX_TERMS = 600  # Largest number of terms; there are also at most half as many terms as rows
RIDGE = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # Penalties that are tried, as a share of the number of rows

_FOLDS = 5
_HUBER = 1.345  # standard choice: 95 % efficiency for normal errors
_ROUNDS = 4
_RANKED_ROWS = 4000


@dataclass(frozen=True)
class Basis:
    """Products of Chebyshev polynomials of the columns, each scaled to [-1, 1]."""

    column: IntArray  # [t, 4] column of each factor
    degree: IntArray  # [t, 4] degree of each factor; 0 = no factor

    @classmethod
    def build(cls, columns: IntArray, degree: int, together: int) -> Self:
        """All products of at most ``together`` columns with a total degree of at most ``degree``; the first is 1."""
        terms = [
            [(int(c), product.count(c)) for c in sorted(set(product))]
            for total in range(degree + 1)
            for product in combinations_with_replacement(columns.tolist(), total)
            if len(set(product)) <= together
        ]
        padded = np.array([term + [(0, 0)] * (MAX_DEGREE - len(term)) for term in terms], np.int32)
        return cls(padded[:, :, 0].copy(), padded[:, :, 1].copy())

    def __len__(self) -> int:
        return len(self.column)

    @property
    def weight(self) -> FloatArray:
        """[t] scale of each term, halved for each degree beyond the first, so that the ridge prefers smooth fits."""
        return np.asarray(0.5 ** np.maximum(self.degree.sum(axis=1) - 1, 0), np.float64)

    def evaluate(self, z: FloatArray) -> FloatArray:
        """[n, t] values of the terms at [n, f] columns in [-1, 1]."""
        powers = [np.ones_like(z), z]
        for _ in range(MAX_DEGREE - 1):
            powers.append(2 * z * powers[-1] - powers[-2])
        table = np.stack([power.T for power in powers])  # one row per factor, so that gathering copies whole rows
        values = np.repeat(self.weight[:, None], len(z), axis=1)
        for slot in range(MAX_DEGREE):
            used = np.flatnonzero(self.degree[:, slot])
            values[used] *= table[self.degree[used, slot], self.column[used, slot]]
        return np.asarray(values.T)


@dataclass(frozen=True)
class Polynomial:
    """Ridge regression of the log ratio on a polynomial in the logarithms of an operator's parameters.

    log ratio = median + sum over terms of c · product of T_d(column), total degree at most 4

    Terms may be products of several columns, such as FLOPs and bytes, or kernel size and channels. The degree
    (1 to 4), the number of columns in a term, the number of columns in all and the ridge are chosen by
    cross-validation over shape groups. Errors have the weights of Huber (1964), so that a few disturbed measurements
    do not bend the fit. Within the range of the measured shapes the polynomial interpolates well from few
    measurements. Outside, it is evaluated at the edge, and the prediction is flagged.
    """

    name: ClassVar[str] = "polynomial"
    seen: Seen  # the range of the fit
    basis: Basis  # the terms
    coefficient: FloatArray  # [t] coefficient of each term

    @classmethod
    def fit(cls, x: FloatArray, y: FloatArray, groups: IntArray, seed: int) -> Self:
        """Choose the terms by cross-validation and fit them; see :class:`hetgym.costs.regressor.Regressor`."""
        check_rows(x, y, groups)
        seen = Seen.fit(x, y)
        z = _scaled(seen, x)
        ranked = _rank(z, y - seen.median, np.flatnonzero(seen.varying))
        part = grouped_folds(groups, _FOLDS, np.random.default_rng(seed))
        best = (math.inf, Basis.build(ranked[:0], 0, 0), RIDGE[-1])
        for basis in _candidates(ranked, len(y)) if part.any() else ():
            error, ridge = _cross_validate(basis.evaluate(z), y - seen.median, part)
            if error < 0.99 * best[0]:  # a larger basis must be better by 1 %
                best = (error, basis, ridge)
        _, basis, ridge = best
        return cls(seen, basis, _robust(basis.evaluate(z), y - seen.median, ridge))

    def predict(self, x: FloatArray) -> tuple[FloatArray, BoolArray]:
        """[n] log ratios within the fitted ones, [n] True where the row lies in the fitted range."""
        within = self.seen.holds(x)
        y = self.seen.median + self.basis.evaluate(_scaled(self.seen, x)) @ self.coefficient
        return settled(y, self.seen.low, self.seen.high), within

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as plain arrays."""
        terms: dict[str, npt.NDArray[Any]] = {
            "column": self.basis.column,
            "degree": self.basis.degree,
            "coefficient": self.coefficient,
        }
        return self.seen.arrays() | terms

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """See :meth:`~hetgym.costs.regressor.Regressor.from_arrays`."""
        refuse_others(arrays, (*Seen.names(), "column", "degree", "coefficient"), cls.name)
        seen = Seen.from_arrays(arrays, cls.name)
        coefficient = checked(arrays, "coefficient", cls.name, (None,), low=-1e9, high=1e9)
        terms = len(coefficient)
        checked({"terms": np.array(terms)}, "terms", cls.name, (), np.int64, low=1, high=MAX_TERMS)
        last = max(0, len(seen.lower) - 1)
        column = checked(arrays, "column", cls.name, (terms, MAX_DEGREE), np.int32, 0, last)
        degree = checked(arrays, "degree", cls.name, (terms, MAX_DEGREE), np.int32, 0, MAX_DEGREE)
        if not len(seen.lower):
            checked({"degree": degree}, "degree", f"{cls.name}: without columns", (terms, MAX_DEGREE), np.int32, 0, 0)
        return cls(seen, Basis(column, degree), coefficient)


def _scaled(seen: Seen, x: FloatArray) -> FloatArray:
    """[n, f] rows moved into the fitted range and scaled to [-1, 1]; 0 for columns that never varied."""
    half = (seen.upper - seen.lower) / 2
    middle = (seen.upper + seen.lower) / 2
    return np.divide(seen.inward(x) - middle, half, out=np.zeros(x.shape), where=seen.varying)


def _rank(z: FloatArray, y: FloatArray, columns: npt.NDArray[np.intp]) -> IntArray:
    """Columns sorted by how much each, with its square, explains beyond the ones before it; duplicates are left out."""
    rows = slice(None, None, max(1, len(z) // _RANKED_ROWS))
    both = np.stack([z[rows][:, columns], z[rows][:, columns] ** 2])
    both -= both.mean(axis=1, keepdims=True)
    size = np.sqrt((both[0] ** 2).sum(axis=0))
    rest = y[rows] - y[rows].mean()
    order: list[int] = []
    left = np.ones(len(columns), np.bool_)
    while True:
        first = both[0] / np.maximum(np.sqrt((both[0] ** 2).sum(axis=0)), 1e-12)
        second = both[1] - first * (first * both[1]).sum(axis=0)
        length = np.sqrt((second**2).sum(axis=0))
        second = np.where(length > 1e-6, second / np.maximum(length, 1e-12), 0.0)
        left &= np.sqrt((both[0] ** 2).sum(axis=0)) > 1e-3 * size  # the others depend linearly on earlier ones
        if not left.any():
            return np.array(columns[order], np.int32)
        gain = np.where(left, (first.T @ rest) ** 2 + (second.T @ rest) ** 2, -1.0)
        best = int(np.argmax(gain))
        order.append(best)
        left[best] = False
        for axis in (first[:, best].copy(), second[:, best].copy()):
            rest = rest - axis * (axis @ rest)
            both -= axis[:, None] * np.einsum("n,snf->sf", axis, both)[:, None, :]


def _candidates(ranked: IntArray, rows: int) -> Iterator[Basis]:
    """Bases from small to large, over degrees, columns in a term, and as many columns as the number of rows allows."""
    limit = min(MAX_TERMS, rows // 2)
    seen: set[tuple[int, int, int]] = set()
    for degree, together in ((1, 1), (2, 2), (3, 2), (3, 3), (4, 2), (4, 3), (4, 4)):
        most = max((k for k in range(len(ranked) + 1) if _terms(k, degree, together) <= limit), default=0)
        for k in {max(1, most // 2), most}:
            if k and (k >= together) and (k, degree, together) not in seen:
                seen.add((k, degree, together))
                yield Basis.build(ranked[:k], degree, together)


def _terms(columns: int, degree: int, together: int) -> int:
    """Number of terms of a basis."""
    ways = (math.comb(columns, j) * math.comb(degree, j) for j in range(min(columns, degree, together) + 1))
    return sum(ways)


def _cross_validate(terms: FloatArray, y: FloatArray, part: IntArray) -> tuple[float, float]:
    """Least mean absolute error over the parts, and the ridge that gives it."""
    errors = np.zeros(len(RIDGE))
    folds = range(int(part.max()) + 1)
    grams = [terms[part == fold].T @ terms[part == fold] for fold in folds]
    sides = [terms[part == fold].T @ y[part == fold] for fold in folds]
    gram, side = sum(grams), sum(sides)
    for fold in folds:
        held = part == fold
        value, vector = np.linalg.eigh(gram - grams[fold])
        along, test = vector.T @ (side - sides[fold]), terms[held] @ vector
        for number, ridge in enumerate(RIDGE):
            coefficient = along / (np.maximum(value, 0.0) + ridge * (len(y) - held.sum()))
            errors[number] += np.abs(y[held] - test @ coefficient).sum() / len(y)
    best = int(np.argmin(errors))
    return float(errors[best]), RIDGE[best]


def _robust(terms: FloatArray, y: FloatArray, ridge: float) -> FloatArray:
    """[t] ridge coefficients by reweighted least squares with Huber's weights."""
    weight = np.ones(len(y))
    coefficient: npt.NDArray[Any] = np.zeros(terms.shape[1])
    penalty = ridge * len(y) * np.eye(terms.shape[1])
    for _ in range(_ROUNDS):
        weighted = terms * weight[:, None]
        coefficient = np.linalg.solve(weighted.T @ terms + penalty, weighted.T @ y)
        off = np.abs(y - terms @ coefficient)
        scale = 1.4826 * np.median(off)
        weight = np.minimum(1.0, _HUBER * scale / np.maximum(off, 1e-12)) if scale > 0 else np.ones(len(y))
    return np.asarray(coefficient, np.float64)
