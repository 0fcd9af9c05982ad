"""The whole graph's rank in DONF's runtime: which part of DONF is worth what."""

from __future__ import annotations

import numpy as np

from hetgym.errors import unknown_name
from hetgym.planning.pull_loop import run_loop
from hetgym.planning.ranks import optimistic_cost, upward_rank
from hetgym.problem import Problem
from hetgym.schedule import Schedule

RANKS = ("upward", "optimistic")


def heft_donf(problem: Problem, communication: str = "link-wait", rank: str = "upward") -> Schedule:
    """HEFT's upward rank as the queue's priority, DONF-w's communication model in the choice of a device.

    The ablation between the two: where it beats HEFT in the same loop, the communication model is the
    cause; where it beats DONF-w, the rank is. With ``communication="per-edge"`` it is HEFT itself in
    that loop, which decides when predecessors have finished, appends, and has its transfers queue on
    links without expecting it; with ``rank="optimistic"`` too it is PEFT.

    Args:
        problem: the problem to schedule.
        communication: as for :func:`hetgym.baselines.donf`.
        rank: ``"upward"``: HEFT's. ``"optimistic"``: PEFT's, whose table is also added to the finish
            times when devices are compared.

    Raises:
        UnknownName: no such communication model or rank.
    """
    if rank == "upward":
        return run_loop(problem, np.array(upward_rank(problem)), communication)
    if rank == "optimistic":
        table = optimistic_cost(problem)
        return run_loop(problem, np.mean(table, axis=1), communication, bonus=table)
    raise unknown_name("rank", rank, RANKS)
