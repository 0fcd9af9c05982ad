"""Splices: plans that begin as one plan and end as another.

Where a graph is a row of blocks, as networks are, a plan's makespan is nearly the sum of what its blocks take. Each of
several searches finds good blocks in other places, and no change of a single region turns the bad ones into good ones.
A splice takes the first operators of one plan, in its order and on its devices, and the others from another
plan. Any such cut gives a valid order, since what comes before an operator in either plan comes before it here.
"""

import numpy as np

from hetgym._kernels.jit import lean, step
from hetgym._types import BoolArray, IntArray
from hetgym.problem import Problem, ProblemArrays
from hetgym.search import course as courses
from hetgym.search.course import Course
from hetgym.search.walk import TIE
from hetgym.sim.kernel import Switches

CUTS = 32  # Places at which a pair of plans is cut


def splice(problem: Problem, course: Course, plans: list[tuple[IntArray, IntArray]], switches: Switches) -> None:
    """Splice the best plan of a course with others until that makes it no shorter.

    Each splice that is taken makes the best plan shorter, so it ends.

    Args:
        course: the course; the operators launched are counted as in a search.
        plans: device of each operator [n] and order [n] of every other plan.
    """
    inside = np.zeros(problem.num_operators, np.bool_)
    rows = [np.stack(plan).astype(np.int32) for plan in plans]
    before = np.inf
    while course.value[courses.BEST] < before:
        before = float(course.value[courses.BEST])
        for other in rows:
            for heads in (True, False):
                best = np.stack((course.best_assignment, course.best_order))
                head, tail = (best, other) if heads else (other, best)
                _take_best_cut(problem.arrays, course, head, tail, inside, switches)


# `limit` is the price of the best cut so far, so that the prices of most others end early.
@lean
def _take_best_cut(
    p: ProblemArrays, course: Course, head: IntArray, tail: IntArray, inside: BoolArray, switches: Switches
) -> None:
    """Price splices of a head and a tail, each [2, n] devices and order, and save one that beats the best plan."""
    n, best, limit = len(course.order), 0, course.value[courses.BEST] * TIE
    stride = (n + CUTS - 1) // CUTS
    for cut in range(stride, n, stride):
        _put(p, course, head, tail, inside, cut, switches)
        if courses.lacking(course) == 0.0:
            price = courses.price(p, course, 0, n - 1, limit, switches)
            if price < limit:
                best, limit = cut, price * TIE
    if best > 0:
        _put(p, course, head, tail, inside, best, switches)
        courses.price(p, course, 0, n - 1, np.inf, switches)
        courses.keep(p, course, 0, n - 1, switches)


@step
def _put(
    p: ProblemArrays, course: Course, head: IntArray, tail: IntArray, inside: BoolArray, cut: int, switches: Switches
) -> None:
    """Put the first ``cut`` operators of the head's order, and the others in the tail's order, into the course."""
    n, count = len(course.order), cut
    for k in range(n):
        inside[head[1, k]] = k < cut
    for k in range(cut):
        course.order[k] = head[1, k]
    for k in range(n):
        if not inside[tail[1, k]]:
            course.order[count] = tail[1, k]
            count += 1
    for k in range(n):
        i = course.order[k]
        course.turn[i] = k
        course.assignment[i] = head[0, i] if inside[i] else tail[0, i]
    courses.add_up(p, course, switches)
