"""Where an environment's problems come from: one, several, a suite, or a generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from hetgym.envs.place.observation import Padding
from hetgym.errors import ConfigError
from hetgym.problem import Problem

Draw = Callable[[np.random.Generator], Problem]
"""A generator of problems; all randomness comes from its argument."""


class ProblemSource(Protocol):
    """Gives a problem for each episode."""

    def draw(self, rng: np.random.Generator) -> Problem:
        """The next episode's problem."""
        ...

    def padding(self) -> Padding | None:
        """Sizes that all problems fit in, None if that cannot be known."""
        ...


class Fixed:
    """One problem, or several of which every episode draws one evenly.

    Raises:
        ConfigError: no problem at all.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        if not problems:
            raise ConfigError("an environment needs at least one problem, the list is empty")
        self.problems = tuple(problems)

    def draw(self, rng: np.random.Generator) -> Problem:
        """The only problem, or an even draw."""
        return self.problems[0] if len(self.problems) == 1 else self.problems[int(rng.integers(len(self.problems)))]

    def padding(self) -> Padding:
        """The largest of each size."""
        return Padding(
            max(p.num_operators for p in self.problems),
            max(p.num_edges for p in self.problems),
            max(p.num_devices for p in self.problems),
        )


class Generated:
    """A fresh problem for every episode."""

    def __init__(self, generate: Draw, limit: Padding | None = None) -> None:
        self.generate = generate
        self.limit = limit

    def draw(self, rng: np.random.Generator) -> Problem:
        """Whatever the generator makes.

        Raises:
            ConfigError: the generator returned something else than a Problem.
        """
        problem = self.generate(rng)
        if not isinstance(problem, Problem):
            raise ConfigError(f"the problem generator returned {type(problem).__name__}, expected a hetgym.Problem")
        return problem

    def padding(self) -> Padding | None:
        """What the caller promised."""
        return self.limit


def as_problem(source: Any) -> Problem:
    """A Problem as it is, or the one that a file holds.

    Raises:
        ConfigError: neither a problem nor a path.
    """
    from hetgym.workloads import load_problem

    if isinstance(source, Problem):
        return source
    if isinstance(source, str | Path):
        return load_problem(source)
    raise ConfigError(f"expected a hetgym.Problem or a path, got {type(source).__name__}")


def problem_source(
    problem: Any = None,
    graph: Any = None,
    platform: Any = None,
    suite: Any = None,
    generator: Any = None,
    batch: int = 1,
    costs: Any = "auto",
) -> ProblemSource:
    """Turn an environment's arguments into a source of problems.

    Args:
        problem: a Problem, a path, or a list of these.
        graph: a DataflowGraph, a zoo name or a path, or a list of these; needs ``platform``.
        platform: a Platform, a preset's name or a path, or a list of these; needs ``graph``.
        suite: a suite's name or path.
        generator: ``None`` for the default random mix, a family's name, or ``callable(rng) -> Problem``.
        batch: batch size of named graphs.
        costs: cost model of graphs on platforms.

    Raises:
        ConfigError: more than one kind of source, or a graph without a platform.
    """
    kinds = {"problem": problem, "graph": graph, "suite": suite, "generator": generator}
    given = [name for name, value in kinds.items() if value is not None]
    if len(given) > 1:
        raise ConfigError(f"an environment takes its problems from one source, not from {' and '.join(given)}")
    if (graph is None) != (platform is None):
        raise ConfigError("graph=… and platform=… belong together: give both")
    if problem is not None:
        return Fixed([as_problem(item) for item in _listed(problem)])
    if graph is not None:
        return Fixed(_grid(graph, platform, batch, costs))
    if suite is not None:
        from hetgym.workloads import load_suite

        return Fixed([spec.build() for spec in load_suite(suite).specs])
    if callable(generator):
        return Generated(generator)
    from hetgym.workloads import RandomMix

    mix = RandomMix() if generator is None else RandomMix(families=(generator,))
    return Generated(mix, Padding(*mix.limit))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _grid(graphs: Any, platforms: Any, batch: int, costs: Any) -> list[Problem]:
    """Every graph on every platform."""
    from hetgym.graph import DataflowGraph, load_graph
    from hetgym.platform import Platform, load_platform

    nets = [g if isinstance(g, DataflowGraph) else load_graph(g, batch=batch) for g in _listed(graphs)]
    machines = [m if isinstance(m, Platform) else load_platform(m) for m in _listed(platforms)]
    return [Problem.build(net, machine, costs) for net in nets for machine in machines]
