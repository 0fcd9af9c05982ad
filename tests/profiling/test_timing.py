"""Repeated measurements: when they end, and what is said of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from hetgym.profiling import timing
from hetgym.profiling.timing import Timing, repeat


def runs(values: list[float]) -> tuple[Iterator[float], list[float]]:
    """Times that come round again, and a list of those that were asked for."""
    seen: list[float] = []
    return (seen.append(x) or x for x in itertools.cycle(values)), seen


def test_a_summary_by_hand() -> None:
    assert Timing.of(np.arange(11.0)) == Timing(5.0, 1.0, 9.0, 11)


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ([1.0], 9),  # known at once, and measured as often as at least
        ([0.97, 1.03], 14),  # 0.93 * 0.06 is at most 0.015 times the root of 14, and of 13 or 12 it is not
        ([1.0, 2.0], 45),  # never known that well
    ],
)
def test_measuring_ends_when_the_median_is_known(values: list[float], count: int) -> None:
    stream, seen = runs(values)
    assert repeat(lambda: next(stream), budget=1e9).repetitions == count
    assert len(seen) == count + 2  # the first two are discarded


def test_the_first_two_times_do_not_count() -> None:
    times = iter([9.0, 8.0, *[1.0] * 9])
    assert repeat(lambda: next(times), budget=1e9) == Timing(1.0, 1.0, 1.0, 9)


@pytest.mark.parametrize(("minimum", "count"), [(9, 3), (3, 3), (30, 10)])
def test_without_time_a_third_of_the_least_number_is_measured(
    monkeypatch: pytest.MonkeyPatch, minimum: int, count: int
) -> None:
    clock = itertools.count()
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: float(next(clock))))
    assert repeat(lambda: 1.0, minimum=minimum, budget=0.5).repetitions == count
