"""Gaussian: Gaussian-process regression for each kind of operator."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from hetgym._kernels.jit import jit
from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.costs.learned_models.seen import Seen
from hetgym.costs.regressor import Arrays, check_rows, checked, one_thread, refuse_others, settled
from hetgym.errors import ArtefactError

MOST = 1500
"""Most rows of a class, larger ones are thinned: a fit takes time cubic in the rows, a prediction linear time."""

CHOOSING = 450  # Number of rows from which the scales are chosen; the fit itself uses all rows
STEPS = 120  # Optimiser steps in each of the two rounds that choose the scales

_RATE = 0.05
_FREEDOM = 4.0  # degrees of freedom of Student's distribution of the errors: 1 is Cauchy's, many are nearly normal
_LEAST_WEIGHT = 0.02
_JITTER = 1e-6
_PRIOR = 0.15  # strength of the prior that pulls the logarithms of the length scales towards a typical one


@dataclass(frozen=True)
class Gaussian:
    """The mean of a Gaussian process (kriging; Rasmussen, Williams, 2006, chapters 2 and 5).

    Its covariance is the sum of a Matérn covariance of smoothness 5/2, with a length scale for each column, and a
    linear one. Predictions are therefore smooth in the logarithms of the dimensions, without steps. Scales and noise
    maximise the marginal likelihood. Outliers, recognised by their leave-one-out errors, get smaller weights, as under
    Student's distribution with four degrees of freedom. Fitting needs torch, predicting needs NumPy only.
    """

    name: ClassVar[str] = "gaussian"
    seen: Seen  # the range of the fit
    scale: FloatArray  # [f] length scale of each column; 0 for columns that never varied, which are not used
    slope: FloatArray  # [c] variance of the linear part for each of the c used columns, in units of their length scales
    height: FloatArray  # [1] variance of the Matérn part
    points: npt.NDArray[np.float32]  # [n, c] fitted rows in these units
    weights: FloatArray  # [n] weight of the covariance with each fitted row

    @classmethod
    def fit(cls, x: FloatArray, y: FloatArray, groups: IntArray, seed: int) -> Self:
        """See :meth:`~hetgym.costs.regressor.Regressor.fit`; needs torch."""
        check_rows(x, y, groups)
        seen = Seen.fit(x, y)
        rng = np.random.default_rng(seed)
        kept = np.sort(rng.permutation(len(y))[:MOST])
        deviation = np.where(seen.varying, x.std(axis=0), 0.0)
        residual = y[kept] - seen.median
        lengths, slope, height, noise = _scales(_units(seen, deviation, x[kept]), residual, rng)
        scale = deviation.copy()
        scale[scale > 0] *= lengths
        points = _units(seen, scale, x[kept]).astype(np.float32)
        exactly = points.astype(np.float64)
        covariance = _covariance(exactly, exactly, slope, height)
        covariance[np.diag_indices_from(covariance)] += noise + _JITTER
        weights: FloatArray = np.linalg.solve(covariance, residual).astype(np.float64)
        return cls(seen, scale, slope, np.array([height]), points, weights)

    def predict(self, x: FloatArray) -> tuple[FloatArray, BoolArray]:
        """[n] log ratios within the fitted ones, [n] True where the row lies in the fitted range."""
        within = self.seen.holds(x)
        asked = _units(self.seen, self.scale, self.seen.inward(x))
        value = _weighted(asked, self.points.astype(np.float64), self.slope, float(self.height[0]), self.weights)
        return settled(self.seen.median + value, self.seen.low, self.seen.high), within

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as plain arrays."""
        own = {name: getattr(self, name) for name in _ARRAYS}
        return self.seen.arrays() | own

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """See :meth:`~hetgym.costs.regressor.Regressor.from_arrays`."""
        refuse_others(arrays, (*Seen.names(), *_ARRAYS), cls.name)
        seen = Seen.from_arrays(arrays, cls.name)
        f = len(seen.lower)
        scale = checked(arrays, "scale", cls.name, (f,), low=0.0, high=1e12)
        columns = int((scale > 0).sum())
        slope = checked(arrays, "slope", cls.name, (columns,), low=0.0, high=1e6)
        height = checked(arrays, "height", cls.name, (1,), low=0.0, high=1e6)
        points = checked(arrays, "points", cls.name, (None, columns), np.float32, -1e12, 1e12)
        weights = checked(arrays, "weights", cls.name, (len(points),), low=-1e9, high=1e9)
        if not len(points):
            raise ArtefactError(f"{cls.name}: array 'points' has no rows")
        return cls(seen, scale, slope, height, points, weights)


