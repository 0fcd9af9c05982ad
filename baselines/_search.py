"""What searches share: they can be run in parts, within a budget of work or of time."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

import numpy as np

from hetgym.errors import ConfigError
from hetgym.schedule import Schedule

SLICE = 20_000
"""Operators placed between two looks at the clock."""


class Search(ABC):
    """A search under way.

    Attributes:
        placed: operators placed in trial schedules so far.
        makespan: of the best schedule so far [s].
        finished: whether more budget would change nothing.
    """

    placed: int = 0
    makespan: float = np.inf
    finished: bool = False

    @abstractmethod
    def advance(self, target: int, total: int) -> None:
        """Search until ``placed`` reaches a target, or a little beyond.

        Args:
            target: operators placed at which to return.
            total: operators that will be placed until the search ends, for those that cool down.
        """

    @abstractmethod
    def schedule(self) -> Schedule:
        """The best schedule so far."""


def check_limits(name: str, budget: int, seconds: float | None) -> None:
    """Refuse what cannot be a budget.

    Raises:
        ConfigError: a negative budget, or no time.
    """
    if budget < 0:
        raise ConfigError(f"{name}: budget is {budget}; it must not be negative")
    if seconds is not None and not seconds > 0:
        raise ConfigError(f"{name}: seconds is {seconds}; it must be positive")


def run(search: Search, budget: int, seconds: float | None, points: int = 1) -> list[tuple[int, float, float]]:
    """Search within limits.

    Args:
        search: advanced; nothing is done where it has spent the budget already.
        budget: most operators placed in trial schedules.
        seconds: most wall-clock time [s]; with it, results depend on the machine.
        points: number of parts in which the budget is spent.

    Returns:
        Operators placed, seconds and best makespan at the start and after each part.
    """
    begin = time.perf_counter()
    curve = [(search.placed, 0.0, search.makespan)]
    while search.placed < budget and not search.finished:
        elapsed = time.perf_counter() - begin
        total = budget
        if seconds is not None:
            if elapsed >= seconds:
                break
            if elapsed > 0.0 and search.placed > 0:
                total = max(1, min(budget, int(search.placed / elapsed * seconds)))
        part = -(-budget // points)
        if seconds is not None:
            part = min(part, SLICE)
        search.advance(min(budget, search.placed + part), total)
        curve.append((search.placed, time.perf_counter() - begin, search.makespan))
    return curve
