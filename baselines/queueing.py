"""FCFS, SJF, MWKR and MOR: a queue before idle devices."""

import numpy as np

from hetgym._kernels.heap import first_key, pop, push
from hetgym._kernels.jit import jit, step
from hetgym._types import BoolArray, FloatArray, frozen
from hetgym.planning import timeline
from hetgym.planning.ranks import longest_path_to_exit
from hetgym.planning.ready_queue import FINISHES, READY, ReadyQueue, new_queue, open_queue, release
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import Runtime


def fcfs(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """First come, first served: an idle device gets the operator that has been ready longest.

    An operator enters the queue when its last predecessor *finishes* (entries at 0), operators of one moment in
    topological order. Whenever a device is idle, the head of the queue goes to the idle device on which it would finish
    first, ties to the smaller device; an operator that no idle device can run, or has room for, is passed over. Busy
    devices are never waited for. The device is taken while the operator waits for its inputs.
    """
    return _queue(problem, np.zeros(problem.num_operators), True, runtime)


def sjf(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """Shortest job first: an idle device gets the ready operator of the smallest mean cost.

    As :func:`fcfs` but for the queue's order: mean cost over the devices that can run the operator, ties alike.
    """
    return _queue(problem, np.array(problem.mean_cost), False, runtime)


def mwkr(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """Most work remaining: an idle device gets the ready operator with the longest path of mean costs to an exit.

    As :func:`fcfs` but for the queue's order; on a job shop the path is what is left of the job, as in the literature.
    """
    return _queue(problem, -_path(problem, problem.mean_cost), False, runtime)


def mor(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """Most operators remaining: an idle device gets the ready operator with the most operators to an exit.

    As :func:`mwkr`, with every operator counting alike.
    """
    return _queue(problem, -_path(problem, frozen(np.ones(problem.num_operators))), False, runtime)


def _path(problem: Problem, weight: FloatArray) -> FloatArray:
    """[n] the longest path from each operator to an exit, itself included, without transfers."""
    return longest_path_to_exit(problem.arrays, weight, frozen(np.zeros(problem.num_edges)))


def _queue(problem: Problem, key: FloatArray, by_arrival: bool, runtime: str | Runtime) -> Schedule:
    return timeline.filled(
        problem, runtime, lambda placed: _serve(problem.arrays, placed, new_queue(len(key)), -key, by_arrival)
    )


# Before each round READY holds the operators that were ready by `now` and found no idle device that can run them,
# FINISHES those that run. A round assigns idle devices in the order of the queue, setting operators that no idle
# device can run aside in `passed`, and then removes all finishes of the next moment. Every operator finishes once,
# so there are at most n rounds.
@jit
def _serve(p: ProblemArrays, t: timeline.Timeline, queue: ReadyQueue, priority: FloatArray, by_arrival: bool) -> None:
    """Run the event loop; larger priorities go first, with ``by_arrival`` minus the time of arrival."""
    heaps = queue.heaps
    idle = np.ones(p.cost.shape[1], np.bool_)
    passed = np.empty(len(priority), np.int32)
    open_queue(p, queue, priority)
    now = 0.0
    while heaps.size[READY] > 0 or heaps.size[FINISHES] > 0:
        count = 0
        while heaps.size[READY] > 0 and idle.any():
            operator = p.topological_order[pop(heaps, READY)]
            device, start = _best_idle(p, t, operator, idle, now)
            if device < 0:
                passed[count] = operator
                count += 1
                continue
            timeline.book(p, t, operator, device, start)
            idle[device] = False
            push(heaps, FINISHES, t.finish[operator], p.position[operator])
        for operator in passed[:count]:
            push(heaps, READY, -priority[operator], p.position[operator])
        now = first_key(heaps, FINISHES)
        while heaps.size[FINISHES] > 0 and first_key(heaps, FINISHES) == now:
            operator = p.topological_order[pop(heaps, FINISHES)]
            idle[t.assignment[operator]] = True
            if by_arrival:
                for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
                    priority[p.successor[edge]] = -now
            release(p, queue, operator, priority)


@step
def _best_idle(p: ProblemArrays, t: timeline.Timeline, operator: int, idle: BoolArray, now: float) -> tuple[int, float]:
    """The idle device on which an operator finishes first and its start there [s]; -1 if none can run it."""
    best, best_start, best_finish = -1, 0.0, np.inf
    for device in range(p.cost.shape[1]):
        if idle[device] and p.cost[operator, device] < np.inf and timeline.accepts(p, t, operator, device):
            start = max(now, timeline.start_on(p, t, operator, device, False))
            if best < 0 or start + p.cost[operator, device] < best_finish:
                best, best_start, best_finish = device, start, start + p.cost[operator, device]
    return best, best_start
