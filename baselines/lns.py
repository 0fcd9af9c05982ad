"""LNS: large-neighbourhood search."""

import numpy as np
from numpy.random import Generator

from hetgym._kernels.jit import lean
from hetgym.baselines.annealing import WalkSearch
from hetgym.baselines.region_annealing import RegionAnnealing
from hetgym.errors import ConfigError
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.search import walk
from hetgym.search.moves import draw, draw_bonus, on_chain, take_out, try_shift
from hetgym.search.search import Staged, searched
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime

COOLING = 0.05  # Last temperature over the first
REORDER = 0.25  # Share of tries that give one operator another place in the order instead


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
    """Take some operators out of the schedule and put them back greedily, again and again.

    Neighbours in the order or a connected piece of the graph are taken out, half the time around an operator of the
    critical chain. They come back in their order, each to the device of the least finish time plus random shares of the
    least cost from there to an exit and of its own run time; everything after the first of them is placed anew. Every
    fourth try moves an operator in the order instead. Better schedules are kept, and at first some worse ones. The
    best schedule seen is returned, never worse than the start.

    Under a runtime other than ``classic`` a connected piece of at most ``size`` operators goes to one other device, as
    in :func:`~hetgym.baselines.region_annealing`, which prices its changes by simulation.

    Args:
        start: name of the scheduler whose schedule is improved; where capacities are enforced, a plan of
            :mod:`hetgym.planning.filling` if that is shorter.
        size: largest number of operators removed at once.
        heat: first temperature, times squared number of operators over the makespan.
        budget: largest number of operators placed in trials.

    Raises:
        UnknownName: no scheduler of the name of the start.
        ConfigError: a negative budget, a time that is not positive, or a size or temperature that is not positive.
    """
    return searched("lns", budget, seconds, lambda: Lns(problem, start, seed, size, heat, runtime))


class Lns(Staged):
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
        share, switches = heat / max(problem.num_operators, 30) ** 2, as_runtime(runtime)
        if switches.is_classic:
            self.enter(WalkLns(problem, start, seed, size, share))
        else:
            sizes = min(size, problem.num_operators).bit_length()
            self.enter(RegionAnnealing(problem, start, seed, share, COOLING, switches, sizes, REORDER, exchanged=0.0))


class WalkLns(WalkSearch):
    """Large-neighbourhood search on a walk, under the classic model; at most ``size`` operators are removed at once."""

    def __init__(self, problem: Problem, start: str, seed: int, size: int, heat: float) -> None:
        super().__init__(problem, start, "order", seed, heat)
        self.size = min(size, problem.num_operators)

    def improve(self, target: int, total: int) -> None:
        """Destroy and rebuild until the target is reached."""
        _improve(self.problem.arrays, self.walk, self.rng, target, total, self.hot, self.size)


# As in annealing: the walk stands on a complete schedule before and after each try, and a try that must exceed the
# limit, which is drawn beforehand, is given up and undone. Each try counts at least one operator, so the loop ends.
@lean
def _improve(p: ProblemArrays, w: walk.Walk, rng: Generator, target: int, total: int, hot: float, size: int) -> None:
    """Destroy and rebuild until the target is reached; a try is charged as one more operator placed."""
    n = len(w.order)
    while w.counts[walk.PLACED] < target:
        temperature = hot * COOLING ** min(1.0, w.counts[walk.PLACED] / total)
        w.counts[walk.PLACED] += 1
        limit = w.value[walk.CURRENT] - temperature * np.log(1.0 - rng.random())
        if rng.random() < REORDER:
            try_shift(p, w, rng, limit)
            continue
        taken = 1 + draw(rng, size)
        seed = draw(rng, n) if rng.random() < 0.5 else on_chain(p, w, rng)
        count = take_out(p, w, rng, seed, taken, 0.5)
        draw_bonus(p, w, rng, count, 1.0)
        first, last = n, 0
        for k in range(count):
            first, last = min(first, w.turn[w.moved[k]]), max(last, w.turn[w.moved[k]])
        makespan = walk.try_from(p, w, first, last, limit)
        if makespan < np.inf:
            for k in range(count):
                w.fixed[w.moved[k]] = w.trial.assignment[w.moved[k]]
            walk.accept(p, w, last, makespan)
        else:
            walk.take_back(w, count)
