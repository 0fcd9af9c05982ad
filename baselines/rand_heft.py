"""RandHEFT: HEFT many times, with noise on the ranks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hetgym._jit import jit
from hetgym._types import FloatArray, IntArray
from hetgym.errors import ConfigError
from hetgym.planning import ranks, timeline
from hetgym.planning.evaluation import planned
from hetgym.planning.registry import register
from hetgym.planning.search import Search, check_limits, run
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule


@register(
    "rand-heft",
    kind="search",
    citation="randomised list scheduling around Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002",
    complexity="O(trials (e p + n log n))",
)
def rand_heft(
    problem: Problem, seed: int = 0, sigma: float = 0.15, budget: int = 80_000, seconds: float | None = None
) -> Schedule:
    """HEFT with its upward ranks multiplied by log-normal noise, again and again; the best schedule counts.

    The first trial has no noise, so the result is never worse than HEFT's. Operators are taken from
    a ready list, for noisy ranks need not fall along an edge. A trial is given up as soon as a lower
    bound shows that it cannot be shorter than the best.

    Args:
        problem: what is to be scheduled.
        seed: of the noise.
        sigma: standard deviation of the logarithm of the noise.
        budget: most operators placed in trials.
        seconds: most wall-clock time [s]; by default none, and results do not depend on the machine.

    Raises:
        ConfigError: a negative budget or spread, or no time.
    """
    began = check_limits("rand-heft", budget, seconds)
    search = RandHeft(problem, seed, sigma)
    run(search, budget, seconds, began=began)
    return search.schedule()


class RandHeft(Search):
    """The search behind :func:`rand_heft`."""

    def __init__(self, problem: Problem, seed: int = 0, sigma: float = 0.15) -> None:
        if not 0 <= sigma < np.inf:
            raise ConfigError(f"rand-heft: sigma is {sigma}; it must be finite and not negative")
        n, d = problem.num_operators, problem.num_devices
        self.problem = problem
        self.sigma = sigma
        self.rng = np.random.default_rng(seed)
        self.rank = np.array(ranks.upward_rank(problem))
        self.order = ranks.list_order(problem.arrays, self.rank)
        self.bound = np.array(ranks.least_cost_to_exit(problem))
        self.zeros, self.free = np.zeros((n, d)), np.full(n, -1, np.int32)
        self.count = np.full(1, n, np.int64)
        self.placed = n
        self.makespan = self.schedule().makespan

    def advance(self, target: int, total: int) -> None:
        """Try noisy ranks until the target is reached; see :meth:`Search.advance`."""
        self.makespan = _sample(
            self.problem.arrays, self.rank, self.sigma, self.rng, self.free, self.zeros, self.bound, self.order,
            self.makespan, self.count, target,
        )  # fmt: skip
        self.placed = int(self.count[0])

    def schedule(self) -> Schedule:
        """The best schedule so far."""
        placed = timeline.new_timeline(self.problem.num_operators, self.problem.num_devices)
        timeline.place_in_order(self.problem.arrays, placed, self.order, self.free, self.zeros, True)
        return planned(self.problem, placed)


@jit
def _sample(
    p: ProblemArrays, rank: FloatArray, sigma: float, rng: np.random.Generator, free: IntArray, zeros: FloatArray,
    bound: FloatArray, best: IntArray, makespan: float, count: npt.NDArray[np.int64], target: int,
) -> float:  # fmt: skip
    """Place operators in noisy orders; keep the best order, and return its makespan [s]."""
    n, d = p.cost.shape
    t = timeline.new_timeline(n, d)
    noisy = np.empty(n)
    while count[0] < target:
        for i in range(n):
            noisy[p.topological_order[i]] = rank[p.topological_order[i]] * np.exp(sigma * rng.standard_normal())
        order = ranks.list_order(p, noisy)
        timeline.clear(t)
        last, placed = timeline.place_within(p, t, order, free, zeros, True, bound, makespan)
        count[0] += placed
        if last < makespan:
            makespan = last
            best[:] = order
    return makespan
