from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetgym._config import SIZE_LIMIT, check_number, load_yaml, read
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
    check_number(math.inf, "x", PlatformError, finite=False)
    with pytest.raises(PlatformError, match="x is 1.5; it must be at least 0 and at most 1"):
        check_number(1.5, "x", PlatformError, maximum=1.0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [1\nb: 2", r", line 2: not valid YAML"),
        ("- 1\n- 2", r": expected keys and values, found \[1, 2\]"),
        ("", r": expected keys and values, found None"),
        ("a: 1\nb: 2\na: 3\n", r", line 3: not valid YAML \(key 'a' is written twice\)"),
        ("a: !!python/object/apply:os.system ['true']", r", line 1: not valid YAML"),
        ("a: 2020-99-99", r": not valid YAML \(month must be"),
        ("a: " + "[" * 5000, r": (nested too deeply|not valid YAML)"),
        ("a: b" + " " * SIZE_LIMIT, r": longer than 1 MiB"),
    ],
    ids=["syntax", "list", "empty", "twice", "code", "date", "deep", "large"],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path: Path, content, message):
    file = tmp_path / "f.yaml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=message) as caught:
        load_yaml(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"missing\.yaml: no such file"):
        load_yaml(tmp_path / "missing.yaml")
    with pytest.raises(ConfigError, match=r"not a regular file"):
        load_yaml(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00\x01\x80")
    with pytest.raises(ConfigError, match="not valid YAML"):
        load_yaml(tmp_path / "binary.yaml")


def test_merge_keys_may_be_overridden(tmp_path: Path):
    file = tmp_path / "f.yaml"
    file.write_text("a: &one {x: 1, y: 2}\nb: &two {<<: *one, y: 3}\nc: {<<: *two, x: 4}\n")
    assert load_yaml(file) == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}, "c": {"x": 4, "y": 3}}


BOMB = "name: x\nb0: &b0 {k: 1, l: 2}\n" + "".join(
    f"b{k}: &b{k} {{<<: [{', '.join([f'*b{k - 1}'] * 10)}]}}\n" for k in range(1, 9)
)
LISTS = "a0: &a0 [1, 2]\n" + "".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]\n" for k in range(1, 9))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (BOMB, "aliases unfold to more than"),
        (LISTS, "aliases unfold to more than"),
        ("a: &a {x: *a}", "line 1: not valid YAML .*a value contains itself"),
        ("a: &a [[*a]]", "a value contains itself"),
        ("a: 1" + ":59" * 100_000, "a number of more than 40 characters"),
        ("a: 1" + ":59" * 1000 + ".5", "a number of more than 40 characters"),
        ("a: " + "9" * 5000, "a number of more than 40 characters"),
        ("a: 0x" + "f" * 5000, "a number of more than 40 characters"),
        ("a: !!int [1]", "a number of more than"),
        ("a: !!float {}", "a number of more than"),
        ("a: !!binary aGk=", "not valid YAML"),
        ("a: !!set {x}", "not valid YAML"),
        ("a: !!omap [x: 1]", "not valid YAML"),
        ("? [a]\n: 1", "not valid YAML"),
        ("? {a: 1}\n: 1", "not valid YAML"),
        ("<<: 3", "not valid YAML"),
        ("<<: [3]", "not valid YAML"),
        ("a: !!timestamp x", "not valid YAML"),
        ("a: !!bool x", "not valid YAML"),
        ('a: "\\ud800"', ""),
        ("\0", "not valid YAML"),
    ],
    ids=range(21),
)
def test_what_unfolds_without_end_is_not_unfolded(tmp_path: Path, content, message):
    file = tmp_path / "f.yaml"
    file.write_text(content)
    began = time.process_time()
    if message:
        with pytest.raises(ConfigError, match=message) as caught:
            load_yaml(file)
        assert str(caught.value).isprintable() and len(str(caught.value)) <= 600
    else:
        load_yaml(file)
    assert time.process_time() - began < 20  # these took minutes, or all memory


def test_anchors_are_legal_where_they_unfold_to_little(tmp_path: Path):
    file = tmp_path / "f.yaml"
    file.write_text("a: &one [1, 2]\nb: [*one, *one]\nc: 1:30\nd: 1_000\n")
    assert load_yaml(file) == {"a": [1, 2], "b": [[1, 2], [1, 2]], "c": 90, "d": 1000}


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
