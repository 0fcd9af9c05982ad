"""Cutting: the kernels that fill the arrays of a window, see :mod:`hetgym.search.windows`."""

import numpy as np

from hetgym._kernels.jit import lean, step
from hetgym._types import FloatArray, Int64Array, IntArray
from hetgym.problem import ProblemArrays
from hetgym.search import course as courses
from hetgym.search.course import GRID, Course
from hetgym.search.outside import Outside, Sequel
from hetgym.search.sequel import Sequels
from hetgym.sim.kernel import AGGREGATED, CACHED, ENDPOINT, FIFO, Switches, way_free
from hetgym.transfer import transfer_time

READERS = 64  # Most readers of a tensor that are asked for a copy on a device

INSIDE, SOURCES, SINKS, INNER, OUTER = range(5)  # in the counts of a cut


@lean
def count(
    p: ProblemArrays, course: Course, first: int, end: int, number: IntArray, listed: IntArray, sizes: Int64Array
) -> None:
    """Number the operators of a window, those whose outputs they read, and their readers behind it."""
    inside = end - first
    for k in range(inside):
        i = course.order[first + k]
        listed[k], number[i] = i, k
    count = inside
    for k in range(inside):
        i = listed[k]
        for m in range(p.predecessor_pointer[i], p.predecessor_pointer[i + 1]):
            j = p.predecessor[m]
            if course.turn[j] < first:
                sizes[OUTER] += 1
                if number[j] < 0:
                    listed[count], number[j] = j, count
                    count += 1
    sizes[INSIDE], sizes[SOURCES] = inside, count - inside
    for k in range(inside):
        i = listed[k]
        sizes[INNER] += p.successor_pointer[i + 1] - p.successor_pointer[i]
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            j = p.successor[edge]
            if number[j] < 0:
                listed[count], number[j] = j, count
                count += 1
    sizes[SINKS] = count - inside - sizes[SOURCES]


