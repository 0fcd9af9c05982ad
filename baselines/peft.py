"""PEFT: predict earliest finish time."""

from __future__ import annotations

import numpy as np

from hetgym.planning.list_scheduling import place_by_priority
from hetgym.planning.ranks import optimistic_cost
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Runtime


def peft(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """HEFT that looks ahead: devices are compared by finish time plus the optimistic cost to an exit.

    Args:
        problem: the problem to schedule.
        runtime: the runtime that will run the schedule.

    >>> from hetgym.workloads import textbook
    >>> peft(textbook("arabnejad-barbosa")).makespan
    122.0
    """
    table = optimistic_cost(problem)
    return place_by_priority(problem, np.mean(table, axis=1), bonus=table, runtime=runtime)
