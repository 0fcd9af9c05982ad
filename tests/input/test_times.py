"""Times with units, and their limits."""

from __future__ import annotations

import pytest

from hetgym import ConfigError
from hetgym._input.times import as_seconds, parse_time


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3us", 3e-6),
        ("3µs", 3e-6),
        (" 1.5 ms ", 1.5e-3),
        ("2s", 2.0),
        ("2min", 120.0),
        ("2 h", 7200.0),
        ("1000000s", 1e6),
    ],
)
def test_units(text: str, seconds: float) -> None:
    assert parse_time(text) == as_seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "5", "s", "-1s", "0s", "1000000.1s", "278h", "1e3s", ".5s", "1 S", "1 day", "nan s"]
)
def test_what_is_not_a_time(text: str) -> None:
    with pytest.raises(ConfigError, match="invalid duration"):
        parse_time(text)


def test_budgets_of_seconds() -> None:
    assert (as_seconds(None), as_seconds(0.25), as_seconds(3)) == (None, 0.25, 3.0)
    for budget in (True, [1.0], 1j):
        with pytest.raises(ConfigError, match="must be seconds, or a time"):
            as_seconds(budget)  # type: ignore[arg-type]
