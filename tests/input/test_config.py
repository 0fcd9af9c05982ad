from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetgym._input.config import check_number, read
from hetgym.errors import ConfigError, HetgymError, PlatformError


@dataclasses.dataclass(frozen=True)
class Part:
    size: float
    count: int = 1


@dataclasses.dataclass(frozen=True)
class Whole:
    name: str
    parts: tuple[Part, ...] = ()
    ends: tuple[str, int] | None = None
    rates: Mapping[str, float] = dataclasses.field(default_factory=dict)
    mode: Literal["fast", "slow"] = "fast"
    on: bool = False
    free: Any = None

    def __post_init__(self) -> None:
        if self.name == "bad":
            raise PlatformError("the name is bad")


def test_every_kind_of_field_is_read():
    data = {
        "name": "w",
        "parts": [{"size": "8e9"}, {"size": 2, "count": "3"}],
        "ends": ["a", 4],
        "rates": {"x": 1, "y": "1e-6"},
        "mode": "slow",
        "on": True,
        "free": [1],
    }
    assert read(Whole, data, "f.yaml") == Whole(
        "w", (Part(8e9), Part(2.0, 3)), ("a", 4), {"x": 1.0, "y": 1e-6}, "slow", True, [1]
    )
    assert read(Whole, {"name": "w", "ends": None}, "f.yaml") == Whole("w")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], r"^f\.yaml: expected keys and values, found \[\]$"),
        ({"nam": "w"}, r"^f\.yaml: unknown key 'nam'; did you mean 'name'\?$"),
        ({}, r"^f\.yaml: key 'name' is missing$"),
        ({1: "w"}, r"^f\.yaml: key 1 is not text"),
        ({"name": 3}, r"^f\.yaml: name is 3, expected text$"),
        ({"name": "w", "on": "yes"}, r"^f\.yaml: on is 'yes', expected true or false$"),
        ({"name": "w", "parts": {"size": 1}}, r"^f\.yaml: parts is .*expected a list$"),
        ({"name": "w", "parts": [{"size": 1}, {"sise": 1}]}, r"^f\.yaml: parts\[1\]: unknown key 'sise'"),
        ({"name": "w", "parts": [{"size": "large"}]}, r"^f\.yaml: parts\[0\]\.size is 'large', expected a number$"),
        ({"name": "w", "parts": [{"size": True}]}, r"parts\[0\]\.size is True, expected a number"),
        ({"name": "w", "parts": [{"size": 1, "count": 1.5}]}, r"parts\[0\]\.count is 1\.5, expected a whole number"),
        ({"name": "w", "rates": {"x": None}}, r"^f\.yaml: rates\.x is None, expected a number$"),
        ({"name": "w", "rates": [1]}, r"^f\.yaml: rates: expected keys and values"),
        ({"name": "w", "ends": ["a"]}, r"^f\.yaml: ends has 1 entries, expected 2$"),
        ({"name": "w", "mode": "fsat"}, r"^f\.yaml: mode is 'fsat'; did you mean 'fast'\?$"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(data, message):
    with pytest.raises(ConfigError, match=message):
        read(Whole, data, "f.yaml")


def test_what_the_dataclass_refuses_keeps_its_type_and_gets_the_place():
    with pytest.raises(PlatformError, match=r"^f\.yaml: the name is bad$"):
        read(Whole, {"name": "bad"}, "f.yaml")


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_any_document_is_read_or_refused_with_a_hetgym_error(data):
    fits = {
        "parts": lambda value: all(isinstance(part.size, float) and isinstance(part.count, int) for part in value),
        "rates": lambda value: all(isinstance(rate, float) for rate in value.values()),
        "mode": lambda value: value in ("fast", "slow"),
        "ends": lambda value: value is None or (isinstance(value[0], str) and isinstance(value[1], int)),
    }
    for key, check in fits.items():
        try:
            whole = read(Whole, {"name": "w", key: data}, "f.yaml")
        except HetgymError as error:
            assert str(error).startswith(f"f.yaml: {key}")
        else:
            assert check(getattr(whole, key))


@pytest.mark.parametrize("value", [math.nan, -1.0, math.inf, 0.0])
def test_numbers_out_of_range(value):
    with pytest.raises(PlatformError, match=r"^rate is .*; it must be positive and finite$"):
        check_number(value, "rate", PlatformError, positive=True)


def test_numbers_in_range():
    check_number(0.0, "x", PlatformError)
    with pytest.raises(PlatformError, match="x is 'much'; it must be at least 0 and finite"):
        check_number("much", "x", PlatformError)
    check_number(math.inf, "x", PlatformError, finite=False)
    with pytest.raises(PlatformError, match="x is 1.5; it must be at least 0 and at most 1"):
        check_number(1.5, "x", PlatformError, maximum=1.0)


def test_whole_numbers_fit_an_array():
    @dataclasses.dataclass(frozen=True)
    class Count:
        number: int

    assert read(Count, {"number": 2**62}, "f").number == 2**62
    for number in (2**63, -(2**64), 10**300, 10**400, "1e30", math.inf):
        with pytest.raises(ConfigError, match="f: number is .*, expected a (whole )?number"):
            read(Count, {"number": number}, "f")
    with pytest.raises(PlatformError, match="x is a huge number; it must be at least 0 and at most 3"):
        check_number(10**400, "x", PlatformError, maximum=3)


@pytest.mark.parametrize(
    ("value", "limits", "legal"),
    [
        (0.0, {}, True),
        (-1e-300, {}, False),
        (0.0, {"positive": True}, False),
        (1e-300, {"positive": True}, True),
        (2, {"minimum": 2}, True),
        (1.999, {"minimum": 2}, False),
        (3, {"maximum": 3}, True),
        (3.001, {"maximum": 3}, False),
        (float("inf"), {}, False),
        (float("inf"), {"finite": False}, True),
        (float("nan"), {"finite": False}, False),
        ("1", {}, False),
        (None, {}, False),
    ],
)
def test_numbers_at_their_limits(value: object, limits: dict[str, Any], legal: bool) -> None:
    if legal:
        return check_number(value, "it", ConfigError, **limits)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="^it is .*; it must be (at least|positive)"):
        check_number(value, "it", ConfigError, **limits)  # type: ignore[arg-type]
