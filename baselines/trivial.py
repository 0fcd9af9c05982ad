"""Controls: what any scheduler must beat."""

from __future__ import annotations

import numpy as np

from hetgym.planning.list_scheduling import place_by_priority
from hetgym.planning.ranks import upward_rank
from hetgym.planning.registry import register
from hetgym.problem import Problem
from hetgym.schedule import Schedule


@register("single-device", kind="trivial", citation="the default of every framework", complexity="O(n p)")
def single_device(problem: Problem) -> Schedule:
    """Everything on the one device that is fastest in sum.

    Operators that this device cannot run go to their own fastest device.
    """
    placeable = np.isfinite(problem.cost)
    total = np.where(placeable, problem.cost, 0.0).sum(axis=0)
    device = int(np.lexsort((total, -placeable.sum(axis=0)))[0])
    fixed = np.where(placeable[:, device], device, np.argmin(problem.cost, axis=1)).astype(np.int32)
    return place_by_priority(problem, upward_rank(problem), fixed=fixed)


@register("random", kind="trivial", citation="control", complexity="O(n p)")
def random_placement(problem: Problem, seed: int = 0) -> Schedule:
    """Every operator on a device drawn evenly from those that can run it.

    Args:
        problem: what is to be scheduled.
        seed: of the draw.
    """
    rng = np.random.default_rng(seed)
    placeable = np.isfinite(problem.cost)
    choice = (rng.random(problem.num_operators) * placeable.sum(axis=1)).astype(np.int64)
    fixed = np.argsort(~placeable, axis=1, kind="stable")[np.arange(problem.num_operators), choice].astype(np.int32)
    return place_by_priority(problem, upward_rank(problem), fixed=fixed)


@register("round-robin", kind="trivial", citation="control", complexity="O(n p)")
def round_robin(problem: Problem) -> Schedule:
    """Operators in topological order dealt to the devices in turn, passing over those that cannot run them."""
    d = problem.num_devices
    fixed = np.empty(problem.num_operators, np.int32)
    turn = 0
    for operator in problem.topological_order:
        while not np.isfinite(problem.cost[operator, turn % d]):
            turn += 1
        fixed[operator] = turn % d
        turn += 1
    return place_by_priority(problem, -problem.arrays.position.astype(np.float64), fixed=fixed, insertion=False)
