"""Starts: good plans without a search, from list schedules, their replays, and list schedules of contracted problems.

What is tried is counted by work and not by time, so that the plan is the same on every machine.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hetgym._types import FloatArray, IntArray
from hetgym.errors import OutOfMemory, check_name
from hetgym.graph.topology import depths
from hetgym.planning.capacity import limited, missing, nothing_fits
from hetgym.planning.contraction import contractions
from hetgym.planning.list_scheduling import devices_of, place_by_priority
from hetgym.planning.ranks import assigned_bottom_level
from hetgym.planning.registry import get
from hetgym.planning.replaying import Launched, Replayer
from hetgym.planning.timeline import timed_for
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime
from hetgym.sim.runtime import charged

STARTS = ("plain", "replay", "contracted")
"""Values of the option ``start`` of list schedulers; the plan of one is never longer than those of the ones before."""

FRACTIONS = (0.85, 0.7, 0.55, 0.4, 0.25)
"""Shares of the operators to which problems are contracted."""

WORK = 6.5
"""Work of :func:`best_start` by default: millions of operators and edges that a list scheduler rates on a device."""

READY = ("min-min", "dls")  # Those that rate all ready operators again and again, taken to be those of one level
REPLAYED = 0.3  # Work of the replays of a placement, over that of a list schedule

AGAIN = 2  # List schedules in the order of the bottom levels of the best placement so far, at the end

Place = Callable[[Problem, Runtime], Schedule]
"""A list scheduler, for a problem and a runtime."""


class Attempt(NamedTuple):
    """A list schedule that is tried."""

    scheduler: str
    fraction: float = 1.0  # share of operators to which the problem is contracted
    blind: bool = False  # true if it plans for `classic`, where many schedulers are faster


ATTEMPTS = (
    Attempt("heft"),
    Attempt("peft", 0.25),
    Attempt("peft", 0.7),
    Attempt("pets"),
    Attempt("min-min", blind=True),
    Attempt("ilha", 0.4),
    Attempt("heft", 0.4),
    Attempt("peft"),
    Attempt("dps", 0.7),
    Attempt("mh"),
    Attempt("min-min"),
    Attempt("peft", 0.55),
    Attempt("pets", 0.7),
    Attempt("lookahead-heft"),
    Attempt("cpop", 0.7),
    Attempt("ilha", 0.7),
    Attempt("peft", 0.4),
    Attempt("ilha"),
    Attempt("dps", 0.55),
    Attempt("lookahead-heft", 0.7),
    Attempt("peft", 0.85),
    Attempt("cpop", 0.25),
    Attempt("lookahead-heft", 0.55),
    Attempt("dls", blind=True),
    Attempt("lookahead-heft", 0.85),
)
"""In the order of what they gain for their time on large problems of many kinds."""


def replay(problem: Problem, plan: Schedule | IntArray, runtime: str | Runtime = "classic") -> Schedule:
    """Give a placement the order in which a work-conserving run launches its operators.

    There are two such runs, and the plan of the smaller makespan is returned: a free device takes the ready operator of
    the largest bottom level, or the one whose last input arrived first. Ties go to the smaller topological position.
    Whether the plan fits the memory is not checked.

    Args:
        plan: a schedule, or [n] devices; only the placement counts.
        runtime: the runtime that will run the plan.

    Returns:
        The plan with the times of the runtime's simulation; it can be longer than the one given.

    Raises:
        InvalidSchedule: a device that does not exist or cannot run its operator.

    >>> problem = Problem.from_arrays([[1.0], [2.0], [3.0]], [(0, 1, 0.0)])
    >>> replay(problem, np.zeros(3, np.int32)).order
    (array([0, 2, 1], dtype=int32),)
    """
    devices = devices_of(problem, plan.assignment if isinstance(plan, Schedule) else plan)
    replayer = Replayer(problem, runtime)
    plans = replayer.by_priority(devices), replayer.by_arrival(devices)
    best = min(plans, key=lambda launched: launched.makespan)
    name = plan.scheduler if isinstance(plan, Schedule) else ""
    return best.schedule(problem, replayer.runtime if isinstance(runtime, str) else runtime, name)


def best_start(
    problem: Problem,
    runtime: str | Runtime = "classic",
    work: float = WORK,
    ended: Callable[[], bool] = lambda: False,
) -> Schedule:
    """The shortest plan of list schedules of the problem and of contracted ones, and of their replays.

    Attempts are made in the order of :data:`ATTEMPTS` as long as their work is not used up, but always the first.

    Args:
        runtime: the runtime that will run the plan.
        work: millions of operators and edges that a list scheduler may rate on a device; some dozen of such schedules
            are made of 10 000 operators on eight devices by default.
        ended: says, after each attempt, whether it should be the last.

    Returns:
        The plan with the times of the runtime's simulation, and the name of the scheduler that placed its operators.

    Raises:
        OutOfMemory: the runtime enforces capacities, and no plan that fits was found.

    >>> from hetgym.workloads import textbook
    >>> best_start(textbook("topcuoglu")).makespan
    76.0
    """
    best = Best(problem, runtime)
    small = _contracted(problem, [1.0])
    left = work * 1e6
    for number, attempt in enumerate(ATTEMPTS):
        if number and (ended() or left < REPLAYED * _rated(problem)):
            break
        if number == 1:
            small = _contracted(problem, sorted({attempt.fraction for attempt in ATTEMPTS}, reverse=True))
        part, parent = small[attempt.fraction]
        spent = _work(problem, part, attempt)
        if number and spent > left:
            continue
        left -= spent
        blind = replace(as_runtime("classic"), memory=best.runtime.memory)
        scheduler = get(attempt.scheduler)
        best.place(scheduler, part, parent, blind if attempt.blind else best.runtime, scheduler.name)
    best.place_again(ended)
    return best.finished()


def _rated(problem: Problem) -> int:
    """Operators and edges that a list scheduler rates on a device."""
    return problem.num_devices * (problem.num_operators + problem.num_edges)


def _work(problem: Problem, part: Problem, attempt: Attempt) -> float:
    """Work of an attempt at a problem, or its contracted part, with its replays."""
    factor = 1.0
    if attempt.scheduler == "lookahead-heft":
        factor = problem.num_devices
    elif attempt.scheduler in READY and not (attempt.blind and attempt.scheduler == "min-min"):
        beside = np.bincount(depths(part.successors, part.topological_order)).astype(np.float64)
        factor = 2.0 + float((beside**2).sum()) / (3.0 * part.num_operators)
    return factor * _rated(part) + REPLAYED * _rated(problem)


def started(problem: Problem, start: str, runtime: str | Runtime, place: Place) -> Schedule:
    """The plan of a list scheduler with an option ``start``.

    Args:
        start: one of :data:`STARTS`: the plan itself; or also its replays; or also those of the schedules of contracted
            problems.
        place: the list scheduler.

    Raises:
        UnknownName: no such start.
        OutOfMemory: the runtime enforces capacities, and no plan that fits was found.
    """
    check_name("start", start, STARTS)
    switches = as_runtime(runtime)
    if start == "plain":
        return place(problem, switches)
    best = Best(problem, switches)
    fractions = (1.0, *FRACTIONS) if start == "contracted" else (1.0,)
    for small, parent in _contracted(problem, list(fractions)).values():
        best.place(place, small, parent, best.runtime)
    return best.finished()


def _contracted(problem: Problem, fractions: list[float]) -> dict[float, tuple[Problem, IntArray]]:
    """Fraction -> the contracted problem, and the part of it to which each operator belongs."""
    found = {1.0: (problem, np.arange(problem.num_operators, dtype=np.int32))}
    below = [fraction for fraction in fractions if fraction < 1.0]
    return found | dict(zip(below, contractions(problem, below), strict=True))


def _by_level(level: FloatArray) -> Place:
    return lambda problem, runtime: place_by_priority(problem, level, runtime=runtime)


class Best:
    """The shortest plan so far of those that are tried for a problem and a runtime.

    Args:
        runtime: the runtime that will run the plan.
    """

    def __init__(self, problem: Problem, runtime: str | Runtime) -> None:
        self.problem, self.runtime = problem, charged(as_runtime(runtime), problem)
        self.limited = limited(problem, self.runtime)
        self._replayer = Replayer(problem, self.runtime)
        self._makespan, self._name = np.inf, ""
        self._plan: Schedule | Launched | None = None
        self._error: OutOfMemory | None = None
        self._lacks = np.zeros(problem.num_devices)

    def place(self, place: Place, small: Problem, parent: IntArray, runtime: Runtime, name: str = "") -> None:
        """Try the plan of a list scheduler, and its replay.

        Args:
            small, parent: the problem that it schedules, and [n] the operator of that one to which each belongs.
            runtime: the runtime that it plans for.
            name: of the scheduler.
        """
        try:
            schedule = place(small, runtime)
        except OutOfMemory as error:
            self._error = error
            return
        assert schedule.start is not None and schedule.finish is not None
        if small is self.problem:
            self._offer(timed_for(self.problem, schedule, self.runtime), name)
            self._offer(self._replayer.by_priority(np.array(schedule.assignment, np.int32)), name)
            return
        assignment = schedule.assignment[parent].astype(np.int32)
        turn = np.empty(small.num_operators, np.int32)
        turn[np.lexsort((small.arrays.position, schedule.finish, schedule.start))] = np.arange(small.num_operators)
        turns = np.lexsort((self.problem.arrays.position, turn[parent])).astype(np.int32)
        self._offer(self._replayer.by_priority(assignment), name)
        self._offer(self._replayer.in_order(assignment, turns), name)

    def place_again(self, ended: Callable[[], bool]) -> None:
        """Schedule the operators in the order of the bottom levels of the best placement, as long as that helps."""
        for _ in range(AGAIN):
            before, plan = self._makespan, self._plan
            if plan is None or ended():
                return
            devices = np.array(plan.assignment, np.int32)
            level = assigned_bottom_level(self.problem.arrays, devices)
            self.place(_by_level(level), self.problem, devices, self.runtime, self._name)
            if self._makespan == before:
                return

    def finished(self) -> Schedule:
        """The best plan, or the replay of its placement by arrival.

        Raises:
            OutOfMemory: no plan that fits was found.
        """
        if self._plan is None:
            raise self._error or nothing_fits(self.problem, self._lacks)
        self._offer(self._replayer.by_arrival(np.array(self._plan.assignment, np.int32)), self._name)
        plan = self._plan
        return plan if isinstance(plan, Schedule) else plan.schedule(self.problem, self.runtime, self._name)

    def _offer(self, plan: Schedule | Launched, name: str) -> None:
        """Keep a plan if it is shorter than the best one, and fits."""
        if plan.makespan >= self._makespan:
            return
        if self.limited:
            whole = plan if isinstance(plan, Schedule) else plan.schedule(self.problem, self.runtime)
            self._lacks = missing(self.problem, whole, self.runtime)
            if self._lacks.any():
                return
        self._plan, self._makespan, self._name = plan, plan.makespan, name
