"""PlaceLanes: the episodes of ``mode="place"``, and what their agents see."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym import _records as records
from hetgym import metrics
from hetgym._types import BoolArray, IntArray, frozen
from hetgym.envs.core.lanes import Lanes, Observation
from hetgym.envs.core.replay import Replay
from hetgym.envs.core.sources import ProblemSource, as_problem
from hetgym.envs.place import rendering
from hetgym.envs.place.dynamics import (
    PLAN,
    PROBLEM,
    TIMELINE,
    Context,
    Plan,
    Rules,
    Seen,
    decoded,
    new_board,
    open_lane,
    place,
    prepare,
)
from hetgym.envs.place.observation import NARROW, Padding, fixed, graph_space, observation_space
from hetgym.errors import ConfigError
from hetgym.planning import timeline
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Runtime, Trace, simulate

_REMEMBERED = 256  # contexts kept, so that a small set of problems is prepared only once


class PlaceLanes(Lanes):
    """Placement episodes side by side.

    Args:
        count: number of lanes.
        source: where problems come from.
        rules: what episodes are played by.
        padding: sizes of the observations.
        level: one of :data:`~hetgym.envs.place.observation.LEVELS`.
        sparse: whether the whole return comes with the last reward.
    """

    def __init__(
        self, count: int, source: ProblemSource, rules: Rules, padding: Padding, level: str, sparse: bool
    ) -> None:
        from gymnasium import spaces

        super().__init__(count, observation_space(padding, level), spaces.Discrete(padding.devices))
        self.source, self.rules, self.padding, self.level, self.sparse = source, rules, padding, level, sparse
        n, d = padding.operators, padding.devices
        space = graph_space(padding)
        keys = tuple(space.keys()) if level == "graph" else NARROW
        self._arrays = {key: np.zeros((count, *(space[key].shape or ())), space[key].dtype) for key in keys}
        if level == "graph":
            operators, assignment = self._arrays["operators"], self._arrays["assignment"]
            current = self._arrays["current"]
        else:
            operators, assignment = np.zeros((count, 0, 12), np.float32), np.zeros((count, 0), np.int64)
            current = np.zeros((count, 1), np.int64)
        self.mask = self._arrays["action_mask"]
        self._seen = Seen(
            operators, assignment, self._arrays["devices"], self._arrays["candidates"], current, self.mask
        )  # fmt: skip
        self.board = new_board(count, n, d)
        self.contexts: list[Context | None] = [None] * count
        self._names = np.full(count, "", object)
        self._seeds: list[int | None] = [None] * count
        self._schedules: list[Schedule | None] = [None] * count
        self.makespan = np.full(count, np.nan)
        self._problems, self._plans = records.Rows(count, PROBLEM), records.Rows(count, PLAN)
        self._placed, self._spare = records.Rows(count, TIMELINE), records.Rows(count, TIMELINE)
        # Under these rules the plan is the run: both agree to the last bit.
        self._exact = rules.runtime == Runtime() and rules.decode in ("insertion", "append")
        self._known: OrderedDict[str, tuple[Context, dict[str, npt.NDArray[Any]]]] = OrderedDict()

    @property
    def _tables(self) -> tuple[Any, Any, Any, Any]:
        return self._problems.table, self._plans.table, self._placed.table, self._spare.table

    @property
    def seen(self) -> Observation:
        """What the agents see, [L, …]."""
        if self.level == "flat":
            parts = [self._arrays[key].reshape(self.count, -1) for key in NARROW]
            return np.concatenate(parts, axis=1, dtype=np.float32)
        return self._arrays

    def begin(self, lane: int, rng: np.random.Generator, options: dict[str, Any], seed: int | None) -> None:
        """Begin an episode on a problem drawn from the source, or on ``options["problem"]``.

        Args:
            lane: which.
            rng: draws the problem.
            options: ``problem``; ``order``, [n] the operators in the order in which they shall be decided.
            seed: see :class:`~hetgym.envs.core.lanes.Lanes`.

        Raises:
            ConfigError: an unknown option, or an order in which an operator comes before its inputs.
            ProblemError: the problem exceeds the padding.
        """
        forced, order = options.pop("problem", None), options.pop("order", None)
        if options:
            raise ConfigError(f"reset has no option {min(options)!r}; known: 'problem', 'order'")
        problem = self.source.draw(rng) if forced is None else as_problem(forced)
        context, blank = self._prepared(problem)
        plan = context.plan if order is None else context.plan._replace(order=_ordered(problem, order))
        if context is not self.contexts[lane] or plan is not self._plans[lane]:
            self._take(lane, context, plan)
        for key, array in self._arrays.items():
            array[lane] = blank[key]
        if order is not None and self.level == "graph":
            n = problem.num_operators
            self._arrays["operators"][lane, plan.order, 7] = np.arange(n) / max(1, n - 1)
        self._seeds[lane], self._schedules[lane] = seed, None
        self.makespan[lane] = np.nan
        self.illegal[lane], self.over[lane] = 0, False
        open_lane(
            *self._tables, self.board, self._seen, lane, context.reference, self.rules.decode != "append",
            self.rules.completion != "off",
        )  # fmt: skip

    def step(self, actions: npt.NDArray[np.int64], active: BoolArray) -> None:
        """Place the current operator of each active lane."""
        place(
            *self._tables, self.board, self._seen, actions, active, self.illegal, self.reward, self.over,
            self.rules.decode != "append", self.rules.completion != "off", self.sparse,
        )  # fmt: skip
        if self.over.any():
            for lane in np.flatnonzero(self.over & active).tolist():
                self._finish(lane)

    def _take(self, lane: int, context: Context, plan: Plan) -> None:
        """Let a lane's rows point at a problem and at timelines of its size."""
        self.contexts[lane] = context
        self._names[lane] = context.problem.name
        self._problems[lane], self._plans[lane] = context.problem.arrays, plan
        n, d = context.problem.cost.shape
        for rows in (self._placed, self._spare):
            held = rows[lane]
            if held is None or (len(held.busy.size), len(held.assignment)) != (d, n):
                rows[lane] = timeline.new_timeline(n, d)

    def _finish(self, lane: int) -> None:
        """Settle the last reward by a run under the environment's runtime, where the plan is not the run."""
        self.makespan[lane] = self.board.last[lane]
        if self._exact:
            return
        context = self.context(lane)
        if self.rules.decode in ("insertion", "append"):
            found = timeline.planned(context.problem, self._placed[lane], "agent")
            makespan = simulate(context.problem, found, self.rules.runtime).makespan
        else:
            found, makespan = decoded(context, self.rules, self._placed[lane])
        self._schedules[lane] = found
        excess = makespan - self.board.last[lane]
        self.makespan[lane] = makespan
        if context.reference > 0:
            self.reward[lane] -= excess / context.reference

    def _prepared(self, problem: Problem) -> tuple[Context, dict[str, npt.NDArray[Any]]]:
        """The context of a problem and its fixed observations, from memory if it was met before."""
        key = problem.digest
        if key in self._known:
            self._known.move_to_end(key)
        else:
            self.padding.check(problem)
            context = prepare(problem, self.rules)
            blank = fixed(context, self.padding)
            self._known[key] = context, {name: blank[name] for name in self._arrays}
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return self._known[key]

    def problem(self, lane: int) -> Problem:
        """What the lane's episode is about."""
        return self.context(lane).problem

    def trace(self, lane: int) -> Trace:
        """What is placed so far, under the classic model; the rest has device -1."""
        return rendering.partial_trace(self.problem(lane), self.placed(lane))

    def context(self, lane: int) -> Context:
        """Of a lane that has begun."""
        context = self.contexts[lane]
        assert context is not None
        return context

    def placed(self, lane: int) -> timeline.Timeline:
        """The partial schedule of a lane."""
        found: timeline.Timeline = self._placed[lane]
        return found

    def schedule(self, lane: int) -> Schedule:
        """The schedule of a finished episode."""
        found = self._schedules[lane]
        if found is None:
            found = timeline.planned(self.context(lane).problem, self._placed[lane], "agent")
            self._schedules[lane] = found
        return found

    def shared(self) -> dict[str, npt.NDArray[Any]]:
        """The problem's name."""
        return {"problem": self._names.copy()}

    def result(self, lane: int) -> dict[str, Any]:
        """Makespan, reference [s], SLR, speed-up, schedule, the terms of the return, and the episode as a value."""
        context, makespan = self.context(lane), float(self.makespan[lane])
        total = (context.reference - makespan) / context.reference if context.reference > 0 else 0.0
        actions = self.board.log[lane, : self.board.turn[lane]]
        return {
            "makespan": makespan,
            "reference": context.reference,
            "slr": metrics.schedule_length_ratio(makespan, context.path),
            "speedup": metrics.speedup(makespan, context.alone),
            "schedule": self.schedule(lane),
            "reward_terms": {"reference": 1.0, "makespan": total - 1.0},
            "replay": Replay(context.problem.id, self._seeds[lane], tuple(actions.tolist()), order=self._order(lane)),
        }

    def _order(self, lane: int) -> tuple[int, ...] | None:
        plan: Plan = self._plans[lane]
        return None if plan is self.context(lane).plan else tuple(plan.order.tolist())

    def frame(self, lane: int, mode: str) -> Any:
        """A text or a Gantt chart."""
        context, placed = self.context(lane), self.placed(lane)
        if mode == "rgb_array":
            return rendering.rgb_array(self.trace(lane))
        finish = self.board.finish[lane, : context.problem.num_devices]
        return rendering.ansi(context, placed, finish, float(self.makespan[lane]))


def _ordered(problem: Problem, order: Any) -> IntArray:
    """Check an order of decisions.

    Raises:
        ConfigError: not a permutation, or an operator before its inputs.
    """
    found = np.asarray(order)
    n = problem.num_operators
    if found.shape != (n,) or found.dtype.kind not in "iu" or not np.array_equal(np.sort(found), np.arange(n)):
        raise ConfigError(f"options['order'] must hold each of the {n} operators of {problem.name!r} once")
    turn = np.empty(n, np.int64)
    turn[found] = np.arange(n)
    early = turn[problem.edge_target] < turn[problem.edge_source]
    if early.any():
        name = problem.operator_names[int(problem.edge_target[np.argmax(early)])]
        raise ConfigError(f"options['order'] has operator {name!r} before one of its inputs")
    return frozen(found.astype(np.int32))
