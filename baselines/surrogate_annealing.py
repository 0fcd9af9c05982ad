"""Surrogate annealing: large problems are searched under the nearest runtime without events first.

Under an event-loop runtime a price launches all operators behind the change, event by event. The nearest runtime
without events (one stream, the order of the plan, no time to enter partitions) can be searched in windows, at a small
fraction of the cost. Its plan is then run under the true one, unchanged and replayed (:func:`hetgym.planning.replay`);
the shortest plan is where the search under the true runtime begins.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from hetgym._types import FloatArray
from hetgym.baselines.launch_annealing import chooses, nearest
from hetgym.baselines.region_annealing import annealing
from hetgym.baselines.region_search import LARGE, RegionAnnealing
from hetgym.baselines.window_annealing import OWN, Resources
from hetgym.errors import OutOfMemory
from hetgym.planning import capacity
from hetgym.planning.starts import replay
from hetgym.planning.timeline import with_times
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.search.search import Search
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime

SHARE = 0.85  # Share of the budget that the nearest runtime without events gets


class SurrogateAnnealing(Search):
    """Region annealing under the nearest runtime without events, then under the true one; see the module.

    Args:
        start: the schedule that is improved, or the name of its scheduler, see
            :func:`~hetgym.baselines.region_annealing.region_annealing`.
        resources: the network, work for the start, and executor, which the search under the true runtime does not use.
    """

    def __init__(
        self,
        problem: Problem,
        start: str | Schedule = "best",
        seed: int = 0,
        runtime: str | Runtime = "framework",
        resources: Resources = OWN,
    ) -> None:
        self.problem, self.seed, self.resources = problem, seed, resources
        self.runtime = replace(as_runtime(runtime), noise=0.0, seed=0)
        self.leg: RegionAnnealing = annealing(problem, start, seed, runtime=nearest(self.runtime), resources=resources)
        self.first = self._run(self.leg.first)
        self.before, self.true = 0, False
        self._note()

    def _run(self, *plans: Schedule) -> Schedule:
        """The shortest of plans, unchanged and replayed, under the true runtime; one that fits if there is one."""
        found = [with_times(self.problem, plan, self.runtime) for plan in plans]
        found += (replay(self.problem, plan, self.runtime) for plan in plans)
        return min(found, key=lambda plan: (self._lacks(plan).any(), plan.makespan))

    def _lacks(self, plan: Schedule) -> FloatArray:
        """What each device lacks for a plan, [d] [byte]."""
        if capacity.limited(self.problem, self.runtime):
            return capacity.missing(self.problem, plan, self.runtime)
        return np.zeros(self.problem.num_devices)

    def _note(self) -> None:
        self.placed, self.finished = self.before + self.leg.placed, self.leg.finished
        known = np.inf if self._lacks(self.first).any() else self.first.makespan
        self.makespan = self.leg.makespan if self.true else known

    def advance(self, target: int, total: int) -> None:
        """Search until the target is reached; see :meth:`Search.advance`."""
        end = total if self.true else int(SHARE * total)
        if self.placed < end:
            self.leg.advance(min(target, end) - self.before, end - self.before)
            self._note()
        if self.placed >= end and not self.true:
            self._continue()
            self.advance(target, total)

    def _continue(self) -> None:
        """Search under the true runtime from now on."""
        start, self.before, self.true = self._found(), self.placed, True
        self.leg = annealing(self.problem, start, self.seed, runtime=self.runtime, resources=self.resources)
        self._note()

    def _found(self) -> Schedule:
        """The best plan so far, which need not fit."""
        plans = [self.first]
        with suppress(OutOfMemory):
            plans.append(self.leg.schedule())
        return self._run(*plans)

    def schedule(self) -> Schedule:
        """The best schedule so far."""
        if self.true:
            return self.leg.schedule()
        found = self._found()
        if (lacks := self._lacks(found)).any():
            raise capacity.nothing_fits(self.problem, lacks)
        return found


def pays(problem: Problem, runtime: Runtime) -> bool:
    """True for large problems under event-loop runtimes that are not searched in windows."""
    return problem.num_operators >= LARGE and not (runtime.keeps_order or chooses(runtime))
