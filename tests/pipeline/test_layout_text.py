"""Layouts as people write them, against layouts that hetgym writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetgym import ConfigError
from hetgym.pipeline.layout_text import counts_of, read_layout
from hetgym.pipeline.programs import megatron_layout


@given(counts=st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_what_is_written_is_read(counts: list[int]) -> None:
    stages = read_layout(megatron_layout(counts))
    assert [stage.layers for stage in stages] == counts
    roles = ["words"] * 2 + ["layer"] * sum(counts) + ["head"]
    expected = list(counts)
    expected[0], expected[-1] = expected[0] + 2, expected[-1] + 1
    assert counts_of(stages, roles) == expected if len(counts) > 1 else counts_of(stages, roles) == [sum(counts) + 3]


def test_groups_repetitions_and_commas() -> None:
    """The layout of DeepSeek-V3 in Megatron Core's documentation."""
    stages = read_layout("Et*3|(tt|)*29,m|L")
    assert [stage.layers for stage in stages] == [3, *[2] * 29, 1, 0]
    assert stages[0].words and stages[-1].head and not stages[-1].words
    assert read_layout("E((t|)*2)*2L") == read_layout("Et|t|t|t|L") and read_layout("E, t | t L") == read_layout(
        "Et|tL"
    )


def test_numbers_count_layers_or_all_parts() -> None:
    roles = ["words", *["layer"] * 6, "head", "head"]
    assert counts_of(read_layout("4,2"), roles) == [5, 4]
    assert counts_of(read_layout("4,5"), roles) == [4, 5]
    with pytest.raises(ConfigError, match="places 7 layers; there are 6, or 9 with what is before and behind them"):
        counts_of(read_layout("4,3"), roles)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("4,0", "expected whole numbers"), ("Etx", "expected whole numbers"), ("E(t|L", "expected whole numbers"),
        ("Et||tL", "a stage is empty"), ("EtE|L", "a second time"), ("E(t*9999)*9999|L", "expected whole numbers"),
        ("Et*2|t*4", "the first stage must have E, and the last one L"), ("EtL|t*5", "the last one L"),
    ],
)  # fmt: skip
def test_bad_layouts(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        counts_of(read_layout(text), ["words", *["layer"] * 6, "head"])
