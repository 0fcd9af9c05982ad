"""simulate: run a schedule on the simulated runtime and keep everything that happened."""

from __future__ import annotations

import numpy as np

from hetgym._types import IntArray
from hetgym.problem import Problem
from hetgym.schedule import Schedule, validate
from hetgym.sim import kernel
from hetgym.sim.runtime import COMMUNICATION, Runtime, runtime_name
from hetgym.sim.runtime import runtime as as_runtime
from hetgym.sim.trace import Trace


def simulate(problem: Problem, schedule: Schedule, runtime: str | Runtime = "classic") -> Trace:
    """Execute a schedule in simulation.

    Planned times, if the schedule has any, only give the device orders: every operator starts as
    soon as its device, its inputs and the links allow.

    Args:
        problem: what is to be run.
        schedule: where and in which order.
        runtime: a preset's name, or the switches.

    Returns:
        Start and finish of every operator and transfer.

    Raises:
        InvalidSchedule: the schedule is not legal for this problem.
        UnknownName: no preset of that name.

    >>> problem = Problem.from_arrays([[2.0, 3.0], [4.0, 1.0]], [(0, 1, 5.0)], bandwidth=10.0)
    >>> simulate(problem, Schedule(assignment=[0, 1], order=[[0], [1]])).makespan
    3.5
    """
    switches = as_runtime(runtime)
    validate(problem, schedule)
    arrays, assignment = problem.arrays, schedule.assignment.copy()
    state = kernel.new_state(arrays)
    communication = COMMUNICATION.index(switches.communication)
    if schedule.priority is not None:
        kernel.run_priority(arrays, state, assignment, schedule.priority.copy(), communication)
    else:
        order, pointer = flat_order(schedule.device_order(problem))
        kernel.run_order(arrays, state, assignment, order, pointer, communication)
    return Trace(
        problem=problem,
        assignment=assignment,
        start=state.start,
        finish=state.finish,
        sent=state.sent,
        arrived=state.arrived,
        runtime=runtime_name(switches),
        scheduler=schedule.scheduler,
    )


def flat_order(order: tuple[IntArray, ...]) -> tuple[IntArray, IntArray]:
    """Device orders as the kernel takes them: [n] operators, device after device, and [d + 1] starts."""
    pointer = np.zeros(len(order) + 1, np.int32)
    np.cumsum([len(row) for row in order], out=pointer[1:])
    return np.concatenate(order).astype(np.int32), pointer
