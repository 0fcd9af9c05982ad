"""Random problems: a distribution to draw from."""

from dataclasses import dataclass

import numpy as np

from hetgym._kernels.interpreted import interpreted
from hetgym._kernels.jit import jit
from hetgym._types import FloatArray, Int64Array
from hetgym.errors import ProblemError, unknown_name
from hetgym.graph.generators.topologies import layered_scratch, write_inception_like, write_layered
from hetgym.graph.topology import sort_edges
from hetgym.problem import Problem
from hetgym.workloads.synthetic import edge_weights, scale_communication, speeds, write_unrelated_costs

_PREDECESSORS, _BRANCHES, _LENGTH = 3, (2, 5), (1, 4)  # the defaults of the graph generators
_CLASSES, _SPREAD = 4, 0.8  # those of unrelated costs


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
        most, d = n * self.EDGES[family], self.devices
        edges, cost = np.empty((2, 2, most), np.int64), np.empty((n, d))
        scratch = np.empty(max(layered_scratch(n, _PREDECESSORS), 2 * _BRANCHES[1], n), np.int64)
        layered, classes, affinity = family == "layered", np.empty(n, np.int64), np.empty((_CLASSES, d))
        e = _draw(rng, layered, self.heterogeneity, scratch, edges, np.empty(n), classes, speeds(d), affinity, cost)
        source, target = edges[1].reshape(-1)[: 2 * e].reshape(2, e)
        seconds = scale_communication(edge_weights(e, rng), cost, ccr)
        return Problem.from_edges(cost, source, target, seconds, name=f"{family}-{n}-ccr{ccr:g}")


@interpreted
@jit
def _draw(
    rng: np.random.Generator,
    layered: bool,
    heterogeneity: float,
    scratch: Int64Array,
    edges: Int64Array,
    work: FloatArray,
    classes: Int64Array,
    speed: FloatArray,
    affinity: FloatArray,
    cost: FloatArray,
) -> int:
    """Draw edges, by source and target, and costs; the rest is scratch. Returns the number of edges, e.

    The edges are left at the beginning of ``edges[1]``: e sources, then e targets.
    """
    n, rows = len(cost), edges[0]
    if layered:
        widest = int(rng.integers(3, 10))
        e = write_layered(rng, n, widest, _PREDECESSORS, scratch, rows[0], rows[1])
    else:
        e = write_inception_like(rng, n, _BRANCHES[0], _BRANCHES[1], _LENGTH[0], _LENGTH[1], scratch, rows[0], rows[1])
    for _ in range(n + e):  # work and sizes of the graph that generate_graph makes, and of which only edges are used
        rng.standard_normal()
    flat = edges[1].reshape(-1)
    middle = np.empty((2, e), np.int64)
    sort_edges(rows[0, :e], rows[1, :e], middle, flat[: 2 * e].reshape((2, e)), scratch[:n])
    write_unrelated_costs(rng, heterogeneity, _SPREAD, True, True, work, classes, speed, affinity, cost)
    return int(e)
