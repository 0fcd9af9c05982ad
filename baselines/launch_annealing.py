"""Launch annealing: windows of large problems under runtimes that choose the order of operators themselves.

A device that takes the operators that are ready as they come, or by priority, needs the event loop. But in the order in
which its run launched them, the nearest runtime without events gives the plan the same times, or nearly so. So windows
are cut from that order and annealed under the nearest runtime (:mod:`hetgym.baselines.window_annealing`). A run of the
changed plan decides whether they stay, and gives the next order.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hetgym._types import IntArray
from hetgym.baselines.region_search import NAME
from hetgym.baselines.window_annealing import WindowAnnealing
from hetgym.planning.replaying import Replayer
from hetgym.planning.timeline import as_run
from hetgym.schedule import Schedule
from hetgym.search import course as courses
from hetgym.search.proposals import Proposals
from hetgym.search.windows import Change
from hetgym.sim import Runtime


class LaunchAnnealing(WindowAnnealing):
    """Region annealing in windows, for runtimes that choose the order (:func:`chooses`); see the module.

    Arguments are those of :class:`WindowAnnealing`.
    """

    def _model(self) -> Runtime:
        return nearest(self.runtime)

    def _begin(self, first: Schedule, guide: Proposals | None) -> None:
        super()._begin(first, guide)
        self._replayer = Replayer(self.problem, self.runtime)
        self._now = first.makespan
        self._least = self._seen = self.makespan
        self._plan = self._copy()
        self._turns: IntArray | None = None  # the order of a run's launches, unless the plan is in it

    def _copy(self) -> tuple[IntArray, IntArray]:
        """Devices and order of the current plan."""
        return self.course.assignment.copy(), self.course.order.copy()

    def _paste(self, changes: list[Change], temperature: float) -> None:
        """Paste windows together if a run takes no longer than the Metropolis rule allows, else each half of them."""
        assignment, order = self._copy()
        for change in changes:
            assignment[change.operators] = change.devices
            order[change.begin : change.begin + len(change.operators)] = change.operators
        limit = self._now - temperature * np.log(1.0 - self.rng.random())
        makespan = self._run(assignment, order)
        if self.cutter.paste(changes, np.inf if makespan <= limit else -np.inf):
            self._now, self._turns = makespan, self._replayer.turns()
            if makespan < self._least and courses.lack(self.course) == 0.0:
                self._least, self._plan = makespan, (assignment, order)
        elif len(changes) > 1:
            half = len(changes) // 2
            self._paste(changes[:half], temperature)
            self._paste(changes[half:], temperature)

    def _run(self, assignment: IntArray, order: IntArray) -> float:
        """Makespan of a plan [s]."""
        self.placed += len(order)
        return self._replayer.in_order(assignment, order).makespan

    def _settle(self) -> None:
        """Bring the plan into the order in which its run launches the operators."""
        if self._turns is None:
            return
        before = int(self.course.counts[courses.PLACED])
        courses.restart(self.problem, self.course, self.course.assignment.copy(), self._turns, self.switches)
        self.course.counts[courses.PLACED] += before
        self._turns = None

    def _verify(self) -> None:
        """Simulate the best plan if it is new."""
        if self._least < self._seen:
            self._least = self._least if self._compare(self._found()) else np.inf
            self._seen = self._least

    def _found(self) -> Schedule:
        assignment, order = self._plan
        rows = tuple(order[assignment[order] == device] for device in range(self.problem.num_devices))
        return as_run(self.problem, Schedule(assignment, order=rows, scheduler=NAME), self.runtime)


def chooses(runtime: Runtime) -> bool:
    """True if devices choose the order of their operators themselves, and run them one at a time."""
    return runtime.order != "fixed" and runtime.streams == 1 and not runtime.partitions


def nearest(runtime: Runtime) -> Runtime:
    """The nearest runtime without events: one operator at a time on a device, in the order of the plan."""
    return replace(runtime, streams=1, overlap=0.0, order="fixed", partitions=False)
