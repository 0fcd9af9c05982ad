"""Significance: differences of two methods, and how much of them may be due to the random choice of problems.

All methods of a benchmark see the same problems, so differences are taken problem by problem, and problems are
resampled with replacement: the paired bootstrap of Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993,
chapters 8 and 13 (percentile intervals). It estimates the effect of another sample of similar problems, but says
nothing about problems of another kind.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hetgym._types import FloatArray

LEVEL = 0.95  # Share of bootstrap samples within an interval
DRAWS = 10_000  # Default number of bootstrap samples
TIE = 1e-9  # Relative difference below which two makespans count as equal


_ROUNDING = 1e-12


@dataclass(frozen=True)
class Interval:
    """A mean over problems, and an interval that contains :data:`LEVEL` of its bootstrap samples."""

    mean: float  # mean over the problems
    # low, high: ends of the interval; None for a single problem
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Comparison:
    """One method against another on the same problems."""

    problems: int  # number of problems
    ratio: float  # geometric mean of our makespans over theirs; below 1 means that ours are shorter
    # low, high: interval of the ratio; None for a single problem
    low: float | None
    high: float | None
    # better, equal, worse: numbers of problems on which our makespan is shorter, equal, longer (as in Topcuoglu,
    # Hariri, Wu, IEEE TPDS 13(3), 2002, table 2)
    better: int
    equal: int
    worse: int
    # share of bootstrap samples in which the mean ratio is below 1, ties half; None for a single problem
    probability: float | None

    @property
    def significant(self) -> bool:
        """True if the interval does not contain 1."""
        return self.low is not None and self.high is not None and (self.high < 1.0 or self.low > 1.0)


def resampled_means(values: npt.ArrayLike, rng: np.random.Generator, draws: int = DRAWS) -> FloatArray:
    """[m, draws] means over problems that are resampled with replacement; all rows share the same samples.

    ``values`` are [m, k], one row for each method, one column for each problem.

    Raises:
        ValueError: no problems, or a value that is not finite.
    """
    table = np.asarray(values, np.float64)
    if table.ndim != 2 or table.shape[1] == 0 or not np.isfinite(table).all():
        raise ValueError("a bootstrap needs a table of finite values with at least one column, one for each problem")
    k = table.shape[1]
    times: FloatArray = rng.multinomial(k, np.full(k, 1.0 / k), draws).astype(np.float64)
    means: FloatArray = table @ times.T / k
    return means


def mean_intervals(
    values: npt.ArrayLike, rng: np.random.Generator, level: float = LEVEL, draws: int = DRAWS
) -> list[Interval]:
    """Means over problems with percentile bootstrap intervals.

    Args:
        values: [m, k] one row for each method, one column for each problem.
        rng: source of randomness for the samples.
        level: share of the samples that an interval holds.
        draws: number of bootstrap samples.

    Raises:
        ValueError: no problems, a value that is not finite, or a level outside (0, 1).

    >>> rng = np.random.default_rng(0)
    >>> mean_intervals([[3.0, 3.0, 3.0], [0.0, 1.0, 2.0]], rng)
    [Interval(mean=3.0, low=3.0, high=3.0), Interval(mean=1.0, low=0.0, high=2.0)]
    """
    table = np.asarray(values, np.float64)
    return _intervals(table, resampled_means(table, rng, draws), level)


def probability_below_zero(differences: npt.ArrayLike, rng: np.random.Generator, draws: int = DRAWS) -> float:
    """Share of bootstrap samples in which the mean difference is below zero, ties half.

    Args:
        differences: [k] of two methods, one for each problem.
        rng: source of randomness for the samples.
        draws: number of bootstrap samples.

    Raises:
        ValueError: no problems, or a value that is not finite.

    >>> probability_below_zero([-1.0, -2.0, -0.5], np.random.default_rng(0))
    1.0
    """
    return _shares_below_zero(resampled_means(np.asarray(differences, np.float64)[None], rng, draws))[0]


def compare(
    ours: npt.ArrayLike, theirs: npt.ArrayLike, rng: np.random.Generator, level: float = LEVEL, draws: int = DRAWS
) -> Comparison:
    """Compare the makespans of two methods on the same problems.

    Args:
        ours: [k] makespans, one for each problem [s].
        theirs: [k] of the other method on the same problems [s].
        rng: source of randomness for the samples.
        level: share of the samples that the interval holds.
        draws: number of bootstrap samples.

    Raises:
        ValueError: no problems, different numbers of makespans, or a makespan that is not positive.

    >>> found = compare([8.0, 2.0], [4.0, 4.0], np.random.default_rng(0))
    >>> found.ratio, found.low, found.high, found.better, found.worse
    (1.0, 0.5, 2.0, 1, 1)
    """
    return compare_all(np.asarray(ours, np.float64)[None], theirs, rng, level, draws)[0]


def compare_all(
    ours: npt.ArrayLike, theirs: npt.ArrayLike, rng: np.random.Generator, level: float = LEVEL, draws: int = DRAWS
) -> list[Comparison]:
    """Compare several methods ([m, k] makespans [s]) with one ([k]); see :func:`compare`. Rows share their samples."""
    table, reference = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if table.ndim != 2 or reference.shape != table.shape[1:]:
        raise ValueError(f"makespans of shapes {table.shape} and {reference.shape} belong to different problems")
    if not (np.isfinite(table).all() and np.isfinite(reference).all() and (table > 0).all() and (reference > 0).all()):
        raise ValueError("a ratio of makespans needs positive, finite ones")
    ratio = table / reference
    ratio[np.abs(ratio - 1.0) <= TIE] = 1.0
    logs: FloatArray = np.log(ratio)
    samples = resampled_means(logs, rng, draws)
    k = table.shape[1]
    return [
        Comparison(
            k,
            float(np.exp(found.mean)),
            None if found.low is None else float(np.exp(found.low)),
            None if found.high is None else float(np.exp(found.high)),
            int((row < 0).sum()),
            int((row == 0).sum()),
            int((row > 0).sum()),
            share if k > 1 else None,
        )
        for found, row, share in zip(_intervals(logs, samples, level), logs, _shares_below_zero(samples), strict=True)
    ]


def _intervals(table: FloatArray, samples: FloatArray, level: float) -> list[Interval]:
    """Means of the rows of a table, and percentiles of those of its bootstrap samples."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"the level of an interval lies between 0 and 1, not at {level}")
    means = table.mean(axis=1)
    if table.shape[1] == 1:
        return [Interval(float(mean), None, None) for mean in means]
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2], axis=1)
    return [Interval(float(m), float(a), float(b)) for m, a, b in zip(means, low, high, strict=True)]


def _shares_below_zero(samples: FloatArray) -> list[float]:
    """For each row of samples the share below zero; values that are zero up to rounding count half."""
    below, above = (samples < -_ROUNDING).sum(axis=1), (samples > _ROUNDING).sum(axis=1)
    draws = samples.shape[1]
    return [float(share) for share in (draws + below - above) / (2 * draws)]
