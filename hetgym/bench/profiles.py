"""Performance profiles of Dolan and Moré, *Mathematical Programming* 91, 2002."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hetgym._groups import gathered
from hetgym.bench.rows import Row
from hetgym.bench.summary import TIE, finished


@dataclass(frozen=True)
class Profile:
    """The share of problems that a scheduler solves within a factor of the best makespan."""

    # runtime, scheduler: names
    runtime: str
    scheduler: str
    # the factors at which the share rises, in rising order; a factor of 1 is the best makespan
    factors: tuple[float, ...]
    # share of the problems from each factor on. It ends below 1 if the scheduler failed on some.
    shares: tuple[float, ...]

    def at(self, factor: float) -> float:
        """The share of problems within a factor of the best makespan."""
        place = int(np.searchsorted(self.factors, factor + TIE, side="right"))
        return self.shares[place - 1] if place else 0.0


def profile(ratios: Iterable[float | None]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Factors and shares of one profile.

    Args:
        ratios: makespan over the best makespan, one for each problem; None or infinity where there is no schedule.

    >>> profile([1.0, 2.0, None, 1.0])
    ((1.0, 2.0), (0.5, 0.75))
    """
    values = [math.inf if ratio is None else ratio for ratio in ratios]
    solved = sorted(1.0 if value <= 1 + TIE else value for value in values if math.isfinite(value))
    factors = sorted(set(solved))
    shares = np.searchsorted(solved, factors, side="right") / max(len(values), 1)
    return tuple(factors), tuple(shares.tolist())


def profiles(rows: Iterable[Row]) -> list[Profile]:
    """The profile of each scheduler under each runtime, by the order of the rows.

    The best makespan of a problem is the one that its gaps refer to: the best known or, if that is shorter, the best
    of the run.

    Args:
        rows: rows of a whole run; problems that were not finished are left out.
    """
    groups = gathered(((row.runtime, row.scheduler), row.gap_to_best) for row in finished(rows))
    ratios = {key: [None if gap is None else 1 + gap for gap in gaps] for key, gaps in groups.items()}
    return [Profile(*key, *profile(found)) for key, found in ratios.items()]


def widest(found: Sequence[Profile]) -> float:
    """A factor up to which profiles are worth drawing: where all have reached nine tenths, between 1.05 and 4."""
    reached = [next((f for f, s in zip(p.factors, p.shares, strict=True) if s >= 0.9), math.inf) for p in found]
    return float(np.clip(1 + 1.15 * (max(reached, default=1.0) - 1), 1.05, 4.0))
