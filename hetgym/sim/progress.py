"""Progress: the arrays that a run with a clock keeps besides the state.

A run is a schedule whose operators are all committed to devices at time 0, or one whose operators are committed during
it. Both are the same record, and :mod:`hetgym.sim.loop` runs both.
"""

from typing import NamedTuple

import numpy as np

from hetgym._kernels.heap import Heaps, new_heaps
from hetgym._kernels.jit import inlined, step
from hetgym._kernels.records import record
from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.problem import ProblemArrays
from hetgym.sim import fair, streams
from hetgym.sim.fair import Flows, new_flows
from hetgym.sim.kernel import FAIR, State, Switches, reset
from hetgym.sim.streams import Streams, new_streams

WAITING, OPEN, QUEUED, RUNNING, DONE = range(5)
"""Status of an operator: not committed, as a predecessor is not done or it is not released; may be
committed; committed; running; done."""

FINISH, BEGIN, RELEASE, ARRIVAL, ALARM, FLOW, CHANGE = (kind << 40 for kind in range(7))
"""Kinds of events; a code is the kind plus a number. In order: an operator finishes, begins after its dispatch (only
with several streams), is released, or has all inputs (numbered by its topological position); a device may take its next
operator (by device); a flow begins (by edge); a device changes (by change). Events of one instant are processed in this
order."""

NUMBER = (1 << 40) - 1  # Mask of the number in an event

EVENTS, ASKED, CHOICE = 0, 1, 2
"""Heaps of a run. :data:`EVENTS` holds events by time. :data:`ASKED` holds edges to be pushed, by their producer's
slot, then ``reader << 32 | edge``. From :data:`CHOICE` on, one heap for each work-conserving device holds the
positions of operators that could start, by descending priority. The d heaps after those hold the positions of
operators whose inputs are to be pulled, by descending priority."""


@record
class Progress(NamedTuple):
    """The progress of a run, besides the state.

    A committed operator is in its device's queue. A work-conserving device has no queue: it takes the
    operator of highest priority whose inputs have arrived.
    """

    status: IntArray  # [n] WAITING, OPEN, QUEUED, RUNNING or DONE
    # [n] predecessors that are not DONE, and one more until the operator is released; only kept for operators whose
    # inputs have not been requested
    missing: IntArray
    assignment: IntArray  # [n] device, -1 while not committed
    issue: FloatArray  # [n] time at which the host has issued the operator [s]
    slot: IntArray  # [n] position of each launched operator in its device's order of launches
    factor: FloatArray  # [n] noise, as a factor of each run time
    priority: FloatArray  # [n] larger first, ties by topological position; only if work-conserving
    queue: IntArray  # [q] operators committed to each device, in their order, device after device
    head: IntArray  # [d] index in `queue` of each device's first operator that has not started
    tail: IntArray  # [d] index after its last operator
    pulled: IntArray  # [d] index after its last operator whose inputs were requested; only if transfers are aggregated
    running: IntArray  # [d] number of operators that run now
    host: FloatArray  # [d] time until which each device's host is busy [s]
    alarm: FloatArray  # [d] time of the latest alarm set for each device's next operator [s]
    entered: FloatArray  # [d] time at which each device entered its latest partition [s]; -1 before the first one
    slowdown: FloatArray  # [d] current factor of run times
    alive: BoolArray  # [d] true if the device still exists
    changed: IntArray  # [c] device of each change
    change: FloatArray  # [c] its new slow-down, inf for a loss
    clock: FloatArray  # [1] the time [s]
    tally: IntArray  # [3] number of open operators; number of done operators; number of the change that is due
    message: FloatArray  # [d] scratch: bytes from each source device
    limit: FloatArray  # [1] a run of a schedule ends as soon as its makespan must exceed this [s]
    # [n] time that must follow each operator's finish, and [d] `load`, that of the operators still to be launched on
    # each device [s]; only read below a limit
    rest: FloatArray
    load: FloatArray
    heaps: Heaps  # see EVENTS


@record
class Sharing(NamedTuple):
    """What a run keeps besides where transfers share links, or operators share devices.

    Other runs have None in its place, and kernels for them are compiled without what it takes.
    """

    flows: Flows  # transfers under way, with fair sharing
    streams: Streams  # what runs on devices with several streams


def new_sharing(p: ProblemArrays, switches: Switches) -> Sharing | None:
    """Allocate for the runs of a problem; None if nothing is shared."""
    fairly, several = switches.communication == FAIR, switches.streams > 1
    if not (fairly or several):
        return None
    n, d = p.cost.shape
    return Sharing(new_flows(p, fairly), new_streams(n if several else 0, d))


