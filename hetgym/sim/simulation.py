"""simulate: run a schedule on the simulated runtime and keep everything that happened."""

import numpy as np

from hetgym._types import FloatArray, IntArray, frozen
from hetgym.problem import Problem
from hetgym.schedule import Schedule, validate
from hetgym.sim.run import new_workspace, run, setting
from hetgym.sim.runtime import Runtime, charged
from hetgym.sim.runtime import runtime as as_runtime
from hetgym.sim.trace import Trace, traced


def simulate(problem: Problem, schedule: Schedule, runtime: str | Runtime = "classic") -> Trace:
    """Execute a schedule in simulation.

    Planned times, if the schedule has any, only give the device orders: every operator starts as soon as it can.

    Raises:
        InvalidSchedule: the schedule is not legal for this problem.
        ProblemError: not a problem.
        UnknownName: no preset of that name.
        OutOfMemory: the runtime enforces capacities, and a device would exceed its own.

    >>> problem = Problem.from_arrays([[2.0, 3.0], [4.0, 1.0]], [(0, 1, 5.0)], bandwidth=10.0)
    >>> simulate(problem, Schedule(assignment=[0, 1], order=[[0], [1]])).makespan
    3.5
    """
    validate(problem, schedule, memory=False)
    return run_schedule(problem, schedule, charged(as_runtime(runtime), problem))


def run_schedule(problem: Problem, schedule: Schedule, switches: Runtime) -> Trace:
    """As :func:`simulate`, for a schedule that is known to be legal: nothing is checked but the memory."""
    problem = at_speed(problem, schedule.speed)
    how = setting(problem, switches, schedule.priority is not None)
    workspace = new_workspace(problem.arrays, how)
    assignment = schedule.assignment.copy()
    order, pointer, priority = dispatch_order(problem, schedule)
    run(problem.arrays, workspace, assignment[None], order[None], pointer[None], priority[None], how)
    if how.switches.work_conserving:
        rows = _launch_order(problem, assignment, workspace.progress.slot)
    else:
        rows = schedule.device_order(problem)
    return traced(problem, assignment, workspace.state, switches, schedule.scheduler, rows, schedule.speed)


def at_speed(problem: Problem, speed: FloatArray | None) -> Problem:
    """A problem whose operators take their run times over [n] speeds; itself if there are none."""
    return problem if speed is None else problem.replace(cost=problem.cost / speed[:, None])


def _launch_order(problem: Problem, assignment: IntArray, slot: IntArray) -> tuple[IntArray, ...]:
    """Device orders from each operator's position in the order of its device."""
    ends = np.cumsum(np.bincount(assignment, minlength=problem.num_devices))
    return tuple(np.split(frozen(np.lexsort((slot, assignment)).astype(np.int32)), ends[:-1]))


def dispatch_order(problem: Problem, schedule: Schedule) -> tuple[IntArray, IntArray, FloatArray]:
    """A schedule's order and priorities as the kernel takes them.

    Returns:
        [n] operators, device after device, and [d + 1] starts, empty for a schedule by priorities;
        and [n] priorities, which decrease along each device's order if the schedule has one.
    """
    n = problem.num_operators
    if schedule.priority is not None:
        return np.zeros(n, np.int32), np.zeros(problem.num_devices + 1, np.int32), np.array(schedule.priority)
    order, pointer = flat_order(schedule.device_order(problem))
    priority = np.empty(n)
    priority[order] = -np.arange(n, dtype=np.float64)
    return order, pointer, priority


def flat_order(order: tuple[IntArray, ...]) -> tuple[IntArray, IntArray]:
    """Device orders as the kernel takes them: [n] operators, device after device, and [d + 1] starts."""
    pointer = np.zeros(len(order) + 1, np.int32)
    np.cumsum([len(row) for row in order], out=pointer[1:])
    return np.concatenate(order).astype(np.int32), pointer
