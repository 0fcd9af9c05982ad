"""Timeline: a partial schedule, to which operators are added one at a time.

Start times follow HEFT's rules. *Insertion*: the first idle gap of the device that is long enough; *append*: after the
device's last operator. Whatever places operators does so through these functions.

A timeline follows the classic model, in which transfers never wait, unless it is made for another runtime: then it
carries :class:`~hetgym.planning.bookings.Bookings`, and kernels that place operators are compiled once more for these.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from hetgym._kernels.interpreted import interpreted
from hetgym._kernels.jit import lean, step, variant
from hetgym._kernels.records import record
from hetgym._types import FloatArray, IntArray, frozen
from hetgym.planning import bookings, intervals
from hetgym.planning.bookings import NOTHING, Bookings, new_bookings
from hetgym.planning.capacity import fitted, without_limits
from hetgym.planning.intervals import Intervals, new_intervals
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule, validate
from hetgym.sim import PRESETS, Runtime
from hetgym.sim import runtime as as_runtime
from hetgym.sim.runtime import runtime_name
from hetgym.sim.simulation import run_schedule


@record
class Timeline(NamedTuple):
    """A partial schedule."""

    assignment: IntArray  # [n] device, -1 while not placed
    # start, finish: [n] times of placed operators [s]
    start: FloatArray
    finish: FloatArray
    busy: Intervals  # occupied intervals of each device; see Intervals
    moves: Bookings = NOTHING  # transfers, unless they follow the classic model


def new_timeline(problem: Problem, runtime: Runtime = PRESETS["classic"], room: FloatArray | None = None) -> Timeline:
    """Allocate an empty timeline.

    Args:
        room: [d] room for weights on each device if the runtime enforces capacities [byte].
    """
    n, d = problem.cost.shape
    return Timeline(
        assignment=np.full(n, -1, np.int32),
        start=np.zeros(n),
        finish=np.zeros(n),
        busy=new_intervals(n, d),
        moves=NOTHING if runtime.plans_as_classic else new_bookings(problem, runtime, room),
    )


def filled(problem: Problem, runtime: str | Runtime, fill: Callable[[Timeline], object]) -> Schedule:
    """The schedule of an empty timeline for a runtime, which a function fills; it fits if capacities are enforced.

    Raises:
        OutOfMemory: the runtime enforces capacities, and no plan that fits was found.
    """
    switches = as_runtime(runtime)

    def place(room: FloatArray) -> Schedule:
        placed = new_timeline(problem, switches, room)
        fill(placed)
        return planned(problem, placed, switches)

    return fitted(problem, switches, place)


def planned(problem: Problem, placed: Timeline, runtime: Runtime = PRESETS["classic"], scheduler: str = "") -> Schedule:
    """The schedule that a complete timeline holds: placement, device orders and times.

    Args:
        runtime: the runtime that will run the schedule; under any but ``classic`` the times are simulated.
        scheduler: name that the schedule carries.
    """
    rows = rows_of(*device_order(placed))
    if runtime.is_classic:
        return Schedule.timed(placed.assignment, rows, placed.start, placed.finish, scheduler)
    return as_run(problem, Schedule.timed(placed.assignment, rows, None, None, scheduler), runtime)


def with_times(problem: Problem, schedule: Schedule, runtime: str | Runtime = "classic") -> Schedule:
    """The same placement and device orders, every operator as early as a runtime lets it start.

    Plans do not know the noise: times are those without it. Where devices do not keep to an order, the order becomes
    the one in which they launch the operators. Whether the schedule fits the memory is not checked.
    """
    bare = schedule
    if schedule.start is not None:
        bare = Schedule(
            schedule.assignment,
            schedule.order,
            scheduler=schedule.scheduler,
            lower_bound=schedule.lower_bound,
            speed=schedule.speed,
        )
    validate(problem, bare, memory=False)
    return as_run(problem, bare, as_runtime(runtime))


def timed_for(problem: Problem, schedule: Schedule, runtime: str | Runtime = "classic") -> Schedule:
    """A schedule whose times are those of a runtime: the schedule itself if it has them, else :func:`with_times`."""
    known = schedule.start is not None and schedule.model == runtime_name(as_runtime(runtime))
    return schedule if known else with_times(problem, schedule, runtime)


def as_run(problem: Problem, schedule: Schedule, runtime: Runtime) -> Schedule:
    """As :func:`with_times`, for a schedule that is known to be legal and has an order, which is not checked."""
    if runtime.noise > 0.0:
        runtime = replace(runtime, noise=0.0, seed=0)
    trace = run_schedule(problem, schedule, without_limits(runtime))
    assert trace.order is not None
    timed = Schedule.timed(
        schedule.assignment,
        trace.order,
        trace.start,
        trace.finish,
        schedule.scheduler,
        runtime_name(runtime),
        schedule.lower_bound,
        runtime.streams,
    )
    return timed if schedule.speed is None else replace(timed, speed=schedule.speed)


def of_schedule(problem: Problem, schedule: Schedule) -> Timeline:
    """The timeline of a schedule that has start times: the inverse of :func:`planned`."""
    assert schedule.start is not None
    placed = new_timeline(problem)
    for row in schedule.device_order(problem):
        operators = np.array(row, np.int32)
        _book_rows(problem.arrays, placed, operators, np.array(schedule.assignment, np.int32), np.array(schedule.start))
    return placed


@lean
def _book_rows(p: ProblemArrays, t: Timeline, operators: IntArray, assignment: IntArray, start: FloatArray) -> None:
    for i in operators:
        book(p, t, i, assignment[i], start[i])


@lean
def append(p: ProblemArrays, t: Timeline, operator: int, device: int, now: float) -> None:
    """Place an operator on a device that is idle from ``now`` on [s], as soon as its inputs are there."""
    book(p, t, operator, device, max(now, start_on(p, t, operator, device, False)))


def carries_bookings(*kinds: Any) -> bool:
    """True if a timeline with bookings is among arguments of these Numba types."""
    timelines = (kind.kind for kind in kinds if getattr(kind, "kind", None) is not None)
    return any(
        kind.types[kind.fields.index("moves")].kind.instance_class is Bookings
        for kind in timelines
        if kind.instance_class is Timeline
    )


# Where transfers are booked, `_clear_all` stands in for this function.
@step
def clear(t: Timeline) -> None:
    """Empty a timeline; devices have the room for weights that it took."""
    t.assignment[:] = -1
    intervals.clear(t.busy)


@variant(clear, carries_bookings)
def _clear_all(t: Timeline) -> None:
    for i in range(len(t.assignment)):
        if t.assignment[i] >= 0:
            t.moves.room[t.assignment[i]] += bookings.need(t.moves, t.assignment, i, t.assignment[i])
            t.assignment[i] = -1
    intervals.clear(t.busy)
    bookings.clear(t.moves)


# Where transfers are booked, `_copy_all` stands in for this function.
@step
def copy_into(t: Timeline, other: Timeline) -> None:
    """Make another timeline of the same size equal to this one."""
    for i in range(len(t.assignment)):  # loops, as slices of so few numbers would cost more than the copy
        other.assignment[i] = t.assignment[i]
        other.start[i] = t.start[i]
        other.finish[i] = t.finish[i]
    intervals.copy_into(t.busy, other.busy)


@variant(copy_into, carries_bookings)
def _copy_all(t: Timeline, other: Timeline) -> None:
    for i in range(len(t.assignment)):
        other.assignment[i] = t.assignment[i]
        other.start[i] = t.start[i]
        other.finish[i] = t.finish[i]
    intervals.copy_into(t.busy, other.busy)
    bookings.copy_into(t.moves, other.moves)


@step
def copy_prefix(t: Timeline, other: Timeline, turn: IntArray, first: int) -> None:
    """Make another timeline hold what this complete one, of the classic model, held before the turn of ``first``.

    Args:
        other: overwritten; devices and times of operators that it does not hold have no meaning.
        turn: [n] the operators' places in the order in which they were placed, from 0.
    """
    intervals.copy_prefix(t.busy, other.busy, turn, first)
    for i in range(len(turn)):  # all of them: a branch that cannot be foreseen would cost more
        other.assignment[i] = t.assignment[i]
        other.start[i] = t.start[i]
        other.finish[i] = t.finish[i]


# Where transfers are booked, `_data_booked` stands in for this function.
@step
def data_ready(p: ProblemArrays, t: Timeline, operator: int, device: int) -> float:
    """The time at which the outputs of the operator's predecessors, all of them placed, can be on a device [s]."""
    ready = 0.0
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        i = p.predecessor[k]
        a = t.assignment[i]  # on the same device a transfer takes no time: see the diagonals
        transfer = p.latency[a, device] + p.edge_bytes[p.predecessor_edge[k]] / p.bandwidth[a, device]
        ready = max(ready, t.finish[i] + transfer)
    return ready


