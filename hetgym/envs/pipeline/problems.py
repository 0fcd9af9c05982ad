"""The problems of HetPipeline-v0: pipelines, graphs on platforms, or a generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hetgym.costs import CostModel, cost_model
from hetgym.envs.core import sources
from hetgym.envs.core.arguments import one_of, whole
from hetgym.envs.core.padding import BlockPadding
from hetgym.envs.core.sources import Graph, Kind, Machine, PoolArguments, Source
from hetgym.errors import ConfigError
from hetgym.graph.transforms.training import OPTIMIZERS
from hetgym.parallel import TrainingProblem
from hetgym.pipeline import PipelineProblem, RandomChains, TrainingPipeline, load, training_pipeline
from hetgym.pipeline.blocking import BLOCKS
from hetgym.pipeline.contraction import bind

Pipeline = PipelineProblem | TrainingPipeline


def _is_pipeline(made: object) -> bool:
    return isinstance(made, PipelineProblem | TrainingPipeline)


def _sizes(pipeline: Pipeline) -> BlockPadding:
    problem = pipeline.problem if isinstance(pipeline, TrainingPipeline) else pipeline
    return BlockPadding(len(bind(problem).members), problem.num_devices)


PIPELINES: Kind[Pipeline, BlockPadding] = Kind("a PipelineProblem or a TrainingPipeline", _is_pipeline, _sizes)


@dataclass(frozen=True)
class PipelineArguments(PoolArguments):
    """The source of an environment's pipelines; see :class:`~hetgym.envs.HetPipelineEnv`."""

    problem: Pipeline | str | Path | Sequence[Pipeline | str | Path] | None = None
    _: KW_ONLY
    graph: Graph | Sequence[Graph] | None = None
    platform: Machine | Sequence[Machine] | None = None
    generator: Callable[[np.random.Generator], Pipeline] | None = None  # `callable(rng) -> PipelineProblem`
    batch: int | None = whole(None)  # batch size of graphs given by name; None: the one that a model fixes, else 1
    costs: str | CostModel = "auto"  # cost model of graphs on platforms, or its name
    blocks: str = "auto"  # the kind of blocks that are never cut in a graph
    optimizer: str = "adam"  # of graphs

    def __post_init__(self) -> None:
        super().__post_init__()
        cost_model(self.costs)
        one_of("blocks", self.blocks, tuple(BLOCKS))
        one_of("optimizer", self.optimizer, tuple(OPTIMIZERS))

    def source(self) -> Source[Pipeline, BlockPadding]:
        """The source.

        Raises:
            ConfigError: sources that exclude or lack each other, or arguments about graphs without a graph.
        """
        given = sources.only_one(problem=self.problem, graph=self.graph, generator=self.generator)
        sources.together(self.graph, self.platform)
        self._refuse_pool(given)
        if given != "graph":
            sources.need_graphs(self, "batch", "costs", "blocks", "optimizer")
        if given == "problem":
            return Source(PIPELINES, [as_pipeline(item) for item in sources.listed(self.problem)])
        if given == "graph":
            costs = cost_model(self.costs)
            pairs = sources.grid(self.graph, self.platform, self.batch)
            return Source(PIPELINES, [training_pipeline(g, m, costs, self.blocks, self.optimizer) for g, m in pairs])
        generate = RandomChains() if self.generator is None else sources.generator_of(self.generator, "PipelineProblem")
        limit = BlockPadding(*generate.limit) if isinstance(generate, RandomChains) else None
        return Source(PIPELINES, generate=generate, limit=limit, pool=self)


def as_pipeline(source: Any) -> Pipeline:
    """Return a pipeline unchanged, or load it from a file. Raises ConfigError: neither a pipeline nor a path."""
    if isinstance(source, PipelineProblem | TrainingPipeline):
        return source
    if isinstance(source, str | Path):
        return load(source)
    if isinstance(source, TrainingProblem):
        raise ConfigError("HetPipeline-v0 cuts pipelines; a TrainingProblem is planned in HetCluster-v0")
    raise ConfigError(f"expected a hetgym.pipeline.PipelineProblem or a path, got {type(source).__name__}")
