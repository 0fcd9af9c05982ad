"""RandHEFT: HEFT many times, with noise on the ranks."""

from typing import NamedTuple

import numpy as np

from hetgym._input.random import generator
from hetgym._kernels.jit import jit
from hetgym._kernels.records import record
from hetgym._types import FloatArray, Int64Array, IntArray
from hetgym.errors import ConfigError
from hetgym.planning import ranks, timeline
from hetgym.planning.list_scheduling import place_in_order, place_within
from hetgym.planning.ready_queue import ReadyQueue, new_queue
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.search.search import Estimated, searched
from hetgym.search.walk import TIE
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime


def rand_heft(
    problem: Problem,
    seed: int = 0,
    sigma: float = 0.15,
    budget: int = 80_000,
    seconds: float | None = None,
    runtime: str | Runtime = "classic",
) -> Schedule:
    """HEFT with its upward ranks multiplied by log-normal noise, again and again; the best schedule is returned.

    The first trial has no noise, so the result is never worse than HEFT's. Noisy ranks need not fall along an edge, so
    operators come from a ready list. A trial is given up as soon as a lower bound shows that it cannot be the best.

    Under a runtime other than ``classic`` trials are judged by their booked times, and the best of them are simulated.

    Args:
        sigma: standard deviation of the logarithm of the noise.
        budget: largest number of operators placed in trials.

    Raises:
        ConfigError: a negative budget or spread, or a time that is not positive.
    """
    return searched("rand-heft", budget, seconds, lambda: RandHeft(problem, seed, sigma, runtime))


class RandHeft(Estimated):
    """The search behind :func:`rand_heft`."""

    def __init__(
        self, problem: Problem, seed: int = 0, sigma: float = 0.15, runtime: str | Runtime = "classic"
    ) -> None:
        if not 0 <= sigma < np.inf:
            raise ConfigError(f"rand-heft: sigma is {sigma}; it must be finite and not negative")
        n, d = problem.num_operators, problem.num_devices
        self.sigma, self.rng, switches = sigma, generator(seed), as_runtime(runtime)
        rank = np.array(ranks.upward_rank(problem))
        order, zeros = ranks.list_order(problem.arrays, rank), np.zeros((n, d))

        def place(room: FloatArray) -> tuple[timeline.Timeline, float]:
            placed = timeline.new_timeline(problem, switches, room)
            self.state = State(
                trial=timeline.new_timeline(problem, switches, room),
                queue=new_queue(n),
                rank=rank,
                noisy=np.empty(n),
                free=np.full(n, -1, np.int32),
                zeros=zeros,
                bound=np.array(ranks.least_cost_to_exit(problem)),
                best=order.copy(),
                order=order.copy(),
                placed=np.full(1, n, np.int64),
            )
            return placed, place_in_order(problem.arrays, placed, order, self.state.free, zeros, True)

        self.open(problem, switches, place)

    def advance(self, target: int, total: int) -> None:
        """Try noisy ranks until the target is reached; see :meth:`Search.advance`."""
        while self.placed < target:
            found = _sample(self.problem.arrays, self.state, self.sigma, self.rng, self.estimate, target)
            self.placed = int(self.state.placed[0])
            if found < self.estimate:
                self.improve(found)

    def decode(self) -> timeline.Timeline:
        """The timeline of the best order."""
        placed, state = timeline.new_timeline(self.problem, self.runtime, self.room), self.state
        place_in_order(self.problem.arrays, placed, state.best, state.free, state.zeros, True)
        return placed


@record
class State(NamedTuple):
    """The state of a randomised list scheduling."""

    trial: timeline.Timeline  # overwritten by every trial
    queue: ReadyQueue  # scratch
    rank: FloatArray  # [n] upward ranks without noise [s]
    noisy: FloatArray  # [n] ranks of a trial [s]
    free: IntArray  # [n] -1: every operator may choose its device
    zeros: FloatArray  # [n, d] nothing is added to finish times
    bound: FloatArray  # [n, d] a lower bound on the time from an operator's finish to the end [s]
    best: IntArray  # [n] the order of the best schedule
    order: IntArray  # [n] the order of a trial
    placed: Int64Array  # [1] operators placed in trials


@jit
def _sample(
    p: ProblemArrays, state: State, sigma: float, rng: np.random.Generator, makespan: float, target: int
) -> float:
    """Place operators in noisy orders until one is better than the best, which it becomes; return its makespan [s]."""
    while state.placed[0] < target:
        for i in p.topological_order:
            state.noisy[i] = state.rank[i] * np.exp(sigma * rng.standard_normal())
        ranks.write_list_order(p, state.queue, state.noisy, state.order)
        timeline.clear(state.trial)
        last, placed = place_within(p, state.trial, state.order, state.free, state.zeros, True, state.bound, makespan)
        state.placed[0] += placed
        if last < makespan * TIE:
            state.best[:] = state.order
            return last
    return makespan
