"""Random changes of a course: regions move to another device, operators to another turn.

A region is a connected piece of the graph. Where transfers are dear, no single operator can leave the device of its
neighbours, but a whole region can. Where devices are full, none can go unless another one comes in its place.
"""

import numpy as np

from hetgym._kernels.draws import Random
from hetgym._kernels.jit import step
from hetgym.problem import ProblemArrays
from hetgym.search import course as courses
from hetgym.search import outside
from hetgym.search.moves import draw, draw_neighbour
from hetgym.search.walk import turns_between
from hetgym.sim.kernel import Switches, keeps_order
from hetgym.transfer import transfer_time

PAIRS = 4  # Random pairs of an operator and a device, of which the one that would save most is where a region begins
GUIDED = 0.5  # Share of regions that begin so; the others begin anywhere, for good plans can lie behind worse ones
DOUBLINGS = 6  # A region has at most 1, 2, 4, ... operators, each of these sizes drawn as often.

EXCHANGED = 0.5
"""Share of regions in whose place another one comes: where devices are full, a region that only goes makes the plan
longer, however well it runs elsewhere."""

REORDER = 0.5  # Share of tries that give an operator another turn; the others move a region
CRITICAL = 0.8  # Share of these that move an operator of the critical chain
RETURNED = 4  # Number of sizes of the other region
NEAR = 8  # Most turns between the operators with which the two regions begin, and draws to find the second one


@step
def draw_pair(p: ProblemArrays, course: courses.Course, rng: Random) -> tuple[int, int]:
    """A random operator and another device, by :data:`PAIRS` and :data:`GUIDED`; -1 twice if the draw gave none."""
    n, d = p.cost.shape
    low, end = outside.turns(course.outside, n)
    seed, device, best = -1, -1, -np.inf
    for _ in range(PAIRS if rng.random() < GUIDED else 1):
        i, other = low + draw(rng, end - low), draw(rng, d - 1)
        other += other >= course.assignment[i]
        if p.cost[i, other] < np.inf:
            saved = saving(p, course, i, other)
            if saved > best:
                seed, device, best = i, other, saved
    return seed, device


@step
def move_region(
    p: ProblemArrays,
    course: courses.Course,
    rng: Random,
    seed: int,
    device: int,
    size: int,
    exchanged: float,
    switches: Switches,
) -> int:
    """Put a random region on another device, and maybe one of that device in its place; return the number moved.

    Args:
        seed: the operator with which the region begins.
        device: a device other than the operator's, which can run it.
        size: largest number of operators of the region.
        exchanged: share of regions in whose place another one comes.
    """
    left = course.assignment[seed]
    count = _move(p, course, rng, 0, seed, device, -1, size, switches)
    if exchanged > 0.0 and rng.random() < exchanged:
        other = _near(p, course, rng, seed, device, left)
        if other >= 0:
            count = _move(p, course, rng, count, other, left, device, 1 << draw(rng, RETURNED), switches)
    for k in range(count):
        course.inside[course.moved[k]] = False
    return count


@step
def _move(
    p: ProblemArrays,
    course: courses.Course,
    rng: Random,
    first: int,
    seed: int,
    device: int,
    origin: int,
    size: int,
    switches: Switches,
) -> int:
    """Put a region on a device, its operators as numbers ``first`` and on of the change; return the number behind.

    All but the seed come from the device ``origin``, or, if that is -1, from any other one.
    """
    low, end = outside.turns(course.outside, len(course.order))
    course.inside[seed] = True
    courses.put(p, course, first, seed, device, switches)
    count = first + 1
    for _ in range(3 * size):  # some draws hit operators that cannot move along
        if count - first == size:
            break
        j = draw_neighbour(p, rng, course.moved[first + draw(rng, count - first)])
        if j < low or j >= end or course.inside[j] or course.assignment[j] == device or p.cost[j, device] == np.inf:
            continue
        if origin < 0 or course.assignment[j] == origin:
            course.inside[j] = True
            courses.put(p, course, count, j, device, switches)
            count += 1
    return count


@step
def _near(p: ProblemArrays, course: courses.Course, rng: Random, seed: int, device: int, to: int) -> int:
    """An operator of a device, near another one in the order, that stayed there and can go elsewhere; -1 if none."""
    low, end = outside.turns(course.outside, len(course.order))
    for _ in range(NEAR):
        k = course.turn[seed] + draw(rng, 2 * NEAR + 1) - NEAR
        j = course.order[min(max(k, low), end - 1)]
        if course.assignment[j] == device and not course.inside[j] and p.cost[j, to] < np.inf:
            return int(j)
    return -1


