"""DispatchLanes: the episodes of HetDispatch-v0 side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym import metrics
from hetgym._kernels import records as records
from hetgym._kernels.blanks import blank
from hetgym._types import BoolArray, FloatArray, Int64Array, IntArray
from hetgym.envs.core.arguments import real_number, whole_number
from hetgym.envs.core.lanes import RecordLanes, begun, only_options
from hetgym.envs.core.memory import Remembered
from hetgym.envs.core.padding import GraphPadding
from hetgym.envs.core.rendering import gantt_pixels
from hetgym.envs.core.sources import Source, listed
from hetgym.envs.dispatch import state as states
from hetgym.envs.dispatch.completion import dispatch_and_complete, dispatch_and_plan
from hetgym.envs.dispatch.conditions import Conditions, Drawn, deadlines, given, noisy, with_changes
from hetgym.envs.dispatch.dynamics import dispatch
from hetgym.envs.dispatch.jobs import Jobs, apart, arriving, job_times, nonnegative, side_by_side, together
from hetgym.envs.dispatch.observation import DispatchDeviceColumn, dispatch_space
from hetgym.envs.dispatch.rollouts import ROLLOUTS, new_rollouts
from hetgym.envs.dispatch.service import Service, new_service
from hetgym.envs.dispatch.state import DispatchTables
from hetgym.envs.place.instance import ScheduleInstance, prepare
from hetgym.envs.place.objective import Weighed
from hetgym.envs.place.observation import DeviceColumn, fixed
from hetgym.envs.place.problems import playable
from hetgym.envs.place.rendering import dispatch_text
from hetgym.envs.place.rules import JOB_TIME, ScheduleRules
from hetgym.envs.place.state import PROBLEM
from hetgym.errors import ConfigError
from hetgym.planning import ranks
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Trace, lateness
from hetgym.sim.decisions import new_run
from hetgym.sim.kernel import Switches
from hetgym.sim.progress import RUNNING, launch_order, new_sharing
from hetgym.sim.run import online_setting
from hetgym.sim.runtime import runtime_name
from hetgym.workloads.job_shops import known_optimum

_SPARE_RUNS = 4  # runs on a problem that are kept though no lane uses them
_SAMPLE = 16  # generated problems whose mean makespan or work is the unit of gaps between arrivals
_LISTS = ("arrivals", "release", "weights")  # options of a reset that are lists of numbers


class Run(NamedTuple):
    """What an episode changes, as records."""

    state: records.Entry  # a State
    progress: records.Entry  # a Progress
    sharing: records.Entry  # a Sharing or None
    tables: records.Entry  # DispatchTables of the run's own
    scratch: records.Entry | None = None  # of roll-outs, if the run has had any


class Prepared(NamedTuple):
    """What an episode needs of its problem and its conditions."""

    instance: ScheduleInstance  # the problem with its ranks and its reference
    drawn: Drawn  # the conditions
    jobs: Jobs  # the jobs that arrive
    arrays: records.Entry  # of the problem, for kernels
    tables: records.Entry  # DispatchTables as they are at the beginning; runs have their own
    shown: dict[str, npt.NDArray[Any]]  # the fixed part of the observations, by key
    total: npt.NDArray[np.float32]  # [D] run time of the whole graph on each device alone, as observed
    # runs on this problem that no lane uses; None if the conditions are not the same in every episode
    runs: list[Run] | None


_ONE_OPERATOR = Problem.from_arrays([[1.0]], [])  # any problem will do: switches do not depend on it


class DispatchLanes(RecordLanes):
    """Runs side by side that agents schedule online; ``padding`` is for all jobs together."""

    kind = "dispatch"
    narrow = (*RecordLanes.narrow, "now")
    options = ("problem", "conditions", "gap", "arrivals", "release", "weights")
    sizes = ("devices",)  # they number the actions

    def __init__(
        self,
        count: int,
        source: Source[Problem, GraphPadding],
        rules: ScheduleRules,
        conditions: Conditions,
        padding: GraphPadding,
        level: str,
        sparse: bool,
    ) -> None:
        k, d = conditions.offered(source.items, source.generate), padding.devices
        super().__init__(count, dispatch_space(padding, k), level, k * d + 1)
        self.source, self.rules, self.conditions, self.padding = source, rules, conditions, padding
        self.sparse = sparse
        self.state = blank(states.DispatchState, L=count, K=k, D=d, A=k * d + 1)
        self._instances: list[ScheduleInstance | None] = [None] * count
        self._drawn: list[Drawn | None] = [None] * count
        self._entropy = [0] * count
        self._gaps: list[float | None] = [None] * count
        self._given: list[dict[str, tuple[float, ...]]] = [{}] * count
        self._arrived: list[Jobs | None] = [None] * count
        self._due: list[tuple[Jobs, FloatArray] | None] = [None] * count
        self._jobs: list[list[Problem]] = [[]] * count
        self._log = np.zeros((count, padding.operators), np.int64)
        self._offered = np.zeros((count, k), np.int64)  # what actions mean, where observations do not show it
        self._held: list[tuple[Run, list[Run] | None] | None] = [None] * count
        weighed = rules.weighed
        self._weighed = None if weighed is None else Weighed(weighed, rules.simulated, count, source.kept(count))
        self._calm_always = conditions.calm and rules.simulated.noise == 0.0 and rules.objective != JOB_TIME
        self._switches = online_setting(_ONE_OPERATOR, rules.simulated).switches
        self._known: Remembered[Problem, Prepared] = Remembered(source.kept(count))
        self._problems, self._tables = records.Rows(count, PROBLEM), records.Rows(count, states.TABLES)
        self._states, self._runs = records.Rows(count, states.STATE), records.Rows(count, states.RUN)
        self._sharing = new_sharing(_ONE_OPERATOR.arrays, self._switches)  # of the kind that all runs have
        self._shares, self._spares = records.Rows(count, self._sharing), records.Rows(count, ROLLOUTS)
        self._plans = records.Rows(count, states.new_plan(1, 1, 0))
        self._lanes = self._all_lanes()

    def _all_lanes(self) -> records.Rows:
        """The arrays that the kernels need of all lanes, as a row of one record."""
        return self._record(
            states.RECORD,
            self._problems.table,
            self._tables.table,
            self._states.table,
            self._runs.table,
            self._shares.table,
            self._spares.table,
            self._plans.table,
            self.state,
            candidate_operators=self._offered,
        )

    def begin_episode(self, lane: int, rng: np.random.Generator, options: dict[str, Any], seed: int | None) -> None:
        """Prepare an episode on problems drawn from the source, or on ``options["problem"]``.

        Args:
            rng: draws the problems, and the seed of the conditions unless ``options["conditions"]`` gives it.
            options: ``problem``, a problem or a list of jobs; ``conditions``, a whole number; ``gap``, mean time
                between arrivals [s]; ``arrivals`` and ``weights`` of the jobs, ``release`` of the operators.

        Raises:
            ConfigError: an unknown option; or a given loss that leaves some operator without a device.
            ProblemError: the problem exceeds the padding.
        """
        forced, conditions, gap, *values = only_options(options, *self.options)
        lists = {name: nonnegative(f"options[{name!r}]", one) for name, one in zip(_LISTS, values, strict=True)}
        problems = [playable(one) for one in listed(forced)] if forced is not None else []
        if forced is not None:
            problem = self._together(problems)  # if that is refused, nothing has been drawn
        if conditions is not None:
            conditions = whole_number("options['conditions']", conditions, 0, 2**64 - 1)
        if gap is not None:
            gap = real_number("options['gap']", gap)
        entropy = int(rng.integers(2**62))  # drawn in any case, so that the problem does not depend on the option
        entropy = entropy if conditions is None else conditions
        if forced is None:
            problems = [self.source.draw(rng, lane, seed) for _ in range(self.conditions.jobs)]
            problem = self._together(problems)
        plain = all(values is None for values in lists.values())
        if self._calm_always and len(problems) == 1 and plain:  # nothing is drawn
            passing = forced is None and self.source.passing(seed)
            known = self._known.get(problem, lambda: self._calm(lane, problem), passing)
            self._entropy[lane], self._gaps[lane], self._given[lane] = entropy, None, {}
            self._begin_with(lane, known)
        else:
            if gap is None and len(problems) > 1:
                chosen = forced is not None
                gap = self.conditions.mean_gap(problems, self.rules.simulated) if chosen else self._usual_gap
            self._draw(lane, problem, problems, entropy, gap if len(problems) > 1 else None, lists)
        self.names[lane], self._jobs[lane] = problem.name, problems
        if self.conditions.deadline > 0:
            release, factor = self.drawn(lane).release, self.conditions.deadline
            self._due[lane] = deadlines(problems, release, factor, replace(self.rules.simulated, noise=0.0))

    def _together(self, problems: Sequence[Problem]) -> Problem:
        """The problem of all jobs together, which the padding must hold."""
        if not problems:
            raise ConfigError("options['problem'] is an empty list; it must hold at least one problem")
        problem = side_by_side(problems)
        self.padding.check(problem.name, (problem.num_operators, problem.num_edges, problem.num_devices))
        return problem

    @cached_property
    def _usual_gap(self) -> float:
        """Mean time between arrivals of the source's problems [s]."""
        return self.conditions.mean_gap(self.source.sample(_SAMPLE), self.rules.simulated)

    def _draw(
        self,
        lane: int,
        problem: Problem,
        problems: Sequence[Problem],
        entropy: int,
        gap: float | None,
        lists: dict[str, FloatArray | None],
    ) -> None:
        """Draw the conditions of an episode, play the reference under them, and prepare the lane for the agent."""
        rules, conditions, rng = self.rules, self.conditions, np.random.default_rng(entropy)
        runtime = noisy(rules.simulated, conditions.noise, rng)
        release, weights = conditions.releases(problems, gap or 0.0, lists, rng)
        drawn = given(problem, conditions, runtime, release)
        self._entropy[lane], self._gaps[lane] = entropy, gap
        self._given[lane] = {name: tuple(values.tolist()) for name, values in lists.items() if values is not None}
        jobs = arriving(problems, release, weights)
        order = ranks.list_order(problem.arrays, ranks.upward_rank(problem))
        if conditions.slow_downs or conditions.losses:
            self._reference(lane, problem, drawn, order, jobs)
            horizon = float(self._states[lane].finish.max())
            drawn = with_changes(problem, drawn, conditions, horizon, rng)
        self._begin_with(lane, self._made(lane, problem, drawn, order, jobs))

    def _calm(self, lane: int, problem: Problem) -> Prepared:
        """What an episode without noise, arrivals and changes needs of its problem."""
        drawn = given(problem, self.conditions, self.rules.simulated, np.zeros(problem.num_operators))
        order = ranks.list_order(problem.arrays, ranks.upward_rank(problem))
        jobs = arriving([problem], drawn.release)
        prepared, held = self._made(lane, problem, drawn, order, jobs), begun(self._held[lane])
        tables = records.entry(states.own_tables(prepared.tables.record))
        return prepared._replace(runs=[held[0]._replace(tables=tables)])  # the reference's, which is over

    def _made(self, lane: int, problem: Problem, drawn: Drawn, order: IntArray, jobs: Jobs) -> Prepared:
        """Play the reference under an episode's conditions, and prepare what the agent's episode needs."""
        service, reference = self._reference(lane, problem, drawn, order, jobs)
        instance = prepare(problem, self.rules.simulated, self.rules.completion, reference)
        blank = fixed(instance, self.padding)
        tables = states.tables_of(instance, service, blank)
        shown: dict[str, npt.NDArray[Any]] = {key: blank[key] for key in ("links", "device_mask") if key in self.arrays}
        total = blank["devices"][:, DeviceColumn.TOTAL_COST]
        arrays = records.entry(problem.arrays)
        return Prepared(instance, drawn, jobs, arrays, records.entry(tables), shown, total, None)

    def _begin_with(self, lane: int, prepared: Prepared) -> None:
        """Give a lane its problem, the observation at the beginning of an episode, a run and scratch."""
        instance, drawn, jobs, arrays, tables, shown, total, runs = prepared
        self._instances[lane], self._drawn[lane], self._arrived[lane] = instance, drawn, jobs
        for key, array in self.arrays.items():
            array[lane] = shown.get(key, -1 if key == "assignment" else 0)
        self.arrays["devices"][lane, :, DispatchDeviceColumn.TOTAL_COST] = total
        problem = instance.problem
        if runs:
            run = runs.pop()
            parts = arrays, tables, run.state, run.progress, run.sharing, run.tables
            states.begin_again(*(part.record for part in parts))
        else:
            run = self._run(problem, drawn, states.own_tables(tables.record))
        self._seat(lane, arrays, run, runs)
        self.state.reference[lane] = instance.reference
        if self.rules.completion != "off":
            self._give_rollouts(lane, problem, len(self._tables[lane].service.came))
        if self.conditions.tries > 0:
            self._plans[lane] = states.new_plan(problem.num_operators, problem.num_devices, self._entropy[lane])

    def _reference(
        self, lane: int, problem: Problem, drawn: Drawn, order: IntArray, jobs: Jobs
    ) -> tuple[Service, float]:
        """The operators of a run at time 0, and the value of the reference's run [s]."""
        counted = jobs if self.rules.objective == JOB_TIME else together(jobs)
        again = bool(np.isinf(drawn.factors).any())
        service = new_service(problem, drawn.release, counted, jobs, self.conditions.rule, order, again)
        run = self._run(problem, drawn, states.reference_tables(service))
        self._seat(lane, records.entry(problem.arrays), run, None)
        self._dispatch(self.legality.executed, np.arange(self.count) == lane, True)
        return service, float(self.state.reference[lane])

    def _run(self, problem: Problem, drawn: Drawn, tables: DispatchTables) -> Run:
        """A run at time 0, with tables of its own."""
        factor = online_setting(problem, drawn.runtime).factor
        changes = drawn.devices, drawn.factors, drawn.moments
        state, progress, sharing = new_run(problem.arrays, self._switches, factor, drawn.release, *changes)
        return Run(records.entry(state), records.entry(progress), records.entry(sharing), records.entry(tables))

    def _seat(self, lane: int, problem: records.Entry, run: Run, runs: list[Run] | None) -> None:
        """Give a lane its problem and a run at time 0; the run that it had becomes free for others."""
        before = self._held[lane]
        if before is not None and before[1] is not None and len(before[1]) < _SPARE_RUNS:
            before[1].append(before[0])
        self._problems.put(lane, problem)
        self._tables.put(lane, run.tables)
        self._states.put(lane, run.state)
        self._runs.put(lane, run.progress)
        self._shares.put(lane, run.sharing)
        self._held[lane] = run, runs

    def _give_rollouts(self, lane: int, problem: Problem, jobs: int) -> None:
        """Give a lane scratch for roll-outs, unless its run has some from an earlier episode."""
        held = begun(self._held[lane])
        run, runs = held
        scratch = run.scratch
        if scratch is None:
            n, d = problem.cost.shape
            scratch = records.entry(new_rollouts(n, d, len(problem.arrays.link_bandwidth), jobs))
            self._held[lane] = run._replace(scratch=scratch), runs
        self._spares.put(lane, scratch)

    def estimates(self, lane: int) -> FloatArray:
        """[A] see :meth:`~hetgym.envs.core.lanes.Lanes.estimates`."""
        return np.append(self.state.ends[lane, : self.mask.shape[1] - 1], np.inf)  # waiting comes last

    def take(self, actions: npt.NDArray[np.int64], active: BoolArray) -> None:
        """Open each active lane that is fresh, and take a decision in the others."""
        lanes = np.flatnonzero(active & ~self.fresh)
        turns = self.state.turn[lanes]
        if len(lanes) and turns.max() >= self._log.shape[1]:
            self._log = np.concatenate([self._log, np.zeros_like(self._log)], axis=1)
        self._log[lanes, turns] = actions[lanes]
        self._dispatch(actions, active, False)
        if self._weighed is not None:
            self._weighed.pay(self, active, self.trace)

    def _dispatch(self, actions: npt.NDArray[np.int64], active: BoolArray, follow: bool) -> None:
        """Call the kernel of the environment's completion for the active lanes; ``follow`` to play the reference."""
        tries, how = self.conditions.tries, (self._lanes.table[0], self._sharing, self._switches, actions)
        if self.rules.completion == "off":
            dispatch(*how, active, follow, self.sparse)
        elif tries > 0:
            self._spread(lambda shared: dispatch_and_plan(*how, shared, follow, self.sparse, tries), active)
        else:
            self._spread(lambda shared: dispatch_and_complete(*how, shared, follow, self.sparse), active)

    def instance(self, lane: int) -> ScheduleInstance:
        """The instance of a lane's episode, which must have begun."""
        return begun(self._instances[lane])

    def drawn(self, lane: int) -> Drawn:
        """The conditions of the lane's episode."""
        return begun(self._drawn[lane])

    def problem(self, lane: int) -> Problem:
        """The problem of the lane's episode: all of its jobs."""
        return self.instance(lane).problem

    def jobs(self, lane: int) -> list[Problem]:
        """The jobs of the lane's episode, each by itself on the episode's machine."""
        return apart(self._jobs[lane])

    @property
    def record(self) -> Int64Array:
        """The row of the lanes' :class:`~hetgym.envs.dispatch.state.DispatchRecord`, for kernels of agents."""
        row: Int64Array = self._lanes.table[0]
        return row

    @property
    def switches(self) -> Switches:
        """The switches of the simulated runtime, for kernels of agents."""
        return self._switches

    def replayable(self, lane: int) -> Problem | list[Problem]:
        """The problem of the lane's episode, or its jobs if there are several."""
        return list(self._jobs[lane]) if len(self._jobs[lane]) > 1 else self.problem(lane)

    def shared(self) -> dict[str, npt.NDArray[Any]]:
        """See :meth:`~hetgym.envs.core.lanes.Lanes.shared`; also [L] ready operators that no action commits."""
        return {**super().shared(), "hidden": self.state.hidden.copy()}

    def trace(self, lane: int) -> Trace:
        """The run so far; operators that have not started are on device -1."""
        state, run = self._states[lane], self._runs[lane]
        assignment, start, finish = run.assignment.copy(), state.start.copy(), state.finish.copy()
        waits = run.status < RUNNING
        if waits.any():
            assignment[waits], start[waits], finish[waits] = -1, 0.0, 0.0
        return Trace(
            problem=self.problem(lane),
            assignment=assignment,
            start=start,
            finish=finish,
            sent=np.where(np.isfinite(state.sent), state.sent, 0.0),
            arrived=np.where(np.isfinite(state.arrived), state.arrived, 0.0),
            runtime=runtime_name(self.rules.simulated),
            scheduler="agent",
            switches=self.drawn(lane).runtime,
            order=launch_order(self._runs[lane]),
        )

    def outcome(self, lane: int) -> dict[str, Any]:
        """Makespan, value and reference [s], SLR, speed-up, the run as a trace and as a schedule, and the replay."""
        instance, trace = self.instance(lane), self.trace(lane)
        assert trace.order is not None
        value, reference = float(self.state.potential[lane]), instance.reference
        makespan = float(trace.finish.max())
        total = (reference - value) / reference if reference > 0 else 0.0
        times, optimum = job_times(begun(self._arrived[lane]), trace.finish), known_optimum(instance.problem)
        flow = times.flow
        return (
            self._late(lane, trace)
            | {
                "makespan": makespan,
                "flow_time": float(flow.sum()) / len(flow),
                "weighted_flow_time": float(flow @ times.weight) / float(times.weight.sum()),
                "jobs": times,
                **({} if optimum is None else {"optimum": optimum}),
                "value": value,
                "reference": reference,
                **self._ratios(lane, makespan),
                "schedule": Schedule.timed(trace.assignment, trace.order, None, None, "agent"),
                "trace": trace,
                "reward_terms": {
                    "reference": 1.0,
                    JOB_TIME.replace("-", "_") if self.rules.objective == JOB_TIME else "makespan": total - 1.0,
                },
                "replay": self.replay(
                    lane,
                    self._log[lane, : self.state.turn[lane]].tolist(),
                    makespan,
                    conditions=self._entropy[lane],
                    jobs=len(self._jobs[lane]),
                    gap=self._gaps[lane],
                    **self._given[lane],
                ),
            }
            | ({} if self._weighed is None else self._weighed.found[lane])
        )

    def _ratios(self, lane: int, makespan: float) -> dict[str, float]:
        """SLR and speed-up; nothing under noise, arrivals or changes, which their other sides know nothing of."""
        instance, drawn = self.instance(lane), self.drawn(lane)
        if drawn.runtime.noise > 0 or drawn.release.any() or len(drawn.moments):
            return {}
        return {
            "slr": metrics.schedule_length_ratio(makespan, instance.path),
            "speedup": metrics.speedup(makespan, instance.alone),
        }

    def _late(self, lane: int, trace: Trace) -> dict[str, Any]:
        """Share of jobs that missed their deadlines, and mean tardiness [s]; nothing without deadlines."""
        due = self._due[lane]
        if due is None:
            return {}
        late = lateness(trace, due[1], due[0].job)
        return {"miss_rate": late.miss_rate, "tardiness": late.mean}

    def frame(self, lane: int, mode: str) -> Any:
        """A text or a Gantt chart of the operators that have started."""
        trace = self.trace(lane)
        if mode == "rgb_array":
            return gantt_pixels(trace)
        now = float(self._runs[lane].clock[0])
        return dispatch_text(trace, now, self.instance(lane).reference, bool(self.over[lane]))
