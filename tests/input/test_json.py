"""Strict JSON: bounded before it is parsed."""

from __future__ import annotations

import json
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetgym._input.json import CONTAINERS, DEPTH, nesting, parse
from hetgym.errors import GraphError


@pytest.mark.parametrize(
    "document", [{}, [1, "a[[[", {"b": ['"', "\\", '\\"{', {}]}], "text", {"a": [[[[]]]], "]": "}}}"}, None, 3.5]
)
def test_what_json_writes_is_read(document: object) -> None:
    for text in (json.dumps(document), json.dumps(document, indent=1)):
        assert parse(text, "x", GraphError) == document


def test_depth_is_counted_outside_of_strings() -> None:
    deep = "[" * 5 + "]" * 5
    assert nesting(deep) == (5, 5)
    assert nesting(json.dumps({"[[[[\\": '"[[[', "b": [deep]})) == (2, 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("[" * (DEPTH + 1) + "]" * (DEPTH + 1), "nested too deeply"),
        ('{"a":' * 2000 + "1", "nested too deeply"),
        ('{"a": 1, "a": 2}', "field 'a' appears twice"),
        ("[NaN]", "NaN is not a JSON number"),
        ("-Infinity", "-Infinity is not a JSON number"),
        ("1" * 5000, "not JSON"),
        ('"\\ud800"', "half of a surrogate pair"),
        ("[1,", "not JSON"),
        ("", "not JSON"),
    ],
)
def test_all_else_is_refused_in_a_sentence(text: str, words: str) -> None:
    with pytest.raises(GraphError, match=f"^x: .*{words}"):
        parse(text, "x", GraphError)


def test_documents_of_too_many_parts_are_not_parsed() -> None:
    with pytest.raises(GraphError, match="more than 3 lists and objects"):
        parse("[[],[],{}]", "x", GraphError, containers=3)
    with pytest.raises(GraphError, match=f"more than {CONTAINERS} lists"):
        parse("[" + "[]," * CONTAINERS + "0]", "x", GraphError)


def test_a_repeated_field_is_found_at_once() -> None:
    fields = ",".join(f'"f{i}": 0' for i in range(200_000))  # takes hours if each is compared with all
    with pytest.raises(GraphError, match="'f7' appears twice"):
        parse(f'{{{fields}, "f7": 1}}', "x", GraphError)


@given(text=st.text('[]{}"\\\\a,é', max_size=40), size=st.integers(1, 9))
def test_nesting_is_that_of_a_reader_of_single_characters(text: str, size: int) -> None:
    depth = deepest = count = 0
    inside = escaped = False
    for character in text:
        if character == "\\":
            escaped = not escaped
            continue
        if character == '"' and not escaped:
            inside = not inside
        elif not inside and character in "[{":
            depth, count = depth + 1, count + 1
            deepest = max(deepest, depth)
        elif not inside and character in "]}":
            depth -= 1
        escaped = False
    with mock.patch("hetgym._input.json._PIECE", size):
        assert nesting(text) == (deepest, count)
