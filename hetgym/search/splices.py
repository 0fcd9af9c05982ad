"""Splices: plans that begin as one plan and end as another.

Where a graph is a row of blocks, as networks are, a plan's makespan is nearly the sum of what its blocks take. Each of
several searches finds good blocks in other places, and no change of a single region turns the bad ones into good ones.
A splice takes the first operators of one plan, in its order and on its devices, and the others from another
plan. Any such cut gives a valid order, since what comes before an operator in either plan comes before it here.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hetgym._kernels.jit import lean, step
from hetgym._types import IntArray
from hetgym.problem import Problem, ProblemArrays
from hetgym.search import course
from hetgym.search.walk import TIE
from hetgym.sim.kernel import Switches

CUTS = 32
"""Places at which a pair of plans is cut."""


def splice(problem: Problem, c: course.Course, plans: list[tuple[IntArray, IntArray]], switches: Switches) -> None:
    """Splice the best plan of a course with others until that makes it no shorter.

    Each splice that is taken makes the best plan shorter, so it ends.

    Args:
        problem: the problem.
        c: the course; the operators launched are counted as in a search.
        plans: device of each operator [n] and order [n] of every other plan.
        switches: of the course.
    """
    inside = np.zeros(problem.num_operators, np.bool_)
    plans = [(assignment.copy(), order.copy()) for assignment, order in plans]  # writable: one kernel for all callers
    before = np.inf
    while c.value[course.BEST] < before:
        before = float(c.value[course.BEST])
        for other in plans:
            for heads in (True, False):
                best = c.best_assignment.copy(), c.best_order.copy()
                head, tail = (best, other) if heads else (other, best)
                _take_best_cut(problem.arrays, c, *head, *tail, inside, switches)


# `limit` is the price of the best cut so far, so that the prices of most others end early.
@lean
def _take_best_cut(
    p: ProblemArrays,
    c: course.Course,
    head: IntArray,
    head_order: IntArray,
    tail: IntArray,
    tail_order: IntArray,
    inside: npt.NDArray[np.bool_],
    switches: Switches,
) -> None:
    """Price splices of a head and a tail, and save the best one if it is shorter than the best plan."""
    n, best, limit = len(c.order), 0, c.value[course.BEST] * TIE
    stride = (n + CUTS - 1) // CUTS
    for cut in range(stride, n, stride):
        _put(p, c, head, head_order, tail, tail_order, inside, cut, switches)
        if course.lacking(c) == 0.0:
            price = course.price(p, c, 0, n - 1, limit, switches)
            if price < limit:
                best, limit = cut, price * TIE
    if best > 0:
        _put(p, c, head, head_order, tail, tail_order, inside, best, switches)
        course.price(p, c, 0, n - 1, np.inf, switches)
        course.keep(p, c, 0, n - 1, switches)


@step
def _put(
    p: ProblemArrays,
    c: course.Course,
    head: IntArray,
    head_order: IntArray,
    tail: IntArray,
    tail_order: IntArray,
    inside: npt.NDArray[np.bool_],
    cut: int,
    switches: Switches,
) -> None:
    """Put the first ``cut`` operators of the head's order, and the others in the tail's order, into the course."""
    n, count = len(c.order), cut
    for k in range(n):
        inside[head_order[k]] = k < cut
    for k in range(cut):
        c.order[k] = head_order[k]
    for k in range(n):
        if not inside[tail_order[k]]:
            c.order[count] = tail_order[k]
            count += 1
    for k in range(n):
        i = c.order[k]
        c.turn[i] = k
        c.assignment[i] = head[i] if inside[i] else tail[i]
    course.add_up(p, c, switches)
