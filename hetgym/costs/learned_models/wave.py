"""WaveLaw: utilisation as a function of waves of tiles with six parameters, for devices without measurements."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.costs.features import COLUMN, FEATURES
from hetgym.costs.learned_models.seen import Seen
from hetgym.costs.regressor import Arrays, check_columns, check_rows, checked, refuse_others, settled

_LOW = np.array([-6.0, -6.0, -12.0, -12.0, 0.0, 0.0])
_HIGH = np.array([6.0, 6.0, 8.0, 8.0, 1.0, 1.0])
_HUBER = 1.345
_STARTS = (-3.0, 0.0, 3.0)
_ROUNDS = 60
_TOGETHER = 1e-5  # weight that pulls the parameters of both bounds together where the rows do not determine them


@dataclass(frozen=True)
class WaveLaw:
    """The law of waves: work of w waves of tiles reaches the share u of the physical bound.

    u = gamma · tile^s · last^r / (1 + beta / w),     log ratio = -log u

    To first order in 1 / w that is gamma - alpha / w with alpha = gamma · beta, the law that Lee et al.
    (NeuSight, ASPLOS 2025, section 4.3) fit to tiles on GPUs. This form stays positive below one wave, where time no
    longer falls with the work and u is proportional to w. ``tile`` is the share of the tiles that is not padding, and
    ``last`` the share of the processors that the last wave keeps busy. Their exponents s and r are 0 if libraries
    always choose tiles that fit, and 1 if they never do. Compute-bound and memory-bound operators each have their own
    gamma and beta; between the two, the logarithms are blended by the logistic function of
    log2(compute time / memory time). Six parameters cannot fit the particularities of one device, so the law
    generalises to others. All else equal, a ratio never rises with the number of waves.
    """

    name: ClassVar[str] = "wave"
    seen: Seen  # the range of the fit
    law: FloatArray  # [6] log gamma compute-bound and memory-bound, log beta compute-bound and memory-bound, s, r

    @classmethod
    def fit(cls, x: FloatArray, y: FloatArray, groups: IntArray, seed: int) -> Self:
        """Fit to columns ``FEATURES`` by robust least squares (Huber's weights, Gauss-Newton); no groups, no seed."""
        check_rows(x, y, groups)
        check_columns(x, len(FEATURES), cls.name)
        at = _coordinates(x)
        level = float(np.clip(-np.quantile(y, 0.1), -5.0, 5.0))
        found = [_descend(np.array([level, level, beta, beta, 0.3, 0.3]), at, y) for beta in _STARTS]
        return cls(Seen.fit(x, y), min(found, key=lambda result: result[0])[1])

    def predict(self, x: FloatArray) -> tuple[FloatArray, BoolArray]:
        """[n] log ratios between -log gamma and the largest fitted one, [n] True where the row lies in the range.

        On a device without measurements no row lies in the range. The law is made for such devices, so its ratios may
        be below the least fitted one.
        """
        within = self.seen.holds(x)
        y, _ = _law(self.law, _coordinates(np.where(np.isnan(x), self.seen.centre, x)))
        return settled(y, -math.inf, self.seen.high), within

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as plain arrays."""
        return self.seen.arrays() | {"law": self.law}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """See :meth:`~hetgym.costs.regressor.Regressor.from_arrays`."""
        refuse_others(arrays, (*Seen.names(), "law"), cls.name)
        seen = Seen.from_arrays(arrays, cls.name)
        checked({"lower": seen.lower}, "lower", cls.name, (len(FEATURES),))
        law = checked(arrays, "law", cls.name, (6,))
        for figure, low, high in zip(law, _LOW, _HIGH, strict=True):
            checked({"law": np.array(figure)}, "law", cls.name, (), low=float(low), high=float(high))
        return cls(seen, law)


@dataclass(frozen=True)
class _At:
    """The inputs of the law for n operators."""

    inverse: FloatArray  # [n] 1 / waves
    share: FloatArray  # [n, 2] degree to which an operator is compute-bound and memory-bound; the sum is 1
    unused: FloatArray  # [n, 2] logarithms of ``tile`` and ``last``, at most 0


def _coordinates(x: FloatArray) -> _At:
    waves = np.exp2(np.clip(x[:, COLUMN["log2_waves"]], -40.0, 40.0))
    compute = 1.0 / (1.0 + np.exp(-np.clip(x[:, COLUMN["log2_balance"]], -40.0, 40.0)))
    tile = np.clip(x[:, COLUMN["tile_efficiency"]], 1e-3, 1.0)
    last = np.where(waves < 1, 1.0, np.clip(x[:, COLUMN["wave_efficiency"]], 1e-3, 1.0))  # below 1, beta covers it
    return _At(1.0 / waves, np.stack([compute, 1.0 - compute], axis=1), np.log(np.stack([tile, last], axis=1)))


def _law(law: FloatArray, at: _At) -> tuple[FloatArray, FloatArray]:
    """[n] log ratios, [n, 6] their derivatives."""
    empty = np.exp(at.share @ law[2:4]) * at.inverse
    slope = [-at.share, at.share * (empty / (1 + empty))[:, None], -at.unused]
    return np.log1p(empty) - at.share @ law[:2] - at.unused @ law[4:], np.concatenate(slope, axis=1)


def _bonds(n: int) -> FloatArray:
    """[6, 6] quadratic penalty that pulls parameters together, or to 0, where the rows do not determine them."""
    pairs = np.kron(np.eye(2), np.array([[1.0, -1.0], [-1.0, 1.0]]))
    return np.asarray(_TOGETHER * n * np.block([[pairs, np.zeros((4, 2))], [np.zeros((2, 4)), np.eye(2)]]))


def _descend(law: FloatArray, at: _At, y: FloatArray) -> tuple[float, FloatArray]:
    """Minimise Huber's loss by Levenberg's damped Gauss-Newton steps; return the mean absolute error and parameters."""
    apart = _bonds(len(y))
    damping = 1e-3
    loss, weight, scale = _loss(law, at, y, apart, 0.0)
    for _ in range(_ROUNDS):
        predicted, slope = _law(law, at)
        gram = (slope * weight[:, None]).T @ slope + apart
        side = slope.T @ (weight * (y - predicted)) - apart @ law
        step = np.linalg.solve(gram + damping * np.diag(np.diag(gram)) + 1e-9 * len(y) * np.eye(6), side)
        trial = np.clip(law + step, _LOW, _HIGH)
        better, new_weight, _ = _loss(trial, at, y, apart, scale)
        if better < loss:
            law, weight, damping = trial, new_weight, damping / 4
            loss, weight, scale = _loss(law, at, y, apart, 0.0)
        else:
            damping *= 8
        if damping > 1e6 or np.abs(step).max() < 1e-9:
            break
    return float(np.abs(y - _law(law, at)[0]).mean()), law


def _loss(law: FloatArray, at: _At, y: FloatArray, apart: FloatArray, scale: float) -> tuple[float, FloatArray, float]:
    """Huber's loss, its [n] weights, and the scale, which is estimated from the errors if it is given as 0."""
    off = np.abs(y - _law(law, at)[0])
    scale = scale or max(_HUBER * 1.4826 * float(np.median(off)), 1e-6)
    loss = np.where(off < scale, 0.5 * off**2, scale * (off - 0.5 * scale)).sum() + 0.5 * law @ apart @ law
    return float(loss), np.minimum(1.0, scale / np.maximum(off, 1e-12)), scale
