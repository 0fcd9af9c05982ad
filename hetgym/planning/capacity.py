"""Capacity: plans that fit the memory of the devices.

While operators are placed, a device is known to hold the weights of its operators. What else it will hold at its
fullest moment, outputs and copies, only a simulation tells. So a planner works with *room*, the capacity at first, for
weights alone, and has less of it in the next round where the simulated plan exceeds the capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from hetgym._types import FloatArray
from hetgym.errors import OutOfMemory
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Runtime, simulate
from hetgym.sim import runtime as as_runtime

ROUNDS = 8
"""Attempts to plan with less room."""

RESERVE = 1.1
"""Room taken away for each byte that is missing."""


def limited(problem: Problem, runtime: Runtime) -> bool:
    """True if the runtime enforces capacities and some plan could exceed one."""
    if runtime.memory != "enforce":
        return False
    everything = problem.weight_bytes.sum() + problem.output_bytes.sum() + problem.edge_bytes.sum()
    return bool((problem.memory_capacity < everything).any())


def without_limits(runtime: str | Runtime) -> Runtime:
    """A runtime that does not enforce capacities."""
    switches = as_runtime(runtime)
    return replace(switches, memory="off") if switches.memory == "enforce" else switches


def unlimited(runtime: str | Runtime) -> Runtime:
    """A runtime without limits of memory, and without noise: what planners count on before memory matters."""
    return replace(without_limits(runtime), noise=0.0, seed=0)


def missing(problem: Problem, schedule: Schedule, runtime: Runtime) -> FloatArray:
    """[d] bytes by which a schedule's simulation exceeds each device's capacity, 0 where it fits."""
    peak = simulate(problem, _bare(schedule), replace(runtime, memory="track")).memory.peak
    excess: FloatArray = np.maximum(peak - problem.memory_capacity, 0.0)
    return excess


def fitted(problem: Problem, runtime: Runtime, place: Callable[[FloatArray], Schedule]) -> Schedule:
    """The schedule of a planner, which fits if the runtime enforces capacities.

    Args:
        problem: the problem.
        runtime: the runtime that will run the schedule.
        place: plans with so much room for weights on each device [d], in bytes; the room may be too small for all.

    Raises:
        OutOfMemory: no plan that fits was found; the message says what the last one lacks.
    """
    room = np.array(problem.memory_capacity)
    if not limited(problem, runtime):
        return place(np.full_like(room, np.inf))
    for _ in range(ROUNDS):
        schedule = place(room)
        excess = missing(problem, schedule, runtime)
        if not excess.any():
            return schedule
        room = room - RESERVE * excess
    raise nothing_fits(problem, excess)


def those_that_fit(planners: Iterable[Callable[[], Schedule]], *known: Schedule) -> list[Schedule]:
    """The schedules of the planners that find one that fits, behind those that are known.

    Raises:
        OutOfMemory: there is none; as the last planner says.
    """
    plans, error = list(known), None
    for planner in planners:
        try:
            plans.append(planner())
        except OutOfMemory as found:
            error = found
    if error is not None and not plans:
        raise error
    return plans


def nothing_fits(problem: Problem, excess: FloatArray) -> OutOfMemory:
    """The error of a planner that found no plan that fits; it says what is missing.

    Args:
        problem: the problem.
        excess: [d] bytes that the last attempt lacks on each device.
    """
    weights, memory = float(problem.weight_bytes.sum()), float(problem.memory_capacity.sum())
    if weights > memory:
        return OutOfMemory(
            f"no plan fits: the weights take {_gigabytes(weights)}, and all devices together have "
            f"{_gigabytes(memory)}; {_gigabytes(weights - memory)} are missing"
        )
    d = int(np.argmax(excess))
    return OutOfMemory(
        f"no plan fits: the last attempt lacks {_gigabytes(excess[d])} on device {d} ({problem.device_names[d]!r}), "
        f"which has {_gigabytes(problem.memory_capacity[d])}"
    )


def _gigabytes(amount: float) -> str:
    return f"{amount / 1e9:.4g} GB"


def _bare(schedule: Schedule) -> Schedule:
    """The placement and orders of a schedule, without planned times."""
    return Schedule(schedule.assignment, order=schedule.order, priority=schedule.priority)
