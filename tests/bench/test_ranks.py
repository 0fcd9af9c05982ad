from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetgym import ConfigError, Problem
from hetgym.bench import run
from hetgym.bench.ranks import alike, critical_difference, friedman, holm, rank, rankings
from hetgym.bench.rows import Row
from hetgym.workloads import textbook

scipy = pytest.importorskip("scipy")

C45 = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.97501, 0.975],  # printed alike, ranked 2 and 3
        [0.957, 0.978, 0.946, 0.970],
    ]
)
"""Demšar 2006, table 6: areas under the curve of C4.5 and three variants on 14 data sets; larger is better."""

NAMES = ("C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf")


def demsar() -> dict[str, dict[str, float]]:
    """The table as makespans: the larger the area, the shorter."""
    return {
        name: {str(k): float(np.exp(-area)) for k, area in enumerate(column)}
        for name, column in zip(NAMES, C45.T, strict=True)
    }


def test_mean_ranks_are_demsars() -> None:
    found = rank(demsar(), [str(k) for k in range(14)])
    assert found is not None
    ranks = dict(zip(found.schedulers, found.mean_ranks, strict=True))
    assert [round(ranks[name], 3) for name in NAMES] == [3.143, 2.000, 2.893, 1.964]
    k, n = 4, 14  # the paper's statistic has no correction for ties: 9.28
    plain = 12 * n / (k * (k + 1)) * (sum(value**2 for value in found.mean_ranks) - k * (k + 1) ** 2 / 4)
    assert plain == pytest.approx(9.28, abs=0.01) and found.statistic > plain
    assert found.statistic == pytest.approx(scipy.stats.friedmanchisquare(*C45.T).statistic)
    assert found.schedulers == ("C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5") and found.groups == [(0, 3)]
    pair = next(p for p in found.pairs if {p.first, p.second} == {"C4.5", "C4.5+m"})
    differences = C45[:, 1] - C45[:, 0]
    size, sign = scipy.stats.rankdata(np.abs(differences)), np.sign(differences)
    lost = size[sign < 0].sum() + size[sign == 0].sum() / 2
    assert lost == 12.0  # R- of section 3.1.3, below the critical 21 at the level 0.05
    assert pair.p_value < 0.05 and pair.adjusted >= pair.p_value and pair.ratio < 1


@pytest.mark.parametrize(
    "methods,nemenyi",
    [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (6, 2.850), (7, 2.949), (8, 3.031), (9, 3.102), (10, 3.164)],
)
def test_critical_differences_are_demsars(methods: int, nemenyi: float) -> None:
    """Table 5(a): the quantiles of Nemenyi's test at the level 0.05."""
    assert critical_difference(methods, 1) / np.sqrt(methods * (methods + 1) / 6) == pytest.approx(nemenyi, abs=1e-3)


def test_critical_difference_of_the_papers_example() -> None:
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)
    assert critical_difference(4, 14, 0.1) == pytest.approx(1.12, abs=0.005)
    for wrong in ((1, 5, 0.05), (3, 0, 0.05), (3, 5, 1.0)):
        with pytest.raises(ValueError, match="no critical difference"):
            critical_difference(*wrong)


def test_friedman_of_rounding_first_base() -> None:
    """Hollander and Wolfe 1973, page 140: 22 players, three methods; chi-squared 11.143, p 0.003805."""
    times = """5.40 5.50 5.55 5.85 5.70 5.75 5.20 5.60 5.50 5.55 5.50 5.40 5.90 5.85 5.70 5.45 5.55 5.60 5.40 5.40 5.35
        5.45 5.50 5.35 5.25 5.15 5.00 5.85 5.80 5.70 5.25 5.20 5.10 5.65 5.55 5.45 5.60 5.35 5.45 5.05 5.00 4.95
        5.50 5.50 5.40 5.45 5.55 5.50 5.55 5.55 5.35 5.45 5.50 5.55 5.50 5.45 5.25 5.65 5.60 5.40 5.70 5.65 5.55
        6.30 6.30 6.25"""
    statistic, p_value = friedman(np.array(times.split(), float).reshape(22, 3).T)
    assert (round(statistic, 3), round(p_value, 6)) == (11.143, 0.003805)
    assert friedman(np.ones((3, 4))) == (0.0, 1.0)
    with pytest.raises(ValueError, match="two methods"):
        friedman([[1.0, 2.0]])
    with pytest.raises(ConfigError, match="not NaN"):
        friedman([[1.0, 2.0], [2.0, float("nan")]])


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0]
    assert holm([]).tolist() == []
    for values in ([-1, 2], [0.5, 1.1], [float("nan")], [[0.5]], 0.5):
        with pytest.raises(ConfigError, match="numbers from 0 to 1"):
            holm(values)


def test_groups_are_the_largest_sets_that_are_not_told_apart() -> None:
    assert alike([1.0, 1.4, 1.9, 3.0, 3.1], 1.0) == [(0, 2), (3, 4)]
    assert alike([1.0, 2.0, 3.0], 1.0) == []


def row(problem: str, scheduler: str, makespan: float | None, gap: float | None = 0.0) -> Row:
    status = "ok" if makespan else "failed"
    return Row(problem, "g", "p", 3, 2, 2, scheduler, "list", "classic", makespan, gap_to_best=gap, status=status)


def test_rankings_of_rows_leave_out_who_failed() -> None:
    rows = [row(f"p{k}", name, 1.0 + shift) for k in range(4) for name, shift in (("a", 0.1), ("b", 0.0), ("c", 0.2))]
    rows += [row(f"p{k}", "d", None if k == 2 else 0.5) for k in range(4)]
    (found,) = rankings(rows)
    assert (found.schedulers, found.mean_ranks, found.left_out) == (("b", "a", "c"), (1.0, 2.0, 3.0), ("d",))
    assert found.statistic == pytest.approx(8.0) and found.problems == 4
    assert not rankings(rows[:3]) and not rankings([r for r in rows if r.scheduler == "a"])


def test_rounding_makes_no_rank() -> None:
    rows = [row(f"p{k}", name, 1.0 + noise) for k in range(3) for name, noise in (("a", 0.0), ("b", 1e-15))]
    (found,) = rankings([*rows, *(replace(r, scheduler="c", makespan_s=2.0) for r in rows[::2])])
    assert found.mean_ranks == (1.5, 1.5, 3.0)
    assert next(pair for pair in found.pairs if (pair.first, pair.second) == ("a", "b")).p_value == 1.0


def test_a_problem_that_takes_no_time_is_left_out() -> None:
    instant = Problem.from_arrays(np.zeros((4, 2)), [(0, 1, 0)], name="instant")
    problems = [textbook("topcuoglu"), textbook("arabnejad-barbosa")]
    several = rankings(run([*problems, instant], ["heft", "peft"], ["classic"]).rows)
    assert several == rankings(run(problems, ["heft", "peft"], ["classic"]).rows) and len(several) == 1


def test_differences_of_nothing_are_split_between_the_signs() -> None:
    """Ten ties have ranks of 5.5 each: W = 27.5 against 105 on average, with a variance of 696.9; p = 0.0033.

    Without the ties, W = 0 of ten differences would make 0.0020.
    """
    problems = [f"p{k}" for k in range(20)]
    second = {name: 1.0 + max(0, k - 9) / 10 for k, name in enumerate(problems)}
    found = rank({"x": dict.fromkeys(problems, 1.0), "y": second}, problems)
    assert found is not None and found.pairs[0].p_value == pytest.approx(0.00333, abs=2e-4)
