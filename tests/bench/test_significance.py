"""Bootstrap intervals that can be worked out by hand."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest

from hetgym.bench.significance import (
    Interval,
    compare,
    compare_all,
    mean_intervals,
    probability_below_zero,
    resampled_means,
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_two_problems_have_three_resampled_means() -> None:
    means = resampled_means([[0.0, 1.0]], rng())[0]
    values, counts = np.unique(means, return_counts=True)
    assert values.tolist() == [0.0, 0.5, 1.0]
    assert counts / len(means) == pytest.approx([0.25, 0.5, 0.25], abs=0.02)


@pytest.mark.parametrize(("level", "ends"), [(0.95, (0.0, 1.0)), (0.4, (0.5, 0.5))])
def test_intervals_are_percentiles_of_the_resampled_means(level: float, ends: tuple[float, float]) -> None:
    (found,) = mean_intervals([[0.0, 1.0]], rng(), level)
    assert found == Interval(0.5, *ends)


def test_the_interval_equals_that_of_all_resamples() -> None:
    values = np.array([0.0, 1.0, 3.0, 7.0])
    everything = np.array([values[list(chosen)].mean() for chosen in itertools.product(range(4), repeat=4)])
    low, high = np.quantile(everything, [0.1, 0.9])
    (found,) = mean_intervals([values], rng(), level=0.8)
    assert (found.mean, found.low, found.high) == pytest.approx((2.75, low, high), abs=0.26)  # a step of the means
    assert resampled_means([values], rng()).std() == pytest.approx(values.std() / 2, rel=0.02)


def test_a_single_problem_says_nothing_about_others() -> None:
    assert mean_intervals([[2.0]], rng()) == [Interval(2.0, None, None)]
    found = compare([1.0], [2.0], rng())
    assert (found.ratio, found.low, found.high, found.probability) == (0.5, None, None, None)
    assert not found.significant


def test_rows_share_their_draws() -> None:
    means = resampled_means([[1.0, 2.0, 5.0], [2.0, 3.0, 6.0]], rng())
    assert means[1] - means[0] == pytest.approx(np.ones(means.shape[1]))


def test_a_constant_ratio_is_certain() -> None:
    found = compare([2.0, 4.0, 6.0], [4.0, 8.0, 12.0], rng())
    assert (found.ratio, found.low, found.high, found.probability) == pytest.approx((0.5, 0.5, 0.5, 1.0))
    assert (found.better, found.equal, found.worse, found.significant) == (3, 0, 0, True)


def test_the_same_makespans_are_ties() -> None:
    found = compare([3.0, 5.0 * (1 + 1e-12)], [3.0, 5.0], rng())
    assert (found.ratio, found.equal, found.probability, found.significant) == (1.0, 2, 0.5, False)


def test_two_of_three_by_the_same_factor() -> None:
    """The mean of the logarithms is below zero where at least two of three draws are, 20 times in 27."""
    found = compare([1.0, 1.0, 4.0], [2.0, 2.0, 2.0], rng())
    assert found.ratio == pytest.approx(2 ** (-1 / 3))
    assert found.probability == pytest.approx(20 / 27, abs=0.015)
    assert (found.low, found.high) == pytest.approx((0.5, 2.0))


def test_probabilities_count_ties_half() -> None:
    assert probability_below_zero([0.0, 0.0], rng()) == 0.5
    assert probability_below_zero([-1.0, 1.0], rng()) == pytest.approx(0.5, abs=0.02)
    assert probability_below_zero([0.1, 0.2], rng()) == 0.0


def test_ratios_are_the_same_whichever_side_is_the_reference() -> None:
    a, b = rng(1).uniform(1, 2, 20), rng(2).uniform(1, 2, 20)
    one, other = compare(a, b, rng()), compare(b, a, rng())
    assert one.low is not None and one.high is not None and one.probability is not None
    assert (other.ratio, other.low, other.high) == pytest.approx((1 / one.ratio, 1 / one.high, 1 / one.low))
    assert (other.better, other.worse) == (one.worse, one.better)
    assert other.probability == pytest.approx(1 - one.probability)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    draw = rng(3)
    samples = draw.normal(0.0, 1.0, (300, 40))
    found = [mean_intervals([row], draw, draws=500)[0] for row in samples]
    covered = np.mean([(f.low or 0.0) <= 0.0 <= (f.high or 0.0) for f in found])
    assert 0.90 <= covered <= 0.97  # percentile intervals are a little short


def test_the_same_seed_gives_the_same_interval() -> None:
    values = rng(5).uniform(size=(3, 12))
    assert mean_intervals(values, rng()) == mean_intervals(values, rng()) != mean_intervals(values, rng(1))


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ([[1.0, 2.0]], [1.0], "belong to different problems"),
        ([1.0, 2.0], [1.0, 2.0], "belong to different problems"),
        ([[1.0, 0.0]], [1.0, 2.0], "positive, finite"),
        ([[1.0, 2.0]], [1.0, np.inf], "positive, finite"),
        (np.zeros((1, 0)), [], "at least one"),
    ],
)
def test_what_cannot_be_compared(ours: npt.ArrayLike, theirs: npt.ArrayLike, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        compare_all(ours, theirs, rng())


def test_bad_values_and_levels_are_refused() -> None:
    with pytest.raises(ValueError, match="finite values"):
        mean_intervals([[1.0, np.nan]], rng())
    with pytest.raises(ValueError, match="between 0 and 1, not at 95"):
        mean_intervals([[1.0, 2.0]], rng(), level=95)


def test_longer_makespans_are_significant_too() -> None:
    rng, theirs = np.random.default_rng(0), [4.0] * 6
    longer, shorter, both = compare_all([[8.0] * 6, [2.0] * 6, [2.0, 8.0] * 3], theirs, rng)
    assert (longer.significant, shorter.significant, both.significant) == (True, True, False)
    assert (longer.probability, shorter.probability) == (0.0, 1.0)
    assert not compare([8.0], [4.0], rng).significant
