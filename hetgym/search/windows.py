"""Windows: runs of turns of a long plan, each cut out as a course of its own.

A change in a plan of ten thousand operators shifts all that follows. So its price launches thousands of operators, and
each kept change renews times, marks and tails up to the ends. In a window a price ends at the last turn, with what the
rest of the plan makes of it (:mod:`hetgym.search.sequel`), and the arrays fit into a core's cache. Windows that do not
overlap can be searched at the same time. Pasted back, they are worth what a simulation of the whole plan says.

A window is led by a *halo*: turns that are launched but not changed, since an operator that moves changes the transfers
that its producers send. For producers before the halo it is estimated when what they send would be on another device:
behind the transfers that are booked by then, whose followers it delays. If another reader there gets the same tensor,
the time is known.
"""

from typing import NamedTuple

import numpy as np

from hetgym._kernels.blanks import blank
from hetgym._kernels.jit import lean, step
from hetgym._types import FloatArray, Int64Array, IntArray
from hetgym.problem import Problem, ProblemArrays
from hetgym.search import course as courses
from hetgym.search import regions
from hetgym.search.course import GRID, Course
from hetgym.search.outside import Outside, Sequel
from hetgym.search.sequel import Sequels, sequels
from hetgym.sim.kernel import AGGREGATED, CACHED, ENDPOINT, FIFO, Switches, way_free
from hetgym.transfer import transfer_time
from hetgym.weights import SharedWeights, unshared

HALO = 256  # Turns before a window that are launched again with each price that begins there
READERS = 64  # Most readers of a tensor that are asked for a copy on a device

INSIDE, SOURCES, SINKS, INNER, OUTER = range(5)  # in the counts of a cut


class Window(NamedTuple):
    """A window of a plan."""

    first: int  # turn before the halo, a multiple of GRID
    begin: int  # first turn that may change
    end: int  # turn behind the last one
    operators: IntArray  # [m] operators of the whole plan, by their numbers in the window
    p: ProblemArrays  # the problem of these
    course: Course  # the course of these, which has no times of its own until it begins


class Change(NamedTuple):
    """What the turns of a window hold now."""

    begin: int  # the first turn
    operators: IntArray  # [k] operators of the whole plan, by turn
    devices: IntArray  # [k] their devices
    launched: int  # operators launched in the trials that led there


class Survey(NamedTuple):
    """The facts about the whole plan that windows need."""

    turns: list[tuple[int, int]]  # first turn of each window, and the one behind its last
    first: Int64Array  # [k] turns before the halos
    crossing: FloatArray  # [k] see :func:`_find_crossings` [s]
    sequels: Sequels


