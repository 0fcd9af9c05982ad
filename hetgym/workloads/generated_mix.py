"""Problems of graph generators with drawn parameters: a distribution to draw from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hetgym.errors import ProblemError, unknown_name
from hetgym.graph.generators import GENERATORS, generate_graph
from hetgym.problem import Problem
from hetgym.workloads.synthetic import edge_weights, scale_communication, unrelated_costs

FAMILIES: dict[str, dict[str, tuple[float, ...]]] = {
    "fork_join": {"stages": (2, 6), "branches": (3, 10)},
    "daggen": {"tasks": (30, 100), "fat": (0.2, 1.5), "density": (0.2, 0.8), "jump": (1, 3)},
    "inception": {"blocks": (2, 6)},
    "transformer": {"blocks": (1, 3), "heads": (2, 2)},
    "lstm_grid": {"layers": (2, 6), "steps": (6, 16)},
}
"""Generators with least and greatest value of their parameters: whole numbers, unless one of the two is not."""


@dataclass(frozen=True)
class GeneratedMix:
    """Problems with unrelated costs: a generator, its parameters, a number of devices and a CCR are drawn for each.

    Costs are those of :func:`hetgym.workloads.synthetic.unrelated_costs`; edge times are as in
    :class:`~hetgym.workloads.RandomMix`.

    Raises:
        UnknownName: no such generator.
        ProblemError: an empty range.

    >>> GeneratedMix()(np.random.default_rng(0)).num_operators
    55
    """

    families: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=lambda: FAMILIES)  # as FAMILIES
    devices: tuple[int, ...] = (2, 3, 4, 6, 8)  # numbers of devices to draw from
    ccr: tuple[float, ...] = (0.1, 0.5, 1.0, 3.0)  # communication-to-computation ratios to draw from
    heterogeneity: float = 0.5

    def __post_init__(self) -> None:
        for name in self.families:
            if name not in GENERATORS:
                raise unknown_name("generator", name, GENERATORS)
        ranges = [bounds for parameters in self.families.values() for bounds in parameters.values()]
        if not (self.families and self.devices and self.ccr) or any(len(b) != 2 or b[0] > b[1] for b in ranges):
            raise ProblemError(f"{self} holds no problem: nothing may be empty, ranges are pairs, the smaller first")

    def __call__(self, rng: np.random.Generator) -> Problem:
        """Draw a problem."""
        name = list(self.families)[int(rng.integers(len(self.families)))]
        graph = generate_graph(name, rng, **{key: _drawn(rng, *pair) for key, pair in self.families[name].items()})
        devices, ccr = (some[int(rng.integers(len(some)))] for some in (self.devices, self.ccr))
        cost = unrelated_costs(len(graph), int(devices), rng, heterogeneity=self.heterogeneity)
        seconds = scale_communication(edge_weights(len(graph.edge_source), rng), cost, float(ccr))
        title = f"{name}-{len(graph)}-ccr{ccr:g}"
        return Problem.from_edges(cost, graph.edge_source, graph.edge_target, seconds, name=title)


def _drawn(rng: np.random.Generator, low: float, high: float) -> float:
    if float(low).is_integer() and float(high).is_integer():
        return int(rng.integers(int(low), int(high) + 1))
    return float(rng.uniform(low, high))
