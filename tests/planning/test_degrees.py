"""Weighted out-degrees, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from hetgym import ConfigError, Problem
from hetgym.planning.degrees import nested_out_degree, two_level_out_degree, weighted_out_degree

DIAMOND = Problem.from_arrays(
    [[1.0]] * 5, [(0, 1, 1.0), (0, 2, 1.0), (0, 3, 1.0), (1, 3, 1.0), (2, 3, 1.0), (3, 4, 1.0)]
)
"""Operators 1 and 2 have one input, 3 has three, and 4 one."""


def test_each_successor_counts_one_over_its_inputs() -> None:
    third = 1 / 3
    assert weighted_out_degree(DIAMOND) == pytest.approx([2 + third, third, third, 1, 0])
    two = [2 + third + 0.5 * (third + third + 1), third + 0.5, third + 0.5, 1, 0]
    assert two_level_out_degree(DIAMOND) == pytest.approx(two)
    assert two_level_out_degree(DIAMOND, 0.0) == pytest.approx(weighted_out_degree(DIAMOND))


def test_nested_degrees_are_places() -> None:
    """0 + 0; 1; 1/3 + 1/2 = 5/6 twice; and 7/3 + (5/6 + 5/6 + 1) / 2."""
    assert nested_out_degree(DIAMOND).tolist() == [3, 1, 1, 2, 0]
    assert nested_out_degree(DIAMOND, 1.0).tolist() == [3, 2, 2, 1, 0]  # 1/3 + 1 are more than 1
    chain = Problem.from_arrays([[1.0]] * 2000, [(i, j, 1.0) for i in range(1999) for j in (i + 1, i + 2) if j < 2000])
    assert (np.diff(nested_out_degree(chain, 9.0)) < 0).all()  # beyond the range of float64


@pytest.mark.parametrize("alpha", [-0.1, np.nan, np.inf])
def test_weights_that_make_no_sense(alpha: float) -> None:
    for degree in (two_level_out_degree, nested_out_degree):
        with pytest.raises(ConfigError, match="alpha is"):
            degree(DIAMOND, alpha)
