"""Controls, which any scheduler must beat."""

import numpy as np

from hetgym._input.random import generator
from hetgym.planning.capacity import limited
from hetgym.planning.filling import single_devices
from hetgym.planning.list_scheduling import place_by_priority, single_device_placement
from hetgym.planning.ranks import upward_rank
from hetgym.planning.timeline import timed_for
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim.runtime import Runtime
from hetgym.sim.runtime import runtime as as_runtime


def single_device(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """Everything on the one device that is fastest in sum; where capacities are enforced, the fastest that holds all.

    If there is none, operators that the fastest device cannot run go to their own fastest device, those for which it
    has no room where they finish first.
    """
    switches = as_runtime(runtime)
    if limited(problem, switches) and (plan := next(single_devices(problem, switches), None)):
        return timed_for(problem, plan, switches)
    return place_by_priority(problem, upward_rank(problem), fixed=single_device_placement(problem), runtime=runtime)


def random_placement(problem: Problem, seed: int = 0, runtime: str | Runtime = "classic") -> Schedule:
    """Every operator on a device drawn evenly from those that can run it."""
    rng = generator(seed)
    placeable = np.isfinite(problem.cost)
    choice = (rng.random(problem.num_operators) * placeable.sum(axis=1)).astype(np.int64)
    fixed = np.argsort(~placeable, axis=1, kind="stable")[np.arange(problem.num_operators), choice].astype(np.int32)
    return place_by_priority(problem, upward_rank(problem), fixed=fixed, runtime=runtime)


def round_robin(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """Operators in topological order dealt to the devices in turn, passing over those that cannot run them."""
    d = problem.num_devices
    fixed = np.empty(problem.num_operators, np.int32)
    turn = 0
    for operator in problem.topological_order:
        while not np.isfinite(problem.cost[operator, turn % d]):
            turn += 1
        fixed[operator] = turn % d
        turn += 1
    by_turn = -problem.arrays.position.astype(np.float64)
    return place_by_priority(problem, by_turn, fixed=fixed, insertion=False, runtime=runtime)
