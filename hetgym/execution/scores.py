"""Scores of predicted against executed makespans."""

from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hetgym._types import FloatArray


def kendall_tau(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Rank correlation in [-1, 1] with ties (tau-b; Kendall, Biometrika 33, 1945); NaN if x or y is constant.

    >>> kendall_tau([1, 2, 3, 4], [1, 2, 4, 3])
    0.6666666666666666
    """
    a, b = (np.sign(np.subtract.outer(v, v)) for v in (np.asarray(x, np.float64), np.asarray(y, np.float64)))
    upper = np.triu_indices(len(a), 1)
    a, b = a[upper], b[upper]
    pairs = float(np.sqrt((a != 0).sum() * (b != 0).sum()))
    return float((a * b).sum()) / pairs if pairs > 0 else float("nan")


@dataclass(frozen=True)
class Scores:
    """Accuracy of predictions; errors are relative to the executed makespan."""

    n: int  # number of placements
    # mean, median, p90, worst: statistics of the absolute errors
    mean: float
    median: float
    p90: float
    worst: float
    bias: float  # mean of the signed errors; positive = predicted too long
    tau: float  # Kendall's tau of predicted and executed makespans
    tau_fast: float  # the same for the faster half of the placements, among which schedulers choose
    # mean relative difference between the medians of even and odd rounds, which is the error of predicting one half of
    # the runs by the other
    noise: float

    @classmethod
    def of(cls, error: FloatArray, tau: float, tau_fast: float, noise: float) -> Self:
        """The scores of [k] signed errors, and what no errors tell."""
        size = np.abs(error)
        middle, high = float(np.median(size)), float(np.quantile(size, 0.9))
        means = float(size.mean()), float(error.mean())
        return cls(len(size), means[0], middle, high, float(size.max()), means[1], tau, tau_fast, noise)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready mapping; NaN becomes None."""
        return {key: None if value != value else value for key, value in asdict(self).items()}


def score(predicted: FloatArray, rounds: FloatArray) -> Scores:
    """Compare [k] predicted makespans [s] with the medians of [k, r] executed ones of each round [s]."""
    executed = np.median(rounds, axis=1)
    fast = np.argsort(executed, kind="stable")[: (len(executed) + 1) // 2]
    taus = kendall_tau(predicted, executed), kendall_tau(predicted[fast], executed[fast])
    return Scores.of(predicted / executed - 1, *taus, split_half_noise(rounds))


def split_half_noise(rounds: FloatArray) -> float:
    """Mean relative difference between the medians of even and odd rounds; 0 for a single round."""
    if rounds.shape[1] < 2:
        return 0.0
    even, odd = np.median(rounds[:, ::2], axis=1), np.median(rounds[:, 1::2], axis=1)
    return float((np.abs(even - odd) / np.median(rounds, axis=1)).mean())