_ARRAYS = ("scale", "slope", "height", "points", "weights")


def _units(seen: Seen, scale: FloatArray, x: FloatArray) -> FloatArray:
    """[n, c] the used columns minus the centre, in units of their length scales."""
    count = scale > 0
    return np.ascontiguousarray((x - seen.centre)[:, count] / scale[count])


@jit
def _covariance(a: FloatArray, b: FloatArray, slope: FloatArray, height: float) -> FloatArray:
    """[m, n] covariances of the rows of a [m, c] and b [n, c], both in units of the length scales."""
    result = np.empty((len(a), len(b)))
    for i in range(len(a)):
        for j in range(len(b)):
            square, linear = 0.0, 0.0
            for k in range(a.shape[1]):
                left, right = float(a[i, k]), float(b[j, k])
                square += (left - right) * (left - right)
                linear += slope[k] * left * right
            distance = math.sqrt(5.0 * square)
            result[i, j] = height * (1.0 + distance + distance * distance / 3.0) * math.exp(-distance) + linear
    return result


@jit
def _weighted(a: FloatArray, b: FloatArray, slope: FloatArray, height: float, weights: FloatArray) -> FloatArray:
    """[m] weighted sums of the covariances with the rows of b; each result depends on its own row of a only."""
    result = np.zeros(len(a))
    for i in range(len(a)):
        row = _covariance(a[i : i + 1], b, slope, height)
        for j in range(len(b)):
            result[i] += row[0, j] * weights[j]
    return result


def _scales(x: FloatArray, y: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, float, FloatArray]:
    """Choose the scales from [n, c] columns of mean 0 and variance 1 and [n] log ratios around their median.

    Returns:
        [c] length scales, [c] variances of the linear part in units of these, the variance of the Matérn part,
        and [n] the variance of the noise.
    """
    with one_thread("fitting a Gaussian process") as torch:
        return _most_likely(torch, x, y, np.sort(rng.permutation(len(y))[:CHOOSING]))


def _most_likely(
    torch: Any, x: FloatArray, y: FloatArray, chosen: IntArray
) -> tuple[FloatArray, FloatArray, float, FloatArray]:
    columns = x.shape[1]
    few, wanted = torch.tensor(x[chosen]), torch.tensor(y[chosen])
    typical = math.log(1.5 * math.sqrt(max(1, columns)))
    starts = (
        np.full(columns, typical),
        np.full(columns, -6.0),
        2 * math.log(float(y.std()) + 1e-3),
        2 * math.log(0.06),
    )
    lengths, slopes, height, noise = (torch.tensor(s, dtype=torch.float64, requires_grad=True) for s in starts)
    trust, length, slope = np.ones(len(y)), np.ones(columns), np.zeros(columns)
    for _ in range(2):
        extra = torch.tensor(1.0 / trust[chosen])
        optimiser = torch.optim.Adam([lengths, slopes, height, noise], lr=_RATE)
        for _ in range(STEPS):
            unit = few / lengths.exp()
            distance = math.sqrt(5.0) * torch.cdist(unit, unit).clamp_min(1e-9)
            covariance = height.exp() * (1 + distance + distance * distance / 3) * torch.exp(-distance)
            covariance = covariance + (few * slopes.exp()) @ few.T + torch.diag(noise.exp() * extra + _JITTER)
            factor, failed = torch.linalg.cholesky_ex(covariance)
            if failed:
                break
            solved = torch.cholesky_solve(wanted[:, None], factor)[:, 0]
            surprise = 0.5 * wanted @ solved + factor.diagonal().log().sum()
            optimiser.zero_grad()
            (surprise + _PRIOR * ((lengths - typical) ** 2).sum()).backward()
            optimiser.step()
        length = lengths.detach().exp().numpy()
        slope = slopes.detach().exp().numpy() * length**2
        trust = _trust(x / length, y, slope, math.exp(height.item()), math.exp(noise.item()) / trust)
    return length, slope, math.exp(height.item()), math.exp(noise.item()) / trust


def _trust(x: FloatArray, y: FloatArray, slope: FloatArray, height: float, noise: FloatArray) -> FloatArray:
    """[n] weights of rows, from their leave-one-out errors (Rasmussen, Williams, equation 5.12)."""
    inverse = np.linalg.inv(_covariance(x, x, slope, height) + np.diag(noise + _JITTER))
    variance = 1.0 / np.diag(inverse)
    error = (inverse @ y) * variance
    weight = (_FREEDOM + 1.0) / (_FREEDOM + error * error / np.maximum(variance, 1e-12))
    return np.asarray(np.clip(weight, _LEAST_WEIGHT, None))
