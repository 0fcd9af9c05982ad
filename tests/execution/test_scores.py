"""Scores against values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hetgym.execution.scores import kendall_tau, score, split_half_noise


def test_tau_of_known_rankings() -> None:
    assert kendall_tau([1, 2, 3], [10, 20, 30]) == 1
    assert kendall_tau([1, 2, 3], [3, 2, 1]) == -1
    assert kendall_tau([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(4 / 6)
    # pairs: 2 concordant, 0 discordant, one tied in x: 2 / sqrt(2 * 3)
    assert kendall_tau([1, 1, 2], [1, 2, 3]) == pytest.approx(2 / math.sqrt(6))
    assert math.isnan(kendall_tau([1, 1], [1, 2]))


def test_scores_by_hand() -> None:
    rounds = np.array([[1.0, 1.0, 1.0], [2.0, 2.0, 8.0], [4.0, 4.0, 4.0], [8.0, 8.0, 8.0]])
    found = score(np.array([1.1, 2.0, 3.0, 8.0]), rounds)
    assert found.n == 4
    assert found.mean == pytest.approx((0.1 + 0 + 0.25 + 0) / 4)
    assert found.worst == pytest.approx(0.25)
    assert found.bias == pytest.approx((0.1 - 0.25) / 4)
    assert found.tau == found.tau_fast == 1
    assert found.noise == pytest.approx(0.375)  # of the second: halves (2, 8) and (2), medians 5 and 2; 1.5 of four
    assert score(np.array([1.0, 2.0]), np.array([[1.0], [1.0]])).to_dict()["tau"] is None


def test_noise_of_one_round_is_unknown_hence_nothing() -> None:
    assert split_half_noise(np.ones((3, 1))) == 0


def test_quantiles_and_the_faster_half_by_hand() -> None:
    """Of five placements the three that ran fastest are the faster half; two pairs of ten are in the wrong order."""
    executed = np.array([[5.0], [1.0], [2.0], [3.0], [4.0]])
    found = score(np.array([3.5, 1.1, 2.4, 3.9, 4.0]), executed)
    assert found.median == pytest.approx(0.2) and found.p90 == pytest.approx(0.3)
    assert found.tau_fast == 1.0 and found.tau == pytest.approx((8 - 2) / 10)
