"""Capacity: plans that fit the memory of the devices.

While operators are placed, a device is known to hold the weights of its operators. Only a simulation tells how many
outputs and copies it will hold at its fullest moment. So a planner works with *room* for weights alone: the capacity at
first, and less of it in the next round where the simulated plan exceeds the capacity.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from hetgym._types import FloatArray
from hetgym.errors import OutOfMemory, size
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim.memory import excess
from hetgym.sim.runtime import Runtime
from hetgym.sim.runtime import runtime as as_runtime
from hetgym.sim.simulation import simulate

ROUNDS = 8  # Attempts to plan with less room
RESERVE = 1.1  # Room taken away for each byte that is missing
PACKING = 3000, 400_000  # Most plans that packed tries, and most operators that it launches in them


def limited(problem: Problem, runtime: Runtime) -> bool:
    """True if the runtime enforces capacities and some plan could exceed one."""
    if runtime.memory != "enforce":
        return False
    everything = problem.model_bytes + problem.output_bytes.sum() + problem.edge_bytes.sum()
    return bool((problem.memory_capacity < everything).any())


def without_limits(runtime: str | Runtime) -> Runtime:
    """A runtime that does not enforce capacities."""
    switches = as_runtime(runtime)
    return replace(switches, memory="off") if switches.memory == "enforce" else switches


def unlimited(runtime: str | Runtime) -> Runtime:
    """A runtime without limits of memory, and without noise, as planners assume before memory matters."""
    return replace(without_limits(runtime), noise=0.0, seed=0)


def missing(problem: Problem, schedule: Schedule, runtime: Runtime) -> FloatArray:
    """[d] bytes by which a schedule's simulation exceeds each device's capacity, 0 where it fits."""
    trace = simulate(problem, _bare(schedule), replace(runtime, memory="track"))
    return excess(trace, trace.memory)


def fitted(problem: Problem, runtime: Runtime, place: Callable[[FloatArray], Schedule]) -> Schedule:
    """The schedule of a planner, which fits if the runtime enforces capacities.

    Args:
        place: plans under these capacities for weights [d], in bytes; they may be too small for all.

    Raises:
        OutOfMemory: no plan that fits was found; the message says what the last one lacks.
    """
    room = np.array(problem.memory_capacity)
    if not limited(problem, runtime):
        return place(np.full_like(room, np.inf))
    for _ in range(ROUNDS):
        schedule = place(room)
        lacks = missing(problem, schedule, runtime)
        if not lacks.any():
            return schedule
        room = room - RESERVE * lacks
    raise nothing_fits(problem, lacks)


def packed(problem: Problem, schedule: Schedule, runtime: Runtime) -> Schedule | None:
    """A plan that fits, reached from one that does not by moves and exchanges of operators; None if none was found.

    A change is kept if the devices together lack no more bytes than before. Plans are not chosen for their makespans.
    """
    assert schedule.start is not None
    if problem.model_bytes > problem.total_memory:
        return None
    rng, n = np.random.default_rng(0), problem.num_operators
    turns = np.lexsort((problem.arrays.position, schedule.start))
    devices, lacks = schedule.assignment.copy(), float(missing(problem, schedule, runtime).sum())
    for _ in range(min(PACKING[0], PACKING[1] // n)):
        i, j = rng.integers(n, size=2)
        changed = devices.copy()
        changed[i] = devices[j] if rng.random() < 0.5 else rng.integers(problem.num_devices)
        changed[j] = devices[i] if rng.random() < 0.5 else devices[j]
        if np.isinf(problem.cost[[i, j], changed[[i, j]]]).any() or (changed == devices).all():
            continue
        order = [turns[changed[turns] == device] for device in range(problem.num_devices)]
        plan = Schedule(changed, order=order)
        left = float(missing(problem, plan, runtime).sum())
        if left <= lacks:
            devices, lacks = changed, left
        if lacks == 0.0:
            return plan
    return None


def those_that_fit(planners: Iterable[Callable[[], Schedule]], *known: Schedule) -> list[Schedule]:
    """The known schedules, then those of planners that find one that fits; if none is left, the last OutOfMemory."""
    plans, error = list(known), None
    for planner in planners:
        try:
            plans.append(planner())
        except OutOfMemory as found:
            error = found
    if error is not None and not plans:
        raise error
    return plans


def nothing_fits(problem: Problem, lacks: FloatArray) -> OutOfMemory:
    """The error of a planner whose last attempt to find a plan that fits lacks these bytes on each device, [d]."""
    weights, memory = problem.model_bytes, problem.total_memory
    if weights > memory:
        return OutOfMemory(
            f"no plan fits: the weights take {size(weights, 4)}, and all devices together have "
            f"{size(memory, 4)}; {size(weights - memory, 4)} are missing"
        )
    able = np.where(np.isfinite(problem.cost), problem.memory_capacity, -np.inf).max(axis=1)
    if (problem.weight_bytes > able).any():
        i = int(np.argmax(problem.weight_bytes - able))
        return OutOfMemory(
            f"no plan fits: operator {problem.operator_names[i]!r} reads {size(problem.weight_bytes[i], 4)} of "
            f"weights, the largest device that can run it has {size(able[i], 4)}"
        )
    d = int(np.argmax(lacks))
    return OutOfMemory(
        f"no plan was found that fits: the last attempt lacks {size(lacks[d], 4)} on device {d} "
        f"({problem.device_names[d]!r}), which has {size(problem.memory_capacity[d], 4)}"
    )


def _bare(schedule: Schedule) -> Schedule:
    """The placement and orders of a schedule, without planned times."""
    return Schedule(schedule.assignment, order=schedule.order, priority=schedule.priority)
