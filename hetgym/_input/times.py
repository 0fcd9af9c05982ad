"""Parsing of times with units, such as ``1.5ms``."""

import re
from numbers import Real

from hetgym.errors import ConfigError

_UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zµ]+)")


def parse_time(text: str) -> float:
    """Convert a number with a unit to seconds.

    Raises:
        ConfigError: the text is not a number with a unit of time, or the time is 0 or more than 1e6 s.

    >>> parse_time("1.5ms"), parse_time("2 h")
    (0.0015, 7200.0)
    """
    found = _TIME.fullmatch(text.strip())
    if not found or found[2] not in _UNITS or not 0 < (seconds := float(found[1]) * _UNITS[found[2]]) <= 1e6:
        units = ", ".join(_UNITS)
        raise ConfigError(f"invalid duration {text!r}: expected a positive number with a unit ({units}), such as 10ms")
    return round(seconds, 12)


def as_seconds(budget: str | float | None) -> float | None:
    """A budget of time in seconds.

    Args:
        budget: seconds, or a number with its unit.

    Raises:
        ConfigError: an invalid budget.

    >>> as_seconds("50ms"), as_seconds(2), as_seconds(None)
    (0.05, 2.0, None)
    """
    if budget is None or isinstance(budget, str):
        return None if budget is None else parse_time(budget)
    if isinstance(budget, bool) or not isinstance(budget, Real):
        raise ConfigError(f"budget is {budget!r}; it must be seconds, or a time such as '50ms'")
    return float(budget)
