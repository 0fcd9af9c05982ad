"""Whole problems: textbook examples, files that carry their own costs, and random draws."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hetgym.costs.synthetic import edge_weights, scale_communication, unrelated_costs
from hetgym.errors import ProblemError, unknown_name
from hetgym.graph.generators import generate_graph
from hetgym.problem import Problem

_TEXTBOOK: dict[str, tuple[str, str]] = {
    # Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002, figure 2: ten tasks, three processors.
    "topcuoglu": (
        "14 16 9, 13 19 18, 11 13 19, 13 8 17, 12 13 10, 13 16 9, 7 15 11, 5 11 14, 18 12 20, 21 7 16",
        "1-2:18 1-3:12 1-4:9 1-5:11 1-6:14 2-8:19 2-9:16 3-7:23 4-8:27 4-9:23 5-9:13 6-8:15 7-10:17 8-10:11 9-10:13",
    ),
    # Arabnejad, Barbosa, IEEE TPDS 25(3), 2014, figure 1: ten tasks, three processors.
    "arabnejad-barbosa": (
        "22 21 36, 22 18 18, 32 27 43, 7 10 4, 29 27 35, 26 17 24, 14 25 30, 29 23 36, 15 21 8, 13 16 33",
        "1-2:17 1-3:31 1-4:29 1-5:13 1-6:7 2-8:3 2-9:30 3-7:16 4-8:11 4-9:7 5-9:57 6-8:5 7-10:9 8-10:42 9-10:7",
    ),
}


def textbook(name: str) -> Problem:
    """A published example: ``"topcuoglu"`` or ``"arabnejad-barbosa"``, in seconds, at 1 byte/s.

    Raises:
        UnknownName: no such example.

    >>> textbook("topcuoglu")
    Problem('topcuoglu', 10 operators, 15 edges, 3 devices)
    """
    if name not in _TEXTBOOK:
        raise unknown_name("textbook problem", name, _TEXTBOOK)
    costs, edges = _TEXTBOOK[name]
    triples = []
    for edge in edges.split():
        ends, _, size = edge.partition(":")
        source, _, target = ends.partition("-")
        triples.append((int(source) - 1, int(target) - 1, float(size)))
    table = [[float(cost) for cost in row.split()] for row in costs.split(",")]
    names = [f"T{i + 1}" for i in range(len(table))]
    processors = [f"P{i + 1}" for i in range(len(table[0]))]
    return Problem.from_arrays(table, triples, operator_names=names, device_names=processors, name=name)


@dataclass(frozen=True)
class RandomMix:
    """Random problems with unrelated costs: a family, a size and a CCR are drawn for each.

    Costs are those of :func:`hetgym.costs.synthetic.unrelated_costs`; edge times are log-normal, the
    same between all devices, scaled so that their mean is CCR times the mean cost.

    Args:
        families: names out of :data:`RandomMix.EDGES`.
        operators: fewest and most operators.
        devices: number of devices.
        ccr: communication-to-computation ratios to draw from.
        heterogeneity: see :func:`~hetgym.costs.synthetic.unrelated_costs`.

    Raises:
        UnknownName: no such family.
        ProblemError: a range that holds nothing.

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
        for family in self.families:
            if family not in self.EDGES:
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
        graph = generate_graph(family, rng, tasks=n)
        cost = unrelated_costs(n, self.devices, rng, heterogeneity=self.heterogeneity)
        seconds = scale_communication(edge_weights(len(graph.edges), rng), cost, ccr)
        edges = zip(graph.edge_source.tolist(), graph.edge_target.tolist(), seconds.tolist(), strict=True)
        return Problem.from_arrays(cost, edges, name=f"{family}-{n}-ccr{ccr:g}")


def load_problem(path: str | Path) -> Problem:
    """Read a file that holds a whole problem, costs included.

    Args:
        path: an ``.npz`` file that :meth:`hetgym.Problem.save` wrote.

    Raises:
        ProblemError: the file is missing, damaged or of an unknown format.
    """
    file = Path(path)
    if file.suffix != ".npz":
        raise ProblemError(f"{path}: unknown problem format {file.suffix!r}; known: .npz")
    return Problem.load(file)
