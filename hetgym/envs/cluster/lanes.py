"""ClusterLanes: the episodes of HetCluster-v0 side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, FloatArray
from hetgym.envs.cluster.episode import Ahead, Episode
from hetgym.envs.cluster.instance import StepInstance, sizes_of
from hetgym.envs.cluster.observation import LayerColumn, PoolColumn, StepColumn, StepPadding, step_space
from hetgym.envs.cluster.problems import as_step
from hetgym.envs.cluster.rendering import step_pixels, step_text
from hetgym.envs.core.lanes import Lanes, begun, only_options
from hetgym.envs.core.memory import Remembered
from hetgym.envs.core.scaling import scale_of, shares
from hetgym.envs.core.sources import Source
from hetgym.parallel import ParallelPlan, TrainingProblem


class ClusterLanes(Lanes):
    """Episodes of planning training steps side by side."""

    kind = "cluster"
    options = ("problem",)

    def __init__(
        self, count: int, source: Source[TrainingProblem, StepPadding], padding: StepPadding, level: str, sparse: bool
    ) -> None:
        super().__init__(count, step_space(padding), level, padding.actions)
        self.source, self.padding, self.sparse = source, padding, sparse
        self._episodes: list[Episode | None] = [None] * count
        self._ahead: list[Ahead | None] = [None] * count
        self._values = np.full(count, np.nan)
        self._known: Remembered[int, StepInstance] = Remembered(source.kept(count))

    def begin_episode(self, lane: int, rng: np.random.Generator, options: dict[str, Any], seed: int | None) -> None:
        """Prepare an episode on a problem drawn from the source, or on ``options["problem"]``."""
        (forced,) = only_options(options, *self.options)
        instance = self._prepared(self.source.draw(rng, lane, seed) if forced is None else as_step(forced))
        self._episodes[lane] = Episode(instance, potential=instance.reference)
        self.names[lane] = instance.name
        self._values[lane] = np.nan

    def _prepared(self, problem: TrainingProblem) -> StepInstance:
        """Tables of a problem that episodes share."""
        found = self._known.get(id(problem), lambda: StepInstance(problem))
        if found.problem is not problem:  # a copy of these lanes, where the number means another problem
            self._known.clear()
            found = self._known.get(id(problem), lambda: StepInstance(problem))
        self.padding.check(found.name, sizes_of(problem))
        return found

    def estimates(self, lane: int) -> FloatArray:
        """[A] see :meth:`~hetgym.envs.core.lanes.Lanes.estimates`."""
        ahead = begun(self._ahead[lane])
        return np.asarray(ahead.bound)

    def take(self, actions: npt.NDArray[np.int64], active: BoolArray) -> None:
        """Open each active lane that is fresh, and take the next decision of the others."""
        for lane in np.flatnonzero(active & ~self.fresh).tolist():
            at, ahead = self.episode(lane), begun(self._ahead[lane])
            action = int(actions[lane])
            at.log.append(action)
            at.decide(action)
            reference, value = at.instance.reference, float(ahead.bound[action])
            if at.over:
                self.over[lane] = True
                self._values[lane] = at.instance.problem.value(at.plan)
                value = min(float(self._values[lane]), 2.0 * reference)
            before = reference if self.sparse and at.over else at.potential
            self.reward[lane] = 0.0 if self.sparse and not at.over else (before - value) / reference
            at.potential = value
        for lane in np.flatnonzero(active).tolist():
            self._show(lane)
            self.fresh[lane] = False

    def _show(self, lane: int) -> None:
        """Write the observation of a lane; the mask stays after the last decision, so that it is never empty."""
        at, seen = self.episode(lane), self.arrays
        self._ahead[lane] = ahead = at.ahead(self.padding.actions)
        problem = at.instance.problem
        if not at.over:
            self.mask[lane] = ahead.legal
        pools = problem.cluster.pools
        unit = scale_of(max(pool.device.memory_capacity for pool in pools))
        gpus, left = np.array([pool.gpus for pool in pools]), np.array([pool.gpus for pool in pools])
        for _, _, option in at.pieces[: at.depth]:
            left = left - at.choices.found.used[option]
        table = seen["devices"][lane]
        table[:] = 0.0
        table[: len(pools), PoolColumn.GPUS] = gpus / gpus.sum()
        table[: len(pools), PoolColumn.LEFT] = left / gpus
        table[: len(pools), PoolColumn.MEMORY] = [pool.device.memory_capacity * unit for pool in pools]
        self._show_candidates(lane, ahead)
        if "blocks" not in seen:
            return
        seen["current"][lane, 0] = min(at.turn, at.layers - 1)
        seen["block_mask"][lane] = np.arange(self.padding.blocks) < at.layers
        seen["device_mask"][lane] = np.arange(self.padding.devices) < len(pools)
        table = seen["blocks"][lane]
        table[:] = 0.0
        table = table[: at.layers]
        table[:, LayerColumn.TURN] = np.arange(at.layers) / max(1, at.layers - 1)
        table[: at.turn, LayerColumn.IS_DECIDED] = 1.0
        if not at.over:
            table[at.turn, LayerColumn.IS_CURRENT] = 1.0
        if at.setting >= 0:
            found = at.choices.found
            pace = found.turns * scale_of(at.instance.reference)
            table[:, LayerColumn.LEAST_COST] = shares(found.fastest, pace)
            table[:, LayerColumn.STATE] = shares(np.diff(found.state, axis=1).min(axis=0), unit)
            table[:, LayerColumn.STASH] = shares(np.diff(found.stash, axis=1).min(axis=0), unit)
        for k, (first, end, _) in enumerate(at.pieces):
            table[first:end, LayerColumn.STAGE] = (1 + k % at.depth) / at.depth

    def _show_candidates(self, lane: int, ahead: Ahead) -> None:
        """Write the rows of actions."""
        at, table = self.episode(lane), self.arrays["candidates"][lane]
        instance, table[:] = at.instance, 0.0
        legal = np.flatnonzero(ahead.legal)
        scale, gpus = scale_of(instance.reference), instance.problem.cluster.gpus
        several = instance.choices if at.setting < 0 else [at.choices] * len(ahead.legal)
        turns = np.array([several[k].found.turns for k in legal.tolist()])
        each = table[legal]
        each[:, StepColumn.DATA] = [several[k].found.data / gpus for k in legal.tolist()]
        each[:, StepColumn.TURNS] = turns / instance.problem.global_batch
        each[:, StepColumn.CHUNKS] = [min(several[k].chunks, 80) / 8 for k in legal.tolist()]
        each[:, StepColumn.ZERO] = [(several[k].found.setting.zero or 0) / 3 for k in legal.tolist()]
        each[:, StepColumn.SEQUENCE] = [bool(several[k].found.setting.sequence) for k in legal.tolist()]
        each[:, StepColumn.LOAD] = shares(ahead.load[legal] * turns, scale)
        each[:, StepColumn.EVEN] = shares(ahead.even[legal] * turns, scale)
        each[:, StepColumn.BOUND] = shares(ahead.bound[legal], scale)
        each[:, StepColumn.ESTIMATE] = shares(ahead.estimate[legal], scale)
        each[:, StepColumn.MEMORY_LEFT] = ahead.left[legal]
        if at.setting < 0:
            each[:, StepColumn.IS_SETTING] = 1.0
        elif not at.depth:
            each[:, StepColumn.IS_DEPTH] = 1.0
            each[:, StepColumn.STAGES] = (legal + 1) / at.layers
        else:
            each[legal == 0, StepColumn.IS_STAY] = 1.0
            begun = len(at.pieces) + (legal > 0)
            each[:, StepColumn.STAGES] = np.maximum(0, at.depth - begun) / at.layers
            taken = at.choices.found.used.sum(axis=1)[np.maximum(legal - 1, 0)] / gpus
            each[:, StepColumn.GPUS] = np.where((legal > 0) & (len(at.pieces) < at.depth), taken, 0.0)
        table[legal] = each

    def episode(self, lane: int) -> Episode:
        """The state of a lane's episode, which must have begun."""
        return begun(self._episodes[lane])

    def problem(self, lane: int) -> TrainingProblem:
        """The problem of the lane's episode."""
        return self.episode(lane).instance.problem

    def identity(self, lane: int) -> str:
        """Name and content of the lane's problem in one word."""
        instance = self.episode(lane).instance
        return f"{instance.name.replace(' ', '-')}@{instance.digest[:16]}"

    def actions(self, lane: int, plan: ParallelPlan) -> list[int]:
        """The actions that make a plan of the lane's problem, see :meth:`StepInstance.actions`."""
        return self.episode(lane).instance.actions(plan)

    def outcome(self, lane: int) -> dict[str, Any]:
        """Value, reference and bound [s], the plan, the terms of the return, and the replay."""
        at, value = self.episode(lane), float(self._values[lane])
        reference = at.instance.reference
        counted = min(value, 2.0 * reference)
        return {
            "value": value,
            "makespan": value,
            "reference": reference,
            "bound": at.instance.bound,
            "slr": value / at.instance.bound if at.instance.bound > 0 else 1.0,
            "plan": at.plan,
            "reference_plan": at.instance.reference_plan,
            "within_memory": bool(np.isfinite(value)),
            "reward_terms": {"reference": 1.0, "value": (reference - counted) / reference - 1.0},
            "replay": self.replay(lane, at.log, value),
        }

    def frame(self, lane: int, mode: str) -> Any:
        """A text or a bar chart of the stages."""
        draw = step_pixels if mode == "rgb_array" else step_text
        return draw(self.episode(lane), float(self._values[lane]))
