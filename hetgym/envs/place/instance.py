"""Instances of HetSchedule-v0: a problem, its ranks and cost tables, and the makespan that returns compare with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym import metrics
from hetgym._kernels.interpreted import interpreted
from hetgym._kernels.jit import lean
from hetgym._types import FloatArray, IntArray
from hetgym.baselines import heft
from hetgym.planning import ranks
from hetgym.planning.bounds import longest_free_path
from hetgym.planning.list_scheduling import place_in_order
from hetgym.planning.ready_queue import ReadyQueue, new_queue
from hetgym.planning.timeline import new_timeline
from hetgym.problem import Problem, ProblemArrays
from hetgym.sim import Runtime, simulate


class ScheduleInstance(NamedTuple):
    """A problem with the tables that are computed once for all of its episodes."""

    problem: Problem  # the problem
    order: IntArray  # [n] operators by descending upward rank
    upward: FloatArray  # [n] upward rank [s]
    downward: FloatArray  # [n] downward rank [s]
    optimistic: FloatArray  # [n, d] PEFT's optimistic cost to an exit [s]
    tail: FloatArray  # [n, d] proven least time from the operator's finish to the end [s]
    bonus: FloatArray  # [n, d] added to finish times when the completion compares devices [s]
    reference: float  # makespan, or mean time of jobs, that returns compare with [s]
    alone: float  # makespan of all operators on the best single device under the runtime [s]
    path: float  # length of the critical path with every operator on its fastest device [s]


def prepare(problem: Problem, runtime: Runtime, completion: str, reference: float | None = None) -> ScheduleInstance:
    """Compute the instance of a problem.

    Args:
        completion: see :class:`~hetgym.envs.HetScheduleEnv`; with ``"eft+oct"`` the bonus is the optimistic cost.
        reference: makespan that returns compare with [s]; None = that of HEFT's schedule for the runtime.
    """
    n, d = problem.cost.shape
    p, queue = problem.arrays, new_queue(n)
    upward, downward, order = np.empty(n), np.zeros(n), np.empty(n, np.int32)
    optimistic, tail, fastest, begin = np.zeros((n, d)), np.zeros((n, d)), np.empty(n), np.empty(n)
    weight, communication = problem.mean_cost, problem.mean_communication
    path = _fill(p, weight, communication, queue, upward, downward, optimistic, tail, order, fastest, begin)
    if reference is None:
        reference = _planned_makespan(problem, order) if runtime.is_classic else heft_makespan(problem, runtime)
    bonus = optimistic if completion == "eft+oct" else np.zeros((n, d))
    alone = metrics.single_device_makespan(problem, runtime, order)
    tables = order, upward, downward, optimistic, tail, bonus
    return ScheduleInstance(problem, *tables, reference, alone, path)


@interpreted
@lean
def _fill(
    p: ProblemArrays,
    weight: FloatArray,
    communication: FloatArray,
    queue: ReadyQueue,
    upward: FloatArray,
    downward: FloatArray,
    optimistic: FloatArray,
    tail: FloatArray,
    order: IntArray,
    fastest: FloatArray,
    begin: FloatArray,
) -> float:
    """Fill the tables of an instance, all zeros but ``upward`` and ``order``; returns the path [s]."""
    ranks.write_longest_path_to_exit(p, weight, communication, upward)
    ranks.write_longest_path_from_entry(p, weight, communication, downward)
    ranks.write_optimistic_cost(p, communication, optimistic)
    ranks.write_least_cost_to_exit(p, tail)
    ranks.write_list_order(p, queue, upward, order)
    return longest_free_path(p, fastest, begin)


def _planned_makespan(problem: Problem, order: IntArray) -> float:
    """As :func:`heft_makespan` under ``classic``, where planned times are the simulated ones [s]."""
    free = np.full(problem.num_operators, -1, np.int32)
    placed = new_timeline(problem)
    return place_in_order(problem.arrays, placed, order, free, np.zeros(problem.cost.shape), True)


def heft_makespan(problem: Problem, runtime: Runtime) -> float:
    """Makespan of the schedule that HEFT makes for a runtime [s]."""
    return simulate(problem, heft(problem, runtime=runtime), runtime).makespan
