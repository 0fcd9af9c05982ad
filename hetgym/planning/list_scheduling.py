"""What the list schedulers share: running a timeline and turning it into a Schedule."""

from __future__ import annotations

import numpy as np

from hetgym._types import FloatArray, IntArray
from hetgym.planning import timeline
from hetgym.planning.evaluation import planned
from hetgym.planning.ranks import list_order
from hetgym.problem import Problem
from hetgym.schedule import Schedule


def place_by_priority(
    problem: Problem,
    priority: FloatArray,
    fixed: IntArray | None = None,
    bonus: FloatArray | None = None,
    insertion: bool = True,
) -> Schedule:
    """Take operators by falling priority and put each where it finishes first.

    Args:
        problem: what is to be scheduled.
        priority: [n] larger first.
        fixed: [n] prescribed device, -1 where free; all free by default.
        bonus: [n, d] added to finish times when devices are compared [s]; none by default.
        insertion: whether idle gaps may be filled.
    """
    n, d = problem.num_operators, problem.num_devices
    placed = timeline.new_timeline(n, d)
    timeline.place_in_order(
        problem.arrays,
        placed,
        list_order(problem.arrays, np.array(priority, np.float64)),
        np.full(n, -1, np.int32) if fixed is None else fixed,
        np.zeros((n, d)) if bonus is None else bonus,
        insertion,
    )
    return planned(problem, placed)
