"""Sequels: the longest paths from each turn of a plan to its end, if the remaining turns do not change.

Where devices keep to the orders of a plan and links serve its transfers one at a time, in its order, the times behind a
turn follow from those before it by sums and maxima alone. So the makespan is the largest of: each device's free time
plus what follows there, each link's likewise, and the arrival of each input plus what waits for it. The longest paths
that this needs are found in one pass over the plan, backward, in O(n + e).
"""

from typing import Annotated, NamedTuple

import numpy as np

from hetgym._kernels.blanks import blank
from hetgym._kernels.jit import lean, step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, Int64Array
from hetgym.problem import Problem, ProblemArrays
from hetgym.search import course as courses
from hetgym.search.course import Course
from hetgym.search.outside import Sequel
from hetgym.sim.kernel import AGGREGATED, CACHED, ENDPOINT, FIFO, Switches, copy_size, shares_copy
from hetgym.transfer import transfer_time


@record
class Sequels(NamedTuple):
    """Least times to the end of a plan [s]."""

    tail: Annotated[FloatArray, "n"]  # from the finish of each operator
    # from when each operator has its inputs; where transfers are aggregated, from when it may ask for them
    wait: Annotated[FloatArray, "n"]
    need: Annotated[FloatArray, "e"]  # scratch: from the end of each transfer
    message: Annotated[FloatArray, "d"]  # scratch: bytes from each device to one reader
    now: Sequel  # scratch: at one turn
    ends: Annotated[Sequel, "k"]  # at the turns that are asked for
    marks: Annotated[Sequel, "m"]  # before every turn that is a multiple of GRID


def sequels(problem: Problem, course: Course, ends: Int64Array, switches: Switches) -> Sequels:
    """Sequels of the plan of a course, at these turns [k], ascending."""
    n, d = problem.cost.shape
    sizes = {
        "n": n,
        "d": d,
        "e": problem.num_edges,
        "l": len(problem.arrays.link_bandwidth),
        "k": len(ends),
        "m": (n - 1) // courses.GRID + 1,
    }
    found = blank(Sequels, **sizes)
    _find(problem.arrays, course, found, ends, switches)
    return found


# Before each turn k, downwards, `now` is what follows that turn, and `tail` and `wait` are those of the operators
# behind it. Transfers are visited in the reverse of the order in which they are booked.
@lean
def _find(p: ProblemArrays, course: Course, found: Sequels, ends: Int64Array, switches: Switches) -> None:
    """Fill all but the scratch of ``found``."""
    now, row = found.now, len(ends) - 1
    now.device[:] = -np.inf
    now.asked[:] = -np.inf
    now.link[:] = -np.inf
    now.channel[:] = -np.inf
    for k in range(len(course.order), -1, -1):
        if k % courses.GRID == 0 and k // courses.GRID < len(found.marks.device):
            _save(now, found.marks, k // courses.GRID)
        while row >= 0 and ends[row] == k:
            _save(now, found.ends, row)
            row -= 1
        if k > 0:
            i = course.order[k - 1]
            a = course.assignment[i]
            if switches.transfers == AGGREGATED:
                tail = max(0.0, now.device[a])
                for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
                    tail = max(tail, found.wait[p.successor[edge]])
            else:
                tail = _send(p, course, found, i, max(0.0, now.device[a]), switches)
            found.tail[i] = tail
            now.device[a] = courses.load_of(p, i, a, switches) + tail
            found.wait[i] = now.device[a]
            if switches.transfers == AGGREGATED:
                found.wait[i] = now.asked[a] = _ask(p, course, found, i, a, switches)


@step
def _save(now: Sequel, ends: Sequel, row: int) -> None:
    for device in range(len(now.device)):
        ends.device[row, device], ends.asked[row, device] = now.device[device], now.asked[device]
        ends.channel[row, 0, device], ends.channel[row, 1, device] = now.channel[0, device], now.channel[1, device]
    for link in range(len(now.link)):
        ends.link[row, link] = now.link[link]


@step
def _send(p: ProblemArrays, course: Course, found: Sequels, operator: int, tail: float, switches: Switches) -> float:
    """The tail of an operator that sends its outputs when it has finished [s]; ``tail`` is that of its device."""
    a, first, last = course.assignment[operator], p.successor_pointer[operator], p.successor_pointer[operator + 1]
    for edge in range(first, last):
        found.need[edge] = 0.0
    for edge in range(last - 1, first - 1, -1):
        other, wait = course.assignment[p.successor[edge]], found.wait[p.successor[edge]]
        if other == a:
            tail = max(tail, wait)
            continue
        leader, size = edge, float(p.edge_bytes[edge])
        if switches.transfers == CACHED:
            leader = shares_copy(p, course.assignment, edge, first)
            size = copy_size(p, course.assignment, edge, last)
        found.need[leader] = max(found.need[leader], wait)
        if leader == edge:
            tail = max(tail, _book(p, found.now, a, other, size, found.need[edge], switches))
    return tail


@step
def _ask(p: ProblemArrays, course: Course, found: Sequels, operator: int, device: int, switches: Switches) -> float:
    """Least time to the end from when a reader may ask for its inputs [s]."""
    message, wait = found.message, found.now.device[device]
    for a in range(len(message)):
        message[a] = -1.0
    for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        a = course.assignment[p.predecessor[m]]
        if a != device:
            message[a] = max(0.0, message[a]) + p.edge_bytes[p.predecessor_edge[m]]
    asked = max(wait, found.now.asked[device])
    for a in range(len(message) - 1, -1, -1):
        if message[a] >= 0.0:
            asked = max(asked, _book(p, found.now, a, device, message[a], wait, switches))
    return float(asked)


@step
def _book(p: ProblemArrays, now: Sequel, a: int, b: int, size: float, need: float, switches: Switches) -> float:
    """Least time to the end from the start of a transfer, which what it holds then has, too [s].

    Args:
        need: the same from its end [s].
    """
    route = a * len(now.device) + b
    if switches.communication == FIFO:
        for k in range(p.route_pointer[route], p.route_pointer[route + 1]):
            need = max(need, now.link[p.route_link[k]])
    elif switches.communication == ENDPOINT:
        need = max(need, now.channel[0, a], now.channel[1, b])
    need += transfer_time(p, a, b, size)
    if switches.communication == FIFO:
        for k in range(p.route_pointer[route], p.route_pointer[route + 1]):
            now.link[p.route_link[k]] = need
    elif switches.communication == ENDPOINT:
        now.channel[0, a] = now.channel[1, b] = need
    return need
