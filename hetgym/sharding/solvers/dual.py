"""The solver `dual`: ascent of the dual under prices for memory, whose choices are repaired until memory suffices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hetgym._types import Int64Array
from hetgym.sharding.solvers.ascent import BEST, BOUND, Ascent, ascend, new_ascent
from hetgym.sharding.solvers.forests import new_forest
from hetgym.sharding.solvers.incumbent import Incumbent
from hetgym.sharding.solvers.model import Model, cost_of, model_of
from hetgym.sharding.solvers.repairing import repair

WORK = 2_000_000  # Entries of tables that are read before a solver looks at the clock again
REPAIRS = 25  # Most rounds of a repair


class Dual:
    """An ascent that takes its choices, unchanged or repaired, to an incumbent.

    Args:
        incumbent: takes choices and bounds.
        rng: source of random numbers.
    """

    def __init__(self, incumbent: Incumbent, rng: np.random.Generator, name: str = "dual") -> None:
        self.incumbent, self.rng, self.name = incumbent, rng, name
        self.model: Model = model_of(incumbent.reduced)
        self.ascent: Ascent = new_ascent(self.model)
        self.forest = new_forest(self.model)
        self.order: Int64Array = np.arange(len(self.model.offsets) - 1)
        if incumbent.choice is not None:
            self.take(incumbent.choice)
        self.sweeps = int(np.clip(WORK // (2 * len(self.model.tables) + 1), 1, 50))

    def advance(self) -> None:
        """Make some sweeps, and repair the last choice."""
        ascent, figures = self.ascent, self.ascent.figures
        before = figures[BEST]
        ascend(self.model, ascent, self.sweeps)
        self.incumbent.prove(float(figures[BOUND]), self.name)
        if figures[BEST] < before:
            self.incumbent.offer(ascent.best, self.name)
        choice = ascent.choice.copy()
        if repair(
            self.model, self.forest, choice, ascent.theta.copy(), ascent.sums.copy(), ascent.used.copy(), self.order,
            REPAIRS, self.rng,
        ):  # fmt: skip
            self.take(choice)

    def take(self, choice: Int64Array) -> bool:
        """Take a choice that fits; returns whether it is better than those before."""
        cost = cost_of(self.model, choice)
        better = bool(cost < self.ascent.figures[BEST])
        if better:
            self.ascent.figures[BEST] = cost
            self.ascent.best[:] = choice
            self.incumbent.offer(choice, self.name)
        return better


def dual(incumbent: Incumbent, rng: np.random.Generator) -> Iterator[None]:
    """Ascend without end; each step is one of :class:`Dual`."""
    ascent = Dual(incumbent, rng)
    while True:
        ascent.advance()
        yield
