"""Decoding: a placement, or a placement and an order, becomes a schedule."""

from typing import NamedTuple

import numpy as np

from hetgym._kernels.jit import jit
from hetgym._kernels.records import record
from hetgym._types import FloatArray, IntArray
from hetgym.errors import InvalidSchedule, check_name, shown
from hetgym.planning import list_scheduling, ranks, timeline
from hetgym.planning.capacity import limited
from hetgym.planning.ready_queue import ReadyQueue, new_queue
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime
from hetgym.sim.runtime import charged

DECODES = ("insertion", "append", "bottom-level")
"""Rules by which a placement becomes a schedule: insertion or appending in the order of upward ranks, or insertion
in the order of the placement's own bottom levels."""

INSERTION, APPEND, BOTTOM_LEVEL = range(3)


def decode_placement(
    problem: Problem, assignment: IntArray, how: str = "insertion", runtime: str | Runtime = "classic"
) -> Schedule:
    """Give a placement an order and times.

    Args:
        assignment: [n] device of each operator, each able to run it.
        how: one of :data:`DECODES`.
        runtime: the runtime that will run the schedule. If it enforces capacities, operators for whose weights their
            device has no room go where they finish first.

    Raises:
        UnknownName: no such decode.
        InvalidSchedule: a device that does not exist or cannot run its operator.
        OutOfMemory: the runtime enforces capacities, and no plan that fits was found.

    >>> from hetgym.workloads import textbook
    >>> problem = textbook("topcuoglu")
    >>> decode_placement(problem, problem.cost.argmin(axis=1)).makespan
    80.0
    """
    check_name("decode", how, DECODES)
    devices = list_scheduling.devices_of(problem, assignment)
    return decode_in_order(problem, devices, decode_order(problem, devices, how), how != "append", runtime)


def decode_order(problem: Problem, assignment: IntArray, how: str) -> IntArray:
    """[n] operators in the order in which a placement is decoded; ``how`` is one of :data:`DECODES`."""
    if how == "bottom-level":
        return ranks.list_order(problem.arrays, ranks.assigned_bottom_level(problem.arrays, assignment))
    return ranks.list_order(problem.arrays, ranks.upward_rank(problem))


def decode_in_order(
    problem: Problem, assignment: IntArray, order: IntArray, insertion: bool = True, runtime: str | Runtime = "classic"
) -> Schedule:
    """Start operators in a given order, each on its device as early as it can.

    Args:
        assignment, order: [n] device of each operator, each able to run it; operators in a topological order.

    Raises:
        InvalidSchedule: a device that does not exist or cannot run its operator, or an order that is not topological.
        OutOfMemory: the runtime enforces capacities, and no plan that fits was found.
    """
    n, d = problem.num_operators, problem.num_devices
    devices, turns = list_scheduling.devices_of(problem, assignment), _topological(problem, order)

    def fill(placed: timeline.Timeline) -> None:
        list_scheduling.place_in_order(problem.arrays, placed, turns, devices, np.zeros((n, d)), insertion)

    return timeline.filled(problem, runtime, fill)


def _topological(problem: Problem, order: object) -> IntArray:
    """A writable array of operators in a topological order."""
    n = problem.num_operators
    try:
        found = np.asarray(order)
    except ValueError:  # rows of several lengths
        found = np.zeros(0)
    if found.shape != (n,) or found.dtype.kind not in "iuf" or not (np.sort(found) == np.arange(n)).all():
        raise InvalidSchedule(f"an order is {shown(order)}; it must hold each of {n} operators once")
    turns = found.astype(np.int32)
    turn = np.empty(n, np.int32)
    turn[turns] = np.arange(n)
    if (turn[problem.edge_source] > turn[problem.edge_target]).any():
        raise InvalidSchedule("an order has an operator before one whose output it needs")
    return turns


def replanned(problem: Problem, plan: Schedule, runtime: str | Runtime) -> Schedule:
    """A plan with times that was made for ``classic``, timed for another runtime.

    Operators keep their devices and their order, unless they must move as the runtime enforces capacities.

    Raises:
        OutOfMemory: the runtime enforces capacities, and no plan that fits was found.
    """
    switches = charged(as_runtime(runtime), problem)
    if switches.is_classic:
        return plan
    if not limited(problem, switches):
        return timeline.with_times(problem, plan, switches)
    return decode_in_order(problem, plan.assignment, start_order(problem, plan, "order"), False, switches)


def start_order(problem: Problem, schedule: Schedule, how: str) -> IntArray:
    """[n] operators in the order in which a schedule's placement is decoded.

    Args:
        schedule: with start times.
        how: ``"order"``: by the schedule's own start times, in which insertion can only make it shorter;
            ``"insertion"``: by upward rank; ``"bottom-level"``: by the bottom levels of its placement.
    """
    if how != "order":
        return decode_order(problem, schedule.assignment, how)
    assert schedule.start is not None and schedule.finish is not None
    return by_start(problem, schedule.start, schedule.finish)


def by_start(problem: Problem, start: FloatArray, finish: FloatArray) -> IntArray:
    """[n] operators by start, then finish, [n] each, then topological position."""
    return np.lexsort((problem.arrays.position, finish, start)).astype(np.int32)


@record
class Decoder(NamedTuple):
    """What decoding a batch of placements needs besides the problem."""

    placed: timeline.Timeline  # overwritten by each placement
    queue: ReadyQueue  # scratch
    level: FloatArray  # [n] scratch: bottom levels of a placement [s]
    order: IntArray  # [n] the operators by upward rank, or scratch where bottom levels decide


def new_decoder(problem: Problem, rank: FloatArray) -> Decoder:
    """Allocate for a problem and its upward ranks [n]."""
    n = problem.num_operators
    order = ranks.list_order(problem.arrays, rank)
    return Decoder(timeline.new_timeline(problem), new_queue(n), np.empty(n), order)


@jit
def decode_all(
    p: ProblemArrays, decoder: Decoder, assignments: IntArray, how: int, ordered: bool
) -> tuple[FloatArray, IntArray, IntArray]:
    """Decode a batch of placements.

    Args:
        assignments: [batch, n] devices.
        how: position in :data:`DECODES`.
        ordered: true to return device orders.

    Returns:
        [batch] makespans [s]; [batch, n] device orders, one device after the other, and [batch, d + 1] offsets of the
        devices in them, which have no rows unless ``ordered``.
    """
    n, d = p.cost.shape
    batch = len(assignments)
    makespans = np.empty(batch)
    orders = np.empty((batch if ordered else 0, n), np.int32)
    pointers = np.empty((batch if ordered else 0, d + 1), np.int32)
    for row in range(batch):
        if how == BOTTOM_LEVEL:
            ranks.write_bottom_level(p, assignments[row], decoder.level)
            ranks.write_list_order(p, decoder.queue, decoder.level, decoder.order)
        timeline.clear(decoder.placed)
        makespans[row] = list_scheduling.place_fixed(p, decoder.placed, decoder.order, assignments[row], how != APPEND)
        if ordered:
            timeline.write_device_order(decoder.placed, orders[row], pointers[row])
    return makespans, orders, pointers
