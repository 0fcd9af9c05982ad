"""Random task graphs on networks of devices, in the setting of GiPH."""

from dataclasses import dataclass

import numpy as np

from hetgym._types import FloatArray
from hetgym.errors import ProblemError
from hetgym.graph.generators import generate_graph
from hetgym.problem import Problem

_DENSITY, _FAT = 0.3, 0.5  # of the task graphs


@dataclass(frozen=True)
class DeviceNetworks:
    """Random task graphs on random networks of devices that run some kinds of tasks each.

    The setting of Hu et al. (GiPH, MLSys 2023) with the parameters of its experiments, drawn by hetgym's generators. A
    task has one of a few kinds; a device runs each kind with the same probability, at a speed of its own, and some
    device runs it. Links have a delay and a rate, each way the same. Times are in seconds, sizes in units.

    Args:
        operators: fewest and most tasks.
        devices: number of devices.
        kinds: number of kinds of tasks.
        support: probability that a device runs a kind.

    Raises:
        ProblemError: an empty range.

    >>> problem = DeviceNetworks(operators=(20, 20))(np.random.default_rng(0))
    >>> problem.cost.shape, bool(np.isinf(problem.cost).any(axis=1).all())
    ((20, 20), True)
    """

    operators: tuple[int, int] = (20, 60)
    devices: int = 20
    kinds: int = 5
    support: float = 0.2

    def __post_init__(self) -> None:
        if not (1 <= self.operators[0] <= self.operators[1] and min(self.devices, self.kinds) >= 1):
            raise ProblemError(f"{self} holds no problem: operators, devices and kinds must not be empty")
        if not 0.0 <= self.support <= 1.0:
            raise ProblemError(f"support is {self.support}; it must be from 0 to 1")

    @property
    def limit(self) -> tuple[int, int, int]:
        """Most operators, edges and devices of any draw."""
        most = self.operators[1]
        widest = 1.5 * _FAT * np.sqrt(most) + 1  # operators of a level
        return most, most * max(1, int(_DENSITY * widest)), self.devices

    def __call__(self, rng: np.random.Generator) -> Problem:
        """Draw a problem."""
        tasks, d = int(rng.integers(self.operators[0], self.operators[1] + 1)), self.devices
        graph = generate_graph("daggen", rng, tasks=tasks, fat=_FAT, density=_DENSITY, jump=3)
        n = len(graph.operators)
        runs = rng.random((d, self.kinds)) < self.support
        runs[rng.integers(d, size=self.kinds), np.arange(self.kinds)] = True
        able = runs[:, rng.integers(self.kinds, size=n)].T
        cost = rng.uniform(80, 120, n)[:, None] / rng.uniform(3, 7, d)
        latency, rate = (_both_ways(rng.uniform(low, high, (d, d))) for low, high in ((0, 20), (0.006, 0.014)))
        sizes = [float(rng.uniform(80, 120)) for _ in range(len(graph.edge_source))]
        bandwidth = np.divide(1.0, rate, out=np.ones_like(rate), where=rate > 0)
        edges = list(zip(graph.edge_source.tolist(), graph.edge_target.tolist(), sizes, strict=True))
        return Problem.from_arrays(np.where(able, cost, np.inf), edges, latency, bandwidth, name=f"networked-{n}")


def _both_ways(values: FloatArray) -> FloatArray:
    """A symmetric matrix of the values above the diagonal, which is zero."""
    upper: FloatArray = np.triu(values, 1)
    return upper + upper.T
