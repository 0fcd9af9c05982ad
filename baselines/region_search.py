"""Region search: simulated annealing on placement and order, by regions and turns, under any runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hetgym._input.random import generator
from hetgym._kernels.jit import lean
from hetgym.errors import ConfigError, OutOfMemory
from hetgym.planning import capacity
from hetgym.planning.filling import plans_with_few_transfers
from hetgym.planning.registry import get
from hetgym.planning.starts import WORK, best_start
from hetgym.planning.timeline import as_run, timed_for, with_times
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.search import course as courses
from hetgym.search import device_orders, proposals, regions
from hetgym.search.search import Cooling, Search, searching
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime
from hetgym.sim.kernel import Switches

NAME = "region-annealing"

STARTS = ("single-device", "peft-again", "heft")  # Schedulers of which the best schedule is improved by default

LARGE = 2_000
"""Operators from which on plans are searched in windows, and more is spent on the start
(:func:`~hetgym.planning.starts.best_start`): a search of fewer makes up for it."""

HEAT = (0.003, 0.01)
"""First temperature by default, as a share of the start's makespan: with a choice of devices, and without."""

OPERATORS = (0.25, 4.0)
"""The same times the number of operators, at most: the more there are, the less of the makespan one change is worth."""

LONG = 500
"""Operators launched in all trials, over the square of their number, beyond which a search is long. The first
temperature rises with the root: a long search ends in the plan near which it began unless it starts hotter. The share
of a network falls: with more tries, low-ranked proposals are tried as well."""

HOTTER = 3.3  # Largest factor by which it rises
REORDER_BESIDE = 0.3  # The same with a network, whose regions are worth more
TRUST = 0.8  # Share of regions that a network proposes, unless the search is long: it does not know everything

SHARPER, SHORT = 1.0, 16
"""Extra exponent of a network's odds in short searches, and the operators launched, over the square of their number, up
to which a search is short. The exponent falls in longer ones. With few tries, only the best proposals are tried."""

VERIFY = 50  # Operators launched in trials, for each one of the problem, between two simulations of the best plan


