"""Searches in parts: budgets of operators and of time."""

from __future__ import annotations

import signal

import numpy as np
import pytest

from hetgym import ConfigError, Schedule
from hetgym.search import search as searching


class Clockwork(searching.Search):
    """A search that takes a microsecond of its own clock for each operator, and long to start."""

    def __init__(self) -> None:
        self.placed, self.now, self.parts = 100, 0.004, [0]  # operators, seconds, sizes of the parts

    def advance(self, target: int, total: int) -> None:
        self.parts.append(target - self.placed)
        self.now += 1e-6 * (target - self.placed)
        self.placed = target

    def schedule(self) -> Schedule:
        raise NotImplementedError


def test_seconds_count_from_the_call_and_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    search = Clockwork()
    monkeypatch.setattr(searching, "clock", lambda: search.now)
    curve = searching.run(search, 2**62, 0.1, began=0.0)
    assert curve[0] == (100, 0.004, np.inf)
    assert 0.1 <= search.now <= 0.1 + 1e-6 * searching.LEAST
    assert max(search.parts) == searching.SLICE
    assert searching.run(Clockwork(), 1_000, None)[-1][0] == 1_000


def test_what_cannot_be_a_budget() -> None:
    with pytest.raises(ConfigError, match="mine: budget is -1"):
        searching.check_limits("mine", -1, None)
    with pytest.raises(ConfigError, match="mine: seconds is nan"):
        searching.check_limits("mine", 0, float("nan"))


class Interrupted(Clockwork):
    """A search during which somebody presses Ctrl-C whenever another thousand operators are placed."""

    def advance(self, target: int, total: int) -> None:
        super().advance(target, total)
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_ends_the_search_where_that_was_asked_for() -> None:
    search, before = Interrupted(), signal.getsignal(signal.SIGINT)
    with searching.ended_by_interrupt() as interrupts:
        searching.run(search, 10_000, None, points=10)
        assert interrupts.came and search.placed == 1_100
        assert len(searching.run(search, 10_000, None)) == 1  # nor does another one begin
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    with searching.ended_by_interrupt() as interrupts, pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)  # while nothing is searched
    assert not interrupts.came


def test_a_search_that_is_beginning_should_end_after_half_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10.0
    monkeypatch.setattr(searching, "clock", lambda: now)
    with searching.beginning(10.0, 4.0), searching.searching() as ended:
        assert not ended()
        now = 12.0
        assert ended()
    with searching.beginning(10.0, None), searching.searching() as ended:
        assert not ended()
    with searching.searching() as ended:
        assert not ended()  # a search under way ends by its own clock


class Falling(Clockwork):
    """A search that finds a shorter plan in every second part."""

    def advance(self, target: int, total: int) -> None:
        super().advance(target, total)
        self.makespan = 10.0 - len(self.parts) // 2


def test_shorter_plans_are_told() -> None:
    told: list[float] = []
    with searching.watched(told.append):
        searching.run(Falling(), 600, None, points=5)
    assert told == [9.0, 8.0, 7.0]
    searching.run(Falling(), 600, None, points=5)
    assert len(told) == 3
