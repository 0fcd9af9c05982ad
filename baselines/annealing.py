"""Simulated annealing on placements, and on the order in which operators are placed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np

from hetgym._input.random import generator
from hetgym._kernels.jit import lean
from hetgym._sums import summed
from hetgym._types import FloatArray
from hetgym.baselines.pilot import Pilot
from hetgym.baselines.region_annealing import RegionAnnealing
from hetgym.errors import ConfigError, unknown_name
from hetgym.planning.decode import start_order
from hetgym.planning.registry import get
from hetgym.planning.timeline import timed_for
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.search import regions, walk
from hetgym.search.moves import propose, try_shift
from hetgym.search.search import Cooling, Search, Staged, searched
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime

PILOT = "pilot"
DECODES = ("bottom-level", "order", "insertion")
MIX = {"insertion": (1, 1, 1, 1, 1, 0), "bottom-level": (1, 1, 1, 1, 1, 0), "order": (1, 1, 1, 1, 1, 4)}
"""Relative frequencies of the moves of :mod:`hetgym.search.moves`."""


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

    A placement is decoded by insertion in an order. Moves: an operator to any device, or to that of a neighbour; two
    operators swap devices; an operator, or a run, of the critical chain to another device; and an operator to another
    place in the order. The temperature falls geometrically with the budget spent. The best schedule seen is returned,
    never worse than the start.

    Under a runtime other than ``classic`` operators move one by one between devices and in the order, as in
    :func:`~hetgym.baselines.region_annealing`, which prices its changes by simulation.

    Args:
        start: name of the scheduler whose schedule is improved; the budget includes the work of ``"pilot"``, which
            searches, too. Where capacities are enforced, a plan of :mod:`hetgym.planning.filling` if that is shorter.
        decode: ``"bottom-level"`` takes operators by the placement's own bottom levels; ``"order"`` searches the order,
            too, from the start's own; ``"insertion"`` keeps that of upward ranks. Under a runtime other than
            ``classic`` the start's own order is kept with ``"insertion"``, and searched otherwise.
        heat: first temperature, times squared number of operators over the makespan.
        cooling: last temperature over the first.
        budget: largest number of operators placed in trials.

    Raises:
        UnknownName: no such scheduler or decode.
        ConfigError: a negative budget, a time that is not positive, or temperatures that do not fall.
    """
    return searched(
        "annealing", budget, seconds, lambda: Annealing(problem, start, decode, seed, heat, cooling, runtime)
    )


class Annealing(Staged):
    """The search behind :func:`annealing`."""

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
            self.enter(pilot)
            return
        if decode not in DECODES:
            raise unknown_name("decode", decode, DECODES)
        if not (0 < heat < np.inf and 0 < cooling <= 1):
            raise ConfigError(
                f"annealing: heat is {heat} and cooling {cooling}; both must be positive, cooling at most 1"
            )
        share, switches = heat / max(problem.num_operators, 30) ** 2, as_runtime(runtime)
        if switches.is_classic:
            self.enter(WalkAnnealing(problem, start, decode, seed, share, cooling))
        else:
            reorder = MIX[decode][-1] / summed(MIX[decode]) if decode != "bottom-level" else regions.REORDER
            self.enter(RegionAnnealing(problem, start, seed, share, cooling, switches, 1, reorder, exchanged=0.0))

    def advance(self, target: int, total: int) -> None:
        """Decide, then walk, until the target is reached; see :meth:`Search.advance`."""
        super().advance(target, total)
        if self.rest is not None and self.finished:
            self.enter(self.rest(), self.placed)
            self.rest = None
            if self.placed < target and not self.finished:
                super().advance(target, total)


class WalkSearch(Search):
    """A search that improves a walk, under the classic model.

    Args:
        start: the schedule that is improved, or the name of its scheduler.
        decode: see :func:`annealing`.
        heat: first temperature, as a share of the start's makespan.
    """

    def __init__(self, problem: Problem, start: str | Schedule, decode: str, seed: int, heat: float) -> None:
        self.problem, self.rng = problem, generator(seed)
        self.first = timed_for(problem, get(start)(problem) if isinstance(start, str) else start)
        self.walk = walk.new_walk(problem, self.first.assignment, start_order(problem, self.first, decode))
        best = float(self.walk.value[walk.BEST])
        self.hot = heat * best
        self.makespan, self.placed = min(self.first.makespan, best), problem.num_operators
        self.finished = problem.num_devices == 1 or self.hot == 0.0

    def advance(self, target: int, total: int) -> None:
        """Search until the target is reached; see :meth:`Search.advance`."""
        self.walk.counts[walk.PLACED] = self.placed
        self.improve(target, total)
        self.placed = int(self.walk.counts[walk.PLACED])
        self.makespan = min(self.makespan, float(self.walk.value[walk.BEST]))

    @abstractmethod
    def improve(self, target: int, total: int) -> None:
        """Change the walk until the target is reached."""

    def schedule(self) -> Schedule:
        """The best schedule so far."""
        if self.first.makespan <= self.walk.value[walk.BEST]:
            return self.first
        return walk.best_schedule(self.problem, self.walk)


class WalkAnnealing(WalkSearch):
    """Annealing of a walk, under the classic model; ``cooling`` is the last temperature over the first."""

    def __init__(
        self, problem: Problem, start: str | Schedule, decode: str, seed: int, heat: float, cooling: float
    ) -> None:
        super().__init__(problem, start, decode, seed, heat)
        self.by_level, self.mix = decode == "bottom-level", np.cumsum(MIX[decode]) / summed(MIX[decode])
        self.cooling = Cooling(self.hot, cooling * self.hot)

    def improve(self, target: int, total: int) -> None:
        """Anneal until the target is reached."""
        _anneal(self.problem.arrays, self.walk, self.rng, target, total, self.cooling, self.mix, self.by_level)


# Before each iteration the walk has a complete current schedule whose value is its makespan, and w.best_* hold the best
# schedule so far. The Metropolis rule is inverted: a limit is drawn first, and a proposal is abandoned and undone as
# soon as its makespan must exceed the limit. Each iteration counts at least one operator, so the loop ends.
@lean
def _anneal(
    p: ProblemArrays,
    w: walk.Walk,
    rng: np.random.Generator,
    target: int,
    total: int,
    cooling: Cooling,
    mix: FloatArray,
    by_level: bool,
) -> None:
    """Walk until the target is reached; every proposal is charged as one more operator placed."""
    n = len(w.order)
    while w.counts[walk.PLACED] < target:
        temperature = cooling.hot * (cooling.cold / cooling.hot) ** min(1.0, w.counts[walk.PLACED] / total)
        w.counts[walk.PLACED] += 1
        limit = w.value[walk.CURRENT] - temperature * np.log(1.0 - rng.random())
        draw = rng.random()
        kind = 0
        while draw >= mix[kind]:
            kind += 1
        if kind == len(mix) - 1:
            try_shift(p, w, rng, limit)
            continue
        count = propose(p, w, rng, kind)
        if count == 0:
            continue
        first, last = n, 0
        for k in range(count):
            first = min(first, w.turn[w.moved[k]])
            last = max(last, w.turn[w.moved[k]])
        if by_level:
            makespan = walk.try_level_order(p, w, count, limit)
            if makespan < np.inf:
                walk.accept(p, w, -1, makespan)
            continue
        makespan = walk.try_from(p, w, first, last, limit)
        if makespan < np.inf:
            walk.accept(p, w, last, makespan)
        else:
            walk.take_back(w, count)
