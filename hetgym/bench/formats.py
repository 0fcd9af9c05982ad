"""Formatting of numbers for people (percentages, times) and for JSON."""

import math
from collections.abc import Mapping
from typing import Any

from hetgym.sim.gantt import time_unit


def finite(value: Any) -> Any:
    """The value with infinities and NaN, which JSON does not have, as None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value


def percent(value: float | None) -> str:
    """A gap as a percentage.

    >>> percent(0.0314), percent(12.5), percent(None)
    ('3.14 %', '1250 %', '–')
    """
    if value is None:
        return "–"
    value *= 100
    return f"{value:.2f} %" if abs(value) < 99.995 else f"{value:.0f} %"


def number(value: float | None, form: str) -> str:
    """A number in a format, or a dash."""
    return "–" if value is None else form.format(value)


def duration(seconds: float | None) -> str:
    """A time in the unit that suits it.

    >>> duration(0.00042), duration(0.0), duration(None)
    ('420 µs', '0 s', '–')
    """
    if seconds is None:
        return "–"
    scale, unit = time_unit(seconds)
    return f"{seconds / scale:.3g} {unit}"


def minutes(seconds: float) -> str:
    """A longer time, as people say it.

    >>> minutes(801.0), minutes(7390.0), minutes(12.3)
    ('13 min 21 s', '2 h 3 min', '12.3 s')
    """
    if seconds < 60:
        return duration(seconds)
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    whole = round(seconds / 60)
    return f"{whole // 60} h" + (f" {whole % 60} min" if whole % 60 else "")