class RegionAnnealing(Search):
    """The search behind ``region-annealing``, and with other options behind other searches.

    Args:
        start: the schedule that is improved, or the name of its scheduler; see
            :func:`~hetgym.baselines.region_annealing.region_annealing`.
        heat: first temperature, as there.
        cooling: last temperature over the first.
        sizes: number of sizes of regions: 1, 2, 4, ... operators.
        reorder: share of tries that give an operator another turn; by default :data:`~hetgym.search.regions.REORDER`,
            or :data:`REORDER_BESIDE` with a network.
        guide: proposals of a network; without one, all regions are drawn as :mod:`hetgym.search.regions` does.
        trust: share of regions that it proposes.
        exchanged: share of regions in whose place one of the other device comes.
        helped: true if a network proposes regions though there is no guide.
        work: spent on the start of a large problem, see :func:`~hetgym.planning.starts.best_start`.

    Attributes:
        first: the schedule that is improved, with its simulated times.
        model: the runtime under which changes are priced.
        by_arrival: true if devices take operators as they become ready, whatever the order of the plan.
    """

    def __init__(
        self,
        problem: Problem,
        start: str | Schedule = "best",
        seed: int = 0,
        heat: float | None = None,
        cooling: float = 0.01,
        runtime: str | Runtime = "classic",
        sizes: int = regions.DOUBLINGS,
        reorder: float | None = None,
        guide: proposals.Proposals | None = None,
        trust: float = TRUST,
        exchanged: float = regions.EXCHANGED,
        helped: bool = False,
        work: float = WORK,
    ) -> None:
        forced = device_orders.forced(problem)
        self.adapts = heat is None and not forced
        if heat is None:
            heat = min(HEAT[forced], OPERATORS[forced] / problem.num_operators)
        if not (0 < heat < np.inf and 0 < cooling <= 1):
            raise ConfigError(f"{NAME}: heat is {heat} and cooling {cooling}; both must be positive, cooling at most 1")
        self.heat, self.cools = heat, cooling
        self.problem, self.runtime = problem, replace(as_runtime(runtime), noise=0.0, seed=0)
        self.by_arrival = self.runtime.order == "ready"
        self.limited = capacity.limited(problem, self.runtime)
        self.model = self._model()
        self.exact = not self.limited and self.model == self.runtime and courses.exact(problem, self.runtime)
        first = self.first = self._start(start, work)
        self.switches = courses.switches_of(problem, self.model)
        self.course = courses.new_course(problem, self.model, first.assignment, courses.turns_of(problem, first))
        if self.limited:
            self.course.room[:] = problem.memory_capacity
        self.rng = generator(seed)
        self.helped = reorder is None and (helped or (guide is not None and len(guide.bias) > 0))
        reorder = 0.0 if self.by_arrival else 1.0 if forced else regions.REORDER if reorder is None else reorder
        self.mix = Mix(reorder, regions.CRITICAL, sizes, trust, 1.0, exchanged)
        self._begin(first, guide)

    def _model(self) -> Runtime:
        """The runtime under which changes are priced: that which runs the plan."""
        return self.runtime

    def _start(self, start: str | Schedule, work: float) -> Schedule:
        """The schedule that is improved, with its simulated times; it need not fit."""
        problem, runtime = self.problem, self.runtime
        if isinstance(start, Schedule):
            return with_times(problem, start, runtime)
        plans: list[Schedule] = []
        fits: list[Schedule] = []
        with searching() as ended:
            for plan in self._starts(start, work, ended):
                plans.append(plan)
                if not (self.limited and capacity.missing(problem, plan, runtime).any()):
                    fits.append(plan)
                if fits and ended():
                    break
        best = min(fits or plans, key=lambda plan: plan.makespan)
        rescued = capacity.packed(problem, best, runtime) if self.limited and not fits else None
        return best if rescued is None else with_times(problem, rescued, runtime)

    def _starts(self, start: str, work: float, ended: Callable[[], bool]) -> Iterator[Schedule]:
        """The plans that compete to be the start; they need not fit."""
        problem, runtime = self.problem, self.runtime
        for name in STARTS if start == "best" else (start,):
            try:
                plan = get(name)(problem, runtime)
            except OutOfMemory:
                plan = get(name)(problem, replace(runtime, memory="off"))
            yield timed_for(problem, plan, runtime)
        if start == "best" and problem.num_operators >= LARGE:
            with suppress(OutOfMemory):
                yield best_start(problem, runtime, work, ended)
        if self.limited:
            yield from (timed_for(problem, plan, runtime) for plan in plans_with_few_transfers(problem, runtime))

    def restart(self, first: Schedule) -> None:
        """Begin anew with another plan, which has simulated times; draws and the room for weights go on."""
        turns = courses.turns_of(self.problem, first)
        courses.restart(self.problem, self.course, first.assignment, turns, self.switches)
        self.makespan = np.inf
        network = proposals.Network(self.guide.enter, self.guide.bias, self.guide.leave)
        self._begin(first, proposals.new_proposals(self.problem, network))

    def _begin(self, first: Schedule, guide: proposals.Proposals | None) -> None:
        """Begin with the plan that the course holds."""
        hot = self.heat * float(self.course.value[courses.CURRENT])
        self.cooling = Cooling(hot, self.cools * hot)
        self.guide = guide or proposals.new_proposals(self.problem)
        self.placed = int(self.course.counts[courses.PLACED])
        self.finished = hot == 0.0 or (self.problem.num_devices == 1 and self.by_arrival)
        self.best: Schedule | None = None
        self._compare(first)
        self._next, self._seen = self.placed, float(self.course.value[courses.BEST])

    def advance(self, target: int, total: int) -> None:
        """Anneal until the target is reached; see :meth:`Search.advance`."""
        p, cooling, mix = self.problem.arrays, self.cooling_of(total), self.mix_of(total)
        while self.placed < target:
            until = min(target, self._next)
            if self.placed < until:
                self.course.counts[courses.PLACED] = self.placed
                anneal(p, self.course, self.guide, self.rng, until, total, cooling, mix, self.switches)
                self.placed = int(self.course.counts[courses.PLACED])
            if self.placed >= self._next:
                self._verify()
                self._next = self.placed + VERIFY * self.problem.num_operators
        if self.exact:
            self._verify()

    @property
    def effort(self) -> int:
        """The unit of work [operators launched in trials] that tells long searches from short ones."""
        return self.problem.num_operators**2

    def cooling_of(self, total: int) -> Cooling:
        """First and last temperature of a search of `total` launches: a longer search starts hotter."""
        if not self.adapts:
            return self.cooling
        warmth = min(max(1.0, (total / LONG) ** 0.5 / self.effort**0.5), HOTTER)
        return Cooling(warmth * self.cooling.hot, self.cooling.cold)

    def mix_of(self, total: int) -> Mix:
        """The kinds of changes in a search of `total` launches: a longer search leaves less to its network."""
        effort = self.effort
        share, sharper = min(1.0, LONG * effort / total), SHARPER * min(1.0, SHORT * effort / total)
        mix = self.mix._replace(trust=share * self.mix.trust, sharpness=1.0 + sharper)
        if self.helped and 0.0 < mix.reorder < 1.0:
            mix = mix._replace(reorder=share * REORDER_BESIDE + (1.0 - share) * mix.reorder)
        return mix

    def _verify(self) -> None:
        """Simulate the best plan of the course if it is new; where its times are exact, only note its makespan."""
        found = float(self.course.value[courses.BEST])
        if found < self._seen:
            self._seen = found
            if self.exact:
                self.makespan = min(self.makespan, found)
            else:
                self._compare(self._found())

    def _found(self) -> Schedule:
        """The best plan of the course, simulated."""
        return as_run(self.problem, courses.best_plan(self.problem, self.course, NAME), self.runtime)

    def _compare(self, plan: Schedule) -> bool:
        """Save a plan with simulated times if it is the best one that fits; if it does not fit, leave less room.

        Returns:
            True if it fits.
        """
        if self.limited:
            excess = capacity.missing(self.problem, plan, self.runtime)
            if excess.any():
                self.course.room[:] -= capacity.RESERVE * excess
                courses.renew_best(self.course)
                self._seen, self._lacking = float(self.course.value[courses.BEST]), excess
                return False
        if self.best is None or plan.makespan < self.best.makespan:
            self.best, self.makespan = plan, plan.makespan
        return True

    def schedule(self) -> Schedule:
        """The best schedule so far."""
        self._verify()
        if self.best is None:
            raise capacity.nothing_fits(self.problem, self._lacking)
        if self.makespan < self.best.makespan:
            self._compare(self._found())
        return self.best


