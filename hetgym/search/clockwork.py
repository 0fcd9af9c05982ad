"""Clockworks: event loops that run a changed plan from where it first differs from the plan before.

Up to the first thing that a change can affect, the runs of both plans are the same. So the state of a run is saved on
the way, in up to :data:`ROWS` rows, and the run of a changed plan continues from the last row that holds for it, too.

An operator that goes to another device, or gets another priority, matters as soon as one of its predecessors has
finished; if it has none, from the start. In a fixed order, a device's queue matters from the launch of the last
operator before the first difference.

Invariant, before and after each :func:`run`: the first ``counts[HELD]`` rows are states of the run of the plan ``now``,
after all that happens before the moment ``due`` of each, and none of what happens after it.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._kernels.blanks import blank
from hetgym._kernels.heap import push
from hetgym._kernels.jit import step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, IntArray
from hetgym.problem import Problem, ProblemArrays
from hetgym.sim import Runtime
from hetgym.sim.kernel import AGGREGATED, FAIR, State, Switches
from hetgym.sim.loop import CHANGED, begin_schedule, go_on
from hetgym.sim.progress import CHANGE, EVENTS, Progress, Sharing
from hetgym.sim.run import new_workspace, setting
from hetgym.sim.streams import Streams

ROWS = 16  # Most rows: they divide the run of the first plan into equal times
ROOM = 2**22  # Most numbers in all rows, so that there are fewer rows of large problems

BEGUN, HELD, SHARED = 0, 1, 2  # in Clockwork.counts


@record
class Layout(NamedTuple):
    """A plan as the event loop takes it."""

    assignment: Annotated[IntArray, "n"]  # device of each operator
    # order, pointer: the device orders, one after the other, and their starts; in a fixed order
    order: Annotated[IntArray, "n"]
    pointer: Annotated[IntArray, "d + 1"]
    priority: Annotated[FloatArray, "n"]  # minus the turns; where a device takes what is ready in the order of the plan


@record
class Clockwork(NamedTuple):
    """The arrays of an event loop, and rows for its states."""

    # state, progress, sharing: of the run
    state: State
    progress: Progress
    sharing: Sharing | None
    # one array of which all arrays are parts that change in a run, apart from the items of heaps
    words: Annotated[npt.NDArray[np.int64], "w"]
    # now, trial: the plan, and the changed one
    now: Layout
    trial: Layout
    saved: Annotated[npt.NDArray[np.int64], "r, w"]  # rows of `words`
    # key, code: the items of the heaps in each row, one heap after the other
    key: Annotated[FloatArray, "r, h"]
    code: Annotated[npt.NDArray[np.int64], "r, h"]
    launched: Annotated[IntArray, "r, d"]  # operators launched on each device in each row
    # moment of each row: all that happens before it has happened, and nothing that happens after it [s]
    due: Annotated[FloatArray, "r"]
    # moment before which no operator matters that differs between `now` and `trial` [s]
    horizon: Annotated[FloatArray, "1"]
    # the first place in each device's queue that differs between them, n + 1 if none does
    place: Annotated[IntArray, "d"]
    # whether there is a plan `now`; rows that hold for it; and those of them that also hold for `trial`; see HELD
    counts: Annotated[npt.NDArray[np.int64], "3"]


STATE = ("start", "finish", "sent", "arrived", "ready", "waiting", "launched", "free", "link_free", "channel_free")
PROGRESS = ("status", "missing", "slot", "priority", "running", "alarm", "entered", "clock", "tally")
"""Arrays of the state and of the progress that change in the run of a schedule."""

WORD = 8  # Size of a word [byte]


def new_clockwork(problem: Problem, runtime: Runtime) -> Clockwork:
    """Allocate for the plans of a problem under a runtime that needs the event loop."""
    how = setting(problem, runtime)
    room, switches = new_workspace(problem.arrays, how), how.switches
    s, run = room.state, room.progress
    n, d = problem.cost.shape
    streams = () if room.sharing is None else room.sharing.streams
    arrays = [getattr(s, name) for name in STATE] + [getattr(run, name) for name in PROGRESS]
    words, parts = _side_by_side([*arrays, run.heaps.size, *streams])
    progress = dict(zip(PROGRESS, parts[len(STATE) :], strict=False))
    sharing = room.sharing
    if sharing is not None:
        sharing = sharing._replace(streams=Streams(*parts[len(arrays) + 1 :]))

    items = 2 * n + 2 * d
    rows = min(ROWS, ROOM // (len(words) + 2 * items))
    if switches.communication == FAIR or (switches.transfers == AGGREGATED and not switches.work_conserving):
        rows = 0  # what is left of a flow depends on when it was looked at; messages are asked for ahead of the queue
    given = {
        "state": s._replace(**dict(zip(STATE, parts, strict=False))),
        "progress": run._replace(**progress, heaps=run.heaps._replace(size=parts[len(arrays)])),
        "sharing": sharing,
        "words": words,
    }
    return blank(Clockwork, given, n=n, d=d, r=rows, w=len(words), h=items)


def _side_by_side(arrays: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """Copies of arrays that are parts of one array of words; that array, and the copies."""
    ends = [*accumulate((-(-array.nbytes // WORD) for array in arrays), initial=0)]
    words = np.zeros(ends[-1], np.int64)
    parts = []
    for array, first, last in zip(arrays, ends, ends[1:], strict=False):
        part = words[first:last].view(array.dtype)[: array.size].reshape(array.shape)
        part[...] = array
        parts.append(part)
    return words, parts


@step
def lay_out(clockwork: Clockwork, assignment: IntArray, order: IntArray, turn: IntArray, switches: Switches) -> None:
    """Write the plan that is run next into ``trial``."""
    to = clockwork.trial
    for i in range(len(assignment)):
        to.assignment[i] = assignment[i]
    if not switches.work_conserving:
        _write_orders(assignment, order, to.order, to.pointer)
    elif not switches.by_arrival:
        for i in range(len(turn)):
            to.priority[i] = -turn[i]


@step
def _write_orders(assignment: IntArray, plan: IntArray, order: IntArray, pointer: IntArray) -> None:
    """Write the device orders of a plan, one after the other, and where each begins."""
    for device in range(len(pointer)):
        pointer[device] = 0
    for i in range(len(order)):
        pointer[assignment[i] + 1] += 1
    for device in range(1, len(pointer)):
        pointer[device] += pointer[device - 1]
    for k in range(len(order)):
        i = plan[k]
        order[pointer[assignment[i]]] = i
        pointer[assignment[i]] += 1
    for device in range(len(pointer) - 1, 0, -1):
        pointer[device] = pointer[device - 1]
    pointer[0] = 0


@step
def wind(p: ProblemArrays, clockwork: Clockwork, finish: FloatArray, switches: Switches) -> None:
    """After :func:`lay_out`, set the run of ``trial`` to its start, or to the last row that holds for it.

    ``finish`` holds the finish of each operator in the plan ``now``, [n] [s].
    """
    row = clockwork.counts[HELD] - 1
    if clockwork.counts[BEGUN]:
        _compare(p, clockwork, finish, switches)
    while row >= 0 and not (
        clockwork.due[row] < clockwork.horizon[0] and _before(clockwork.launched[row], clockwork.place)
    ):
        row -= 1
    clockwork.counts[SHARED] = row + 1
    to = clockwork.trial
    if row < 0:
        begin_schedule(
            p,
            clockwork.state,
            clockwork.progress,
            clockwork.sharing,
            to.assignment,
            to.order,
            to.pointer,
            to.priority,
            switches,
        )
    else:
        _restore(clockwork, row)
        _hand_over(p, clockwork, switches)
    _save_next(clockwork)


@step
def _compare(p: ProblemArrays, clockwork: Clockwork, finish: FloatArray, switches: Switches) -> None:
    """Find ``horizon`` and ``place``."""
    now, then, n = clockwork.now, clockwork.trial, len(finish)
    clockwork.horizon[0] = np.inf
    for i in range(n):
        same = then.assignment[i] == now.assignment[i]
        if switches.work_conserving:
            same = same and then.priority[i] == now.priority[i]
        if not same:
            first, last = p.predecessor_pointer[i], p.predecessor_pointer[i + 1]
            if switches.work_conserving and first == last:
                clockwork.horizon[0] = 0.0
            for k in range(first, last):
                clockwork.horizon[0] = min(clockwork.horizon[0], finish[p.predecessor[k]])
    for device in range(len(clockwork.place)):
        clockwork.place[device] = n + 1
        if not switches.work_conserving:
            first, other = now.pointer[device], then.pointer[device]
            length, longer = now.pointer[device + 1] - first, then.pointer[device + 1] - other
            k = 0
            while k < min(length, longer) and now.order[first + k] == then.order[other + k]:
                k += 1
            if k < max(length, longer):
                clockwork.place[device] = k


@step
def _before(launched: IntArray, place: IntArray) -> bool:
    """True if no device has come to where its queue differs: not even its next operator does."""
    before = True
    for device in range(len(place)):
        before = before and launched[device] < place[device]
    return before


@step
def _hand_over(p: ProblemArrays, clockwork: Clockwork, switches: Switches) -> None:
    """Give a run that was restored what is to come in ``trial``."""
    run, to = clockwork.progress, clockwork.trial
    for i in range(len(run.status)):
        run.assignment[i] = to.assignment[i]
    if switches.work_conserving:
        if not switches.by_arrival:
            for i in range(len(run.status)):
                run.priority[i] = to.priority[i]
        return
    for device in range(len(run.head)):
        first, last = to.pointer[device], to.pointer[device + 1]
        run.head[device] = first + clockwork.state.launched[device]
        run.tail[device] = last
        for k in range(first, last):
            run.queue[k] = to.order[k]
            run.issue[to.order[k]] = (k - first + 1) * switches.dispatch if p.asynchronous[device] else 0.0


# The loop pauses for changes of devices, and the run of a schedule has no others.
@step
def run(p: ProblemArrays, clockwork: Clockwork, switches: Switches) -> None:
    """Run ``trial`` to its end, or until it must exceed the limit of the progress, and save the rows that are next."""
    while go_on(p, clockwork.state, clockwork.progress, clockwork.sharing, switches, False) == CHANGED:
        row = clockwork.counts[HELD]
        if _before(clockwork.state.launched, clockwork.place) and _save(clockwork, row):
            clockwork.counts[HELD] = clockwork.counts[SHARED] = row + 1
            _save_next(clockwork)


@step
def _save_next(clockwork: Clockwork) -> None:
    """Have the run pause where the first row that is missing is due, if it will hold for both plans."""
    row = clockwork.counts[HELD]
    if row == clockwork.counts[SHARED] and row < len(clockwork.due) and clockwork.due[row] < clockwork.horizon[0]:
        push(clockwork.progress.heaps, EVENTS, clockwork.due[row], CHANGE)


@step
def adopt(clockwork: Clockwork, makespan: float) -> None:
    """Take ``trial``, which was run to its end, for ``now``."""
    if not clockwork.counts[BEGUN]:
        for row in range(len(clockwork.due)):
            clockwork.due[row] = makespan * (row + 1) / (len(clockwork.due) + 1)
    clockwork.counts[BEGUN] = 1
    clockwork.counts[HELD] = clockwork.counts[SHARED]
    for i in range(len(clockwork.now.order)):
        clockwork.now.assignment[i] = clockwork.trial.assignment[i]
        clockwork.now.order[i] = clockwork.trial.order[i]
        clockwork.now.priority[i] = clockwork.trial.priority[i]
    for device in range(len(clockwork.now.pointer)):
        clockwork.now.pointer[device] = clockwork.trial.pointer[device]


@step
def _save(clockwork: Clockwork, row: int) -> bool:
    """Save the state as a row; false if it has more items than there is room for."""
    h, at = clockwork.progress.heaps, 0
    for heap in range(len(h.size)):
        at += h.size[heap]
    if at > clockwork.key.shape[1]:
        return False
    for k in range(len(clockwork.words)):
        clockwork.saved[row, k] = clockwork.words[k]
    for device in range(len(clockwork.place)):
        clockwork.launched[row, device] = clockwork.state.launched[device]
    at = 0
    for heap in range(len(h.size)):
        for k in range(h.first[heap], h.first[heap] + h.size[heap]):
            clockwork.key[row, at], clockwork.code[row, at] = h.key[k], h.code[k]
            at += 1
    return True


@step
def _restore(clockwork: Clockwork, row: int) -> None:
    """Set the state to a row."""
    h, at = clockwork.progress.heaps, 0
    for k in range(len(clockwork.words)):
        clockwork.words[k] = clockwork.saved[row, k]
    for heap in range(len(h.size)):
        for k in range(h.first[heap], h.first[heap] + h.size[heap]):
            h.key[k], h.code[k] = clockwork.key[row, at], clockwork.code[row, at]
            at += 1
