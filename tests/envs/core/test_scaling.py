"""Shares of a reference, in kernels and in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from steps import callable_step

from hetgym.envs.core import scaling

CASES = [
    (3.0, 0.5, 1.5),
    (-1.0, 2.0, 0.0),
    (30.0, 0.5, 10.0),
    (20.0, 0.5, 10.0),
    (np.inf, 0.5, 10.0),
    (np.inf, 0.0, 10.0),
]


def test_shares_lie_between_nothing_and_the_clip() -> None:
    assert scaling.CLIP == 10.0
    share = callable_step(scaling.share)
    for value, scale, expected in CASES:
        assert share(value, scale) == expected == scaling.shares(value, scale)
    found = scaling.shares(np.array([[1.0, np.inf], [-2.0, 4.0]]), 0.25)
    assert found.dtype == np.float32 and found.tolist() == [[0.25, 10.0], [0.0, 1.0]]


@pytest.mark.parametrize(("reference", "scale"), [(4.0, 0.25), (0.0, 0.0), (-1.0, 0.0)])
def test_nothing_is_a_share_of_a_reference_of_nothing(reference: float, scale: float) -> None:
    assert scaling.scale_of(reference) == scale
