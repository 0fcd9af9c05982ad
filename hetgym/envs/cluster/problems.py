"""The problems of HetCluster-v0: training steps, given or made by a generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from hetgym.envs.cluster.instance import sizes_of
from hetgym.envs.cluster.observation import StepPadding
from hetgym.envs.core.sources import Kind, PoolArguments, Source, generator_of, listed, only_one
from hetgym.errors import ConfigError, shown
from hetgym.parallel import RandomSteps, TrainingProblem
from hetgym.pipeline import PipelineProblem, TrainingPipeline


def _is_step(made: object) -> bool:
    return isinstance(made, TrainingProblem)


def _sizes(problem: TrainingProblem) -> StepPadding:
    return StepPadding(*sizes_of(problem))


STEPS: Kind[TrainingProblem, StepPadding] = Kind("a TrainingProblem", _is_step, _sizes)


@dataclass(frozen=True)
class ClusterArguments(PoolArguments):
    """The source of an environment's training steps; see :class:`~hetgym.envs.HetClusterEnv`."""

    problem: TrainingProblem | Sequence[TrainingProblem] | None = None  # a TrainingProblem, or a list of these
    _: KW_ONLY
    generator: Callable[[np.random.Generator], TrainingProblem] | None = None  # `callable(rng) -> TrainingProblem`

    def source(self) -> Source[TrainingProblem, StepPadding]:
        """The source; ConfigError for sources that exclude or lack each other."""
        given = only_one(problem=self.problem, generator=self.generator)
        self._refuse_pool(given)
        if given == "problem":
            return Source(STEPS, [as_step(item) for item in listed(self.problem)])
        generate = RandomSteps() if self.generator is None else generator_of(self.generator, "TrainingProblem")
        limit = None
        if isinstance(generate, RandomSteps):  # all draws have the same settings and options
            most = (generate.layers[1],) * 2
            limit = _sizes(RandomSteps(most, generate.gpus, generate.global_batch)(np.random.default_rng(0)))
        return Source(STEPS, generate=generate, limit=limit, pool=self)


def as_step(source: Any) -> TrainingProblem:
    """Return a TrainingProblem unchanged; ConfigError for anything else."""
    if isinstance(source, TrainingProblem):
        return source
    if isinstance(source, PipelineProblem | TrainingPipeline):
        raise ConfigError("HetCluster-v0 plans a hetgym.parallel.TrainingProblem; pipelines are cut in HetPipeline-v0")
    raise ConfigError(f"expected a hetgym.parallel.TrainingProblem, got {shown(source)}")
