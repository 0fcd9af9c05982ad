"""PlaceLanes: the episodes of HetSchedule-v0 side by side."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym import metrics
from hetgym._kernels import records as records
from hetgym._kernels.blanks import blank
from hetgym._types import BoolArray, FloatArray, IntArray, frozen
from hetgym.envs.core.lanes import RecordLanes, begun, only_options
from hetgym.envs.core.memory import Remembered
from hetgym.envs.core.padding import GraphPadding
from hetgym.envs.core.rendering import gantt_pixels
from hetgym.envs.core.sources import Source
from hetgym.envs.place.completion import place_and_complete
from hetgym.envs.place.dynamics import decoded, place
from hetgym.envs.place.instance import ScheduleInstance, prepare
from hetgym.envs.place.objective import Weighed
from hetgym.envs.place.observation import OperatorColumn, fixed, place_space, turns
from hetgym.envs.place.problems import playable
from hetgym.envs.place.rendering import partial_trace, place_text
from hetgym.envs.place.rules import PlaceRules
from hetgym.envs.place.state import ANY, PROBLEM, RECORD, TABLES, TIMELINE, PlaceState, tables_of
from hetgym.envs.place.target import target_tables
from hetgym.errors import ConfigError, HetgymWarning
from hetgym.planning import timeline
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Trace, simulate

_SPARE_PAIRS, _LEAST_PAIRS = 8, 64  # of timelines that no lane uses: for each lane, and at least
Timelines = tuple[records.Entry, ...]  # The timelines of a lane: its decisions, and scratch


class Prepared(NamedTuple):
    """What an episode needs of its problem."""

    instance: ScheduleInstance  # the problem with its ranks and its reference
    arrays: records.Entry  # of the problem, for kernels
    tables: records.Entry  # of the instance, for kernels
    # the observation at the beginning of an episode, by key; what kernels write anew is left out
    blank: dict[str, npt.NDArray[Any]]
    settled: bool  # true if there is nothing to decide: every operator can run on one device only


class PlaceLanes(RecordLanes):
    """Placement episodes side by side; ``state``: of all lanes; ``makespan``: [L], of finished episodes [s]."""

    kind = "place"
    options = ("problem", "order")

    def __init__(
        self,
        count: int,
        source: Source[Problem, GraphPadding],
        rules: PlaceRules,
        padding: GraphPadding,
        level: str,
        sparse: bool,
    ) -> None:
        super().__init__(count, place_space(padding), level, padding.devices)
        self.source, self.rules, self.padding = source, rules, padding
        n, d = padding.operators, padding.devices
        self.state = blank(PlaceState, L=count, N=n, D=d, M=n if rules.target else 0)
        for problem in source.items:
            target_tables(problem, rules.target)  # refuses what the target cannot run, before the first episode
        self.makespan = np.full(count, np.nan)
        self._instances: list[ScheduleInstance | None] = [None] * count
        self._schedules: list[Schedule | None] = [None] * count
        self._insertion, self._sparse = rules.decode != "append", sparse
        # Under these rules the simulated times equal the planned ones, bit for bit, so nothing need be simulated.
        self._exact = rules.simulated.is_classic and rules.decode in ("insertion", "append")
        self._planned = replace(rules.simulated, memory="off", noise=0.0, seed=0)  # masks respect capacities
        self._books = not self._planned.plans_as_classic
        self._like = timeline.new_timeline(ANY, self._planned) if self._books else TIMELINE
        self._known: Remembered[Problem, Prepared] = Remembered(source.kept(count))
        self._problems, self._tables = records.Rows(count, PROBLEM), records.Rows(count, TABLES)
        self._placed, self._spare = records.Rows(count, self._like), records.Rows(count, self._like)
        self._sized: list[Timelines | None] = [None] * count
        self._unused: dict[tuple[int, ...], list[Timelines]] = {}
        self._orders: list[tuple[int, ...] | None] = [None] * count
        self._told, weighed = False, rules.weighed
        self._weighed = None if weighed is None else Weighed(weighed, rules.simulated, count, source.kept(count))
        self._lanes = self._all_lanes()

    def _all_lanes(self) -> records.Rows:
        """The arrays that the kernels need of all lanes, as a row of one record."""
        return self._record(
            RECORD,
            self._problems.table,
            self._tables.table,
            self._placed.table,
            self._spare.table,
            self.state,
        )

    def begin_episode(self, lane: int, rng: np.random.Generator, options: dict[str, Any], seed: int | None) -> None:
        """Prepare an episode on a problem drawn from the source, or on ``options["problem"]``.

        ``options["order"]``: [n] operators in the order of decisions, each behind its predecessors.
        """
        forced, order = only_options(options, *self.options)
        problem = self.source.draw(rng, lane, seed) if forced is None else playable(forced)
        passing = forced is None and self.source.passing(seed)
        prepared = self._known.get(problem, lambda: self._prepare(problem), passing)
        if prepared.settled and not self._told:
            self._told = True
            warnings.warn(
                f"each operator of {problem.name!r} can run on one device only: HetSchedule-v0 has nothing to decide; "
                "HetDispatch-v0 decides the order of operators",
                HetgymWarning,
                stacklevel=4,
            )
        instance, chosen = prepared.instance, None
        if order is not None:
            chosen = _ordered(problem, order)
            prepared = prepared._replace(tables=records.entry(prepared.tables.record._replace(order=chosen)))
        self._orders[lane] = None if chosen is None else tuple(chosen.tolist())
        if instance is not self._instances[lane] or prepared.tables.record is not self._tables[lane]:
            self._take(lane, prepared)
        for key, array in prepared.blank.items():  # kernels write the others
            self.arrays[key][lane] = array
        if chosen is not None and self.level == "graph":
            self.arrays["operators"][lane, chosen, OperatorColumn.TURN] = turns(problem.num_operators)
        self._schedules[lane] = None
        self.makespan[lane] = np.nan
        self.state.reference[lane] = instance.reference

    def estimates(self, lane: int) -> FloatArray:
        """[A] see :meth:`~hetgym.envs.core.lanes.Lanes.estimates`."""
        return self.state.finish[lane, : self.mask.shape[1]]

    def take(self, actions: npt.NDArray[np.int64], active: BoolArray) -> None:
        """Open each active lane that is fresh, and place the current operator of the others."""
        row, how = self._lanes.table[0], (self._insertion, self._sparse, self._like)
        if self.rules.completion == "off":
            place(row, actions, active, *how)
        else:
            self._spread(lambda shared: place_and_complete(row, actions, shared, *how), active)
        ended = (self.over & active).nonzero()[0]
        self.makespan[ended] = self.state.last[ended]
        if not self._exact:
            for lane in ended.tolist():
                self._finish(lane)
        if self._weighed is not None:
            self._weighed.pay(self, active, self._run)

    def _prepare(self, problem: Problem) -> Prepared:
        """An instance, its tables, and the fixed part of its observations."""
        self.padding.check(problem.name, (problem.num_operators, problem.num_edges, problem.num_devices))
        instance = prepare(problem, self.rules.simulated, self.rules.completion)
        blank = fixed(instance, self.padding, "operators" in self.arrays)
        tables = tables_of(instance, self.rules.memory, self.rules.target)
        shown = {key: array for key, array in blank.items() if key in self.arrays}
        settled = bool((np.isfinite(problem.cost).sum(axis=1) <= 1).all())
        several = min(problem.num_operators, problem.num_devices) > 1
        return Prepared(instance, records.entry(problem.arrays), records.entry(tables), shown, several and settled)

    def _take(self, lane: int, prepared: Prepared) -> None:
        """Point a lane's rows at a problem and at timelines of its size."""
        problem, before = prepared.instance.problem, self._instances[lane]
        self._instances[lane] = prepared.instance
        self.names[lane] = problem.name
        self._problems.put(lane, prepared.arrays)
        self._tables.put(lane, prepared.tables)
        if self._books:  # links and edges differ from problem to problem
            self._placed[lane] = timeline.new_timeline(problem, self._planned)
            self._spare[lane] = timeline.new_timeline(problem, self._planned)
        elif before is None or before.problem.cost.shape != problem.cost.shape:
            self._resize(lane, problem)

    def _resize(self, lane: int, problem: Problem) -> None:
        """Give a lane timelines of a problem's size; those that it had are kept for other lanes."""
        held, kept = self._sized[lane], self._unused
        if held is not None:
            kept.setdefault(held[0].record.assignment.shape + held[0].record.busy.size.shape, []).append(held)
        free = kept.get(problem.cost.shape)
        if not free:
            if sum(map(len, kept.values())) > max(_SPARE_PAIRS * self.count, _LEAST_PAIRS):
                kept.clear()
            free = [tuple(records.entry(timeline.new_timeline(problem, self._planned)) for _ in range(2))]
        placed, spare = self._sized[lane] = free.pop()
        self._placed.put(lane, placed)
        self._spare.put(lane, spare)

    def _finish(self, lane: int) -> None:
        """Correct the makespan and the last reward by the run under the environment's runtime."""
        instance, runtime = self.instance(lane), self.rules.simulated
        if self.rules.decode in ("insertion", "append"):
            found = self._decided(lane)
            makespan = simulate(instance.problem, found, runtime).makespan
        else:
            found, makespan = decoded(instance.problem, self._placed[lane], self.rules.decode, runtime)
        self._schedules[lane] = found
        excess = makespan - self.state.last[lane]
        self.makespan[lane] = makespan
        if instance.reference > 0:
            self.reward[lane] -= excess / instance.reference

    def current(self, lane: int) -> int:
        """The operator that the lane places next; its episode must be running."""
        return int(self._tables[lane].order[self.state.turn[lane]])

    def _decided(self, lane: int) -> Schedule:
        """The schedule of the lane's decisions; with ``decode="append"`` devices launch operators as decided."""
        problem, placed, runtime = self.problem(lane), self._placed[lane], self.rules.simulated
        if self._exact:
            order = self.state.order[lane, : problem.num_operators].copy()
            own = timeline.rows_of(order, self.state.pointer[lane, : problem.num_devices + 1])
            return Schedule.timed(placed.assignment, own, placed.start, placed.finish, "agent")
        if self._insertion:
            return timeline.planned(problem, placed, runtime, scheduler="agent")
        order = self._tables[lane].order
        rows = [order[placed.assignment[order] == device] for device in range(problem.num_devices)]
        return timeline.with_times(problem, Schedule(placed.assignment, order=rows, scheduler="agent"), runtime)

    def problem(self, lane: int) -> Problem:
        """The problem of the lane's episode."""
        return self.instance(lane).problem

    def instance(self, lane: int) -> ScheduleInstance:
        """The instance of a lane's episode, which must have begun."""
        return begun(self._instances[lane])

    def trace(self, lane: int) -> Trace:
        """The operators that are placed, as planned so far; the others have device -1."""
        return partial_trace(self.problem(lane), self._placed[lane], self._planned)

    def schedule(self, lane: int) -> Schedule:
        """The schedule of a finished episode."""
        found = self._schedules[lane]
        if found is None:
            found = self._decided(lane)
            self._schedules[lane] = found
        return found

    def outcome(self, lane: int) -> dict[str, Any]:
        """Makespan, reference [s], SLR, speed-up, schedule, the terms of the return, and the episode as a value."""
        instance, makespan = self.instance(lane), float(self.makespan[lane])
        total = (instance.reference - makespan) / instance.reference if instance.reference > 0 else 0.0
        actions = self.state.log[lane, : self.state.turn[lane]].tolist()
        return {
            "makespan": makespan,
            "reference": instance.reference,
            "slr": metrics.schedule_length_ratio(makespan, instance.path),
            "speedup": metrics.speedup(makespan, instance.alone),
            "schedule": self.schedule(lane),
            "reward_terms": {"reference": 1.0, "makespan": total - 1.0},
            "replay": self.replay(lane, actions, makespan, order=self._orders[lane]),
        } | ({} if self._weighed is None else self._weighed.found[lane])

    def _run(self, lane: int) -> Trace:
        """The run of a finished episode's schedule."""
        return simulate(self.problem(lane), self.schedule(lane), self.rules.simulated)

    def frame(self, lane: int, mode: str) -> Any:
        """A text or a Gantt chart of the lane's state."""
        instance, trace = self.instance(lane), self.trace(lane)
        if mode == "rgb_array":
            return gantt_pixels(trace)
        finish = self.state.finish[lane, : instance.problem.num_devices]
        current = -1 if self.over[lane] else self.current(lane)
        return place_text(instance, trace, finish, current, float(self.makespan[lane]))


def _ordered(problem: Problem, order: Any) -> IntArray:
    """Check an order of decisions; ConfigError unless each operator comes once, behind its predecessors."""
    n = problem.num_operators
    found = np.asarray(order) if isinstance(order, list | tuple | np.ndarray) else np.zeros(0)
    if found.shape != (n,) or found.dtype.kind not in "iu" or not np.array_equal(np.sort(found), np.arange(n)):
        raise ConfigError(f"options['order'] must hold each of the {n} operators of {problem.name!r} once")
    turn = np.empty(n, np.int64)
    turn[found] = np.arange(n)
    early = turn[problem.edge_target] < turn[problem.edge_source]
    if early.any():
        name = problem.operator_names[int(problem.edge_target[np.argmax(early)])]
        raise ConfigError(f"options['order'] has operator {name!r} before one of its inputs")
    return frozen(found.astype(np.int32))