@step
def saving(p: ProblemArrays, course: courses.Course, operator: int, device: int) -> float:
    """Run time and own transfer times that an operator would save on a device if all others stayed [s]."""
    a = course.assignment[operator]
    saved = p.cost[operator, a] - p.cost[operator, device]
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        other = course.assignment[p.successor[edge]]
        if a != other:
            saved += transfer_time(p, a, other, p.edge_bytes[edge])
        if device != other:
            saved -= transfer_time(p, device, other, p.edge_bytes[edge])
    for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        other, edge = course.assignment[p.predecessor[m]], p.predecessor_edge[m]
        if a != other:
            saved += transfer_time(p, other, a, p.edge_bytes[edge])
        if device != other:
            saved -= transfer_time(p, other, device, p.edge_bytes[edge])
    return float(saved)


@step
def span(p: ProblemArrays, course: courses.Course, count: int) -> tuple[int, int]:
    """The first turn that a change of ``count`` operators affects, and the last turn of one of them."""
    first, last = len(course.order), 0
    for k in range(count):
        i = course.moved[k]
        first, last = min(first, course.turn[i]), max(last, course.turn[i])
        for m in range(p.predecessor_pointer[i], p.predecessor_pointer[i + 1]):
            first = min(first, course.turn[p.predecessor[m]])  # its transfer goes elsewhere
    return max(0, first), last


@step
def draw_region(
    p: ProblemArrays, course: courses.Course, rng: Random, sizes: int, exchanged: float, switches: Switches
) -> int:
    """Put a random region on another device; return the number of operators moved, 0 if the draw gave none.

    Args:
        sizes: number of sizes of regions: 1, 2, 4, ... operators.
        exchanged: share of regions in whose place another one comes.
    """
    seed, device = draw_pair(p, course, rng)
    doublings = draw(rng, sizes)
    if seed < 0:
        return 0
    return move_region(p, course, rng, seed, device, 1 << doublings, exchanged, switches)


@step
def draw_shift(
    p: ProblemArrays, course: courses.Course, rng: Random, critical: float, switches: Switches
) -> tuple[int, int]:
    """The turn of a random operator, and another one; the same twice if the draw gave none.

    Args:
        critical: share of draws that take an operator of the critical chain, where devices keep to their orders.
    """
    on_chain = keeps_order(switches) and rng.random() < critical
    source, to = draw_chain_turn(p, course, rng) if on_chain else draw_turn(p, course, rng)
    return source, to if overtakes(course, source, to) else source


@step
def draw_turn(p: ProblemArrays, course: courses.Course, rng: Random) -> tuple[int, int]:
    """The turn of a random operator, and a random one between those of its neighbours."""
    first, end = outside.turns(course.outside, len(course.order))
    operator = first + draw(rng, end - first)
    low, high = _turns_between(p, course, operator)
    return int(course.turn[operator]), low + draw(rng, high - low + 1)


@step
def _turns_between(p: ProblemArrays, course: courses.Course, operator: int) -> tuple[int, int]:
    """The first and the last turn that an operator can have between its predecessors and its successors."""
    first, end = outside.turns(course.outside, len(course.order))
    low, high = turns_between(p, course.turn, operator)
    return max(low, first), min(high, end - 1)


@step
def draw_chain_turn(p: ProblemArrays, course: courses.Course, rng: Random) -> tuple[int, int]:
    """The turn of a random operator of the critical chain, and one at an end of its block there.

    A block is a run of the chain on one device. Only a change of its first or its last operator can shorten a plan that
    waits for devices alone (Balas, Vazacopoulos, Management Science 44(2), 1998, neighbourhood N6).
    """
    courses.find_chain(p, course)
    place = draw(rng, course.counts[courses.CHAIN])
    return chain_turn(p, course, place, rng.random() < 0.5)


@step
def chain_turn(p: ProblemArrays, course: courses.Course, place: int, begin: bool) -> tuple[int, int]:
    """The turn of the operator at a place in the chain, and the one nearest to the begin or the end of its block."""
    count = course.counts[courses.CHAIN]
    first = int(course.block[place])  # the chain runs backward: this is the block's last operator
    end = place
    while end + 1 < count and course.block[end + 1] == first:
        end += 1
    operator = course.chain[place]
    low, high = _turns_between(p, course, operator)
    to = course.turn[course.chain[end if begin else first]]
    return int(course.turn[operator]), int(min(max(to, low), high))


@step
def overtakes(course: courses.Course, source: int, target: int) -> bool:
    """True if an operator that changes its turn passes another one of its device: else it changes nothing."""
    device = course.assignment[course.order[source]]
    step = 1 if target > source else -1
    k = source
    while k != target:
        k += step
        if course.assignment[course.order[k]] == device:
            return True
    return False
