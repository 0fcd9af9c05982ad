"""Objectives refuse what they cannot mean."""

from __future__ import annotations

import pytest

from hetgym import ConfigError, UnknownName
from hetgym.pipeline import OBJECTIVES, Objective


def test_what_each_objective_counts() -> None:
    assert [Objective(name, requests=5, micro_batches=7).turns for name in OBJECTIVES] == [1, 5, 7]
    assert [Objective(name, schedule="interleaved", chunks=3).rounds for name in OBJECTIVES] == [1, 1, 3]
    assert [Objective(name, schedule="zb-h1").split_backward for name in OBJECTIVES] == [False, False, True]


def test_the_largest_numbers_are_taken() -> None:
    largest = Objective("training", 4096, "interleaved", 4096, 4096)
    assert (largest.turns, largest.rounds) == (4096, 4096) and Objective("latency", 1).turns == 1
    with pytest.raises(ConfigError, match="requests is 4097"):
        Objective("latency", 4097)


def test_bad_values() -> None:
    with pytest.raises(UnknownName, match="did you mean 'latency'"):
        Objective("latncy")
    with pytest.raises(UnknownName, match="did you mean 'gpipe'"):
        Objective(schedule="gpip")
    for what, value in (("requests", 0), ("micro_batches", 2.5), ("chunks", True), ("requests", 5000)):
        with pytest.raises(ConfigError, match=f"{what} is {value}; it must be a whole number from 1 to 4096"):
            Objective(**{what: value})  # type: ignore[arg-type]
