"""PEFT: predict earliest finish time."""

from functools import partial

import numpy as np

from hetgym.errors import ConfigError, OutOfMemory
from hetgym.planning.list_scheduling import place_by_priority
from hetgym.planning.ranks import assigned_bottom_level, optimistic_cost
from hetgym.planning.starts import started
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Runtime


def peft(problem: Problem, passes: int = 1, runtime: str | Runtime = "classic", start: str = "plain") -> Schedule:
    """HEFT that looks ahead: devices are compared by finish time plus the optimistic cost to an exit.

    Args:
        passes: number of schedules; the shortest is returned. Each after the first takes the operators in the
            order of the bottom levels that they have in the placement before.
        start: ``"replay"`` and ``"contracted"`` improve the plan, see :func:`~hetgym.planning.starts.started`.

    Raises:
        ConfigError: no passes.

    >>> from hetgym.workloads import textbook
    >>> peft(textbook("arabnejad-barbosa")).makespan
    122.0
    """
    if passes < 1:
        raise ConfigError(f"peft: passes is {passes}; there must be at least one")
    return started(problem, start, runtime, partial(_shortest, passes=passes))


def _shortest(problem: Problem, runtime: Runtime, passes: int) -> Schedule:
    """The shortest of the schedules of all passes."""
    table = optimistic_cost(problem)
    best = latest = place_by_priority(problem, np.mean(table, axis=1), bonus=table, runtime=runtime)
    for _ in range(1, passes):
        level = assigned_bottom_level(problem.arrays, np.array(latest.assignment))
        try:
            latest = place_by_priority(problem, level, bonus=table, runtime=runtime)
        except OutOfMemory:
            break  # earlier passes fit
        best = min(best, latest, key=lambda plan: plan.makespan)
    return best
