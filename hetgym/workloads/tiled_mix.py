"""Tiled factorisations on CPUs and GPUs: a distribution to draw from."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hetgym.errors import ProblemError, unknown_name
from hetgym.graph.generators import generate_graph
from hetgym.problem import Problem

TIMES = {
    "cholesky": {"potrf": (18, 11), "syrk": (57, 2), "trsm": (52, 8), "gemm": (95, 3)},
    "lu": {"getrf": (18, 11), "trsm": (52, 8), "gemm": (95, 3)},
    "qr": {"geqrt": (4, 3), "unmqr": (6, 1), "tsqrt": (6, 3), "tsmqr": (10, 1)},
}
"""Factorisation -> kernel -> run time on a CPU core and on a GPU [ms]: those of READYS (Grinsztajn et al., IEEE Cluster
2021; `env/utils.py` of github.com/nathangrinsztajn/RL_for_dynamic_scheduling)."""


@dataclass(frozen=True)
class TiledMix:
    """Tiled factorisations with the run times of :data:`TIMES` and free communication.

    Args:
        factorisations: names out of :data:`TIMES`; one is drawn for each problem.
        tiles: fewest and most tiles per side.
        cpus, gpus: numbers of CPU cores and GPUs.

    Raises:
        UnknownName: no such factorisation.
        ProblemError: an empty range, or no device.

    >>> TiledMix(("cholesky",), tiles=(4, 4))(np.random.default_rng(0)).cost[:2].tolist()
    [[0.018, 0.018, 0.011, 0.011], [0.052, 0.052, 0.008, 0.008]]
    """

    factorisations: tuple[str, ...] = tuple(TIMES)
    tiles: tuple[int, int] = (4, 8)
    cpus: int = 2
    gpus: int = 2

    def __post_init__(self) -> None:
        for name in self.factorisations:
            if name not in TIMES:
                raise unknown_name("factorisation", name, TIMES)
        known = self.cpus >= 0 and self.gpus >= 0 and self.cpus + self.gpus > 0
        if not (self.factorisations and 1 <= self.tiles[0] <= self.tiles[1] and known):
            raise ProblemError(f"{self} holds no problem: factorisations, tiles and devices must not be empty")

    def __call__(self, rng: np.random.Generator) -> Problem:
        """Draw a problem."""
        name = self.factorisations[int(rng.integers(len(self.factorisations)))]
        return _tiled(name, int(rng.integers(self.tiles[0], self.tiles[1] + 1)), self.cpus, self.gpus)


@lru_cache(maxsize=64)
def _tiled(factorisation: str, tiles: int, cpus: int, gpus: int) -> Problem:
    graph = generate_graph(factorisation, tiles=tiles)
    names = [operator.name for operator in graph.operators]
    kinds = [name.partition("(")[0] for name in names]
    times = np.array([TIMES[factorisation][kind] for kind in kinds]) / 1e3
    return Problem.from_arrays(
        np.repeat(times, (cpus, gpus), axis=1),
        [(edge.source, edge.target, 0.0) for edge in graph.edges],
        operator_names=names,
        operator_kinds=kinds,
        device_names=[f"cpu{k}" for k in range(cpus)] + [f"gpu{k}" for k in range(gpus)],
        name=f"{factorisation}-{tiles}@{cpus}cpu-{gpus}gpu",
    )
