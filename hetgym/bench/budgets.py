"""Budgets of time: their notation, and the choice of those that fit into a time limit."""

from collections.abc import Sequence
from typing import NamedTuple

from hetgym._input.times import parse_time
from hetgym._sums import summed
from hetgym._text import duration, minutes
from hetgym.errors import ConfigError

BUDGETS = (1e-3, 2e-3, 5e-3, 1e-2, 5e-2, 1e-1, 5e-1, 1.0, 5.0, 10.0)  # The default budgets [s]
TIME_LIMIT = 900.0  # Default limit on the duration of a measurement [s]


class Plan(NamedTuple):
    """The extent of a measurement."""

    budgets: tuple[float, ...]  # budgets that are measured [s]
    left_out: tuple[float, ...]  # budgets left out to keep within the time limit [s]
    most_s: float  # upper bound on the total time of the searches [s]
    whole_s: float  # the same if no budget were left out [s]


def parse_budgets(text: str) -> tuple[float, ...]:
    """Budgets from a comma-separated list, in rising order.

    Raises:
        ConfigError: an entry is not a time, or the list is empty.

    >>> parse_budgets("1s,10ms")
    (0.01, 1.0)
    """
    found = sorted({parse_time(word) for word in text.split(",") if word.strip()})
    if not found:
        raise ConfigError("no budget is given; write times between commas, as in 1ms,10ms,1s")
    return tuple(found)


def fitting(budgets: Sequence[float], limit: float, searches: int, problems: int, exact: int = 0) -> Plan:
    """Leave out the longest budgets until the rest is certain to fit.

    Each search runs with each budget, in rising order [s], on each problem, an exact solver with the longest only.

    Raises:
        ConfigError: not even the shortest budget fits.

    >>> fitting((0.5, 1.0, 8.0), limit=60.0, searches=2, problems=10)
    Plan(budgets=(0.5, 1.0), left_out=(8.0,), most_s=30.0, whole_s=190.0)
    """
    if not searches and not exact:
        return Plan((), (), 0.0, 0.0)

    def most(chosen: Sequence[float]) -> float:
        return problems * (searches * summed(chosen) + exact * chosen[-1])

    kept = list(budgets)
    while kept and most(kept) > limit:
        kept.pop()
    if not kept:
        raise ConfigError(
            f"{duration(budgets[0])} for each search on each of {problems} problems is {minutes(most(budgets[:1]))}, "
            f"more than the limit of {minutes(limit)}; raise --time-limit or take fewer problems"
        )
    return Plan(tuple(kept), tuple(budgets[len(kept) :]), most(kept), most(budgets))
