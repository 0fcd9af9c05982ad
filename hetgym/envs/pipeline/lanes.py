"""PipelineLanes: the episodes of HetPipeline-v0 side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._kernels import records as records
from hetgym._kernels.blanks import blank
from hetgym._types import BoolArray, FloatArray
from hetgym.baselines.pipeline.optima import optimum
from hetgym.envs.core.lanes import RecordLanes, begun, only_options
from hetgym.envs.core.memory import Remembered
from hetgym.envs.core.padding import BlockPadding
from hetgym.envs.core.sources import Source
from hetgym.envs.pipeline.dynamics import cut
from hetgym.envs.pipeline.observation import fixed, pipeline_space
from hetgym.envs.pipeline.problems import Pipeline, as_pipeline
from hetgym.envs.pipeline.rendering import pipeline_pixels, pipeline_text
from hetgym.envs.pipeline.rules import PipelineRules
from hetgym.envs.pipeline.state import RECORD, TABLES, Game, PipelineState
from hetgym.pipeline.cuts import CutProblem, CutValue, Stage
from hetgym.pipeline.objective import LATENCY, TRAINING
from hetgym.pipeline.problem import PipelineProblem
from hetgym.pipeline.reference import cut_problem
from hetgym.pipeline.remainders import with_remainders
from hetgym.pipeline.training import TrainingPipeline
from hetgym.pipeline.unrolling import schedule_of, unroll_cut
from hetgym.problem import Problem
from hetgym.schedule import Schedule

Prepared = tuple[CutProblem, records.Entry, dict[str, npt.NDArray[Any]]]
"""A cut problem, its tables for kernels, and the part of its observations that kernels do not write anew."""


class PipelineLanes(RecordLanes):
    """Episodes of cutting pipelines side by side; ``state``: of all lanes."""

    kind = "pipeline"
    options = ("problem",)

    def __init__(
        self,
        count: int,
        source: Source[Pipeline, BlockPadding],
        rules: PipelineRules,
        padding: BlockPadding,
        level: str,
        sparse: bool,
    ) -> None:
        super().__init__(count, pipeline_space(padding), level, 1 + padding.devices)
        self.source, self.rules, self.padding, self.sparse = source, rules, padding, sparse
        n, d = padding.blocks, padding.devices
        self.state = blank(PipelineState, L=count, N=n, D=d, P=d * rules.rounds)
        self._game = Game(rules.code, rules.turns, int(rules.split_backward), rules.rounds, int(sparse))
        self._objective = rules.bare()
        self._instances: list[CutProblem | None] = [None] * count
        self._ended: list[tuple[list[Stage], CutValue] | None] = [None] * count
        self._known: Remembered[str, Prepared] = Remembered(source.kept(count))
        self._tables = records.Rows(count, TABLES)
        self._lanes = self._all_lanes()

    def _all_lanes(self) -> records.Rows:
        """The arrays that the kernels need of the lanes, as a row of one record."""
        return self._record(RECORD, self._tables.table, self.state)

    def begin_episode(self, lane: int, rng: np.random.Generator, options: dict[str, Any], seed: int | None) -> None:
        """Prepare an episode on a pipeline drawn from the source, or on ``options["problem"]``."""
        (forced,) = only_options(options, *self.options)
        pipeline = self.source.draw(rng, lane, seed) if forced is None else as_pipeline(forced)
        step = pipeline if isinstance(pipeline, TrainingPipeline) else TrainingPipeline(pipeline)
        key = step.digest if self.rules.code == TRAINING else step.problem.digest
        instance, tables, blank = self._known.get(key, lambda: self._prepare(step))
        if instance is not self._instances[lane]:
            self._instances[lane], self.names[lane] = instance, instance.problem.name
            self._tables.put(lane, tables)
        for key, array in blank.items():
            self.arrays[key][lane] = array
        self._ended[lane] = None
        self.state.reference[lane] = instance.reference

    def estimates(self, lane: int) -> FloatArray:
        """[A] see :meth:`~hetgym.envs.core.lanes.Lanes.estimates`."""
        return np.asarray(self.state.ahead[lane])

    def take(self, actions: npt.NDArray[np.int64], active: BoolArray) -> None:
        """Open each active lane that is fresh, and decide on the current block of the others."""
        cut(self._lanes.table[0], self._game, actions, active)
        if self.over.any():
            for lane in np.flatnonzero(self.over & active).tolist():
                self._finish(lane)

    def _finish(self, lane: int) -> None:
        """Evaluate the cut, and set the last reward."""
        state, instance, stages = self.state, self.instance(lane), self.stages(lane)
        count = len(stages)
        passes = (each[lane, :count].copy() for each in (state.forward, state.backward, state.weight))
        found = instance.price(stages, *passes)
        self._ended[lane] = stages, found
        before = instance.reference if self.sparse else float(state.potential[lane])
        self.reward[lane] = (before - found.value) / instance.reference if instance.reference > 0 else 0.0

    def _prepare(self, step: TrainingPipeline) -> Prepared:
        """What an episode needs of its pipeline."""
        instance = cut_problem(step, self.rules)
        if self.rules.completion:
            instance = with_remainders(instance)
        self.padding.check(instance.problem.name, (len(instance.names), instance.problem.num_devices))
        blank = fixed(instance, self.padding, "blocks" in self.arrays)
        return instance, records.entry(instance.tables), blank

    def optimum(self, lane: int) -> float:
        """See :func:`~hetgym.baselines.pipeline.optimum`; computed when the first episode on a pipeline ends [s]."""
        instance = self.instance(lane)
        if not self.rules.optimal:
            return np.nan
        if "optimum" not in instance.known:
            instance.known["optimum"] = optimum(instance)
        return instance.known["optimum"]

    def identity(self, lane: int) -> str:
        """Name and content of the lane's pipeline in one word."""
        return self.replayable(lane).id

    def problem(self, lane: int) -> PipelineProblem:
        """The pipeline of the lane's episode."""
        return self.instance(lane).problem

    def replayable(self, lane: int) -> Pipeline:
        """The pipeline of the lane's episode, with its backward pass if it trains."""
        instance = self.instance(lane)
        return instance.training if self.rules.code == TRAINING else instance.problem

    def instance(self, lane: int) -> CutProblem:
        """The cut problem of a lane's episode, which must have begun."""
        return begun(self._instances[lane])

    def ended(self, lane: int) -> tuple[list[Stage], CutValue]:
        """The stages of a finished episode, and their value."""
        return begun(self._ended[lane])

    def stages(self, lane: int) -> list[Stage]:
        """The stages that a lane has decided so far."""
        state, count = self.state, int(self.state.pieces[lane])
        begun, device = state.begun[lane, :count].tolist(), state.device[lane, :count].tolist()
        return list(map(Stage, begun, [*begun[1:], int(state.turn[lane])], device))

    def unrolled(self, lane: int) -> tuple[Problem, Schedule] | None:
        """A finished episode's cut as a problem of its stages' passes and their schedule; None for the throughput."""
        stages, found = self.ended(lane)
        depth = len({stage.device for stage in stages})
        forward, backward, weight = (passes.reshape(-1, depth) for passes in found[1:])
        return unroll_cut(self.rules, forward, backward, weight)

    def outcome(self, lane: int) -> dict[str, Any]:
        """Value, reference and optimum [s], the stages and their loads, the terms of the return, and the replay."""
        instance, (stages, found) = self.instance(lane), self.ended(lane)
        total = (instance.reference - found.value) / instance.reference if instance.reference > 0 else 0.0
        least = self._least(instance)
        devices = instance.problem.num_devices
        depth, loads = len({stage.device for stage in stages}), [0.0] * devices
        for stage, seconds in zip(stages, (found.forward + found.backward + found.weight).tolist(), strict=True):
            loads[stage.device] += seconds
        actions = self.state.log[lane, : self.state.turn[lane]]
        return {
            "value": found.value,
            "makespan": found.value,
            "reference": instance.reference,
            "optimal": self.optimum(lane),
            "slr": found.value / least if least > 0 else 1.0,
            "speedup": instance.alone / found.value if found.value > 0 else 1.0,
            "schedule": schedule_of(self._objective, depth, len(stages) // depth, "agent"),
            "stages": tuple(stages),
            "reference_stages": instance.reference_cut,
            "loads": tuple(loads),
            "memory": tuple(self.state.memory[lane, :devices].tolist()),
            "within_memory": instance.within_memory,
            "reward_terms": {"reference": 1.0, "value": total - 1.0},
            "replay": self.replay(lane, actions.tolist(), found.value),
        }

    def _least(self, instance: CutProblem) -> float:
        """A lower bound on any cut's value: work shared evenly, and the time of one request through all blocks [s]."""
        tables = instance.tables
        shared = max(float(tables.rest[0]) / len(tables.capacity), float(tables.largest[0]))
        if self.rules.code == LATENCY:
            return float(tables.rest[0]) + (self.rules.turns - 1) * shared
        if self.rules.code == TRAINING:
            return max(float(tables.path[0]), self.rules.turns * float(tables.rest[0]) / len(tables.capacity))
        return shared

    def frame(self, lane: int, mode: str) -> Any:
        """A text or a bar chart of the stages' loads."""
        instance, state, ended, stages = self.instance(lane), self.state, self._ended[lane], self.stages(lane)
        passes = (state.forward[lane], state.backward[lane], state.weight[lane])
        forward, backward, weight = (p[: len(stages)] for p in passes) if ended is None else ended[1][1:]
        value = np.nan if ended is None else ended[1].value
        draw = pipeline_pixels if mode == "rgb_array" else pipeline_text
        return draw(instance, stages, forward + backward + weight, value)
