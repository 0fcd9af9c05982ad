"""Random changes of a walk's schedule."""

import numpy as np

from hetgym._kernels.draws import Random
from hetgym._kernels.jit import step
from hetgym.problem import ProblemArrays
from hetgym.search import walk

ANYWHERE, NEIGHBOUR, SWAP, CHAIN, RUN = 0, 1, 2, 3, 4
"""Kinds of changes of the placement, in the order of annealing's mix; a change of the order comes last there."""

NEAR = 8  # turns between two operators that swap
LONGEST = 5  # operators of a run


@step
def draw(rng: Random, count: int) -> int:
    """A number of 0 .. count - 1."""
    return int(rng.random() * count)


@step
def propose(p: ProblemArrays, w: walk.Walk, rng: np.random.Generator, kind: int) -> int:
    """Make a change of the placement; return the number of operators that it moves, 0 if the draw gave no change."""
    n, d = p.cost.shape
    if kind == SWAP:
        first = draw(rng, n)
        second = min(n - 1, max(0, first + draw(rng, 2 * NEAR + 1) - NEAR))
        i, j = w.order[first], w.order[second]
        a, b = w.fixed[i], w.fixed[j]
        if a == b:
            return 0
        count = walk.put(p, w, 0, i, b)
        return int(walk.put(p, w, count, j, a))
    if kind == RUN:
        walk.find_chain(p, w)
        length = w.counts[walk.CHAIN]
        begin, size, device = draw(rng, length), 2 + draw(rng, LONGEST - 1), draw(rng, d)
        count = 0
        for k in range(begin, min(length, begin + size)):
            count = walk.put(p, w, count, w.chain[k], device)
        return int(count)
    i = on_chain(p, w, rng) if kind == CHAIN else draw(rng, n)
    if kind == NEIGHBOUR:
        return int(walk.put(p, w, 0, i, neighbour_device(p, w, rng, i)))
    return int(walk.put(p, w, 0, i, (w.fixed[i] + 1 + draw(rng, d - 1)) % d))


@step
def on_chain(p: ProblemArrays, w: walk.Walk, rng: np.random.Generator) -> int:
    """An operator of the critical chain."""
    walk.find_chain(p, w)
    return int(w.chain[draw(rng, w.counts[walk.CHAIN])])


@step
def neighbour_device(p: ProblemArrays, w: walk.Walk, rng: np.random.Generator, operator: int) -> int:
    """The device of one of the operator's predecessors and successors; its own where it has none."""
    neighbour = draw_neighbour(p, rng, operator)
    return int(w.fixed[operator if neighbour < 0 else neighbour])


@step
def draw_shift(p: ProblemArrays, w: walk.Walk, rng: np.random.Generator) -> tuple[int, int]:
    """The turn of an operator, half the time one of the critical chain, and another between its neighbours' turns."""
    n = len(w.order)
    operator = draw(rng, n) if rng.random() < 0.5 else on_chain(p, w, rng)
    source = int(w.turn[operator])
    low, high = walk.turns_between(p, w.turn, operator)
    return source, low + draw(rng, high - low + 1)


@step
def try_shift(p: ProblemArrays, w: walk.Walk, rng: np.random.Generator, limit: float) -> None:
    """Give an operator another turn; see :func:`draw_shift`."""
    source, target = draw_shift(p, w, rng)
    if target == source:
        return
    walk.shift(w, source, target)
    first = min(source, target)
    makespan = walk.try_from(p, w, first, first - 1, limit)
    if makespan < np.inf:
        walk.accept(p, w, -1, makespan)
    else:
        walk.shift(w, target, source)


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
