"""Controls, which any scheduler must beat."""

from __future__ import annotations

import numpy as np

from hetgym.planning.list_scheduling import place_by_priority, single_device_placement
from hetgym.planning.ranks import upward_rank
from hetgym.problem import Problem
from hetgym.schedule import Schedule


def single_device(problem: Problem) -> Schedule:
    """Everything on the one device that is fastest in sum.

    Operators that this device cannot run go to their own fastest device.
    """
    return place_by_priority(problem, upward_rank(problem), fixed=single_device_placement(problem))


def random_placement(problem: Problem, seed: int = 0) -> Schedule:
    """Every operator on a device drawn evenly from those that can run it.

    Args:
        problem: the problem to schedule.
        seed: of the draw.
    """
    rng = np.random.default_rng(seed)
    placeable = np.isfinite(problem.cost)
    choice = (rng.random(problem.num_operators) * placeable.sum(axis=1)).astype(np.int64)
    fixed = np.argsort(~placeable, axis=1, kind="stable")[np.arange(problem.num_operators), choice].astype(np.int32)
    return place_by_priority(problem, upward_rank(problem), fixed=fixed)


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
