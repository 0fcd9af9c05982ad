"""PipelineLanes: the episodes of HetPipeline-v0, and what their agents see."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from hetgym import _records as records
from hetgym._types import BoolArray
from hetgym.envs.core.lanes import Lanes, Observation
from hetgym.envs.core.replay import Replay
from hetgym.envs.pipeline import dynamics as cutting
from hetgym.envs.pipeline.observation import (
    BLOCK_FEATURES,
    NARROW,
    Padding,
    fixed,
    graph_space,
    observation_space,
)
from hetgym.envs.pipeline.optima import optimum
from hetgym.envs.pipeline.remainders import with_remainders
from hetgym.envs.pipeline.rendering import ansi, rgb_array
from hetgym.envs.pipeline.sources import PipelineSource, as_pipeline
from hetgym.envs.pipeline.stages import (
    LATENCY,
    TRAINING,
    Context,
    Cut,
    Index,
    Piece,
    Rules,
    as_training,
    memory_of,
    prepare,
    schedule_of,
    settle,
    unrolled,
)
from hetgym.errors import ConfigError
from hetgym.pipeline import PipelineProblem, TrainingPipeline
from hetgym.problem import Problem
from hetgym.schedule import Schedule

_REMEMBERED = 256  # contexts kept, so that a small set of problems is prepared only once


class Stage(NamedTuple):
    """A piece of a model on a device.

    Attributes:
        first, end: its blocks: from the first to before the end.
        device: number of the device.
    """

    first: int
    end: int
    device: int


class PipelineLanes(Lanes):
    """Episodes of cutting pipelines side by side.

    Args:
        count: number of lanes.
        source: where problems come from.
        rules: what episodes are played by.
        padding: sizes of the observations.
        level: one of :data:`~hetgym.envs.place.observation.LEVELS`.
        sparse: whether the whole return comes with the last reward.
    """

    def __init__(
        self, count: int, source: PipelineSource, rules: Rules, padding: Padding, level: str, sparse: bool
    ) -> None:
        from gymnasium import spaces

        super().__init__(count, observation_space(padding, level), spaces.Discrete(1 + padding.devices))
        self.source, self.rules, self.padding, self.level, self.sparse = source, rules, padding, level, sparse
        self._space = space = graph_space(padding)
        keys = tuple(space.keys()) if level == "graph" else NARROW
        self._arrays: dict[str, npt.NDArray[Any]] = {
            key: np.zeros((count, *(space[key].shape or ())), space[key].dtype) for key in keys
        }
        hidden = {"blocks": (0, len(BLOCK_FEATURES)), "assignment": (0,), "current": (1,)}
        parts = {key: np.zeros((count, *shape), space[key].dtype) for key, shape in hidden.items()} | self._arrays
        self.mask = self._arrays["action_mask"]
        self._seen = cutting.Seen(
            parts["blocks"], parts["assignment"], parts["devices"], parts["candidates"], parts["current"], self.mask
        )
        split = rules.code == TRAINING and rules.schedule == "zb-h1"
        self.game = cutting.Game(rules.code, rules.turns, int(split), rules.rounds, int(sparse))
        self.board = cutting.new_board(count, padding.blocks, padding.devices, rules.rounds)
        self.contexts: list[Context | None] = [None] * count
        self._names = np.full(count, "", object)
        self._seeds: list[int | None] = [None] * count
        self._cuts: list[Cut | None] = [None] * count
        self._rows = records.Rows(count, cutting.TABLES)
        self._known: OrderedDict[str, tuple[Context, dict[str, npt.NDArray[Any]]]] = OrderedDict()

    @property
    def _table(self) -> Index:
        return cast(Index, self._rows.table)

    @property
    def seen(self) -> Observation:
        """What the agents see, [L, …]."""
        if self.level == "flat":
            parts = [self._arrays[key].reshape(self.count, -1) for key in NARROW]
            return np.concatenate(parts, axis=1, dtype=np.float32)
        return self._arrays

    def begin(self, lane: int, rng: np.random.Generator, options: dict[str, Any], seed: int | None) -> None:
        """Begin an episode on a pipeline drawn from the source, or on ``options["problem"]``.

        Raises:
            ConfigError: an unknown option.
            ProblemError: the pipeline exceeds the padding, or nothing can run it.
        """
        forced = options.pop("problem", None)
        if options:
            raise ConfigError(f"reset has no option {min(options)!r}; known: 'problem'")
        problem = self.source.draw(rng) if forced is None else as_pipeline(forced)
        context, blank = self._prepared(as_training(problem))
        if context is not self.contexts[lane]:
            self.contexts[lane], self._names[lane] = context, context.problem.name
            self._rows[lane] = context.tables
        for key, array in self._arrays.items():
            array[lane] = blank[key]
        self._seeds[lane], self._cuts[lane] = seed, None
        self.illegal[lane], self.over[lane] = 0, False
        cutting.open_lane(self._table, self.board, self._seen, self.game, lane, context.reference)

    def step(self, actions: npt.NDArray[np.int64], active: BoolArray) -> None:
        """Decide on the current block of each active lane."""
        cutting.decide(
            self._table, self.board, self._seen, self.game, actions, active, self.illegal, self.reward, self.over
        )
        if self.over.any():
            for lane in np.flatnonzero(self.over & active).tolist():
                self._finish(lane)

    def _finish(self, lane: int) -> None:
        """Price the cut, and settle the last reward."""
        b, context, pieces = self.board, self.context(lane), self.pieces(lane)
        count = len(pieces)
        passes = (b.forward[lane, :count].copy(), b.backward[lane, :count].copy(), b.weight[lane, :count].copy())
        cut = settle(context, self.rules, pieces, *passes)
        self._cuts[lane] = cut
        before = context.reference if self.sparse else float(b.potential[lane])
        self.reward[lane] = (before - cut.value) / context.reference if context.reference > 0 else 0.0

    def _prepared(self, step: TrainingPipeline) -> tuple[Context, dict[str, npt.NDArray[Any]]]:
        """The context of a pipeline and its fixed observations, from memory if it was met before."""
        key = step.digest if self.rules.code == TRAINING else step.problem.digest
        if key in self._known:
            self._known.move_to_end(key)
        else:
            context = prepare(step, self.rules)
            tables = with_remainders(context.tables, context.problem, self.rules)
            context = replace(context, tables=tables)
            self.padding.check(context.problem.name, len(context.names), context.problem.num_devices)
            blank = fixed(context, self.rules, self._space)
            self._known[key] = context, {name: blank[name] for name in self._arrays}
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return self._known[key]

    def optimum(self, lane: int) -> float:
        """See :func:`hetgym.envs.pipeline.optima.optimum`; worked out when the first episode on a pipeline ends [s]."""
        context = self.context(lane)
        if "optimum" not in context.known:
            context.known["optimum"] = optimum(context, self.rules)
        return context.known["optimum"]

    def identity(self, lane: int) -> str:
        """Name and content of the lane's pipeline in one word."""
        context = self.context(lane)
        return context.step.id if self.rules.code == TRAINING else context.problem.id

    def problem(self, lane: int) -> PipelineProblem:
        """What the lane's episode is about."""
        return self.context(lane).problem

    def context(self, lane: int) -> Context:
        """Of a lane that has begun."""
        context = self.contexts[lane]
        assert context is not None
        return context

    def pieces(self, lane: int) -> list[Piece]:
        """The pieces of what a lane has decided."""
        b, count = self.board, int(self.board.pieces[lane])
        begun = b.begun[lane, :count].tolist()
        return list(zip(begun, [*begun[1:], int(b.turn[lane])], b.device[lane, :count].tolist(), strict=False))

    def unrolled(self, lane: int) -> tuple[Problem, Schedule] | None:
        """What a finished episode's cut does, as a problem of the stages and their schedule; None for throughput."""
        cut, pieces = self._cuts[lane], self.pieces(lane)
        assert cut is not None
        stages = len({d for _, _, d in pieces})
        f, k, w = (passes.reshape(-1, stages) for passes in cut[1:])
        return unrolled(self.rules, f, k, w)

    def shared(self) -> dict[str, npt.NDArray[Any]]:
        """The pipeline's name."""
        return {"problem": self._names.copy()}

    def result(self, lane: int) -> dict[str, Any]:
        """Value, reference and optimum [s], the stages and what they take, the terms of the return, and the replay."""
        context, cut, pieces = self.context(lane), self._cuts[lane], self.pieces(lane)
        assert cut is not None
        total = (context.reference - cut.value) / context.reference if context.reference > 0 else 0.0
        least = self._least(context)
        loads = np.zeros(context.problem.num_devices)
        np.add.at(loads, [d for _, _, d in pieces], cut.forward + cut.backward + cut.weight)
        actions = self.board.log[lane, : self.board.turn[lane]]
        return {
            "value": cut.value,
            "makespan": cut.value,
            "reference": context.reference,
            "optimal": self.optimum(lane),
            "slr": cut.value / least if least > 0 else 1.0,
            "speedup": context.alone / cut.value if cut.value > 0 else 1.0,
            "schedule": schedule_of(self.rules, len({d for _, _, d in pieces}), len(pieces)),
            "stages": tuple(Stage(*piece) for piece in pieces),
            "reference_stages": tuple(Stage(*piece) for piece in context.pieces),
            "loads": tuple(loads.tolist()),
            "memory": tuple(memory_of(context, self.rules, pieces).tolist()),
            "within_memory": context.within,
            "reward_terms": {"reference": 1.0, "value": total - 1.0},
            "replay": Replay(self.identity(lane), self._seeds[lane], tuple(actions.tolist())),
        }

    def _least(self, context: Context) -> float:
        """A lower bound on any cut's value: work shared evenly, and one request's way through all blocks [s]."""
        t = context.tables
        shared = max(float(t.rest[0]) / len(t.capacity), float(t.largest[0]))
        if self.rules.code == LATENCY:
            return float(t.rest[0]) + (self.rules.turns - 1) * shared
        if self.rules.code == TRAINING:
            return max(float(t.path[0]), self.rules.turns * float(t.rest[0]) / len(t.capacity))
        return shared

    def frame(self, lane: int, mode: str) -> Any:
        """A text or a bar chart of the stages' loads."""
        context, b, cut = self.context(lane), self.board, self._cuts[lane]
        pieces = self.pieces(lane)
        times = (
            b.forward[lane, : len(pieces)] + b.backward[lane, : len(pieces)] + b.weight[lane, : len(pieces)]
            if cut is None
            else cut.forward + cut.backward + cut.weight
        )
        value = np.nan if cut is None else cut.value
        draw = rgb_array if mode == "rgb_array" else ansi
        return draw(context, self.rules, pieces, times, value)
