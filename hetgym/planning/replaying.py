"""Replay: a placement runs work-conserving, and the order in which its operators were launched becomes the plan's.

List schedulers decide one operator after the other and cannot know what will be ready when a device becomes free. With
the placement known, a device that never waits while it could work seldom launches in a worse order.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hetgym._types import FloatArray, IntArray
from hetgym.planning.capacity import unlimited
from hetgym.planning.ranks import assigned_bottom_level
from hetgym.planning.timeline import as_run, rows_of
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Runtime
from hetgym.sim.run import new_workspace, run, setting
from hetgym.sim.runtime import charged


class Launched(NamedTuple):
    """A placement, the order in which each device launches its operators, and the makespan under the runtime [s]."""

    makespan: float
    assignment: IntArray  # [n] device of each operator
    order: IntArray  # [n] operators, device after device
    pointer: IntArray  # [d + 1] where each device begins in it

    def schedule(self, problem: Problem, runtime: Runtime, scheduler: str = "") -> Schedule:
        """The plan with its simulated times."""
        rows = rows_of(self.order, self.pointer)
        return as_run(problem, Schedule(self.assignment, order=rows, scheduler=scheduler), runtime)


class Replayer:
    """Runs placements of one problem under one runtime, whose memory and noise play no part.

    Args:
        runtime: the runtime that will run the plans.
    """

    def __init__(self, problem: Problem, runtime: str | Runtime) -> None:
        self.problem = problem
        self.runtime = charged(unlimited(runtime), problem)
        self._how = setting(problem, self.runtime)
        self._space = new_workspace(problem.arrays, self._how)
        self._free = setting(problem, self.runtime, by_priority=True)
        self._first = setting(problem, replace(self.runtime, order="ready"))
        self._room = new_workspace(problem.arrays, self._free)
        n, d = problem.cost.shape
        self._nothing = np.zeros((1, n), np.int32), np.zeros((1, d + 1), np.int32)
        # In a fixed order operators start as they did when they were launched, unless hosts run ahead or inputs are
        # pulled in that order.
        pushed = self.runtime.transfers != "aggregated"
        self._same = self.runtime.keeps_order and self.runtime.dispatch == 0.0 and pushed

    def by_priority(self, assignment: IntArray, priority: FloatArray | None = None) -> Launched:
        """A free device takes the ready operator of the largest priority, [n], by default its bottom level.

        Bottom levels are those of the placement, its transfers included.
        """
        if priority is None:
            priority = assigned_bottom_level(self.problem.arrays, assignment)
        return self._replayed(assignment, priority, by_arrival=False)

    def by_arrival(self, assignment: IntArray) -> Launched:
        """A free device takes the operator whose last input arrived first."""
        return self._replayed(assignment, np.zeros(len(assignment)), by_arrival=True)

    def in_order(self, assignment: IntArray, turns: IntArray) -> Launched:
        """Devices launch their operators in the order of ``turns``, [n] operators in a topological order."""
        order = turns[np.argsort(assignment[turns], kind="stable")].astype(np.int32)
        return self._priced(assignment, order, self._pointer(assignment))

    def turns(self) -> IntArray:
        """[n] operators by their finish in the latest run of :meth:`in_order`, ties by start and topological position.

        An order of all operators that agrees with the order in which each device launched its own.
        """
        state = self._space.state
        return np.lexsort((self.problem.arrays.position, state.start, state.finish)).astype(np.int32)

    def _replayed(self, assignment: IntArray, priority: FloatArray, by_arrival: bool) -> Launched:
        how = self._first if by_arrival else self._free
        plan = assignment[None], *self._nothing, priority[None]
        makespan, _ = run(self.problem.arrays, self._room, *plan, how)
        pointer = self._pointer(assignment)
        order = np.empty(len(assignment), np.int32)
        order[pointer[assignment] + self._room.progress.slot] = np.arange(len(assignment))
        if self._same:
            return Launched(float(makespan[0]), assignment, order, pointer)
        return self._priced(assignment, order, pointer)

    def _priced(self, assignment: IntArray, order: IntArray, pointer: IntArray) -> Launched:
        priority = np.empty(len(order))
        priority[order] = -np.arange(float(len(order)))
        plan = assignment[None], order[None], pointer[None], priority[None]
        return Launched(
            float(run(self.problem.arrays, self._space, *plan, self._how)[0][0]), assignment, order, pointer
        )

    def _pointer(self, assignment: IntArray) -> IntArray:
        pointer = np.zeros(self.problem.num_devices + 1, np.int32)
        np.cumsum(np.bincount(assignment, minlength=self.problem.num_devices), out=pointer[1:])
        return pointer