@lean
def fill(
    p: ProblemArrays,
    course: Course,
    first: int,
    operators: IntArray,
    number: IntArray,
    q: ProblemArrays,
    piece: Course,
    outside: Outside,
    found: Sequels,
    sizes: Int64Array,
    switches: Switches,
) -> None:
    """Fill the arrays of a window; its operators have these numbers, all others -1."""
    d, inside = p.cost.shape[1], sizes[INSIDE]
    for k in range(len(operators)):
        _copy_operator(p, course, operators[k], q, piece, k)
        piece.turn[k] = k if k < inside else -1 if k < inside + sizes[SOURCES] else k
        if k >= inside:
            piece.tail[k], outside.wait[k - inside] = found.tail[operators[k]], found.wait[operators[k]]
    edge, behind = 0, 0
    for k in range(len(q.cost)):
        if k < inside:
            i = operators[k]
            for m in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
                q.successor[edge], q.edge_source[edge] = number[p.successor[m]], k
                _copy_edge(p, course, m, q, piece, edge)
                edge += 1
        q.successor_pointer[k + 1] = edge
    row = 0
    for k in range(len(q.cost)):
        if k < inside:
            i = operators[k]
            for m in range(p.predecessor_pointer[i], p.predecessor_pointer[i + 1]):
                j, old = p.predecessor[m], p.predecessor_edge[m]
                q.predecessor[row] = number[j]
                if number[j] < inside:
                    q.predecessor_edge[row] = q.successor_pointer[number[j]] + old - p.successor_pointer[j]
                else:
                    q.predecessor_edge[row] = edge
                    q.successor[edge], q.edge_source[edge] = k, number[j]
                    _copy_edge(p, course, old, q, piece, edge)
                    _estimate(p, course, old, outside.arrival[behind], outside.floor[behind], found.marks, switches)
                    edge, behind = edge + 1, behind + 1
                row += 1
            outside.pointer[k + 1] = behind
        q.predecessor_pointer[k + 1] = row
    courses.restore(course.marks, first // GRID, piece.front)
    courses.mark(piece.front, piece.marks, 0)
    for device in range(d):
        outside.before[device] = course.marks.load[0, device] - piece.front.load[device]
        outside.rest[device] = piece.front.load[device]
        piece.held[device] = course.held[device]
    for k in range(inside):
        a = piece.assignment[k]
        outside.rest[a] -= courses.load_of(q, k, a, switches)


@step
def _copy_operator(p: ProblemArrays, course: Course, i: int, q: ProblemArrays, piece: Course, k: int) -> None:
    """Copy what a course knows of operator i to operator k of a window."""
    for device in range(p.cost.shape[1]):
        q.cost[k, device] = p.cost[i, device]
        piece.bound[k, device] = course.bound[i, device]
    piece.assignment[k], piece.order[k] = course.assignment[i], k
    piece.now.begin[k], piece.now.finish[k] = course.now.begin[i], course.now.finish[i]
    piece.tail[k], piece.weight[k] = course.tail[i], course.weight[i]


@step
def _copy_edge(p: ProblemArrays, course: Course, old: int, q: ProblemArrays, piece: Course, edge: int) -> None:
    """Copy what a course knows of an edge to an edge of a window."""
    q.edge_bytes[edge], q.edge_tensor[edge] = p.edge_bytes[old], p.edge_tensor[old]
    piece.now.arrived[edge] = course.now.arrived[old]


@step
def _estimate(
    p: ProblemArrays,
    course: Course,
    edge: int,
    arrival: FloatArray,
    floor: FloatArray,
    marks: Sequel,
    switches: Switches,
) -> None:
    """When what an edge carries would be on each device, and the least makespan that its transfer would leave, [d] [s].

    On the device of its reader, when it is there. Where transfers are aggregated, nothing need be known: the reader
    asks for its inputs.
    """
    if switches.transfers == AGGREGATED:
        return
    i = p.edge_source[edge]
    a, row = course.assignment[i], course.turn[i] // GRID + 1
    way = switches.communication, course.marks.link_free[row], course.marks.channel_free[row]
    for device in range(len(arrival)):
        arrival[device] = course.now.finish[i]
        if device != a:
            duration = transfer_time(p, a, device, p.edge_bytes[edge])
            arrival[device] = way_free(p, *way, a, device, arrival[device]) + duration
            floor[device] = arrival[device] + _follows(p, marks, row, a, device, switches)
    first = p.successor_pointer[i]
    for other in range(first, min(first + READERS, p.successor_pointer[i + 1])):
        if switches.transfers == CACHED and p.edge_tensor[other] == p.edge_tensor[edge]:
            arrival[course.assignment[p.successor[other]]] = course.now.arrived[other]
            floor[course.assignment[p.successor[other]]] = 0.0
    arrival[course.assignment[p.successor[edge]]] = course.now.arrived[edge]
    floor[course.assignment[p.successor[edge]]] = 0.0


@step
def _follows(p: ProblemArrays, marks: Sequel, row: int, a: int, b: int, switches: Switches) -> float:
    """Least time to the end of the plan from the end of a transfer that is added at a mark [s]."""
    least = -np.inf
    if switches.communication == FIFO:
        route = a * len(marks.device[row]) + b
        for k in range(p.route_pointer[route], p.route_pointer[route + 1]):
            least = max(least, marks.link[row, p.route_link[k]])
    elif switches.communication == ENDPOINT:
        least = max(marks.channel[row, 0, a], marks.channel[row, 1, b])
    return float(least)


@lean
def find_crossings(
    p: ProblemArrays,
    course: Course,
    first: Int64Array,
    end: Int64Array,
    wait: FloatArray,
    crossing: FloatArray,
    switches: Switches,
) -> None:
    """Bounds on the makespan that edges over whole windows give [s].

    Args:
        first, end: [k] turns before the halos and behind the windows, both ascending.
        crossing: [k] filled with the largest bound over the edges that begin before a halo and end behind the window.
    """
    for k in range(len(course.order)):
        i = course.order[k]
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            j = p.successor[edge]
            until = course.turn[j]
            w = np.searchsorted(first, k, side="right")
            while w < len(first) and end[w] <= until:
                sent = course.now.finish[i] if switches.transfers == AGGREGATED else course.now.arrived[edge]
                crossing[w] = max(crossing[w], sent + wait[j])
                w += 1
