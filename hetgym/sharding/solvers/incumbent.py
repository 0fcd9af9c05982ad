"""What is known about a sharding problem while it is solved: the best choice so far, and a bound."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

import numpy as np

from hetgym._types import Int64Array
from hetgym.search.search import clock
from hetgym.sharding.evaluation import evaluate
from hetgym.sharding.reduction import Reduced

CLOSE = 1e-6  # Gap up to which a choice counts as optimal
ROUNDING = 1e-9  # Share of a bound that rounding errors of floating point may have added


class Moment(NamedTuple):
    """A better choice, or a better bound."""

    seconds: float  # since the solver began [s]
    cost: int | None  # of the best choice; None if there is none yet
    bound: int | None  # no choice costs less; None if nothing is known
    solver: str  # the solver that found it


@dataclass
class Incumbent:
    """The best choice and the best bound, which solvers on several threads may improve.

    Attributes:
        choice: [nodes of the reduced problem] the best choice.
        cost: its cost, in whole numbers.
        bound: no choice costs less.
        ended: True once solvers should return.
    """

    reduced: Reduced
    began: float = field(default_factory=clock)  # time from which the seconds count, on the clock of searches [s]
    seconds: float | None = None  # None for no limit
    choice: Int64Array | None = None
    cost: int | None = None
    bound: int | None = None
    history: list[Moment] = field(default_factory=list)
    ended: bool = False
    _lock: Lock = field(default_factory=Lock, repr=False)

    def offer(self, choice: Int64Array, solver: str) -> bool:
        """Take a choice of the reduced problem if it is feasible and better than the best; returns whether it is."""
        report = evaluate(self.reduced.problem, self.reduced.lift(choice))
        with self._lock:
            if not report.feasible or (self.cost is not None and report.cost >= self.cost):
                return False
            self.choice, self.cost = np.array(choice, np.int64), report.cost
            self._note(solver)
        return True

    def prove(self, bound: float, solver: str) -> None:
        """Take a bound on the costs of the reduced problem, without its constant, if it is better."""
        if not math.isfinite(bound):
            return
        total = bound + self.reduced.core.constant
        whole = math.ceil(total - ROUNDING * (abs(bound) + abs(self.reduced.core.constant)))
        with self._lock:
            if self.bound is None or whole > self.bound:
                self.bound = whole
                self._note(solver)

    def _note(self, solver: str) -> None:
        self.history.append(Moment(clock() - self.began, self.cost, self.bound, solver))

    @property
    def gap(self) -> float:
        """(cost - bound) / cost; inf while either is unknown."""
        if self.cost is None or self.bound is None:
            return math.inf
        return max(0, self.cost - self.bound) / max(1, self.cost)

    @property
    def left(self) -> float:
        """Time that is left [s]; inf without a limit."""
        return math.inf if self.seconds is None else self.seconds - (clock() - self.began)

    @property
    def spent(self) -> float:
        """Share of the time that is over; 0 without a limit."""
        return 0.0 if self.seconds is None else 1.0 - self.left / self.seconds

    @property
    def over(self) -> bool:
        """True if time is up, or nothing is left to gain."""
        return self.ended or self.left <= 0 or self.gap <= CLOSE
