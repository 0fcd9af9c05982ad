"""Where pipelines come from: one, several, graphs on platforms, or a generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from hetgym.envs.pipeline.observation import Padding
from hetgym.errors import ConfigError
from hetgym.pipeline import PipelineProblem, RandomChains, TrainingPipeline, load, training_pipeline
from hetgym.pipeline.contraction import bind

Pipeline = PipelineProblem | TrainingPipeline


class PipelineSource(Protocol):
    """Gives a pipeline for each episode."""

    def draw(self, rng: np.random.Generator) -> Pipeline:
        """The next episode's pipeline."""
        ...

    def padding(self) -> Padding | None:
        """Sizes that all pipelines fit in, None if that cannot be known."""
        ...


class FixedPipelines:
    """One pipeline, or several of which every episode draws one evenly.

    Raises:
        ConfigError: no pipeline at all.
    """

    def __init__(self, pipelines: Sequence[Pipeline]) -> None:
        if not pipelines:
            raise ConfigError("an environment needs at least one pipeline, the list is empty")
        self.pipelines = tuple(pipelines)

    def draw(self, rng: np.random.Generator) -> Pipeline:
        """The only pipeline, or an even draw."""
        return self.pipelines[0 if len(self.pipelines) == 1 else int(rng.integers(len(self.pipelines)))]

    def padding(self) -> Padding:
        """The largest of each size."""
        problems = [p.problem if isinstance(p, TrainingPipeline) else p for p in self.pipelines]
        return Padding(max(len(bind(p).members) for p in problems), max(p.num_devices for p in problems))


class GeneratedPipelines:
    """A fresh pipeline for every episode."""

    def __init__(self, generate: Callable[[np.random.Generator], Any], limit: Padding | None = None) -> None:
        self.generate = generate
        self.limit = limit

    def draw(self, rng: np.random.Generator) -> Pipeline:
        """Whatever the generator makes.

        Raises:
            ConfigError: the generator returned something else than a pipeline.
        """
        made = self.generate(rng)
        if not isinstance(made, PipelineProblem | TrainingPipeline):
            raise ConfigError(f"the generator returned {type(made).__name__}, expected a PipelineProblem")
        return made

    def padding(self) -> Padding | None:
        """What the caller promised."""
        return self.limit


def as_pipeline(source: Any) -> Pipeline:
    """A pipeline as it is, or the one that a file holds.

    Raises:
        ConfigError: neither a pipeline nor a path.
    """
    if isinstance(source, PipelineProblem | TrainingPipeline):
        return source
    if isinstance(source, str | Path):
        return load(source)
    raise ConfigError(f"expected a hetgym.pipeline.PipelineProblem or a path, got {type(source).__name__}")


def pipeline_source(
    problem: Any = None,
    graph: Any = None,
    platform: Any = None,
    generator: Any = None,
    batch: int = 1,
    costs: Any = "auto",
    blocks: str = "auto",
    optimizer: str = "adam",
) -> PipelineSource:
    """Turn the environment's arguments into a source of pipelines; see :class:`HetPipelineEnv` for them.

    Raises:
        ConfigError: more than one kind of source, a graph without a platform, or a generator that is none.
    """
    kinds = {"problem": problem, "graph": graph, "generator": generator}
    given = [name for name, value in kinds.items() if value is not None]
    if len(given) > 1:
        raise ConfigError(f"an environment takes its pipelines from one source, not from {' and '.join(given)}")
    if (graph is None) != (platform is None):
        raise ConfigError("graph=… and platform=… belong together: give both")
    if problem is not None:
        return FixedPipelines([as_pipeline(item) for item in _listed(problem)])
    if graph is not None:
        from hetgym.graph import DataflowGraph, load_graph
        from hetgym.platform import Platform, load_platform

        nets = [g if isinstance(g, DataflowGraph) else load_graph(g, batch=batch) for g in _listed(graph)]
        machines = [m if isinstance(m, Platform) else load_platform(m) for m in _listed(platform)]
        return FixedPipelines([training_pipeline(g, m, costs, blocks, optimizer) for g in nets for m in machines])
    if generator is None:
        chains = RandomChains()
        return GeneratedPipelines(chains, Padding(*chains.limit))
    if not callable(generator):
        raise ConfigError(f"generator is {generator!r}; it must be a callable(rng) -> PipelineProblem")
    limit = generator.limit if isinstance(generator, RandomChains) else None
    return GeneratedPipelines(generator, None if limit is None else Padding(*limit))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
