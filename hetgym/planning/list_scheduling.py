"""List scheduling: operators in a given order, each where it finishes first.

The kernels fill a :class:`~hetgym.planning.timeline.Timeline`; :func:`place_by_priority` is the whole scheduler.
"""

from contextlib import nullcontext

import numpy as np

from hetgym._kernels.interpreted import interpreted
from hetgym._kernels.jit import lean, step
from hetgym._types import FloatArray, IntArray, as_numbers, frozen
from hetgym.errors import ConfigError, InvalidSchedule, shown
from hetgym.planning.ranks import list_order
from hetgym.planning.timeline import Timeline, book, filled, fits, roomiest, start_on
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import Runtime


def place_by_priority(
    problem: Problem,
    priority: FloatArray,
    fixed: IntArray | None = None,
    bonus: FloatArray | None = None,
    insertion: bool = True,
    runtime: str | Runtime = "classic",
) -> Schedule:
    """Take operators by descending priority and put each where it finishes first.

    Args:
        priority: [n] priorities, larger first; an operator never comes before its predecessors.
        fixed: [n] prescribed device, -1 where free; all free by default. Operators for whose weights it has no room
            are free, too.
        bonus: [n, d] added to finish times when devices are compared [s]; none by default.
        insertion: true if idle gaps may be filled.
        runtime: the runtime that will run the schedule; its transfers, contention and dispatch count in finish times.

    Raises:
        ConfigError: priorities or additions of another shape, or that are not numbers.
        InvalidSchedule: a prescribed device that does not exist or cannot run its operator.
        OutOfMemory: the runtime enforces capacities, and no plan that fits was found.

    >>> from hetgym.planning import ranks
    >>> from hetgym.workloads import textbook
    >>> problem = textbook("topcuoglu")
    >>> place_by_priority(problem, ranks.upward_rank(problem)).makespan  # this is HEFT
    80.0
    """
    n, d = problem.num_operators, problem.num_devices
    order = list_order(problem.arrays, numbers("priority", priority, (n,)))
    chosen = np.full(n, -1, np.int32) if fixed is None else devices_of(problem, fixed, free=True)
    extra = np.zeros((n, d)) if bonus is None else numbers("bonus", bonus, (n, d))

    def fill(placed: Timeline) -> None:
        place_in_order(problem.arrays, placed, order, chosen, extra, insertion)

    return filled(problem, runtime, fill)


def numbers(name: str, values: object, shape: tuple[int, ...]) -> FloatArray:
    """A writable array of numbers, which kernels read without looking at its shape.

    Raises:
        ConfigError: it has another shape, or holds what is not a number.
    """
    array = as_numbers(values, f"{name} is not an array of numbers", ConfigError)
    if array.shape != shape:
        raise ConfigError(f"{name} has shape {list(array.shape)}, expected {list(shape)}")
    if np.isnan(array).any():
        raise ConfigError(f"{name} holds nan")
    return array


def devices_of(problem: Problem, assignment: object, free: bool = False) -> IntArray:
    """A writable array of devices, each able to run its operator.

    Args:
        free: true if -1 stands for any device.

    Raises:
        InvalidSchedule: another shape, or a device that does not exist or cannot run its operator.
    """
    n = problem.num_operators
    try:
        found = np.asarray(assignment)
    except ValueError:  # rows of several lengths
        found = np.zeros(0)
    if found.shape != (n,) or found.dtype.kind not in "iuf":
        raise InvalidSchedule(f"a placement is {shown(assignment)}; it must hold one device for each of {n} operators")
    with np.errstate(invalid="ignore") if found.dtype.kind == "f" else nullcontext():
        devices: IntArray = found.astype(np.int32)
    i = _first_misplaced(problem.cost, devices, free)
    if i < 0 and found.dtype != np.int32 and not (devices == found).all():
        i = int(np.argmax(devices != found))
    if i >= 0:
        raise InvalidSchedule(
            f"a placement puts operator {i} ({problem.operator_names[i]!r}) on device {found[i]:g}, which does not "
            "exist or cannot run it"
        )
    return devices


@lean
def _first_misplaced(cost: FloatArray, devices: IntArray, free: bool) -> int:
    """The first operator on a device that does not exist or cannot run it, but for -1 if that is free; -1 for none."""
    for i in range(len(devices)):
        device = devices[i]
        if free and device == -1:
            continue
        if device < 0 or device >= cost.shape[1] or cost[i, device] == np.inf:
            return i
    return -1


def fastest_device(problem: Problem, operators: IntArray | list[int] | None = None) -> int:
    """The device that can run most of some operators, and among those runs them in the least time in sum.

    The time to enter a partition is added once. Ties go to the smaller device. By default the operators are all.
    """
    cost = problem.cost if operators is None else frozen(problem.cost[operators])
    return int(_fastest_device(cost, problem.partition_overhead))


