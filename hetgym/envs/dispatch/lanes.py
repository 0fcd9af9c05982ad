"""DispatchLanes: the episodes of ``mode="dispatch"``, and what their agents see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from hetgym import _records as records
from hetgym import metrics
from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.envs.core.lanes import Lanes, Observation
from hetgym.envs.core.replay import Replay
from hetgym.envs.core.sources import ProblemSource, as_problem
from hetgym.envs.dispatch.dynamics import (
    FLOWS,
    LIVE,
    STATE,
    TASK,
    Task,
    View,
    dispatch,
    follow,
    new_desk,
    new_run,
    open_run,
)
from hetgym.envs.dispatch.jobs import arrivals, side_by_side
from hetgym.envs.dispatch.rollouts import ROLLOUTS, new_rollouts
from hetgym.envs.place import rendering
from hetgym.envs.place.dynamics import PROBLEM, Context, Rules, prepare
from hetgym.envs.place.observation import DISPATCH_NARROW, Padding, dispatch_space, fixed
from hetgym.errors import ConfigError
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Loss, Runtime, SlowDown, Trace
from hetgym.sim.online import changes_of
from hetgym.sim.run import setting
from hetgym.sim.runtime import runtime_name

SLOWEST = 4.0
"""Largest factor of a slow-down that is drawn; the least is 1.5."""


@dataclass(frozen=True)
class Conditions:
    """What an episode of dispatch is played under.

    Attributes:
        candidates: operators that are offered at a time.
        noise: standard deviation of the logarithm of each run time, drawn anew for each episode.
        jobs: problems that are drawn for an episode.
        gap: mean time from one job's arrival to the next, as a share of the first one's HEFT makespan.
        changes: slow-downs and losses of every episode.
        slow_downs, losses: how many more are drawn for each episode, within the time of the reference
            without them.

    Raises:
        ConfigError: a number out of its range.
    """

    candidates: int = 8
    noise: float = 0.0
    jobs: int = 1
    gap: float = 0.5
    changes: tuple[SlowDown | Loss, ...] = ()
    slow_downs: int = 0
    losses: int = 0

    def __post_init__(self) -> None:
        for name, least in (("candidates", 1), ("jobs", 1), ("slow_downs", 0), ("losses", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ConfigError(f"{name} is {value!r}; it must be a whole number from {least} on")
        for name in ("noise", "gap"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < np.inf:
                raise ConfigError(f"{name} is {value!r}; it must be a finite number, not negative")


class Drawn(NamedTuple):
    """The conditions of one episode.

    Attributes:
        runtime: with the seed of its noise.
        release: [n] when each operator becomes known [s].
        devices, factors, moments: [c] what changes, its slow-down (inf for a loss), and when [s].
    """

    runtime: Runtime
    release: FloatArray
    devices: IntArray
    factors: FloatArray
    moments: FloatArray


class DispatchLanes(Lanes):
    """Runs that agents schedule while they go on, side by side.

    Args:
        count: number of lanes.
        source: where problems come from.
        rules: what episodes are played by; ``decode`` and ``memory`` mean nothing here.
        conditions: what they are played under.
        padding: sizes of the observations, all jobs together.
        level: one of :data:`~hetgym.envs.place.observation.LEVELS`.
        sparse: whether the whole return comes with the last reward.
    """

    def __init__(
        self, count: int, source: ProblemSource, rules: Rules, conditions: Conditions, padding: Padding, level: str,
        sparse: bool,
    ) -> None:  # fmt: skip
        self.source, self.rules, self.conditions, self.padding = source, rules, conditions, padding
        self.level, self.sparse = level, sparse
        k, d = conditions.candidates, padding.devices
        space = dispatch_space(padding, k)
        keys = tuple(space.keys()) if level == "graph" else DISPATCH_NARROW
        shown: spaces.Space[Any] = spaces.Dict({key: space[key] for key in keys})
        if level == "flat":
            size = sum(int(np.prod(space[key].shape or ())) for key in keys)
            shown = spaces.Box(0.0, 10.0, (size,), np.float32)
        super().__init__(count, shown, spaces.Discrete(k * d + 1))
        self._arrays = {key: np.zeros((count, *(space[key].shape or ())), space[key].dtype) for key in keys}
        self.mask = self._arrays["action_mask"]
        empty = {key: np.zeros((count, *(0 for _ in space[key].shape or ())), space[key].dtype) for key in space}
        arrays = {**empty, "candidate_operators": np.zeros((count, k), np.int64), **self._arrays}
        self._view = View(
            *(arrays[key] for key in (
                "operators", "costs", "assignment", "edges", "edge_transfer", "operator_mask", "edge_mask", "devices",
                "candidates", "candidate_operators", "now", "action_mask",
            ))
        )  # fmt: skip
        self.desk = new_desk(count, k, d)
        self.contexts: list[Context | None] = [None] * count
        self.drawn: list[Drawn | None] = [None] * count
        self._names = np.full(count, "", object)
        self._seeds: list[tuple[int | None, int]] = [(None, 0)] * count
        self._logs: list[list[int]] = [[] for _ in range(count)]
        self._switches = setting(PROBLEM_FOR_SWITCHES, rules.runtime).switches
        self._problems, self._tasks = records.Rows(count, PROBLEM), records.Rows(count, TASK)
        self._states, self._lives = records.Rows(count, STATE), records.Rows(count, LIVE)
        self._flows, self._spare = records.Rows(count, FLOWS), records.Rows(count, ROLLOUTS)

    @property
    def _tables(self) -> tuple[Any, Any, Any, Any, Any, Any]:
        return (
            self._problems.table, self._tasks.table, self._states.table, self._lives.table, self._flows.table,
            self._spare.table,
        )  # fmt: skip

    @property
    def seen(self) -> Observation:
        """What the agents see, [L, …]."""
        if self.level == "flat":
            parts = [self._arrays[key].reshape(self.count, -1) for key in DISPATCH_NARROW]
            return np.concatenate(parts, axis=1, dtype=np.float32)
        return self._arrays

    def begin(self, lane: int, rng: np.random.Generator, options: dict[str, Any], seed: int | None) -> None:
        """Begin an episode on problems drawn from the source, or on ``options["problem"]``.

        Args:
            lane: which.
            rng: draws the problems, and the seed of the conditions unless ``options["conditions"]`` is that.
            options: ``problem``, a problem or a list of jobs; ``conditions``, a whole number.
            seed: see :class:`~hetgym.envs.core.lanes.Lanes`.

        Raises:
            ConfigError: an unknown option; or a loss after which some operator cannot run any more.
            ProblemError: the problem exceeds the padding.
        """
        forced, conditions = options.pop("problem", None), options.pop("conditions", None)
        if options:
            raise ConfigError(f"reset has no option {min(options)!r}; known: 'problem', 'conditions'")
        entropy = int(rng.integers(2**62)) if conditions is None else int(conditions)
        if forced is None:
            problems = [self.source.draw(rng) for _ in range(self.conditions.jobs)]
        else:
            problems = [as_problem(one) for one in (forced if isinstance(forced, list | tuple) else [forced])]
        problem = side_by_side(problems)
        self.padding.check(problem)
        drawn, reference = self._draw(problem, problems, np.random.default_rng(entropy))
        context = prepare(problem, self.rules)._replace(reference=reference)
        blank = fixed(context, self.padding)
        for key, array in self._arrays.items():
            hidden = key not in ("links", "device_mask", "devices")
            array[lane] = (-1 if key == "assignment" else 0) if hidden else 0
            if key in ("links", "device_mask"):
                array[lane] = blank[key]
        self._arrays["devices"][lane, :, 3] = blank["devices"][:, 3]
        n = problem.num_operators
        plan = context.plan
        turn = np.empty(n, np.int32)
        turn[plan.order] = np.arange(n, dtype=np.int32)
        task = Task(
            plan.order, context.upward, plan.optimistic, plan.tail, plan.bonus, turn, drawn.release,
            np.zeros(n, np.bool_), blank["operators"], blank["costs"], blank["edges"], blank["edge_transfer"],
        )  # fmt: skip
        self._problems[lane], self._tasks[lane] = problem.arrays, Task(*(_own(array) for array in task))
        self._states[lane], self._lives[lane], self._flows[lane] = self._run(problem, drawn)
        self._spare[lane] = new_rollouts(n, problem.num_devices, len(problem.arrays.link_bandwidth))
        self.contexts[lane], self.drawn[lane] = context, drawn
        self._names[lane], self._seeds[lane], self._logs[lane] = problem.name, (seed, entropy), []
        self.illegal[lane] = 0
        self.over[lane] = not open_run(
            *self._tables, self.desk, self._view, self._switches, drawn.moments, lane, reference,
            self.rules.completion != "off",
        )  # fmt: skip

    def _draw(
        self, problem: Problem, problems: Sequence[Problem], rng: np.random.Generator
    ) -> tuple[Drawn, float]:  # fmt: skip
        """Draw the conditions of an episode, and run the reference under them."""
        rules, c = self.rules, self.conditions
        runtime = rules.runtime
        noise = c.noise if c.noise > 0 else runtime.noise
        if noise > 0:
            runtime = replace(runtime, noise=noise, seed=int(rng.integers(2**31)))
        release = arrivals(problems, c.gap * prepare(problems[0], rules).reference, rng)
        devices, factors, moments = changes_of(problem, c.changes)
        drawn = Drawn(runtime, release, devices, factors, moments)
        if c.slow_downs or c.losses:
            horizon = self._reference(problem, drawn)
            more = c.slow_downs + c.losses
            lost = rng.permutation(problem.num_devices)[: c.losses]
            slowed = rng.integers(problem.num_devices, size=c.slow_downs)
            drawn = drawn._replace(
                devices=np.concatenate([devices, slowed, lost]).astype(np.int32),
                factors=np.concatenate([factors, rng.uniform(1.5, SLOWEST, c.slow_downs), np.full(c.losses, np.inf)]),
                moments=np.concatenate([moments, rng.uniform(0.0, horizon, more)]),
            )
        _check_losses(problem, drawn)
        return drawn, self._reference(problem, drawn)

    def _reference(self, problem: Problem, drawn: Drawn) -> float:
        """Makespan of the highest upward rank first, each where it seems to finish first, as it goes on [s]."""
        state, run, flows = self._run(problem, drawn)
        order = prepare_order(problem)
        scratch = np.zeros((3, problem.num_devices))
        return follow(
            problem.arrays, state, run, flows, self._switches, order, drawn.release, drawn.moments, scratch
        )  # fmt: skip

    def _run(self, problem: Problem, drawn: Drawn) -> Any:
        factor = setting(problem, drawn.runtime).factor
        return new_run(problem.arrays, self._switches, factor, drawn.devices, drawn.factors)

    def step(self, actions: npt.NDArray[np.int64], active: BoolArray) -> None:
        """Take a decision in each active lane."""
        for lane in np.flatnonzero(active).tolist():
            self._logs[lane].append(int(actions[lane]))
        dispatch(
            *self._tables, self.desk, self._view, self._switches, actions, active, self.illegal, self.reward, self.over,
            self.rules.completion != "off", self.sparse,
        )  # fmt: skip

    def context(self, lane: int) -> Context:
        """Of a lane that has begun."""
        context = self.contexts[lane]
        assert context is not None
        return context

    def problem(self, lane: int) -> Problem:
        """What the lane's episode is about: all of its jobs."""
        return self.context(lane).problem

    def shared(self) -> dict[str, npt.NDArray[Any]]:
        """The problem's name."""
        return {"problem": self._names.copy()}

    def trace(self, lane: int) -> Trace:
        """What has happened so far; operators that have not started are on device -1."""
        problem, drawn = self.problem(lane), self.drawn[lane]
        assert drawn is not None
        state, run = self._states[lane], self._lives[lane]
        begun = run.status >= 3
        return Trace(
            problem=problem,
            assignment=np.where(begun, run.assignment, -1).astype(np.int32),
            start=np.where(begun, state.start, 0.0),
            finish=np.where(begun, state.finish, 0.0),
            sent=np.where(np.isfinite(state.sent), state.sent, 0.0),
            arrived=np.where(np.isfinite(state.arrived), state.arrived, 0.0),
            runtime=runtime_name(self.rules.runtime),
            scheduler="agent",
            switches=drawn.runtime,
            order=self._order(lane),
        )

    def _order(self, lane: int) -> tuple[IntArray, ...]:
        run = self._lives[lane]
        return tuple(
            row[:end][run.assignment[row[:end]] == device].copy()
            for device, (row, end) in enumerate(zip(run.queue, run.head, strict=True))
        )

    def result(self, lane: int) -> dict[str, Any]:
        """Makespan, reference [s], SLR, speed-up, what happened as a trace and as a schedule, and the replay."""
        context = self.context(lane)
        makespan, reference = float(self.desk.potential[lane]), context.reference
        total = (reference - makespan) / reference if reference > 0 else 0.0
        trace = self.trace(lane)
        seed, entropy = self._seeds[lane]
        return {
            "makespan": makespan,
            "reference": reference,
            "slr": metrics.schedule_length_ratio(makespan, context.path),
            "speedup": metrics.speedup(makespan, context.alone),
            "schedule": Schedule(trace.assignment, order=self._order(lane), scheduler="agent"),
            "trace": trace,
            "reward_terms": {"reference": 1.0, "makespan": total - 1.0},
            "replay": Replay(context.problem.id, seed, tuple(self._logs[lane]), entropy),
        }

    def frame(self, lane: int, mode: str) -> Any:
        """A text or a Gantt chart of what has started."""
        trace = self.trace(lane)
        if mode == "rgb_array":
            return rendering.rgb_array(trace)
        now = float(self._lives[lane].clock[0])
        return rendering.running(trace, now, self.context(lane).reference, bool(self.over[lane]))


def prepare_order(problem: Problem) -> IntArray:
    """[n] operators by falling upward rank."""
    from hetgym.planning import ranks

    return ranks.list_order(problem.arrays, ranks.upward_rank(problem))


def _own(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.array(array, order="C")


def _check_losses(problem: Problem, drawn: Drawn) -> None:
    """Refuse losses after which an operator has no device.

    Raises:
        ConfigError: there is such an operator.
    """
    kept = np.ones(problem.num_devices, np.bool_)
    kept[drawn.devices[np.isinf(drawn.factors)]] = False
    homeless = ~np.isfinite(problem.cost[:, kept]).any(axis=1)
    if homeless.any():
        name = problem.operator_names[int(np.argmax(homeless))]
        raise ConfigError(f"after the losses no device is left that can run operator {name!r}")


PROBLEM_FOR_SWITCHES = Problem.from_arrays([[1.0]], [])
"""Switches do not depend on the problem."""
