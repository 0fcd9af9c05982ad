"""Human-readable formats of numbers."""

from __future__ import annotations

import math

import pytest

from hetgym.bench.formats import duration, finite, minutes, percent
from hetgym.errors import size


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (percent(0.0), "0.00 %"),
        (percent(0.99994), "99.99 %"),
        (percent(1.0), "100 %"),
        (percent(0.99995), "100 %"),
        (percent(-0.5), "-50.00 %"),
        (percent(None), "–"),
        (duration(1.5e-3), "1.5 ms"),
        (duration(1.0), "1 s"),
        (duration(1e-3), "1 ms"),
        (duration(1e-6), "1 µs"),
        (duration(9.99e-7), "999 ns"),
        (minutes(59.9), "59.9 s"),
        (minutes(60.0), "1 min"),
        (minutes(3599.4), "59 min 59 s"),
        (minutes(3600.0), "1 h"),
        (minutes(3661.0), "1 h 1 min"),
        (duration(90.0), "90 s"),
        (size(1_500), "1.5 kB"),
        (size(2.5e9), "2.5 GB"),
    ],
)
def test_units(shown: str, expected: str) -> None:
    assert shown == expected


def test_what_json_does_not_have_becomes_none() -> None:
    assert finite({"a": [1.0, math.inf, (math.nan, "x")]}) == {"a": [1.0, None, [None, "x"]]}
