"""ImproveLanes: the episodes of HetImprove-v0 side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym import metrics
from hetgym._kernels import records as records
from hetgym._kernels.blanks import blank
from hetgym._kernels.draws import new_draws
from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.envs.core.arguments import whole_number
from hetgym.envs.core.lanes import RecordLanes, begun, only_options
from hetgym.envs.core.memory import Remembered
from hetgym.envs.core.padding import GraphPadding
from hetgym.envs.core.rendering import gantt_pixels
from hetgym.envs.core.sources import Source
from hetgym.envs.improve.dynamics import DRAWN, IN_TURN, PAIRS, How, improve
from hetgym.envs.improve.observation import improve_space
from hetgym.envs.improve.rules import ACCEPT, ImproveRules
from hetgym.envs.improve.state import MOST, RECORD, ImproveState
from hetgym.envs.place.instance import ScheduleInstance, prepare
from hetgym.envs.place.observation import Fixed, fixed
from hetgym.envs.place.problems import playable
from hetgym.envs.place.rendering import plan_text
from hetgym.envs.place.state import ANY, PROBLEM
from hetgym.errors import ConfigError, shown
from hetgym.planning.registry import get
from hetgym.planning.timeline import as_run, timed_for, with_times
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.search import course as courses
from hetgym.search import device_orders, regions
from hetgym.sim import Runtime, Trace, simulate

_COURSES = 8  # problems for which a lane keeps arrays


class Prepared(NamedTuple):
    """What an episode needs of its problem."""

    instance: ScheduleInstance  # the problem with its reference
    arrays: records.Entry  # of the problem, for kernels
    blank: dict[str, npt.NDArray[Any]]  # the observation at the beginning of an episode, by key
    start: Schedule | None  # the plan that is improved, with its times; None if it is drawn
    reorder: float  # share of moves that give an operator another turn
    exact: bool  # true if the times of a course are those of a simulation


class ImproveLanes(RecordLanes):
    """Episodes side by side in which plans are improved; ``state``: of all lanes."""

    kind = "improve"
    narrow = ("candidates", "devices", "plan", "action_mask")
    options = ("problem", "schedule", "conditions")

    def __init__(
        self,
        count: int,
        source: Source[Problem, GraphPadding],
        rules: ImproveRules,
        padding: GraphPadding,
        level: str,
        reward: str,
    ) -> None:
        actions = rules.actions(padding.operators, padding.devices)
        super().__init__(count, improve_space(padding, actions), level, actions)
        self.source, self.rules, self.padding = source, rules, padding
        offers = DRAWN if isinstance(rules.moves, int) else IN_TURN if rules.moves == "turn" else PAIRS
        steps, most = rules.budget(padding.operators), MOST if offers == DRAWN else 1
        self.state = blank(ImproveState, L=count, A=actions, T=steps, M=most, N=padding.operators)
        self._runtime = replace(rules.simulated, memory="off", noise=0.0, seed=0)  # of plans; masks respect capacities
        self._switches = courses.switches_of(ANY, self._runtime)
        accept, current = ACCEPT.index(rules.accept), reward == "current"
        gains, masks = rules.gains, rules.memory == "mask"
        heat, tabu, sparse = (rules.heat, rules.cooling), rules.tabu, reward == "sparse"
        self._how = How(accept, *heat, gains, offers, tabu, current, sparse, masks)
        self._like = courses.blank_course(ANY, self._runtime)
        self._prepared: list[Prepared | None] = [None] * count
        self._given: list[Schedule | None] = [None] * count
        self._entropy = [0] * count
        self._schedules: list[Schedule | None] = [None] * count
        self.makespan = np.full(count, np.nan)
        self._known: Remembered[Problem, Prepared] = Remembered(source.kept(count))
        self._own: list[Remembered[Problem, records.Entry]] = [Remembered(_COURSES) for _ in range(count)]
        self._problems, self._courses = records.Rows(count, PROBLEM), records.Rows(count, self._like)
        self._draws = records.Rows(count, new_draws(0))
        for lane in range(count):
            self._draws[lane] = new_draws(0)
        self._lanes = self._all_lanes()

    def _all_lanes(self) -> records.Rows:
        """The arrays that the kernels need of all lanes, as a row of one record."""
        return self._record(RECORD, self._problems.table, self._courses.table, self._draws.table, self.state)

    def begin_episode(self, lane: int, rng: np.random.Generator, options: dict[str, Any], seed: int | None) -> None:
        """Prepare an episode on a problem drawn from the source, or on ``options["problem"]``.

        Args:
            rng: draws the problem, and the seed of the start and of the moves unless ``options["conditions"]`` gives
                it.
            options: ``schedule``, the plan to begin with.
        """
        forced, given, conditions = only_options(options, *self.options)
        if conditions is not None:
            conditions = whole_number("options['conditions']", conditions, 0, 2**64 - 1)
        entropy = int(rng.integers(2**62))  # drawn in any case, so that the problem does not depend on the option
        problem = self.source.draw(rng, lane, seed) if forced is None else playable(forced)
        passing = forced is None and self.source.passing(seed)
        prepared = self._known.get(problem, lambda: self._prepare(problem), passing)
        start, state = prepared.start, self.state
        if given is not None:
            start = _plan(problem, given, self._runtime)
        self._entropy[lane] = entropy if conditions is None else conditions
        self._given[lane] = given
        self._draws[lane].state[0] = self._entropy[lane]
        self._seat(lane, prepared)
        if start is None:
            courses.write(self._courses[lane], _drawn(problem, self._entropy[lane]), problem.topological_order)
        else:
            courses.write(self._courses[lane], start.assignment, courses.turns_of(problem, start))
        for key, array in prepared.blank.items():
            self.arrays[key][lane] = array
        state.turn[lane], state.budget[lane] = 0, self.rules.budget(problem.num_operators)
        state.free[lane] = 0
        state.reference[lane] = state.potential[lane] = prepared.instance.reference
        state.reorder[lane] = prepared.reorder
        self.names[lane], self.makespan[lane], self._schedules[lane] = problem.name, np.nan, None

    def _prepare(self, problem: Problem) -> Prepared:
        """Prepare a problem for all episodes on it."""
        self.padding.check(problem.name, (problem.num_operators, problem.num_edges, problem.num_devices))
        runtime, start = self._runtime, None
        instance = prepare(problem, runtime, "off")
        if self.rules.start != "random":
            start = timed_for(problem, get(self.rules.start)(problem, runtime), runtime)
        blank = fixed(instance, self.padding, "operators" in self.arrays)
        reorder = 0.0 if self._switches.by_arrival else 1.0 if device_orders.forced(problem) else regions.REORDER
        shown = {key: array for key, array in blank.items() if key in self.arrays and key in Fixed._fields}
        exact = courses.exact(problem, runtime)
        return Prepared(instance, records.entry(problem.arrays), shown, start, reorder, exact)

    def _seat(self, lane: int, prepared: Prepared) -> None:
        """Give a lane a problem and a course."""
        problem = prepared.instance.problem
        if self._prepared[lane] is not prepared:
            self._problems.put(lane, prepared.arrays)
            made = lambda: records.entry(courses.blank_course(problem, self._runtime))  # noqa: E731
            self._courses.put(lane, self._own[lane].get(problem, made))
            self._prepared[lane] = prepared
            if self.rules.memory == "mask":
                self._courses[lane].room[:] = problem.memory_capacity

    def estimates(self, lane: int) -> FloatArray:
        """[A] see :meth:`~hetgym.envs.core.lanes.Lanes.estimates`."""
        found: FloatArray = self.state.makespan[lane]
        return found

    def take(self, actions: npt.NDArray[np.int64], active: BoolArray) -> None:
        """Open each active lane that is fresh, and make the chosen move in the others."""
        row, how = self._lanes.table[0], (self._like, self._switches, self._how)
        self._spread(lambda shared: improve(row, *how, actions, shared), active)
        for lane in (self.over & active).nonzero()[0].tolist():
            self._finish(lane)

    def _finish(self, lane: int) -> None:
        """Find the plan that counts; correct the last reward where its simulated makespan is another one."""
        prepared, state = self._prepared_in(lane), self.state
        self.makespan[lane] = state.potential[lane]
        if not prepared.exact:
            found = self._schedules[lane] = self._simulated(lane)
            self.makespan[lane] = found.makespan
            if state.reference[lane] > 0:
                self.reward[lane] -= (found.makespan - state.potential[lane]) / state.reference[lane]

    def _simulated(self, lane: int) -> Schedule:
        """The plan that counts, the best or the last one, with its simulated times."""
        problem, course = self.problem(lane), self._courses[lane]
        if self._how.current or course.value[courses.BEST] == np.inf:
            course = course._replace(best_assignment=course.assignment, best_order=course.order)
        return as_run(problem, courses.best_plan(problem, course, "agent"), self._runtime)

    def _prepared_in(self, lane: int) -> Prepared:
        """What the lane's episode, which must have begun, has of its problem."""
        return begun(self._prepared[lane])

    def problem(self, lane: int) -> Problem:
        """The problem of the lane's episode."""
        return self._prepared_in(lane).instance.problem

    def schedule(self, lane: int) -> Schedule:
        """The plan that counts, with its times."""
        found = self._schedules[lane]
        return self._simulated(lane) if found is None else found

    def trace(self, lane: int) -> Trace:
        """The run of the lane's plan."""
        problem, course = self.problem(lane), self._courses[lane]
        course = course._replace(best_assignment=course.assignment, best_order=course.order)
        return simulate(problem, courses.best_plan(problem, course, "agent"), self._runtime)

    def outcome(self, lane: int) -> dict[str, Any]:
        """Makespan, start, reference [s], SLR, speed-up, schedule, terms of the return, and the episode as a value."""
        instance, makespan = self._prepared_in(lane).instance, float(self.makespan[lane])
        total = (instance.reference - makespan) / instance.reference if instance.reference > 0 else 0.0
        given = self._given[lane]
        return {
            "makespan": makespan,
            "reference": instance.reference,
            "start": float(self.state.first[lane]),
            "slr": metrics.schedule_length_ratio(makespan, instance.path),
            "speedup": metrics.speedup(makespan, instance.alone),
            "schedule": self.schedule(lane),
            "reward_terms": {"reference": 1.0, "makespan": total - 1.0},
            "replay": self.replay(
                lane,
                self.state.log[lane, : self.state.turn[lane]].tolist(),
                makespan,
                conditions=self._entropy[lane],
                start=None if given is None else _as_tuples(given),
            ),
        }

    def frame(self, lane: int, mode: str) -> Any:
        """A text or a Gantt chart of the lane's plan."""
        trace = self.trace(lane)
        if mode == "rgb_array":
            return gantt_pixels(trace)
        state = self.state
        return plan_text(trace, self._prepared_in(lane).instance, int(state.budget[lane] - state.turn[lane]))


def _drawn(problem: Problem, seed: int) -> IntArray:
    """[n] a random one of the devices that can run each operator."""
    able = np.isfinite(problem.cost)
    passed = (np.random.default_rng(seed).random(len(able)) * able.sum(axis=1)).astype(np.int64)
    return (able.cumsum(axis=1) <= passed[:, None]).sum(axis=1).astype(np.int32)  # type: ignore[no-any-return]


def _plan(problem: Problem, given: Any, runtime: Runtime) -> Schedule:
    """A plan of a reset's options, with its times.

    Raises:
        ConfigError: not a schedule.
        InvalidSchedule: it is not one of the problem.
    """
    if not isinstance(given, Schedule):
        raise ConfigError(f"options['schedule'] is {shown(given)}; it must be a hetgym.Schedule")
    return with_times(problem, given, runtime)


def _as_tuples(schedule: Schedule) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...] | None]:
    """Placement and device orders of a schedule as plain values."""
    rows = None if schedule.order is None else tuple(tuple(row.tolist()) for row in schedule.order)
    return tuple(schedule.assignment.tolist()), rows
