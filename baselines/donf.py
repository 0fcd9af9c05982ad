"""DONF: degree of node first, with the communication model that makes it work."""

import numpy as np

from hetgym.errors import unknown_name
from hetgym.planning.degrees import nested_out_degree, two_level_out_degree, weighted_out_degree
from hetgym.planning.pull_loop import COMMUNICATION, run_loop
from hetgym.planning.ranks import optimistic_cost, upward_rank
from hetgym.problem import Problem
from hetgym.schedule import Schedule

PRIORITIES = ("degree", "two-level", "nested", "none", "upward", "optimistic")


__all__ = ["COMMUNICATION", "PRIORITIES", "donf"]


def donf(problem: Problem, communication: str = "aggregated", priority: str = "degree", alpha: float = 0.5) -> Schedule:
    """Of the operators whose inputs exist, take the one that alone holds up most others.

    An operator may be chosen when all its predecessors have *finished*; it is committed at once to the device on which
    it would finish first, even if that is busy. Except with ``priority="nested"``, only nearest successors count.

    Args:
        communication: model of transfers by which a device is chosen. ``"aggregated"``: inputs are pulled when the
            operator is chosen, one message from each source device, sources in parallel. ``"link-wait"`` (DONF-w): the
            same, and a message waits until its link is free. ``"light"`` (DONF-L): an edge at a time, each waiting
            for its link; the longest decides. ``"per-edge"``: the same without the wait. ``"classic"``: pushed when the
            producer finished, an edge at a time, never contending. Under all but the last the messages that really go
            are aggregated and queue on their links, and the planned times say so.
        priority: ``"degree"``: the sum over successors of one over their in-degree (WOD). ``"two-level"`` (DONF2):
            that, plus alpha times the sum of the successors' degrees. ``"nested"`` (ADON): plus alpha times the sum of
            the successors' own nested degrees, which needs the whole graph. ``"none"``: first in, first out.
            ``"upward"``: HEFT's rank, of the whole graph: where it beats HEFT, the loop and its model of transfers are
            the cause; where it beats DONF-w, the rank is. With ``communication="per-edge"`` it is HEFT itself in this
            loop, which decides when predecessors have finished, appends, and has its transfers queue on links without
            expecting it. ``"optimistic"``: PEFT's, whose table is also added to finish times when devices are compared.
        alpha: weight of the successors' degrees.

    Raises:
        UnknownName: no such communication model or priority.
        ConfigError: alpha is negative or not finite.

    >>> from hetgym.workloads import textbook
    >>> donf(textbook("topcuoglu"), communication="classic").makespan
    80.0
    """
    if priority == "degree":
        degree = weighted_out_degree(problem)
    elif priority == "two-level":
        degree = two_level_out_degree(problem, alpha)
    elif priority == "nested":
        degree = nested_out_degree(problem, alpha)
    elif priority == "none":
        degree = np.zeros(problem.num_operators)
    elif priority == "upward":
        degree = np.array(upward_rank(problem))
    elif priority == "optimistic":
        table = optimistic_cost(problem)
        return run_loop(problem, np.mean(table, axis=1), communication, bonus=table)
    else:
        raise unknown_name("priority", priority, PRIORITIES)
    return run_loop(problem, degree, communication)
