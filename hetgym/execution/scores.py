"""Scores of predicted against executed makespans."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._types import FloatArray


def kendall_tau(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Rank correlation, ties taken into account (tau-b; Kendall, Biometrika 33, 1945).

    Args:
        x: [k] values.
        y: [k] values.

    Returns:
        In [-1, 1]; NaN where one of them is constant.

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
    """How near predictions came; errors are shares of the executed makespan.

    Attributes:
        n: placements.
        mean, median, p90, worst: of the absolute errors.
        bias: mean of the errors with their sign; positive = predicted too long.
        tau: Kendall's, of predicted against executed.
        tau_fast: the same on the faster half, where schedulers choose.
        noise: mean absolute difference between the medians of every other round, as a share: no
            prediction of one half by the other would do better.
    """

    n: int
    mean: float
    median: float
    p90: float
    worst: float
    bias: float
    tau: float
    tau_fast: float
    noise: float

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready mapping; NaN becomes None."""
        return {key: None if value != value else value for key, value in asdict(self).items()}


def score(predicted: FloatArray, rounds: FloatArray) -> Scores:
    """Compare predictions with repeated runs.

    Args:
        predicted: [k] makespans [s].
        rounds: [k, r] executed makespans of each round [s]; the median counts.
    """
    executed = np.median(rounds, axis=1)
    error = predicted / executed - 1
    size = np.abs(error)
    fast = np.argsort(executed, kind="stable")[: (len(executed) + 1) // 2]
    return Scores(
        len(size),
        float(size.mean()),
        float(np.median(size)),
        float(np.quantile(size, 0.9)),
        float(size.max()),
        float(error.mean()),
        kendall_tau(predicted, executed),
        kendall_tau(predicted[fast], executed[fast]),
        split_half_noise(rounds),
    )


def split_half_noise(rounds: FloatArray) -> float:
    """Mean absolute difference of the medians of even and odd rounds, as a share; 0 for a single round."""
    if rounds.shape[1] < 2:
        return 0.0
    even, odd = np.median(rounds[:, ::2], axis=1), np.median(rounds[:, 1::2], axis=1)
    return float((np.abs(even - odd) / np.median(rounds, axis=1)).mean())
