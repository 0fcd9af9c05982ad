"""The pull loop, DONF's runtime: ready operators are committed at once, and pull their inputs over booked links.

An operator is *ready* when all its predecessors have finished. At every finish all ready operators are committed, the
one of highest priority first, each to the device on which it is believed to finish first, even if that is busy. Its
inputs are requested at that moment: one message from each device that holds some, on the link of the two devices, which
both directions share and which carries one message at a time. So priorities only order what becomes ready together.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hetgym._kernels.heap import first_key, pop, push
from hetgym._kernels.jit import jit, step
from hetgym._types import BoolArray, FloatArray
from hetgym.errors import check_name
from hetgym.planning import timeline
from hetgym.planning.ready_queue import FINISHES, READY, ReadyQueue, new_queue, open_queue, release
from hetgym.planning.timeline import Timeline
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule

COMMUNICATION = ("classic", "aggregated", "link-wait", "per-edge", "light")
"""Models of transfers by which a device may be chosen; the positions are the kernels' codes."""

CLASSIC, AGGREGATED, LINK_WAIT, PER_EDGE, LIGHT = range(5)


class Links(NamedTuple):
    """The links between devices, and the messages that an operator would pull over them."""

    free: FloatArray  # [d, d] time from which a link is free, the smaller device first [s]
    # [target, source] duration of each message for the operator under consideration [s], -1 for none
    message: FloatArray


def run_loop(problem: Problem, priority: FloatArray, communication: str, bonus: FloatArray | None = None) -> Schedule:
    """Commit operators as they become ready; the schedule is planned under ``"donf"``, or ``"classic"`` if chosen.

    Args:
        priority: [n] larger first among those that are ready at one moment, ties by topological position.
        communication: one of :data:`COMMUNICATION`, see :func:`hetgym.baselines.donf`.
        bonus: [n, d] added to finish times when devices are compared [s]; none by default.

    Raises:
        UnknownName: no such communication model.
    """
    check_name("communication model", communication, COMMUNICATION)
    n, d = problem.num_operators, problem.num_devices
    placed = timeline.new_timeline(problem)
    extra = np.zeros((n, d)) if bonus is None else bonus
    _run(problem.arrays, placed, new_queue(n), priority, extra, COMMUNICATION.index(communication))
    return replace(timeline.planned(problem, placed), model="classic" if communication == "classic" else "donf")


# Before each round `now` is the time of the latest finish that was handled, READY holds all operators whose
# predecessors have finished by then and that are not committed, and FINISHES those that are committed and finish
# later. A round empties READY, then takes all finishes of the next moment out. Every operator enters and leaves
# each queue once, so the loop ends after n rounds at most. O(n log n + e p + n p^2).
@jit
def _run(p: ProblemArrays, t: Timeline, queue: ReadyQueue, priority: FloatArray, bonus: FloatArray, model: int) -> None:
    n, d = p.cost.shape
    everywhere = np.ones(d, np.bool_)
    links = Links(np.zeros((d, d)), np.zeros((d, d)))
    heaps = queue.heaps
    open_queue(p, queue, priority)
    now = 0.0
    while True:
        while heaps.size[READY] > 0:
            position = pop(heaps, READY)
            operator = p.topological_order[position]
            device = choose(p, t, operator, now, model, bonus, everywhere, links)
            commit(p, t, operator, device, now, model, links)
            push(heaps, FINISHES, t.finish[operator], position)
        if heaps.size[FINISHES] == 0:
            break
        now = first_key(heaps, FINISHES)
        while heaps.size[FINISHES] > 0 and first_key(heaps, FINISHES) == now:
            release(p, queue, p.topological_order[pop(heaps, FINISHES)], priority)


@jit
def choose(
    p: ProblemArrays,
    t: Timeline,
    operator: int,
    now: float,
    model: int,
    bonus: FloatArray,
    allowed: BoolArray,
    links: Links,
) -> int:
    """The allowed device of the earliest believed finish, -1 if none is allowed that can run the operator.

    Args:
        t: the operators that are committed so far.
        now: time of the decision [s].
        model: position in :data:`COMMUNICATION`.
        bonus: [n, d] added to finish times [s].
        allowed: [d] devices that may be chosen.
    """
    best, best_key = -1, np.inf
    for device in range(p.cost.shape[1]):
        if not allowed[device] or p.cost[operator, device] == np.inf:
            continue
        if model == CLASSIC:
            arrival = timeline.data_ready(p, t, operator, device)
        else:
            _gather(p, t, operator, device, links.message[device])
            arrival = _believed_arrival(p, t, operator, device, now, model, links)
        start = timeline.earliest_start(t, device, max(now, arrival), p.cost[operator, device], False)
        key = start + p.cost[operator, device] + bonus[operator, device]
        if best < 0 or key < best_key:
            best, best_key = device, key
    return best


@step
def commit(p: ProblemArrays, t: Timeline, operator: int, device: int, now: float, model: int, links: Links) -> None:
    """Append the operator to a device, and queue the messages that really go, as :func:`choose` left them."""
    arrival = now
    if model == CLASSIC:
        arrival = max(now, timeline.data_ready(p, t, operator, device))
    else:
        for source in range(p.cost.shape[1]):
            duration = links.message[device, source]
            if duration >= 0.0:
                a, b = min(source, device), max(source, device)
                links.free[a, b] = max(links.free[a, b], now) + duration
                arrival = max(arrival, links.free[a, b])
    start = timeline.earliest_start(t, device, arrival, p.cost[operator, device], False)
    timeline.book(p, t, operator, device, start)


@step
def _believed_arrival(
    p: ProblemArrays, t: Timeline, operator: int, device: int, now: float, model: int, links: Links
) -> float:
    """The time at which all inputs are believed to be on the device, if they are requested now [s]."""
    last = now
    message = links.message[device]
    if model in (AGGREGATED, LINK_WAIT):
        for source in range(len(message)):
            if message[source] >= 0.0:
                busy = links.free[min(source, device), max(source, device)] if model == LINK_WAIT else now
                last = max(last, now + (message[source] + max(0.0, busy - now)))
        return last
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        source = t.assignment[p.predecessor[k]]
        if source != device:
            size = p.edge_bytes[p.predecessor_edge[k]]
            busy = links.free[min(source, device), max(source, device)] if model == LIGHT else now
            transfer = p.latency[source, device] + size / p.bandwidth[source, device]
            last = max(last, now + (transfer + max(0.0, busy - now)))
    return last


@step
def _gather(p: ProblemArrays, t: Timeline, operator: int, device: int, message: FloatArray) -> None:
    """Duration of the one message that each source device sends; -1 where it has nothing to send."""
    message[:] = -1.0
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        source = t.assignment[p.predecessor[k]]
        if source != device:
            message[source] = max(0.0, message[source]) + p.edge_bytes[p.predecessor_edge[k]]
    for source in range(len(message)):
        if message[source] >= 0.0:
            message[source] = p.latency[source, device] + message[source] / p.bandwidth[source, device]
