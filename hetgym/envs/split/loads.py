"""Loads of devices under a schedule."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._types import FloatArray, Int64Array, IntArray
from hetgym.problem import Problem
from hetgym.sim.memory import resident_weights


class Loads(NamedTuple):
    """Loads of devices under a schedule."""

    busy: FloatArray  # [d] summed run times of its operators [s]
    operators: Int64Array  # [d] number of its operators
    weights: FloatArray  # [d] bytes of their weights


def loads_of(problem: Problem, assignment: IntArray) -> Loads:
    """The loads of devices under a placement, [n]."""
    n, d = problem.cost.shape
    return Loads(
        np.bincount(assignment, problem.cost[np.arange(n), assignment], minlength=d).astype(np.float64),
        np.bincount(assignment, minlength=d),
        resident_weights(problem, assignment),
    )
