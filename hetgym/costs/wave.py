"""WaveLaw: utilisation by waves of tiles, in four figures; for devices that nobody measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.costs.features import COLUMN, FEATURES
from hetgym.costs.regressor import Arrays, check_columns, check_rows, checked, refuse_others, settled
from hetgym.costs.seen import Seen

_LOW, _HIGH = np.array([-6.0, -6.0, -12.0, -12.0]), np.array([6.0, 6.0, 8.0, 8.0])
_HUBER = 1.345
_STARTS = (-3.0, 0.0, 3.0)
_ROUNDS = 60
_TOGETHER = 1e-5  # how strongly both bounds are held to the same figures where the rows do not tell them apart


@dataclass(frozen=True)
class WaveLaw:
    """A device fills in waves: work of w waves reaches the share u of what physics allows.

    u(w) = gamma / (1 + beta / w),     log ratio = -log u

    To first order in 1 / w that is gamma - alpha / w with alpha = gamma · beta, the law that Lee et al.
    (NeuSight, ASPLOS 2025, section 4.3) fit to tiles on GPUs. In this form it stays positive below one
    wave, where time no longer falls with the work and u is proportional to w. Gamma and beta are one
    pair for compute-bound and one for memory-bound operators, blended (as logarithms) by the logistic
    function of log2(compute time / memory time). Four figures leave no room for the habits of one
    device, so the law carries to others; a ratio falls as waves grow, always.

    Args:
        seen: the range of the fit.
        law: [4] log gamma and log beta: gamma compute-bound, gamma memory-bound, beta so, beta so.
    """

    name: ClassVar[str] = "wave"
    seen: Seen
    law: FloatArray

    @classmethod
    def fit(cls, x: FloatArray, y: FloatArray, groups: IntArray, seed: int) -> Self:
        """Robust least squares (Huber's weights, Gauss-Newton); groups and seed change nothing.

        See :class:`hetgym.costs.regressor.Regressor`.

        Raises:
            ArtefactError: rows that cannot be fitted, or not the columns of ``FEATURES``.
        """
        check_rows(x, y, groups)
        check_columns(x, len(FEATURES), cls.name)
        inverse, compute = _coordinates(x)
        level = float(np.clip(-np.quantile(y, 0.1), -5.0, 5.0))
        found = [_descend(np.array([level, level, beta, beta]), inverse, compute, y) for beta in _STARTS]
        return cls(Seen.fit(x, y), min(found, key=lambda result: result[0])[1])

    def predict(self, x: FloatArray) -> tuple[FloatArray, BoolArray]:
        """[n] log ratios between -log gamma and the largest that was fitted, [n] whether the row lies in the range.

        On a device that was not measured no row lies in it; the law is made for just those, so it may
        go below the least ratio that was fitted.
        """
        within = self.seen.holds(x)
        y, _ = _law(self.law, *_coordinates(np.where(np.isnan(x), self.seen.centre, x)))
        return settled(y, -math.inf, self.seen.high), within

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as plain arrays."""
        return self.seen.arrays() | {"law": self.law}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Rebuild from :meth:`arrays`.

        Raises:
            ArtefactError: an array is not what it should be.
        """
        refuse_others(arrays, (*Seen.names(), "law"), cls.name)
        seen = Seen.from_arrays(arrays, cls.name)
        checked({"lower": seen.lower}, "lower", cls.name, (len(FEATURES),))
        return cls(seen, checked(arrays, "law", cls.name, (4,), low=float(_LOW.min()), high=float(_HIGH.max())))


def _coordinates(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """[n] one over the waves; [n] how far an operator is compute-bound, 0 to 1."""
    waves = np.clip(x[:, COLUMN["log2_waves"]], -40.0, 40.0)
    balance = np.clip(x[:, COLUMN["log2_balance"]], -40.0, 40.0)
    return np.exp2(-waves), 1.0 / (1.0 + np.exp(-balance))


def _law(law: FloatArray, inverse: FloatArray, compute: FloatArray) -> tuple[FloatArray, FloatArray]:
    """[n] log ratios, [n, 4] their derivatives."""
    share = np.stack([compute, 1.0 - compute], axis=1)
    empty = np.exp(share @ law[2:]) * inverse
    return np.log1p(empty) - share @ law[:2], np.concatenate([-share, share * (empty / (1 + empty))[:, None]], axis=1)


def _descend(law: FloatArray, inverse: FloatArray, compute: FloatArray, y: FloatArray) -> tuple[float, FloatArray]:
    """Levenberg's damped Gauss-Newton steps on Huber's loss; the mean absolute error and the figures reached."""
    apart = _TOGETHER * len(y) * np.kron(np.eye(2), np.array([[1.0, -1.0], [-1.0, 1.0]]))
    damping = 1e-3
    loss, weight, scale = _loss(law, inverse, compute, y, apart, 0.0)
    for _ in range(_ROUNDS):
        predicted, slope = _law(law, inverse, compute)
        gram = (slope * weight[:, None]).T @ slope + apart
        side = slope.T @ (weight * (y - predicted)) - apart @ law
        step = np.linalg.solve(gram + damping * np.diag(np.diag(gram)) + 1e-9 * len(y) * np.eye(4), side)
        trial = np.clip(law + step, _LOW, _HIGH)
        better, new_weight, _ = _loss(trial, inverse, compute, y, apart, scale)
        if better < loss:
            law, weight, damping = trial, new_weight, damping / 4
            loss, weight, scale = _loss(law, inverse, compute, y, apart, 0.0)
        else:
            damping *= 8
        if damping > 1e6 or np.abs(step).max() < 1e-9:
            break
    return float(np.abs(y - _law(law, inverse, compute)[0]).mean()), law


def _loss(
    law: FloatArray, inverse: FloatArray, compute: FloatArray, y: FloatArray, apart: FloatArray, scale: float
) -> tuple[float, FloatArray, float]:
    """Huber's loss, [n] the weights that belong to it, and the scale, taken from the errors if given as 0."""
    off = np.abs(y - _law(law, inverse, compute)[0])
    scale = scale or max(_HUBER * 1.4826 * float(np.median(off)), 1e-6)
    loss = np.where(off < scale, 0.5 * off**2, scale * (off - 0.5 * scale)).sum() + 0.5 * law @ apart @ law
    return float(loss), np.minimum(1.0, scale / np.maximum(off, 1e-12)), scale
