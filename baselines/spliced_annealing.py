"""Spliced annealing: several searches one after the other, whose plans are spliced before the last one.

Annealing settles which basin it ends in while it is hot, and makes only that one better with more time. Long searches
gain more from several plans whose best blocks come together (:mod:`hetgym.search.splices`).
"""

from dataclasses import replace
from operator import attrgetter

from hetgym.baselines.region_annealing import annealing
from hetgym.baselines.window_annealing import OWN, Resources
from hetgym.planning.timeline import as_run
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.search import course as courses
from hetgym.search import splices
from hetgym.search.search import Search
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime

LEGS = 8  # Most searches; the last one improves the splice of what the others found
LEAST = 4  # Fewest searches; where there is no room for them, there is only one

LEG = 125
"""Least operators launched in the trials of each, over the search's effort: what a shorter search finds is far
from what its basin holds, and no splice makes up for that."""


class SplicedAnnealing(Search):
    """Region annealing in legs: the last one begins with the best splice of what the others found from the start.

    How many legs there are depends on the budget; in a short search there is only one, which is region annealing.

    Args:
        start: the schedule that is improved, or the name of its scheduler, see
            :func:`~hetgym.baselines.region_annealing.region_annealing`.
        resources: the network, work for the start, and executor.

    Attributes:
        leg: the search that is under way.
        ended: the number of searches before it; the plans of those that found one are in ``found``.
    """

    def __init__(
        self,
        problem: Problem,
        start: str | Schedule = "best",
        seed: int = 0,
        runtime: str | Runtime = "classic",
        resources: Resources = OWN,
    ) -> None:
        self.problem = problem
        self.runtime = replace(as_runtime(runtime), noise=0.0, seed=0)
        self.found: list[Schedule] = []
        self.leg = annealing(problem, start, seed, runtime=self.runtime, resources=resources)
        self.start = self.leg.first
        self.before = self.ended = 0
        self._note()

    def _note(self) -> None:
        self.placed, self.finished = self.before + self.leg.placed, self.leg.finished
        self.makespan = min(self.makespan, self.leg.makespan)

    def advance(self, target: int, total: int) -> None:
        """Search until the target is reached; see :meth:`Search.advance`."""
        legs = min(LEGS, total // (LEG * self.leg.effort))
        if legs < LEAST:  # with a limit of time the total is an estimate, and may fall after the first leg
            legs = LEAST if self.ended else 1
        while self.placed < target and not self.finished:
            last = self.ended >= legs - 1
            end = total if last else total * (self.ended + 1) // legs
            if self.placed < end:
                self.leg.advance(min(target, end) - self.before, end - self.before)
                self._note()
            elif last:
                return
            else:
                self._next_leg(self.ended + 2 == legs)

    def _next_leg(self, last: bool) -> None:
        """Begin another leg, the last one with the best splice."""
        if self.leg.best is not None:
            self.found.append(self.leg.schedule())
        self.ended += 1
        start = self._spliced() if last and self.found else self.start
        self.before = self.placed
        self.leg.restart(start)
        self._note()

    def _spliced(self) -> Schedule:
        """The best splice of the plans found, if it is better than all of them in simulation, else the best of them."""
        plans = sorted(self.found, key=attrgetter("makespan"))
        first, *others = [(plan.assignment, courses.turns_of(self.problem, plan)) for plan in plans]
        course = self.leg.course
        courses.restart(self.problem, course, *first, self.leg.switches)
        splices.splice(self.problem, course, others, self.leg.switches)
        self.placed += int(course.counts[courses.PLACED])
        found = as_run(self.problem, courses.best_plan(self.problem, course, plans[0].scheduler), self.runtime)
        return min(plans[0], found, key=attrgetter("makespan"))

    def schedule(self) -> Schedule:
        """The best schedule so far."""
        if self.found and self.leg.best is None:
            return min(self.found, key=attrgetter("makespan"))
        return min(*self.found, self.leg.schedule(), key=attrgetter("makespan")) if self.found else self.leg.schedule()
