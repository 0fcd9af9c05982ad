"""FCFS and SJF: a queue before idle devices."""

from __future__ import annotations

import heapq

import numpy as np

from hetgym._jit import jit, step
from hetgym._types import BoolArray, FloatArray
from hetgym.planning import timeline
from hetgym.planning.evaluation import planned
from hetgym.planning.registry import register
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule

_CITATION = "Silberschatz, Galvin, Gagne, Operating System Concepts, chapter on CPU scheduling"
_COMPLEXITY = "O(n r log n + e p), r ready at a time"


@register("fcfs", kind="online", citation=_CITATION, complexity=_COMPLEXITY)
def fcfs(problem: Problem) -> Schedule:
    """First come, first served: an idle device gets the operator that has been ready longest.

    Event-driven. An operator enters the queue at the moment at which its last predecessor *finishes*
    (entries at 0), operators of one moment in topological order. Whenever a device is idle, the head of
    the queue goes to that idle device on which it would finish first, ties to the smaller device; an
    operator that no idle device can run is passed over until one is idle that can. Busy devices are
    never waited for. Inputs were sent when their producers finished (the classic model), and the
    device is taken while the operator waits for them.

    Args:
        problem: what is to be scheduled.
    """
    return _queue(problem, np.zeros(problem.num_operators), by_arrival=True)


@register("sjf", kind="online", citation=_CITATION, complexity=_COMPLEXITY)
def sjf(problem: Problem) -> Schedule:
    """Shortest job first: an idle device gets the ready operator of the smallest mean cost.

    As :func:`fcfs` in all but the queue's order: mean cost over the devices that can run the operator,
    ties in topological order.

    Args:
        problem: what is to be scheduled.
    """
    return _queue(problem, np.array(problem.mean_cost), by_arrival=False)


def _queue(problem: Problem, key: FloatArray, by_arrival: bool) -> Schedule:
    placed = timeline.new_timeline(problem.num_operators, problem.num_devices)
    _serve(problem.arrays, placed, key, by_arrival)
    return planned(problem, placed)


@jit
def _serve(p: ProblemArrays, t: timeline.Timeline, key: FloatArray, by_arrival: bool) -> None:
    """Run the event loop; smaller keys first, and with ``by_arrival`` the key is the time of arrival."""
    n, d = p.cost.shape
    waiting = np.empty(n, np.int32)
    idle = np.ones(d, np.bool_)
    queue = [(0.0, np.int32(0))]
    queue.pop()
    finishes = [(0.0, np.int32(0))]
    finishes.pop()
    passed = [(0.0, np.int32(0))]
    for i in range(n):
        waiting[i] = p.predecessor_pointer[i + 1] - p.predecessor_pointer[i]
        if waiting[i] == 0:
            heapq.heappush(queue, (key[i], p.position[i]))
    now = 0.0
    while len(queue) > 0 or len(finishes) > 0:
        passed.clear()
        while len(queue) > 0 and idle.any():
            head = heapq.heappop(queue)
            operator = p.topological_order[head[1]]
            device, start = _best_idle(p, t, operator, idle, now)
            if device < 0:
                passed.append(head)
                continue
            timeline.book(p, t, operator, device, start)
            idle[device] = False
            heapq.heappush(finishes, (t.finish[operator], head[1]))
        for head in passed:
            heapq.heappush(queue, head)
        now = finishes[0][0]
        while len(finishes) > 0 and finishes[0][0] == now:
            _, position = heapq.heappop(finishes)
            operator = p.topological_order[position]
            idle[t.assignment[operator]] = True
            for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
                j = p.successor[edge]
                waiting[j] -= 1
                if waiting[j] == 0:
                    heapq.heappush(queue, (now if by_arrival else key[j], p.position[j]))


@step
def _best_idle(p: ProblemArrays, t: timeline.Timeline, operator: int, idle: BoolArray, now: float) -> tuple[int, float]:
    best, best_start, best_finish = -1, 0.0, np.inf
    for device in range(p.cost.shape[1]):
        if idle[device] and p.cost[operator, device] < np.inf:
            start = max(now, timeline.data_ready(p, t, operator, device))
            if best < 0 or start + p.cost[operator, device] < best_finish:
                best, best_start, best_finish = device, start, start + p.cost[operator, device]
    return best, best_start
