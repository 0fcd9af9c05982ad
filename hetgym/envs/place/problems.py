"""The problems of HetSchedule-v0: one, several, graphs on platforms, a suite, or a generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import numpy as np

from hetgym.costs import CostModel, cost_model
from hetgym.envs.core import sources
from hetgym.envs.core.arguments import whole
from hetgym.envs.core.kinds import refuse_partitions
from hetgym.envs.core.padding import GraphPadding
from hetgym.envs.core.sources import Graph, Kind, Machine, PoolArguments, Source
from hetgym.problem import Problem
from hetgym.workloads import RandomMix, as_problem, load_suite


def _sizes(problem: Problem) -> GraphPadding:
    refuse_partitions(problem)
    return GraphPadding(problem.num_operators, problem.num_edges, problem.num_devices)


def _is_problem(made: object) -> bool:
    if isinstance(made, Problem):
        refuse_partitions(made)
    return isinstance(made, Problem)


def playable(source: object) -> Problem:
    """As :func:`hetgym.workloads.as_problem`; ConfigError, too, for a problem that environments do not simulate."""
    problem = as_problem(source)
    refuse_partitions(problem)
    return problem


PROBLEMS: Kind[Problem, GraphPadding] = Kind("a hetgym.Problem", _is_problem, _sizes)


@dataclass(frozen=True)
class ProblemArguments(PoolArguments):
    """The source of an environment's problems; see :class:`~hetgym.envs.HetScheduleEnv`."""

    problem: Problem | str | Path | Sequence[Problem | str | Path] | None = None
    _: KW_ONLY
    graph: Graph | Sequence[Graph] | None = None
    platform: Machine | Sequence[Machine] | None = None
    suite: str | Path | None = None  # a suite's name or path
    generator: str | Callable[[np.random.Generator], Problem] | None = None
    batch: int | None = whole(None)  # batch size of graphs given by name; None: the one that a model fixes, else 1
    costs: str | CostModel = "auto"  # cost model of graphs on platforms, or its name

    def __post_init__(self) -> None:
        super().__post_init__()
        cost_model(self.costs)

    def source(self) -> Source[Problem, GraphPadding]:
        """The source.

        Raises:
            ConfigError: sources that exclude or lack each other, or arguments about graphs without a graph.
        """
        given = sources.only_one(problem=self.problem, graph=self.graph, suite=self.suite, generator=self.generator)
        sources.together(self.graph, self.platform)
        self._refuse_pool(given)
        if given != "graph":
            sources.need_graphs(self, "batch", "costs")
        if given == "problem":
            return Source(PROBLEMS, [as_problem(item) for item in sources.listed(self.problem)])
        if given == "graph":
            costs, pairs = cost_model(self.costs), sources.grid(self.graph, self.platform, self.batch)
            return Source(PROBLEMS, [Problem.build(graph, platform, costs) for graph, platform in pairs])
        if self.suite is not None:
            return Source(PROBLEMS, [spec.build() for spec in load_suite(self.suite).specs])
        if callable(self.generator):
            return Source(PROBLEMS, generate=self.generator, pool=self)
        mix = RandomMix() if self.generator is None else RandomMix(families=(self.generator,))
        return Source(PROBLEMS, generate=mix, limit=GraphPadding(*mix.limit), pool=self)
