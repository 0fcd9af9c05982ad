"""Human-readable formats of numbers."""

from __future__ import annotations

import math

import pytest

from hetgym.bench.formats import duration, finite, percent
from hetgym.errors import size


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (percent(0.0), "0.00 %"),
        (percent(0.99994), "99.99 %"),
        (percent(1.0), "100 %"),
        (duration(1.5e-3), "1.5 ms"),
        (duration(90.0), "90 s"),
        (size(1_500), "1.5 kB"),
        (size(2.5e9), "2.5 GB"),
    ],
)
def test_units(shown: str, expected: str) -> None:
    assert shown == expected


def test_what_json_does_not_have_becomes_none() -> None:
    assert finite({"a": [1.0, math.inf, (math.nan, "x")]}) == {"a": [1.0, None, [None, "x"]]}