class Cutter:
    """Cuts windows out of the course of a problem, and pastes them back.

    Args:
        course: the course, whose tails and marks are those of its plan.
    """

    def __init__(self, problem: Problem, course: Course, switches: Switches) -> None:
        self.problem, self.course, self.switches = problem, course, switches
        limited = len(problem.shared_weights.size) > 0 and np.isfinite(course.room).any()
        self._shared = problem.shared_weights if limited else None

    def survey(self, turns: list[tuple[int, int]]) -> Survey:
        """Look at the whole plan for windows, in O(n + e).

        Args:
            turns: first turn of each window and the one behind its last, ascending multiples of GRID. The last window
                may end with the plan.
        """
        first = np.array([max(0, begin - HALO) // GRID * GRID for begin, _ in turns])
        crossing, ends = np.zeros(len(turns)), np.array([end for _, end in turns])
        found = sequels(self.problem, self.course, ends, self.switches)
        _find_crossings(self.problem.arrays, self.course, first, ends, found.wait, crossing, self.switches)
        return Survey(turns, first, crossing, found)

    def cut(self, survey: Survey, number: int) -> Window:
        """Cut a window out of the plan, which must be as it was surveyed; threads may cut at the same time."""
        first, (begin, end), found = int(survey.first[number]), survey.turns[number], survey.sequels
        behind = Sequel(*(each[number] for each in found.ends))
        p, course, d = self.problem.arrays, self.course, self.problem.num_devices
        n = self.problem.num_operators
        place, listed, sizes = np.full(n, -1, np.int32), np.empty(n, np.int32), np.zeros(5, np.int64)
        _count(p, course, first, end, place, listed, sizes)
        inside, m, e = end - first, int(sizes[: SINKS + 1].sum()), int(sizes[INNER:].sum())
        operators, rows = listed[:m].copy(), (end - first - 1) // GRID + 1
        n = m if self._shared is None else m + d
        outside = blank(Outside, {"behind": behind}, n=inside, g=m - inside, o=int(sizes[OUTER]), d=d, m=rows)
        outside.turns[:] = begin - first, inside
        outside.operators[0], outside.crossing[0] = len(course.order), survey.crossing[number]
        given = {
            "shared": unshared(n) if self._shared is None else self._held(self._shared, operators[:inside], m, place),
            "room": course.room,
            "clockwork": courses.NOTHING,
            "outside": outside,
        }
        piece = blank(Course, given, n=n, e=e, d=d, l=len(p.link_bandwidth), m=rows)
        local = _blank_problem(p, n, e)
        piece.assignment[m:] = np.arange(n - m)
        piece.turn[m:] = piece.order[m:] = np.arange(m, n)
        _fill(p, course, first, operators, place, local, piece, outside, found, sizes, self.switches)
        return Window(first, begin, end, operators, local, piece)

    def _held(self, shared: SharedWeights, inside: IntArray, m: int, place: IntArray) -> SharedWeights:
        """The weights that operators of a window share; ``place`` has the numbers of operators in the window, or -1.

        On each device operator ``m`` plus its number stands for all their other readers there.
        """
        d = self.problem.num_devices
        rows = [np.arange(shared.operator_pointer[i], shared.operator_pointer[i + 1]) for i in inside]
        weights = np.unique(shared.weight[np.concatenate(rows)])
        counts = shared.pointer[weights + 1] - shared.pointer[weights]
        starts = np.repeat(shared.pointer[weights] - np.cumsum(counts) + counts, counts)
        readers = shared.reader[starts + np.arange(counts.sum())]
        number = place[readers]
        number = np.where((number >= 0) & (number < len(inside)), number, m + self.course.assignment[readers])
        pairs = np.unique(np.repeat(np.arange(len(weights)), counts) * (m + d) + number)
        pointer = np.searchsorted(pairs, np.arange(len(weights) + 1) * (m + d)).astype(np.int32)
        return SharedWeights.from_rows(m + d, pointer, np.array(pairs % (m + d), np.int32), shared.size[weights])

    def paste(self, changes: list[Change], limit: float) -> bool:
        """Write what windows hold into the plan, each cut out of the current plan; False if it took that back.

        Args:
            changes: in the order of their turns.
            limit: largest makespan of the whole plan that is kept, unless it lacks less room for weights [s].
        """
        p, course = self.problem.arrays, self.course
        begin, end, count = changes[0].begin, changes[-1].begin + len(changes[-1].operators), 0
        old, lacked = course.order[begin:end].copy(), courses.lack(course)
        for change in changes:
            count = _apply(p, course, change.begin, change.operators, change.devices, count, self.switches)
        return bool(_decide(p, course, old, count, begin, end, lacked, limit, self.switches))


def change_of(window: Window, launched: int = 0) -> Change:
    """What the turns of a window hold."""
    course = window.course
    held = course.order[window.begin - window.first : window.end - window.first]
    return Change(window.begin, window.operators[held], course.assignment[held], launched)


def _blank_problem(p: ProblemArrays, n: int, e: int) -> ProblemArrays:
    """Arrays for n operators and e edges, which are to be filled; the devices are those of a problem."""
    return p._replace(
        cost=np.zeros((n, p.cost.shape[1])),
        successor_pointer=np.zeros(n + 1, np.int32),
        successor=np.empty(e, np.int32),
        edge_source=np.empty(e, np.int32),
        predecessor_pointer=np.zeros(n + 1, np.int32),
        predecessor=np.empty(e, np.int32),
        predecessor_edge=np.empty(e, np.int32),
        edge_bytes=np.empty(e),
        edge_tensor=np.empty(e, np.int32),
    )


@lean
def _count(
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
def _fill(
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
def _find_crossings(
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


@lean
def _apply(
    p: ProblemArrays,
    course: Course,
    begin: int,
    operators: IntArray,
    devices: IntArray,
    count: int,
    switches: Switches,
) -> int:
    """Write a window's plan into the course, as operators ``count`` and on of a change; return the number behind."""
    for k in range(len(operators)):
        i = operators[k]
        if course.assignment[i] != devices[k]:
            courses.put(p, course, count, i, devices[k], switches)
            count += 1
        course.order[begin + k], course.turn[i] = i, begin + k
    return count


@lean
def _decide(
    p: ProblemArrays,
    course: Course,
    old: IntArray,
    count: int,
    begin: int,
    end: int,
    lacked: float,
    limit: float,
    switches: Switches,
) -> bool:
    """Keep the changed plan if it takes no longer than a limit, else take it back.

    Args:
        old: [end - begin] the order of these turns before the change.
        count: number of operators that went to other devices.
        begin, end: the first turn that changed, and the one behind the last.
        lacked: weights for which devices had no room before [byte].
    """
    lacks, price = courses.lacking(course), np.inf
    first = min(begin, regions.span(p, course, count)[0])
    if lacks <= lacked:
        price = courses.price(p, course, first, end - 1, np.inf if lacks < lacked else limit, switches)
    if price < np.inf:
        courses.keep(p, course, first, end - 1, switches)
        return True
    courses.take_back(course, count)
    for k in range(begin, end):
        course.order[k] = old[k - begin]
        course.turn[old[k - begin]] = k
    return False