@interpreted
@lean
def _fastest_device(cost: FloatArray, entry: FloatArray) -> int:
    best, most, least = 0, -1, np.inf
    for a in range(cost.shape[1]):
        count, total = 0, entry[a]
        for i in range(cost.shape[0]):
            if cost[i, a] < np.inf:
                count += 1
                total += cost[i, a]
        if count > most or (count == most and total < least):
            best, most, least = a, count, total
    return best


def single_device_placement(problem: Problem) -> IntArray:
    """[n] the fastest device of all; for operators that it cannot run, their own fastest device."""
    device = fastest_device(problem)
    able = np.isfinite(problem.cost[:, device])
    return np.where(able, device, np.argmin(problem.cost, axis=1)).astype(np.int32)


@lean
def place_in_order(
    p: ProblemArrays, t: Timeline, order: IntArray, fixed: IntArray, bonus: FloatArray, insertion: bool
) -> float:
    """Place operators one after the other, each where it finishes first.

    Args:
        t: filled in; what it already holds stays.
        order: operators in a topological order.
        fixed: [n] device that an operator must take if that has room, -1 where it is free to choose.
        bonus: [n, d] added to the finish time when devices are compared [s]; ties go to the smaller device.

    Returns:
        Finish of the last of these operators [s].
    """
    makespan, _ = place_within(p, t, order, fixed, bonus, insertion, bonus, np.inf)
    return makespan


# Before each iteration `t` holds what it held at first and the `placed` operators before this one, and `makespan` is
# the latest finish among the latter. The loop ends behind the last operator, or as soon as an operator's finish and
# the least time from there to the end exceed the limit: then no schedule that goes on from here can keep it.
@step
def place_within(
    p: ProblemArrays,
    t: Timeline,
    order: IntArray,
    fixed: IntArray,
    bonus: FloatArray,
    insertion: bool,
    tail: FloatArray,
    limit: float,
) -> tuple[float, int]:
    """As :func:`place_in_order`, but give up as soon as the makespan must exceed a limit.

    Args:
        t, order, fixed, bonus, insertion: as there.
        tail: [n, d] a lower bound on the time from an operator's finish on a device to the end [s].
        limit: largest makespan of interest [s]; inf to never give up.

    Returns:
        Finish of the last of these operators [s], inf where the limit broke; and the number that were placed.
    """
    makespan = 0.0
    placed = 0
    for operator in order:
        device, start = earliest_finish(p, t, operator, fixed[operator], bonus, insertion)
        book(p, t, operator, device, start)
        finish = start + p.cost[operator, device]
        makespan = max(makespan, finish)
        placed += 1
        if finish + tail[operator, device] > limit:
            return np.inf, placed
    return makespan, placed


@step
def earliest_finish(
    p: ProblemArrays, t: Timeline, operator: int, chosen: int, bonus: FloatArray, insertion: bool
) -> tuple[int, float]:
    """The device of least finish time plus bonus for an operator, ties to the smaller, and its start there [s].

    Devices without room for its weights are considered only if none has room.

    Args:
        t: holds the operator's predecessors.
        chosen: the device that it must take if that has room, -1 if it is free to choose.
        bonus: [n, d] added to the finish time when devices are compared [s].
    """
    d = p.cost.shape[1]
    if chosen >= 0 and not fits(t, operator, chosen):
        chosen = -1
    best_device, best_start, best_key = d, 0.0, np.inf
    made = 0.0  # when the last input has been produced, before which the operator starts on no device
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        made = max(made, t.finish[p.predecessor[k]])
    for device in range(max(chosen, 0), chosen + 1 if chosen >= 0 else d):
        duration = p.cost[operator, device]
        if chosen < 0 and (duration == np.inf or not fits(t, operator, device)):
            continue
        if best_device < d and made + duration + bonus[operator, device] >= best_key:
            continue
        start = start_on(p, t, operator, device, insertion)
        key = start + duration + bonus[operator, device]
        if best_device == d or key < best_key:
            best_device, best_start, best_key = device, start, key
    if best_device == d:
        best_device = roomiest(p, t, operator)
        best_start = start_on(p, t, operator, best_device, insertion)
    return best_device, best_start


@step
def place_fixed(p: ProblemArrays, t: Timeline, order: IntArray, fixed: IntArray, insertion: bool) -> float:
    """As :func:`place_in_order` where every operator has its device: the same result in fewer steps."""
    makespan = 0.0
    for operator in order:
        device = fixed[operator]
        book(p, t, operator, device, start_on(p, t, operator, device, insertion))
        makespan = max(makespan, t.finish[operator])
    return makespan
