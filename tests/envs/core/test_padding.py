"""Sizes to which observations are padded."""

from __future__ import annotations

import pytest

from hetgym.envs.core.padding import BlockPadding, GraphPadding
from hetgym.errors import ConfigError, ProblemError

KNOWN = GraphPadding(10, 20, 3)


def test_what_the_caller_gives_replaces_what_the_source_needs() -> None:
    assert GraphPadding.chosen(KNOWN, None, 7, None) == GraphPadding(10, 7, 3)
    assert GraphPadding.chosen(None, 1, 2, 3) == GraphPadding(1, 2, 3)
    with pytest.raises(ConfigError, match="pass max_edges="):
        GraphPadding.chosen(None, 1, None, 3)


def test_the_largest_has_the_largest_of_each() -> None:
    assert GraphPadding.largest([GraphPadding(1, 9, 2), GraphPadding(3, 4, 2)]) == GraphPadding(3, 9, 2)


def test_a_problem_may_fill_the_padding() -> None:
    KNOWN.check("p", (10, 20, 3))
    for sizes, words in (
        ((11, 20, 3), "11 operators, .* padded to 10; pass max_operators=11"),
        ((10, 20, 4), "4 devices"),
    ):
        with pytest.raises(ProblemError, match=f"problem 'p' has {words}"):
            KNOWN.check("p", sizes)
    with pytest.raises(ProblemError, match="5 blocks"):
        BlockPadding(4, 2).check("p", (5, 2))
