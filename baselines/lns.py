"""LNS: large-neighbourhood search."""

import numpy as np

from hetgym.baselines.region_search import RegionAnnealing
from hetgym.errors import ConfigError
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.search.search import searched
from hetgym.sim import Runtime

COOLING = 0.05  # Last temperature over the first


def lns(
    problem: Problem,
    start: str = "heft",
    seed: int = 0,
    size: int = 12,
    heat: float = 6.0,
    budget: int = 500_000,
    seconds: float | None = None,
    runtime: str | Runtime = "classic",
) -> Schedule:
    """Take a connected piece of the graph out of the schedule and put it back elsewhere, again and again.

    A piece goes from its devices to another one, half the time with a piece of that device in exchange. Every second
    try moves an operator in the order instead. Changes are priced as in :func:`~hetgym.baselines.region_annealing`, by
    simulation. Better schedules are kept, and at first some worse ones. The best schedule seen is returned, never worse
    than the start.

    Args:
        start: name of the scheduler whose schedule is improved; where capacities are enforced, a plan of
            :mod:`hetgym.planning.filling` if that is shorter.
        size: largest number of operators of a piece, rounded down to a power of two.
        heat: first temperature, times squared number of operators over the makespan.
        budget: largest number of operators launched in trials.

    Raises:
        UnknownName: no scheduler of the name of the start.
        ConfigError: a negative budget, a time that is not positive, or a size or temperature that is not positive.
    """
    return searched("lns", budget, seconds, lambda: Lns(problem, start, seed, size, heat, runtime))


class Lns(RegionAnnealing):
    """The search behind :func:`lns`."""

    def __init__(
        self,
        problem: Problem,
        start: str = "heft",
        seed: int = 0,
        size: int = 12,
        heat: float = 6.0,
        runtime: str | Runtime = "classic",
    ) -> None:
        if size < 1 or not 0 < heat < np.inf:
            raise ConfigError(f"lns: size is {size} and heat {heat}; both must be positive")
        share, sizes = heat / max(problem.num_operators, 30) ** 2, min(size, problem.num_operators).bit_length()
        super().__init__(problem, start, seed, share, COOLING, runtime, sizes)
