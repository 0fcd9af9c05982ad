"""Ranks: Friedman's test, the critical difference of Nemenyi, and Wilcoxon's signed-rank tests corrected by Holm.

The procedure is that of Demšar, *Statistical comparisons of classifiers over multiple data sets*, JMLR 7, 2006: rank
the schedulers on each problem, ask Friedman's test whether the mean ranks differ at all, and then which of them do.
Nemenyi's test does not distinguish mean ranks that are closer than the critical difference. Wilcoxon's tests compare
two schedulers at a time, so a result does not depend on the others in the run; Holm's step-down procedure corrects for
their number.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hetgym._sums import summed
from hetgym._types import FloatArray
from hetgym.bench.rows import Finding, Row
from hetgym.bench.summary import finished
from hetgym.errors import ConfigError, require, shown

ALPHA = 0.05  # Default probability of an error of the first kind, over all differences of a run together
EXTRA = "papers"  # The extra of hetgym that brings SciPy, matplotlib and pandas

_DIGITS = 9  # of log makespans: what is closer counts as equal


@dataclass(frozen=True)
class Pair:
    """Wilcoxon's signed-rank test of two schedulers."""

    # first, second: names; the first has the smaller mean rank
    first: str
    second: str
    ratio: float  # geometric mean of the makespans of the first over those of the second
    p_value: float  # two-sided; of the differences of the logarithms of makespans, zeros split between the signs
    adjusted: float  # p-value by Holm's procedure over all pairs of the ranking


@dataclass(frozen=True)
class Ranking(Finding):
    """Mean ranks of schedulers under one runtime, and which of their differences are significant."""

    runtime: str  # name of the runtime
    schedulers: tuple[str, ...]  # names by rising mean rank
    # mean rank of each over the problems; 1 is the shortest makespan, ties share their ranks
    mean_ranks: tuple[float, ...]
    problems: int  # number of problems
    statistic: float  # Friedman's chi-squared with its correction for ties
    p_value: float  # of Friedman's test
    critical_difference: float  # least difference of mean ranks that Nemenyi's test calls significant
    alpha: float  # level of the critical difference
    pairs: tuple[Pair, ...]  # Wilcoxon's tests of all pairs
    left_out: tuple[str, ...] = ()  # schedulers that failed on a problem and so have no rank there

    @property
    def groups(self) -> list[tuple[int, int]]:
        """First and last place of each largest set of schedulers that Nemenyi's test does not distinguish."""
        return alike(self.mean_ranks, self.critical_difference)


def rankings(rows: Iterable[Row], alpha: float = ALPHA) -> list[Ranking]:
    """Rank the schedulers of a run under each runtime; two or more must have solved at least two problems.

    Problems that were not finished, and those that take no time, are left out. ``alpha`` is the level of the tests.

    Raises:
        MissingExtra: SciPy is not installed.
    """
    tables: dict[str, dict[str, dict[str, float]]] = {}
    problems: dict[str, None] = {}
    instant: set[str] = set()
    for row in finished(rows):
        column = tables.setdefault(row.runtime, {}).setdefault(row.scheduler, {})
        if row.n:
            problems[row.problem] = None
        if row.makespan_s == 0:
            instant.add(row.problem)
        if row.makespan_s is not None and 0 < row.makespan_s < math.inf:
            column[row.problem] = row.makespan_s
    ranked = [problem for problem in problems if problem not in instant]
    found = [rank(table, ranked, runtime, alpha) for runtime, table in tables.items()]
    return [ranking for ranking in found if ranking is not None]


def rank(
    makespans: Mapping[str, Mapping[str, float]], problems: Sequence[str], runtime: str = "", alpha: float = ALPHA
) -> Ranking | None:
    """Rank schedulers by makespan (scheduler -> problem -> [s]); one without a makespan for a problem is left out.

    Returns:
        None if there are fewer than two schedulers or two problems.

    Raises:
        MissingExtra: SciPy is not installed.
    """
    whole = [name for name, column in makespans.items() if all(problem in column for problem in problems)]
    if len(whole) < 2 or len(problems) < 2:
        return None
    table = np.array([[makespans[name][problem] for problem in problems] for name in whole])
    logs = np.round(np.log(table / table.min(axis=0)), _DIGITS)
    require("scipy", EXTRA, "ranking schedulers")
    from scipy import stats

    ranks = stats.rankdata(logs, axis=0).mean(axis=1)
    order = np.lexsort((np.arange(len(whole)), ranks))
    names, logs, ranks = [whole[i] for i in order], logs[order], ranks[order]
    statistic, p_value = friedman(logs)
    raw = [
        (i, j, _wilcoxon(logs[i] - logs[j]), math.exp(float(np.mean(logs[i] - logs[j]))))
        for i in range(len(names))
        for j in range(i + 1, len(names))
    ]
    adjusted = holm([p for _, _, p, _ in raw])
    pairs = tuple(
        Pair(names[i], names[j], ratio, p, q) for (i, j, p, ratio), q in zip(raw, adjusted.tolist(), strict=True)
    )
    left_out = tuple(name for name in makespans if name not in whole)
    test = (statistic, p_value, critical_difference(len(names), len(problems), alpha), alpha)
    return Ranking(runtime, tuple(names), tuple(ranks.tolist()), len(problems), *test, pairs, left_out)