def schedule_progress(p: ProblemArrays, switches: Switches, factor: FloatArray, needed: bool) -> Progress:
    """Allocate for runs of schedules.

    Args:
        needed: false if no run with a clock will follow, so that next to nothing is allocated.
    """
    n, e = (p.cost.shape[0], len(p.successor)) if needed else (0, 0)
    nothing = np.zeros(0)
    d = p.cost.shape[1]
    heaps = new_heaps([_events(switches) * n + e + 1, e + 1] + [n + 1] * (2 * d))
    return _progress(n, d, n, switches, factor, np.zeros(0, np.int32), nothing, heaps)


def online_progress(
    p: ProblemArrays, switches: Switches, factor: FloatArray, changed: IntArray, change: FloatArray
) -> Progress:
    """Allocate for one run whose operators are committed during it."""
    (n, d), e = p.cost.shape, len(p.successor)
    losses = int(np.isinf(change).sum())  # after each loss, every operator may have to run once more
    room = (1 + losses) * (_events(switches) * n + e) + len(change) * (2 + min(switches.streams, n)) + 1
    return _progress(n, d, n * d, switches, factor, changed, change, new_heaps([room] + [1] * (1 + 2 * d)))


# With one stream an operator has an arrival or a release, an alarm and a finish. With several it also begins; its
# device gets another next finish when it begins and when it ends, and one more if two end at once.
def _events(switches: Switches) -> int:
    """Most events of one operator, apart from those of its edges."""
    return 3 if switches.streams == 1 else 7


def _progress(
    n: int,
    d: int,
    queued: int,
    switches: Switches,
    factor: FloatArray,
    changed: IntArray,
    change: FloatArray,
    heaps: Heaps,
) -> Progress:
    def integers(count: int) -> IntArray:
        return np.zeros(count, np.int32)

    return Progress(
        status=integers(n),
        missing=integers(n),
        assignment=integers(n),
        issue=np.zeros(n),
        slot=integers(n),
        factor=factor,
        priority=np.zeros(n),
        queue=integers(queued),
        head=integers(d),
        tail=integers(d),
        pulled=integers(d),
        running=integers(d),
        host=np.zeros(d),
        alarm=np.zeros(d),
        entered=np.full(d, -1.0),
        slowdown=np.ones(d),
        alive=np.ones(d, np.bool_),
        changed=changed,
        change=change,
        clock=np.zeros(1),
        tally=integers(3),
        message=np.zeros(d),
        limit=np.full(1, np.inf),
        rest=np.zeros(n),
        load=np.zeros(d),
        heaps=heaps,
    )


def launch_order(run: Progress) -> tuple[IntArray, ...]:
    """For each device its operators in the order of their launches, for a run with decisions.

    Operators that ran more than once, because a device was lost, count where they ran last.
    """
    room = len(run.queue) // len(run.head)
    launched = [run.queue[device * room : head] for device, head in enumerate(run.head.tolist())]
    if run.alive.all():
        return tuple(row.copy() for row in launched)
    return tuple(row[run.assignment[row] == device] for device, row in enumerate(launched))


@step
def clear(p: ProblemArrays, s: State, run: Progress, sharing: Sharing | None) -> None:
    """Return a run to time 0: nothing is committed or requested, and no event is due."""
    reset(p, s)
    if sharing is not None:
        fair.clear(sharing.flows)
        streams.clear(sharing.streams)
    for edge in range(len(s.sent)):
        s.sent[edge] = np.inf
        s.arrived[edge] = np.inf
    for i in range(len(run.status)):
        run.status[i] = WAITING
        run.missing[i] = s.waiting[i]
        run.assignment[i] = -1
        run.issue[i] = 0.0
    for device in range(len(run.running)):
        run.running[device] = 0
        run.host[device] = 0.0
        run.alarm[device] = 0.0
        run.entered[device] = -1.0
        run.slowdown[device] = 1.0
        run.alive[device] = True
    run.clock[0] = 0.0
    run.tally[0] = 0
    run.tally[1] = 0
    for heap in range(len(run.heaps.size)):
        run.heaps.size[heap] = 0


@inlined
def open_up(run: Progress, operator: int) -> None:
    """Mark an operator as one that may be committed."""
    run.status[operator] = OPEN
    run.tally[0] += 1
