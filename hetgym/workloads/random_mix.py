"""Random problems: a distribution to draw from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hetgym.errors import ProblemError, unknown_name
from hetgym.graph.generators.tasks import Index, work_and_sizes
from hetgym.graph.generators.topologies import inception_like_edges, layered_edges
from hetgym.problem import Problem
from hetgym.workloads.synthetic import edge_weights, scale_communication, unrelated_costs

_TOPOLOGIES: dict[str, Callable[[np.random.Generator, int], tuple[Index, Index]]] = {
    "layered": layered_edges,
    "inception_like": inception_like_edges,
}


@dataclass(frozen=True)
class RandomMix:
    """Random problems with unrelated costs: a family, a size and a CCR are drawn for each.

    Costs are those of :func:`hetgym.workloads.synthetic.unrelated_costs`; edge times are log-normal, the
    same between all devices, scaled so that their mean is CCR times the mean cost.

    Args:
        families: names out of :data:`RandomMix.EDGES`.
        operators: fewest and most operators.
        devices: number of devices.
        ccr: communication-to-computation ratios to draw from.
        heterogeneity: see :func:`~hetgym.workloads.synthetic.unrelated_costs`.

    Raises:
        UnknownName: no such family.
        ProblemError: an empty range.

    >>> problem = RandomMix()(np.random.default_rng(0))
    >>> 30 <= problem.num_operators <= 80, problem.num_devices
    (True, 4)
    """

    EDGES = {"layered": 3, "inception_like": 2}
    """Families and the most edges that they have for each operator."""

    families: tuple[str, ...] = ("layered", "inception_like")
    operators: tuple[int, int] = (30, 80)
    devices: int = 4
    ccr: tuple[float, ...] = (0.1, 0.5, 1.0, 3.0)
    heterogeneity: float = 0.5

    def __post_init__(self) -> None:
        for family in self.families if isinstance(self.families, list | tuple) else (self.families,):
            if not isinstance(family, str) or family not in self.EDGES:
                raise unknown_name("family of random problems", family, self.EDGES)
        if not (self.families and self.ccr and 1 <= self.operators[0] <= self.operators[1] and self.devices >= 1):
            raise ProblemError(f"{self} holds no problem: families, ccr, operators and devices must not be empty")

    @property
    def limit(self) -> tuple[int, int, int]:
        """Most operators, edges and devices of any draw."""
        return self.operators[1], self.operators[1] * max(self.EDGES[f] for f in self.families), self.devices

    def __call__(self, rng: np.random.Generator) -> Problem:
        """Draw a problem."""
        family = self.families[int(rng.integers(len(self.families)))]
        n = int(rng.integers(self.operators[0], self.operators[1] + 1))
        ccr = self.ccr[int(rng.integers(len(self.ccr)))]
        source, target = _TOPOLOGIES[family](rng, n)
        work_and_sizes(rng, n, len(source))  # of the graph that generate_graph makes, and of which only edges are used
        order = np.lexsort((target, source))
        cost = unrelated_costs(n, self.devices, rng, heterogeneity=self.heterogeneity)
        seconds = scale_communication(edge_weights(len(source), rng), cost, ccr)
        edges = np.stack([source[order], target[order], seconds], axis=1)
        return Problem.from_arrays(cost, edges, name=f"{family}-{n}-ccr{ccr:g}")
