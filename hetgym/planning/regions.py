"""Random changes of a course: regions move to another device, operators to another turn.

A region is a connected piece of the graph. Where transfers are dear, no single operator can leave the device of its
neighbours, but a whole region can.
"""

from __future__ import annotations

import numpy as np

from hetgym._jit import step
from hetgym.planning import course
from hetgym.planning.moves import draw, draw_neighbour
from hetgym.planning.walk import turns_between
from hetgym.problem import ProblemArrays
from hetgym.sim.kernel import Switches
from hetgym.transfer import transfer_time

PAIRS = 4
"""Random pairs of an operator and a device, of which the one that would save most is where a region begins."""

GUIDED = 0.5
"""Share of regions that begin so; the others begin anywhere, for good plans can lie behind worse ones."""

DOUBLINGS = 6
"""A region has at most 1, 2, 4, ... operators, each of so many sizes drawn as often."""


@step
def draw_pair(p: ProblemArrays, c: course.Course, rng: np.random.Generator) -> tuple[int, int]:
    """A random operator and another device, by :data:`PAIRS` and :data:`GUIDED`; -1 twice if the draw gave none."""
    n, d = p.cost.shape
    seed, device, best = -1, -1, -np.inf
    for _ in range(PAIRS if rng.random() < GUIDED else 1):
        i, b = draw(rng, n), draw(rng, d - 1)
        b += b >= c.assignment[i]
        if p.cost[i, b] < np.inf:
            saved = saving(p, c, i, b)
            if saved > best:
                seed, device, best = i, b, saved
    return seed, device


@step
def move_region(
    p: ProblemArrays, c: course.Course, rng: np.random.Generator, seed: int, device: int, size: int, switches: Switches
) -> int:
    """Put a random region on another device; return the number of its operators.

    Args:
        p: the problem.
        c: the course.
        rng: of the draws.
        seed: the operator with which the region begins.
        device: another device than the operator's, which can run it.
        size: most operators of the region.
        switches: of the course.
    """
    c.moved[0], c.inside[seed] = seed, True
    count = 1
    for _ in range(3 * size):  # some draws hit operators that cannot move along
        if count == size:
            break
        j = draw_neighbour(p, rng, c.moved[draw(rng, count)])
        if j >= 0 and not c.inside[j] and c.assignment[j] != device and p.cost[j, device] < np.inf:
            c.moved[count], c.inside[j] = j, True
            count += 1
    for k in range(count):
        c.inside[c.moved[k]] = False
        course.put(p, c, k, c.moved[k], device, switches)
    return count


@step
def saving(p: ProblemArrays, c: course.Course, operator: int, device: int) -> float:
    """Run time and own transfer times that an operator would save on a device if all others stayed [s]."""
    a = c.assignment[operator]
    saved = p.cost[operator, a] - p.cost[operator, device]
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        b = c.assignment[p.successor[edge]]
        if a != b:
            saved += transfer_time(p, a, b, p.edge_bytes[edge])
        if device != b:
            saved -= transfer_time(p, device, b, p.edge_bytes[edge])
    for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        b, edge = c.assignment[p.predecessor[m]], p.predecessor_edge[m]
        if a != b:
            saved += transfer_time(p, b, a, p.edge_bytes[edge])
        if device != b:
            saved -= transfer_time(p, b, device, p.edge_bytes[edge])
    return float(saved)


@step
def span(p: ProblemArrays, c: course.Course, count: int) -> tuple[int, int]:
    """The first turn that a change of ``count`` operators affects, and the last turn of one of them."""
    first, last = len(c.order), 0
    for k in range(count):
        i = c.moved[k]
        first, last = min(first, c.turn[i]), max(last, c.turn[i])
        for m in range(p.predecessor_pointer[i], p.predecessor_pointer[i + 1]):
            first = min(first, c.turn[p.predecessor[m]])  # its transfer goes elsewhere
    return first, last


@step
def draw_turn(p: ProblemArrays, c: course.Course, rng: np.random.Generator) -> tuple[int, int]:
    """The turn of a random operator, and a random one between those of its neighbours."""
    operator = draw(rng, len(c.order))
    low, high = turns_between(p, c.turn, operator)
    return int(c.turn[operator]), low + draw(rng, high - low + 1)


@step
def draw_chain_turn(p: ProblemArrays, c: course.Course, rng: np.random.Generator) -> tuple[int, int]:
    """The turn of a random operator of the critical chain, and one at an end of its block there.

    A block is a run of the chain on one device. Only a change of its first or its last operator can shorten a plan that
    waits for devices alone (Balas, Vazacopoulos, Management Science 44(2), 1998, neighbourhood N6).
    """
    course.find_chain(p, c)
    place = draw(rng, c.counts[course.CHAIN])
    return chain_turn(p, c, place, rng.random() < 0.5)


@step
def chain_turn(p: ProblemArrays, c: course.Course, place: int, begin: bool) -> tuple[int, int]:
    """The turn of the operator at a place in the chain, and the one nearest to the begin or the end of its block."""
    count = c.counts[course.CHAIN]
    first = int(c.block[place])  # the chain runs backward: this is the block's last operator
    end = place
    while end + 1 < count and c.block[end + 1] == first:
        end += 1
    operator = c.chain[place]
    low, high = turns_between(p, c.turn, operator)
    to = c.turn[c.chain[end if begin else first]]
    return int(c.turn[operator]), int(min(max(to, low), high))


@step
def overtakes(c: course.Course, source: int, target: int) -> bool:
    """True if an operator that changes its turn passes another one of its device: else it changes nothing."""
    device = c.assignment[c.order[source]]
    step = 1 if target > source else -1
    k = source
    while k != target:
        k += step
        if c.assignment[c.order[k]] == device:
            return True
    return False
