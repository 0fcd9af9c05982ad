"""Lower bounds on the makespan: what no schedule can beat."""

from __future__ import annotations

import numpy as np

from hetgym.problem import Problem
from hetgym.sim.ranks import least_cost_from_entry, least_cost_to_exit


def critical_path_bound(problem: Problem) -> float:
    """Longest path when every operator runs on its fastest device and data move for free [s].

    It is also the denominator of the schedule length ratio (SLR).
    """
    fastest = problem.cost.min(axis=1)
    finish = np.zeros(problem.num_operators)
    pointer, node = problem.predecessors.pointer, problem.predecessors.node
    for i in problem.topological_order:
        inputs = finish[node[pointer[i] : pointer[i + 1]]]
        finish[i] = fastest[i] + (inputs.max() if len(inputs) else 0.0)
    return float(finish.max())


def communication_bound(problem: Problem) -> float:
    """Longest path when every operator and transfer takes its best pair of devices [s]."""
    through = least_cost_from_entry(problem) + problem.cost + least_cost_to_exit(problem)
    return float(through.min(axis=1).max())


def area_bound(problem: Problem) -> float:
    """All work at its fastest, spread evenly over all devices [s]."""
    return float(problem.cost.min(axis=1).sum() / problem.num_devices)


def lower_bound(problem: Problem) -> float:
    """The largest of all bounds [s]."""
    return max(communication_bound(problem), critical_path_bound(problem), area_bound(problem))
