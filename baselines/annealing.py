"""Simulated annealing on placements, and on the order in which operators are placed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hetgym.baselines.pilot import Pilot
from hetgym.baselines.region_search import RegionAnnealing
from hetgym.errors import ConfigError, check_name
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.search import regions
from hetgym.search.search import Search, searched
from hetgym.sim import Runtime

PILOT = "pilot"

REORDER = {"bottom-level": regions.REORDER, "order": 4 / 9, "insertion": 0.0}
"""Decode -> share of tries that give an operator another turn."""


def annealing(
    problem: Problem,
    start: str = "heft",
    decode: str = "bottom-level",
    seed: int = 0,
    heat: float = 60.0,
    cooling: float = 0.05,
    budget: int = 1_000_000,
    seconds: float | None = None,
    runtime: str | Runtime = "classic",
) -> Schedule:
    """Make small random changes; accept better schedules, and worse ones ever more rarely.

    Moves: an operator to another device, where it would save time or to any, half the time with others in exchange; and
    an operator to another place in the order. Changes are priced as in :func:`~hetgym.baselines.region_annealing`, by
    simulation. The temperature falls geometrically with the budget spent. The best schedule seen is returned, never
    worse than the start.

    Args:
        start: name of the scheduler whose schedule is improved; the budget includes the work of ``"pilot"``, which
            searches, too. Where capacities are enforced, a plan of :mod:`hetgym.planning.filling` if that is shorter.
        decode: ``"insertion"`` keeps the start's own order; ``"bottom-level"`` searches the order, too, in half of the
            tries, and ``"order"`` in four of nine.
        heat: first temperature, times squared number of operators over the makespan.
        cooling: last temperature over the first.
        budget: largest number of operators launched in trials.

    Raises:
        UnknownName: no such scheduler or decode.
        ConfigError: a negative budget, a time that is not positive, or temperatures that do not fall.
    """
    return searched(
        "annealing", budget, seconds, lambda: Annealing(problem, start, decode, seed, heat, cooling, runtime)
    )


class Annealing(Search):
    """The search behind :func:`annealing`, which others carry out: Pilot, if it is the start, and region annealing."""

    stage: Search  # the search that is under way
    rest: Callable[[], Annealing] | None = None  # makes the search that follows Pilot, where that is the first stage

    def __init__(
        self,
        problem: Problem,
        start: str | Schedule = "heft",
        decode: str = "bottom-level",
        seed: int = 0,
        heat: float = 60.0,
        cooling: float = 0.05,
        runtime: str | Runtime = "classic",
    ) -> None:
        if start == PILOT:
            pilot = Pilot(problem, runtime=runtime)
            self.rest = lambda: Annealing(problem, pilot.schedule(), decode, seed, heat, cooling, runtime)
            self.rest()  # refuses bad options before any work
            self.stage = pilot
        else:
            check_name("decode", decode, REORDER)
            if not (0 < heat < np.inf and 0 < cooling <= 1):
                raise ConfigError(
                    f"annealing: heat is {heat} and cooling {cooling}; both must be positive, cooling at most 1"
                )
            share, reorder = heat / max(problem.num_operators, 30) ** 2, REORDER[decode]
            self.stage = RegionAnnealing(problem, start, seed, share, cooling, runtime, sizes=1, reorder=reorder)
        self._note()

    def _note(self) -> None:
        self.placed, self.makespan, self.finished = self.stage.placed, self.stage.makespan, self.stage.finished

    def proceed(self, placed: int) -> None:
        """Count from a number of operators placed before."""
        self.stage.proceed(placed)
        self._note()

    def advance(self, target: int, total: int) -> None:
        """Decide, then anneal, until the target is reached; see :meth:`Search.advance`."""
        self.stage.advance(target, total)
        if self.rest is not None and self.stage.finished:
            rest, self.rest = self.rest(), None
            rest.proceed(self.stage.placed)
            self.stage = rest
            if rest.placed < target and not rest.finished:
                rest.advance(target, total)
        self._note()

    def schedule(self) -> Schedule:
        """The best schedule so far."""
        return self.stage.schedule()