def friedman(values: npt.ArrayLike) -> tuple[float, float]:
    """Friedman's test of whether some methods tend to smaller values than others.

    Args:
        values: [m, k] one row for each method, one column for each problem.

    Returns:
        Chi-squared with m - 1 degrees of freedom, corrected for ties, and its p-value; 0 and 1 if all tie everywhere.

    Raises:
        MissingExtra: SciPy is not installed.
        ConfigError: the table has fewer than two rows or two columns, or a value that is not a number.
    """
    require("scipy", EXTRA, "Friedman's test")
    from scipy import stats

    table = np.asarray(values, np.float64)
    if table.ndim != 2 or min(table.shape) < 2:
        raise ConfigError(f"Friedman's test needs two methods and two problems at least, not {table.shape}")
    if np.isnan(table).any():
        raise ConfigError("Friedman's test ranks numbers, not NaN; leave out problems that a method fails on")
    m, k = table.shape
    ranks = stats.rankdata(table, axis=0)
    ties = summed(
        float((count**3 - count).sum()) for count in (np.unique(column, return_counts=True)[1] for column in ranks.T)
    )
    correction = 1.0 - ties / (k * m * (m * m - 1))
    if correction <= 0:
        return 0.0, 1.0
    spread = float(((ranks.mean(axis=1) - (m + 1) / 2) ** 2).sum())
    statistic = 12 * k / (m * (m + 1)) * spread / correction
    return statistic, float(stats.chi2.sf(statistic, m - 1))


def critical_difference(methods: int, problems: int, alpha: float = ALPHA) -> float:
    """Least difference of two mean ranks that Nemenyi's test calls significant (Demšar 2006, section 3.2.2).

    Args:
        methods: number of methods, at least two.
        problems: number of problems.
        alpha: level of the test over all pairs together.

    Raises:
        MissingExtra: SciPy is not installed.
        ValueError: fewer than two methods, no problem, or a level outside (0, 1).
    """
    require("scipy", EXTRA, "the critical difference of ranks")
    from scipy import stats

    if methods < 2 or problems < 1 or not 0 < alpha < 1:
        raise ValueError(f"no critical difference of {methods} methods on {problems} problems at the level {alpha}")
    quantile = float(stats.studentized_range.ppf(1 - alpha, methods, math.inf)) / math.sqrt(2)
    return quantile * math.sqrt(methods * (methods + 1) / (6 * problems))


def holm(p_values: npt.ArrayLike) -> FloatArray:
    """Adjusted p-values of Holm's step-down procedure (Scandinavian Journal of Statistics 6(2), 1979).

    Args:
        p_values: [m] of m tests.

    Returns:
        [m] in the same order; a hypothesis is rejected at the level alpha if its value is at most alpha.

    Raises:
        ConfigError: a value outside 0 to 1.

    >>> holm([0.01, 0.04, 0.03, 0.005])
    array([0.03, 0.06, 0.06, 0.02])
    """
    values = np.asarray(p_values, np.float64)
    if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
        raise ConfigError(f"p-values are a list of numbers from 0 to 1, not {shown(p_values)}")
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)), 1.0)
    return adjusted


def alike(mean_ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """Largest runs of rising mean ranks whose ends are closer than a difference, as first and last places.

    >>> alike([1.0, 1.5, 2.2, 4.0], 1.0)
    [(0, 1), (1, 2)]
    """
    found: list[tuple[int, int]] = []
    for first in range(len(mean_ranks)):
        last = max(
            k for k in range(first, len(mean_ranks)) if mean_ranks[k] - mean_ranks[first] < difference or k == first
        )
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


def _wilcoxon(differences: FloatArray) -> float:
    """Two-sided p-value of the signed-rank test; 1 if all differences are zero."""
    from scipy import stats

    if not differences.any():
        return 1.0
    return float(stats.wilcoxon(differences, zero_method="zsplit").pvalue)
