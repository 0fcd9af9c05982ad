"""Random changes of a walk's schedule."""

import numpy as np

from hetgym._kernels.draws import Random
from hetgym._kernels.jit import step
from hetgym.problem import ProblemArrays
from hetgym.search import walk


@step
def draw(rng: Random, count: int) -> int:
    """A number of 0 .. count - 1."""
    return int(rng.random() * count)


@step
def on_chain(p: ProblemArrays, w: walk.Walk, rng: np.random.Generator) -> int:
    """An operator of the critical chain."""
    walk.find_chain(p, w)
    return int(w.chain[draw(rng, w.counts[walk.CHAIN])])


@step
def draw_shift(p: ProblemArrays, w: walk.Walk, rng: np.random.Generator) -> tuple[int, int]:
    """The turn of an operator, half the time one of the critical chain, and another between its neighbours' turns."""
    n = len(w.order)
    operator = draw(rng, n) if rng.random() < 0.5 else on_chain(p, w, rng)
    source = int(w.turn[operator])
    low, high = walk.turns_between(p, w.turn, operator)
    return source, low + draw(rng, high - low + 1)


@step
def take_out(p: ProblemArrays, w: walk.Walk, rng: np.random.Generator, seed: int, size: int, window: float) -> int:
    """Remove at most ``size`` operators, a seed first, from their devices; return their number.

    Args:
        w: the walk; ``moved`` and ``before`` get the operators and the devices that they come from.
        window: share of calls that free neighbours in the order; the others free a connected piece.
    """
    n = len(w.order)
    count = _free(w, 0, seed)
    if rng.random() < window:
        begin = max(0, w.turn[seed] - draw(rng, size))
        for k in range(begin, min(n, begin + size)):
            count = _free(w, count, w.order[k])
        return count
    for _ in range(2 * size):  # some draws hit operators that are already removed
        if count == size:
            break
        neighbour = draw_neighbour(p, rng, w.moved[draw(rng, count)])
        if neighbour < 0:
            break
        count = _free(w, count, neighbour)
    return count


@step
def draw_neighbour(p: ProblemArrays, rng: Random, operator: int) -> int:
    """A random predecessor or successor of an operator; -1 if there is none."""
    before = p.predecessor_pointer[operator + 1] - p.predecessor_pointer[operator]
    after = p.successor_pointer[operator + 1] - p.successor_pointer[operator]
    if before + after == 0:
        return -1
    k = draw(rng, before + after)
    if k < before:
        return int(p.predecessor[p.predecessor_pointer[operator] + k])
    return int(p.successor[p.successor_pointer[operator] + k - before])


@step
def _free(w: walk.Walk, count: int, operator: int) -> int:
    """Remove one more operator, unless it is already removed."""
    if w.fixed[operator] < 0:
        return count
    w.moved[count] = operator
    w.before[count] = w.fixed[operator]
    w.fixed[operator] = -1
    return count + 1


@step
def draw_bonus(p: ProblemArrays, w: walk.Walk, rng: np.random.Generator, count: int, noise: float) -> None:
    """Draw the terms that are added to the finish times of the first ``count`` removed operators.

    A random share of the least cost to an exit, and random shares of the run times.
    """
    for k in range(count):
        i = w.moved[k]
        share = rng.random()
        for device in range(p.cost.shape[1]):
            cost, bound = p.cost[i, device], w.bound[i, device]
            if cost < np.inf and bound < np.inf:
                w.bonus[i, device] = share * bound + noise * rng.random() * cost