@variant(data_ready, carries_bookings)
def _data_booked(p: ProblemArrays, t: Timeline, operator: int, device: int) -> float:
    return bookings.bring(p, t.moves, t.assignment, t.finish, operator, device, False)


# Where transfers are booked, `_fits_booked` stands in for this function.
@step
def fits(t: Timeline, operator: int, device: int) -> bool:
    """True if a device has room for the weights of an operator."""
    return True


@variant(fits, carries_bookings)
def _fits_booked(t: Timeline, operator: int, device: int) -> bool:
    return bool(bookings.need(t.moves, t.assignment, operator, device) <= t.moves.room[device])


# Where transfers are booked, `_roomiest_booked` stands in for this function.
@step
def roomiest(p: ProblemArrays, t: Timeline, operator: int) -> int:
    """The device with the most room for weights of those that can run an operator."""
    return 0


@variant(roomiest, carries_bookings)
def _roomiest_booked(p: ProblemArrays, t: Timeline, operator: int) -> int:
    best = -1
    for device in range(p.cost.shape[1]):
        if p.cost[operator, device] < np.inf and (best < 0 or t.moves.room[device] > t.moves.room[best]):
            best = device
    return best


@step
def accepts(p: ProblemArrays, t: Timeline, operator: int, device: int) -> bool:
    """True if an operator may go to a device that can run it: it has room, or no device has and it is the roomiest."""
    return bool(fits(t, operator, device) or roomiest(p, t, operator) == device)


