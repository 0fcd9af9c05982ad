"""A training problem as episodes see it: its settings, the options of stages, and which decisions leave a plan."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hetgym._types import BoolArray, FloatArray, Int64Array
from hetgym.baselines.parallel import search, uniform_grid
from hetgym.baselines.parallel.exhaustive import runs
from hetgym.baselines.parallel.options import Options, options
from hetgym.errors import ConfigError, ProblemError, shown
from hetgym.parallel import ParallelPlan, Setting, TrainingProblem
from hetgym.pipeline.schedules import peaks_of

MOST = 1 << 22  # Most entries of a table of rest; a setting with more is not offered


@dataclass
class Choices:
    """The stages that may follow one setting.

    Attributes:
        problem: the problem.
        found: options of a stage.
        slots: [o, d, l + 1] sums of the slots of the layers before each on every replica of an option [s].
        held: [o, l + 1, l + 1] most micro-batches that fit, see :meth:`Options.held`.
        path: [l + 1] least time of a micro-batch in the layers from each on [s].
    """

    problem: TrainingProblem
    found: Options
    _rest: dict[tuple[float, ...], BoolArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        found = self.found
        self.slots: FloatArray = found.slot[found.replicas]
        self.held: FloatArray = found.held()
        self.path: FloatArray = np.append(np.cumsum(found.fastest[::-1])[::-1], 0.0)
        self.chunks = found.setting.chunks
        gpus = np.array([pool.gpus for pool in self.problem.cluster.pools])
        unit = np.maximum(1, np.gcd.reduce(found.used, axis=0))
        most, steps = gpus // unit, found.used // unit
        self.gpus: Int64Array = gpus
        self.stride: Int64Array = np.append(1, np.cumprod(most + 1)[:-1]).astype(np.int64)
        self.take: Int64Array = steps @ self.stride
        self.count = int(np.prod(most + 1))
        if self.count * (len(self.path) + len(found.used)) <= MOST:
            free = np.stack(np.unravel_index(np.arange(self.count), (most + 1)[::-1])[::-1], axis=1)
            self.allowed: BoolArray = (free[:, None, :] >= steps[None]).all(axis=2)  # [u, o]

    @cached_property
    def bound(self) -> float:
        """A lower bound on the step of any plan of the setting [s]."""
        return max(self.found.turns * self.found.longest, float(self.path[0])) * (1 - 1e-9)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Numbers of stages for which there is a plan; with several chunks, for which there are GPUs and layers."""
        if self.count * (len(self.path) + len(self.found.used)) > MOST:
            return ()
        layers, problem = len(self.path) - 1, self.problem
        samples = problem.samples(self.found.data, self.found.setting.micro_batch)
        least = self.found.used.sum(axis=1).min()
        most = min(problem.stages, layers // self.chunks, int(self.gpus.sum() // least))
        return tuple(
            p
            for p in range(1, most + 1)
            if runs(self.found.setting, p, samples)
            and self.rest(self.kept(p) if self.chunks == 1 else (0.0,) * p)[self.count - 1, 0]
        )

    def kept(self, depth: int) -> tuple[float, ...]:
        """[p] micro-batches whose activations each stage keeps."""
        return peaks_of(self.found.setting.schedule, depth, self.found.turns, self.chunks)

    def rest(self, kept: tuple[float, ...]) -> BoolArray:
        """[u, l + 1] True if the layers from each on can be the last stages on what is left of the GPUs.

        Every stage has a layer; ``kept``: micro-batches that these stages keep. With several chunks a table knows GPUs
        only: then all layers may lie behind the stages.
        """
        if self.chunks > 1:
            kept = (0.0,) * len(kept)
        if kept not in self._rest:
            layers = len(self.path) - 1
            table = np.zeros((self.count, layers + 1), np.bool_)
            if not kept:
                table[:, layers if self.chunks == 1 else slice(None)] = True
            else:
                behind = self.rest(kept[1:])
                sums = np.concatenate([np.zeros((self.count, 1), np.int64), np.cumsum(behind, axis=1)], axis=1)
                for o in range(len(self.take)):
                    ends = self.reach(o, kept[0])
                    at = np.flatnonzero(self.allowed[:, o])
                    left = sums[at - self.take[o]]
                    begin = np.minimum(np.arange(layers + 1) + 1, layers + 1)
                    table[at] |= left[:, np.maximum(ends + 1, begin)] > left[:, begin]
            self._rest[kept] = table
        return self._rest[kept]

    def reach(self, option: int, kept: float) -> Int64Array:
        """[l + 1] last end of a stage that begins at each layer; the layer itself if none fits."""
        layers = len(self.path) - 1
        if self.chunks > 1:
            return np.full(layers + 1, layers)
        fits = self.held[option] >= kept  # a longer stage never needs less
        return np.asarray(np.arange(layers + 1) + np.triu(fits, 1).sum(axis=1))


class StepInstance:
    """A training problem to be decided.

    Attributes:
        choices: one for each setting that has a plan.
        reference_plan: plan that returns compare with: the best uniform grid, or without one the plan of ``search``.
        reference: time of its step [s].

    Raises:
        ProblemError: no plan fits in memory.
    """

    def __init__(self, problem: TrainingProblem) -> None:
        self.problem = problem
        found = [Choices(problem, made) for made in _options(problem)]
        self.choices = [choices for choices in found if choices.depths]
        try:
            self.reference_plan = uniform_grid(problem)
        except ProblemError:
            self.reference_plan = search(problem)
        self.reference = problem.value(self.reference_plan)
        if not self.choices:
            raise ProblemError(f"training problem on {problem.cluster.name!r}: too many GPUs for tables of what fits")

    @cached_property
    def bound(self) -> float:
        """A lower bound on the step of any plan [s]."""
        return min(choices.bound for choices in self.choices)

    @cached_property
    def name(self) -> str:
        """Name of the problem."""
        at = self.problem
        return f"{at.costs.layers} layers on {at.cluster.name}, global batch {at.global_batch}"

    @cached_property
    def digest(self) -> str:
        """Hash of the tables."""
        hasher = hashlib.sha256(repr(self.reference).encode())
        for choices in self.choices:
            found = choices.found
            hasher.update(repr((found.setting, found.turns, found.kinds, choices.gpus.tolist())).encode())
            for array in (found.replicas, found.used, found.slot, found.state, found.stash, found.room, found.once):
                hasher.update(np.ascontiguousarray(array).tobytes())
        return hasher.hexdigest()

    def actions(self, plan: ParallelPlan) -> list[int]:
        """The actions that make a plan.

        Raises:
            ConfigError: the plan belongs to another problem, or its groups are not an option of a stage.
        """
        if not isinstance(plan, ParallelPlan):
            raise ConfigError(f"plan is {shown(plan)}; it must be a hetgym.parallel.ParallelPlan")
        setting = Setting(plan.replicas, plan.micro_batch, plan.schedule, plan.chunks, plan.zero, plan.sequence)
        known = [choices.found.setting for choices in self.choices]
        if plan.layers != self.problem.costs.layers or setting not in known:
            raise ConfigError(
                f"the plan, {plan.layers} layers under {tuple(setting)}, belongs to another training problem"
            )
        choices = self.choices[known.index(setting)]
        groups = [choices.found.groups(option) for option in range(len(choices.take))]
        if plan.depth not in choices.depths:
            raise ConfigError(f"the training problem has no plan of {plan.depth} stages under {tuple(setting)}")
        taken = [known.index(setting), plan.depth - 1]
        for stage in plan.stages:
            if stage.groups not in groups:
                raise ConfigError(
                    f"the groups of the stage at layer {stage.first} are not an option of the environment"
                )
            taken += [1 + groups.index(stage.groups), *[0] * (stage.last - stage.first)]
        return taken


def sizes_of(problem: TrainingProblem) -> tuple[int, int, int]:
    """Layers, pools and actions of a problem."""
    most = max([1, *(1 + len(found.used) for found in _options(problem))])
    settings, stages = sum(1 for _ in problem.settings()), min(problem.stages, problem.costs.layers)
    return problem.costs.layers, len(problem.cluster.pools), max(most, settings, stages)


def _options(problem: TrainingProblem) -> list[Options]:
    """Options of all settings that have some."""
    found = (options(problem, setting) for setting in problem.settings())
    return [made for made in found if made is not None]
