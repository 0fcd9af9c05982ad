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
from hetgym._kernels.jit import lean
from hetgym._types import FloatArray, Int64Array, IntArray
from hetgym.problem import Problem, ProblemArrays
from hetgym.search import course as courses
from hetgym.search import cutting, regions
from hetgym.search.course import GRID, Course
from hetgym.search.outside import Outside, Sequel
from hetgym.search.sequel import Sequels, sequels
from hetgym.sim.kernel import Switches
from hetgym.weights import SharedWeights, unshared

HALO = 256  # Turns before a window that are launched again with each price that begins there


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
    crossing: FloatArray  # [k] see :func:`~hetgym.search.cutting.find_crossings` [s]
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
        self._idle: list[tuple[IntArray, IntArray]] = []

    def survey(self, turns: list[tuple[int, int]]) -> Survey:
        """Look at the whole plan for windows, in O(n + e).

        Args:
            turns: first turn of each window and the one behind its last, ascending multiples of GRID. The last window
                may end with the plan.
        """
        first = np.array([max(0, begin - HALO) // GRID * GRID for begin, _ in turns])
        crossing, ends = np.zeros(len(turns)), np.array([end for _, end in turns])
        found = sequels(self.problem, self.course, ends, self.switches)
        cutting.find_crossings(self.problem.arrays, self.course, first, ends, found.wait, crossing, self.switches)
        return Survey(turns, first, crossing, found)

    def cut(self, survey: Survey, number: int) -> Window:
        """Cut a window out of the plan, which must be as it was surveyed; threads may cut at the same time."""
        first, (begin, end), found = int(survey.first[number]), survey.turns[number], survey.sequels
        behind = Sequel(*(each[number] for each in found.ends))
        p, course, d = self.problem.arrays, self.course, self.problem.num_devices
        (place, listed), sizes = self._scratch(), np.zeros(5, np.int64)
        cutting.count(p, course, first, end, place, listed, sizes)
        inside, m, e = end - first, int(sizes[: cutting.SINKS + 1].sum()), int(sizes[cutting.INNER :].sum())
        operators, rows = listed[:m].copy(), (end - first - 1) // GRID + 1
        n = m if self._shared is None else m + d
        outside = blank(Outside, {"behind": behind}, n=inside, g=m - inside, o=int(sizes[cutting.OUTER]), d=d, m=rows)
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
        cutting.fill(p, course, first, operators, place, local, piece, outside, found, sizes, self.switches)
        place[operators] = -1
        self._idle.append((place, listed))
        return Window(first, begin, end, operators, local, piece)

    def _scratch(self) -> tuple[IntArray, IntArray]:
        """Numbers of all operators in a window, -1 throughout, and room for their list; one pair for each thread."""
        try:
            return self._idle.pop()
        except IndexError:
            n = self.problem.num_operators
            return np.full(n, -1, np.int32), np.empty(n, np.int32)

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