@step
def earliest_start(t: Timeline, device: int, ready: float, duration: float, insertion: bool) -> float:
    """Earliest start of an operator on a device [s].

    Args:
        ready: arrival of the operator's last input [s].
        duration: run time on the device [s].
    """
    if insertion:
        return intervals.earliest_gap(t.busy, device, ready, duration)
    return max(ready, intervals.last_end(t.busy, device))


@step
def start_on(p: ProblemArrays, t: Timeline, operator: int, device: int, insertion: bool) -> float:
    """Earliest start of an operator on a device, its predecessors being placed [s]."""
    return start_after(p, t, operator, device, data_ready(p, t, operator, device), insertion)


# Where transfers are booked, `_start_booked` stands in for this function.
@step
def start_after(p: ProblemArrays, t: Timeline, operator: int, device: int, ready: float, insertion: bool) -> float:
    """Earliest start of an operator on a device where its inputs are there from ``ready`` on [s]."""
    return earliest_start(t, device, ready, p.cost[operator, device], insertion)


# The host of an accelerator has issued the k-th operator of its order after k times the dispatch time; which one this
# will be is not known yet, so operators that are already there count as being before it. A CPU is its own host.
@variant(start_after, carries_bookings)
def _start_booked(p: ProblemArrays, t: Timeline, operator: int, device: int, ready: float, insertion: bool) -> float:
    dispatch, duration = t.moves.dispatch[0], p.cost[operator, device]
    if p.asynchronous[device]:
        return earliest_start(t, device, max(ready, dispatch * (t.busy.size[device] + 1)), duration, insertion)
    return float(earliest_start(t, device, ready, dispatch + duration, insertion) + dispatch)


