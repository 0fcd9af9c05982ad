"""The runtime loop of DONF: what is ready is committed at once, inputs are pulled, links are booked.

An operator is *ready* when all its predecessors have finished. At every finish all ready operators
are committed, the one of highest priority first, each to the device on which it is believed to finish
first, even if that is busy. Its inputs are requested at that moment: one message from each device
that holds some, each on the link of the two devices, which both directions share and which carries
one message at a time. Priorities therefore only order what becomes ready at one moment.
"""

from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np

from hetgym._jit import jit, step
from hetgym._types import BoolArray, FloatArray
from hetgym.errors import unknown_name
from hetgym.planning import timeline
from hetgym.planning.evaluation import planned
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule

COMMUNICATION = ("classic", "aggregated", "link-wait", "per-edge", "light")
"""What the choice of a device may believe about transfers; the positions are the kernels' codes."""

CLASSIC, AGGREGATED, LINK_WAIT, PER_EDGE, LIGHT = range(5)


def run_loop(problem: Problem, priority: FloatArray, communication: str, bonus: FloatArray | None = None) -> Schedule:
    """Commit operators as they become ready.

    Args:
        problem: what is to be scheduled.
        priority: [n] larger first among those that are ready at one moment, ties by topological position.
        communication: one of :data:`COMMUNICATION`, see :func:`hetgym.baselines.donf`.
        bonus: [n, d] added to finish times when devices are compared [s]; none by default.

    Returns:
        A schedule planned under the model ``"donf"``, or ``"classic"`` if that is the communication.

    Raises:
        UnknownName: no such communication model.
    """
    if communication not in COMMUNICATION:
        raise unknown_name("communication model", communication, COMMUNICATION)
    n, d = problem.num_operators, problem.num_devices
    placed = timeline.new_timeline(n, d)
    extra = np.zeros((n, d)) if bonus is None else bonus
    _run(problem.arrays, placed, priority, extra, COMMUNICATION.index(communication))
    return replace(planned(problem, placed), model="classic" if communication == "classic" else "donf")


@jit
def _run(p: ProblemArrays, t: timeline.Timeline, priority: FloatArray, bonus: FloatArray, model: int) -> None:
    n, d = p.cost.shape
    waiting = np.empty(n, np.int32)
    everywhere = np.ones(d, np.bool_)
    link_free = np.zeros((d, d))
    message = np.zeros((d, d))
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
            device = choose(p, t, operator, now, model, bonus, everywhere, link_free, message)
            commit(p, t, operator, device, now, model, link_free, message)
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
def choose(
    p: ProblemArrays, t: timeline.Timeline, operator: int, now: float, model: int, bonus: FloatArray,
    allowed: BoolArray, link_free: FloatArray, message: FloatArray,
) -> int:  # fmt: skip
    """The allowed device of the earliest believed finish, -1 if none is allowed that can run the operator.

    Args:
        p: the problem.
        t: what is committed so far.
        operator: whose device is wanted.
        now: time of the decision [s].
        model: position in :data:`COMMUNICATION`.
        bonus: [n, d] added to finish times [s].
        allowed: [d] devices that may be chosen.
        link_free: [d, d] when each link is free, the smaller device first [s].
        message: [target, source] overwritten with what each message takes [s], -1 for none.
    """
    best, best_key = -1, np.inf
    for device in range(p.cost.shape[1]):
        if not allowed[device] or p.cost[operator, device] == np.inf:
            continue
        if model == CLASSIC:
            arrival = timeline.data_ready(p, t, operator, device)
        else:
            _gather(p, t, operator, device, message[device])
            arrival = _believed_arrival(p, t, operator, device, now, model, link_free, message[device])
        start = timeline.earliest_start(t, device, max(now, arrival), p.cost[operator, device], False)
        key = start + p.cost[operator, device] + bonus[operator, device]
        if best < 0 or key < best_key:
            best, best_key = device, key
    return best


@step
def commit(
    p: ProblemArrays, t: timeline.Timeline, operator: int, device: int, now: float, model: int, link_free: FloatArray,
    message: FloatArray,
) -> None:  # fmt: skip
    """Append the operator to a device, and queue the messages that really go, as :func:`choose` left them."""
    arrival = now
    if model == CLASSIC:
        arrival = max(now, timeline.data_ready(p, t, operator, device))
    else:
        for source in range(p.cost.shape[1]):
            if message[device, source] >= 0.0:
                a, b = min(source, device), max(source, device)
                link_free[a, b] = max(link_free[a, b], now) + message[device, source]
                arrival = max(arrival, link_free[a, b])
    start = timeline.earliest_start(t, device, arrival, p.cost[operator, device], False)
    timeline.book(p, t, operator, device, start)


@step
def _believed_arrival(
    p: ProblemArrays, t: timeline.Timeline, operator: int, device: int, now: float, model: int, link_free: FloatArray,
    message: FloatArray,
) -> float:  # fmt: skip
    """When all inputs are believed to be on the device, requested now [s]."""
    last = now
    if model in (AGGREGATED, LINK_WAIT):
        for source in range(len(message)):
            if message[source] >= 0.0:
                busy = link_free[min(source, device), max(source, device)] if model == LINK_WAIT else now
                last = max(last, now + (message[source] + max(0.0, busy - now)))
        return last
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        source = t.assignment[p.predecessor[k]]
        if source != device:
            size = p.edge_bytes[p.predecessor_edge[k]]
            busy = link_free[min(source, device), max(source, device)] if model == LIGHT else now
            transfer = p.latency[source, device] + size / p.bandwidth[source, device]
            last = max(last, now + (transfer + max(0.0, busy - now)))
    return last


@step
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
