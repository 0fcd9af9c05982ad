"""DONF: degree of node first, with the communication model that makes it work."""

from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np

from hetgym._jit import jit
from hetgym._types import FloatArray
from hetgym.baselines.registry import register
from hetgym.errors import unknown_name
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import timeline
from hetgym.sim.batch import planned
from hetgym.sim.ranks import weighted_out_degree

COMMUNICATION = ("classic", "aggregated", "link-wait")

_CITATION = "Lin, Li, Jia, Liu, An, J. Comput. Sci. Technol. 34(5), 2019"
_COMPLEXITY = "O(n log n + e p + n p^2)"


@register("donf-classic", kind="online", citation=_CITATION, complexity=_COMPLEXITY, communication="classic")
@register("donf-w", kind="online", citation=_CITATION, complexity=_COMPLEXITY, communication="link-wait")
@register("donf", kind="online", citation=_CITATION, complexity=_COMPLEXITY)
def donf(problem: Problem, communication: str = "aggregated") -> Schedule:
    """Of the operators whose inputs exist, take the one that alone holds up most others.

    Event-driven: an operator may be chosen when all its predecessors have *finished*; the chosen
    one is committed at once to the device on which it would finish first, even if that is busy.
    Nothing but the direct successors of an operator is looked at.

    Args:
        problem: what is to be scheduled.
        communication: what the choice of a device believes. ``"aggregated"``: inputs are pulled when
            the operator is chosen, one message from each source device, sources in parallel.
            ``"link-wait"`` (DONF-w): the same, and a message waits until its link is free.
            ``"classic"``: pushed when the producer finished, an edge at a time, never contending.
            Planned times of the first two let messages queue on their links.

    Raises:
        UnknownName: no such communication model.

    >>> from hetgym.workloads import textbook
    >>> donf(textbook("topcuoglu"), communication="classic").makespan
    80.0
    """
    if communication not in COMMUNICATION:
        raise unknown_name("communication model", communication, COMMUNICATION)
    placed = timeline.new_timeline(problem.num_operators, problem.num_devices)
    _run(problem.arrays, placed, weighted_out_degree(problem), COMMUNICATION.index(communication))
    return replace(planned(problem, placed), model="classic" if communication == "classic" else "donf")


@jit
def _run(p: ProblemArrays, t: timeline.Timeline, priority: FloatArray, model: int) -> None:
    n, d = p.cost.shape
    waiting = np.empty(n, np.int32)
    link_free = np.zeros((d, d))
    message = np.zeros((d, d))  # [target, source] duration of one operator's inputs on the way
    ready = [(0.0, np.int32(0))]
    ready.pop()
    finishes = [(0.0, np.int32(0))]
    finishes.pop()
    for i in range(n):
        waiting[i] = p.predecessor_pointer[i + 1] - p.predecessor_pointer[i]
        if waiting[i] == 0:
            heapq.heappush(ready, (-priority[i], p.position[i]))
    now = 0.0
    while True:
        while len(ready) > 0:
            _, position = heapq.heappop(ready)
            operator = p.topological_order[position]
            _commit(p, t, operator, now, model, link_free, message)
            heapq.heappush(finishes, (t.finish[operator], position))
        if len(finishes) == 0:
            break
        now = finishes[0][0]
        while len(finishes) > 0 and finishes[0][0] == now:
            _, position = heapq.heappop(finishes)
            operator = p.topological_order[position]
            for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
                j = p.successor[edge]
                waiting[j] -= 1
                if waiting[j] == 0:
                    heapq.heappush(ready, (-priority[j], p.position[j]))


@jit
def _commit(
    p: ProblemArrays, t: timeline.Timeline, operator: int, now: float, model: int, link_free: FloatArray,
    message: FloatArray,
) -> None:  # fmt: skip
    """Choose a device by earliest finish, book it, and queue the messages that really go."""
    d = p.cost.shape[1]
    best, best_start, best_finish = d, 0.0, np.inf
    for device in range(d):
        if p.cost[operator, device] == np.inf:
            continue
        if model == 0:
            arrival = max(now, timeline.data_ready(p, t, operator, device))
        else:
            _gather(p, t, operator, device, message[device])
            arrival = now
            for source in range(d):
                if message[device, source] >= 0.0:
                    wait = max(0.0, link_free[min(source, device), max(source, device)] - now) if model == 2 else 0.0
                    arrival = max(arrival, now + (message[device, source] + wait))
        start = timeline.earliest_start(t, device, arrival, p.cost[operator, device], False)
        if best == d or start + p.cost[operator, device] < best_finish:
            best, best_start, best_finish = device, start, start + p.cost[operator, device]
    if model != 0:
        arrival = now
        for source in range(d):
            if message[best, source] >= 0.0:
                a, b = min(source, best), max(source, best)
                link_free[a, b] = max(link_free[a, b], now) + message[best, source]
                arrival = max(arrival, link_free[a, b])
        best_start = timeline.earliest_start(t, best, arrival, p.cost[operator, best], False)
    timeline.book(p, t, operator, best, best_start)


@jit
def _gather(p: ProblemArrays, t: timeline.Timeline, operator: int, device: int, message: FloatArray) -> None:
    """Duration of the one message that each source device sends; -1 where it has nothing to send."""
    message[:] = -1.0
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        source = t.assignment[p.predecessor[k]]
        if source != device:
            message[source] = max(0.0, message[source]) + p.edge_bytes[p.predecessor_edge[k]]
    for source in range(len(message)):
        if message[source] >= 0.0:
            message[source] = p.latency[source, device] + message[source] / p.bandwidth[source, device]