class Mix(NamedTuple):
    """The kinds of changes."""

    reorder: float  # share of tries that give an operator another turn
    critical: float  # share of these that take one of the critical chain
    sizes: int  # number of sizes of regions, each twice the one before
    trust: float  # share of regions that a guide proposes
    sharpness: float  # power to which its odds are raised
    exchanged: float  # share of regions in whose place one of the other device comes


# Before each iteration the course holds the times of its plan, and the best plan so far. The Metropolis rule is
# inverted: a limit is drawn first, and a price ends as soon as it must exceed the limit. Each iteration counts at least
# one operator, so the loop ends.
@lean
def anneal(
    p: ProblemArrays,
    course: courses.Course,
    guide: proposals.Proposals,
    rng: np.random.Generator,
    target: int,
    total: int,
    cooling: Cooling,
    mix: Mix,
    switches: Switches,
) -> None:
    """Anneal until the target is reached; every try is charged as one more operator launched."""
    while course.counts[courses.PLACED] < target:
        temperature = cooling.hot * (cooling.cold / cooling.hot) ** min(1.0, course.counts[courses.PLACED] / total)
        course.counts[courses.PLACED] += 1
        course.counts[courses.TRIED] += 1
        limit = course.value[courses.CURRENT] - temperature * np.log(1.0 - rng.random())
        if rng.random() < mix.reorder:
            source, to = regions.draw_shift(p, course, rng, mix.critical, switches)
            if source == to:
                continue
            courses.shift(course, source, to)
            first, last = min(source, to), max(source, to)
            if courses.price(p, course, first, last, limit, switches) < np.inf:
                courses.keep(p, course, first, last, switches)
            else:
                courses.shift(course, to, source)
        else:
            lacked, makespan = courses.lacking(course), course.value[courses.CURRENT]
            heat = temperature / makespan if makespan > 0.0 else 1.0
            guided = mix.trust, mix.sharpness, heat
            count = proposals.propose(p, course, guide, rng, *guided, mix.sizes, mix.exchanged, switches)
            if count == 0:
                continue
            lacks, price = courses.lacking(course), np.inf
            first, last = regions.span(p, course, count)
            if lacks <= lacked:
                price = courses.price(p, course, first, last, np.inf if lacks < lacked else limit, switches)
            proposals.note(p, course, guide, count, makespan, price)
            if price < np.inf:
                courses.keep(p, course, first, last, switches)
            else:
                courses.take_back(course, count)
        courses.sort_now_and_then(p, course, switches)