# Where transfers are booked, `_start_now` stands in for this function: arrivals change with every booking.
@step
def start_by(p: ProblemArrays, t: Timeline, arrival: FloatArray, operator: int, device: int, insertion: bool) -> float:
    """As :func:`start_on`, where ``arrival`` holds the times at which all inputs can be on each device, [n, d] [s]."""
    return start_after(p, t, operator, device, arrival[operator, device], insertion)


@variant(start_by, carries_bookings)
def _start_now(
    p: ProblemArrays, t: Timeline, arrival: FloatArray, operator: int, device: int, insertion: bool
) -> float:
    return start_on(p, t, operator, device, insertion)


# Where transfers are booked, `_book_all` stands in for this function.
@step
def book(p: ProblemArrays, t: Timeline, operator: int, device: int, start: float) -> None:
    """Place an operator on a device.

    Args:
        device: a device that can run it and is idle for its duration.
        start: its start [s].
    """
    finish = start + p.cost[operator, device]
    t.assignment[operator] = device
    t.start[operator] = start
    t.finish[operator] = finish
    intervals.insert(t.busy, device, operator, start, finish)


@variant(book, carries_bookings)
def _book_all(p: ProblemArrays, t: Timeline, operator: int, device: int, start: float) -> None:
    finish = start + p.cost[operator, device]
    bookings.bring(p, t.moves, t.assignment, t.finish, operator, device, True)
    t.moves.room[device] -= bookings.need(t.moves, t.assignment, operator, device)
    t.assignment[operator] = device
    t.start[operator] = start
    t.finish[operator] = finish
    intervals.insert(t.busy, device, operator, _taken(p, t, operator), finish)


@step
def _taken(p: ProblemArrays, t: Timeline, operator: int) -> float:
    """Time at which a placed operator takes its device, which a CPU spends on the dispatch first [s]."""
    if p.asynchronous[t.assignment[operator]]:
        return float(t.start[operator])
    return float(t.start[operator] - t.moves.dispatch[0])


# Where transfers are booked, `_take_back_all` stands in for this function.
@step
def take_back(p: ProblemArrays, t: Timeline, operator: int) -> None:
    """Undo the booking of an operator, the latest one that is left."""
    intervals.remove(t.busy, t.assignment[operator], operator, t.start[operator], t.finish[operator])
    t.assignment[operator] = -1


@variant(take_back, carries_bookings)
def _take_back_all(p: ProblemArrays, t: Timeline, operator: int) -> None:
    bookings.take_back(p, t.moves, t.assignment, operator)
    device = t.assignment[operator]
    t.moves.room[device] += bookings.need(t.moves, t.assignment, operator, device)
    intervals.remove(t.busy, t.assignment[operator], operator, _taken(p, t, operator), t.finish[operator])
    t.assignment[operator] = -1


def device_order(t: Timeline) -> tuple[IntArray, IntArray]:
    """Read the device orders off a complete timeline.

    Returns:
        [n] operators, device after device, those of a device by start, finish and the turn in which they
        were placed; and [d + 1] offsets: device a has ``order[pointer[a] : pointer[a + 1]]``.
    """
    order = np.empty(len(t.assignment), np.int32)
    pointer = np.empty(len(t.busy.size) + 1, np.int32)
    write_device_order(t, order, pointer)
    return order, pointer


def rows_of(order: IntArray, pointer: IntArray) -> tuple[IntArray, ...]:
    """For each device, its operators in order, read-only, of what :func:`device_order` returns."""
    frozen(order)
    ends = pointer.tolist()
    return tuple(order[first:end] for first, end in pairwise(ends))


@interpreted
@lean
def write_device_order(t: Timeline, order: IntArray, pointer: IntArray) -> None:
    """As :func:`device_order`, into arrays ``order`` [n] and ``pointer`` [d + 1]."""
    count = 0
    for device in range(len(t.busy.size)):
        pointer[device] = count
        count = intervals.write_operators(t.busy, device, order, count)
    pointer[len(t.busy.size)] = count


@step
def end(t: Timeline) -> float:
    """Finish of the last operator that a timeline holds [s]; 0 if it holds none."""
    last = 0.0
    for device in range(len(t.busy.size)):
        last = max(last, intervals.last_end(t.busy, device))
    return last
