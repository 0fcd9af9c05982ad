"""Filling: plans for devices that do not hold everything each, with as few transfers as memory allows.

Searches that move some operators at a time seldom find them: every plan between a repaired one and these is worse.
"""

from collections.abc import Iterator

import numpy as np

from hetgym._sums import summed
from hetgym._types import FloatArray, IntArray
from hetgym.planning.capacity import RESERVE, ROUNDS, missing, without_limits
from hetgym.planning.list_scheduling import place_by_priority
from hetgym.planning.ranks import upward_rank
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim.runtime import Runtime


def single_devices(problem: Problem, runtime: Runtime) -> Iterator[Schedule]:
    """Everything on one device, for each device that can run and hold it all, the fastest first."""
    total = problem.cost.sum(axis=0) + problem.partition_overhead
    alike: set[tuple[float, float]] = set()
    for device in np.argsort(total, kind="stable").tolist():
        kind = float(total[device]), float(problem.memory_capacity[device])
        if np.isinf(kind[0]) or kind in alike or problem.model_bytes > kind[1]:
            continue
        alike.add(kind)
        plan = _placed(problem, np.full(problem.num_operators, device, np.int32), runtime)
        if not missing(problem, plan, runtime).any():
            yield plan


def filled_in_order(problem: Problem, runtime: Runtime) -> Iterator[Schedule]:
    """Cuts of the topological order: one device is filled, then the next one; those that fit.

    Devices come in the order of their total run times, of their memory, the largest first, and of the problem.
    """
    d, able = problem.num_devices, np.isfinite(problem.cost)
    total = np.where(able, problem.cost, 0.0).sum(axis=0) + np.where(able, 0.0, problem.mean_cost[:, None]).sum(axis=0)
    orders = (np.argsort(total, kind="stable"), np.argsort(-problem.memory_capacity, kind="stable"), np.arange(d))
    for order in dict.fromkeys(tuple(order.tolist()) for order in orders):
        room = np.array(problem.memory_capacity)
        for _ in range(ROUNDS):
            assignment = _filled(problem, order, room)
            if assignment is None:
                break
            plan = _placed(problem, assignment, runtime)
            excess = missing(problem, plan, runtime)
            if not excess.any():
                yield plan
                break
            room = room - RESERVE * excess


def plans_with_few_transfers(problem: Problem, runtime: Runtime) -> Iterator[Schedule]:
    """Those of :func:`single_devices` and :func:`filled_in_order`."""
    yield from single_devices(problem, runtime)
    yield from filled_in_order(problem, runtime)


def _placed(problem: Problem, assignment: IntArray, runtime: Runtime) -> Schedule:
    return place_by_priority(problem, upward_rank(problem), fixed=assignment, runtime=without_limits(runtime))


def _filled(problem: Problem, order: tuple[int, ...], room: FloatArray) -> IntArray | None:
    """[n] devices if each takes operators until their weights fill its room; None if that is not enough for all."""
    assignment = np.empty(problem.num_operators, np.int32)
    able, weight, shared = np.isfinite(problem.cost), problem.weight_bytes.tolist(), problem.shared_weights
    first, weights, sizes = shared.operator_pointer.tolist(), shared.weight.tolist(), shared.size.tolist()
    place, held = 0, 0.0
    there: set[int] = set()
    for i in problem.topological_order.tolist():
        mine = weights[first[i] : first[i + 1]]
        need = weight[i] - summed(sizes[k] for k in mine if k in there)
        while not able[i, order[place]] or held + need > room[order[place]]:
            place, held, there, need = place + 1, 0.0, set(), weight[i]
            if place == len(order):
                return None
        assignment[i] = order[place]
        held += need
        there.update(mine)
    return assignment
