"""The event loop: the only copy of the simulator's dynamics.

State is a handful of flat arrays. An operator is *launched* when it starts on its device; its
outputs are *delivered* when it finishes. Between the two lies everything that a runtime switch can
change, so there is one function for each and two ways to walk through them: in the devices' fixed
orders, where no clock is needed because everything that a launch depends on has been launched
before; and by priorities, where a clock decides what each device may see.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from hetgym._jit import jit
from hetgym._types import FloatArray, IntArray
from hetgym.problem import ProblemArrays

FREE, FIFO = 0, 1  # positions in runtime.COMMUNICATION


class State(NamedTuple):
    """What a simulation fills in.

    Attributes:
        start, finish: [n] of each operator [s].
        sent, arrived: [e] start and end of each edge's transfer [s]; equal when it stays local.
        ready: [n] arrival of the operator's last input so far [s].
        waiting: [n] inputs that have not been delivered.
        free: [d] when each device is free [s].
        link_free: [d, d] when each directed link is free [s].
    """

    start: FloatArray
    finish: FloatArray
    sent: FloatArray
    arrived: FloatArray
    ready: FloatArray
    waiting: IntArray
    free: FloatArray
    link_free: FloatArray


@jit
def new_state(p: ProblemArrays) -> State:
    """Allocate the state of one simulation."""
    n, d = p.cost.shape
    e = len(p.successor)
    return State(
        np.zeros(n), np.zeros(n), np.zeros(e), np.zeros(e), np.zeros(n), np.zeros(n, np.int32), np.zeros(d),
        np.zeros((d, d)),
    )  # fmt: skip


@jit
def reset(p: ProblemArrays, s: State) -> None:
    """Return a state to time 0."""
    s.ready[:] = 0.0
    s.free[:] = 0.0
    s.link_free[:] = 0.0
    for i in range(len(s.waiting)):
        s.waiting[i] = p.predecessor_pointer[i + 1] - p.predecessor_pointer[i]


@jit
def launch(p: ProblemArrays, s: State, operator: int, device: int) -> None:
    """Start an operator as soon as its inputs and its device allow, and book the device."""
    start = max(s.ready[operator], s.free[device])
    s.start[operator] = start
    s.finish[operator] = start + p.cost[operator, device]
    s.free[device] = s.finish[operator]


@jit
def deliver(p: ProblemArrays, s: State, assignment: IntArray, communication: int, operator: int) -> None:
    """Push an operator's outputs to their readers, and book the links that carry them."""
    a = assignment[operator]
    request = s.finish[operator]
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        target = p.successor[edge]
        b = assignment[target]
        sent = request
        arrived = request
        if a != b:
            if communication == FIFO:
                sent = max(request, s.link_free[a, b])
            arrived = sent + (p.latency[a, b] + p.edge_bytes[edge] / p.bandwidth[a, b])
            s.link_free[a, b] = arrived
        s.sent[edge] = sent
        s.arrived[edge] = arrived
        s.ready[target] = max(s.ready[target], arrived)
        s.waiting[target] -= 1


@jit
def run_order(
    p: ProblemArrays, s: State, assignment: IntArray, order: IntArray, order_pointer: IntArray, communication: int
) -> int:
    """Run every device's operators in a fixed order, in O(n + e).

    A device advances while its next operator has all inputs; a delivery that completes the next
    operator of another device wakes it. Requests for a link come from one device in its order, so
    first-come-first-served needs no clock.

    Args:
        p: the problem.
        s: filled in.
        assignment: [n] device of each operator.
        order: [n] operators, device after device.
        order_pointer: [d + 1] where each device's part begins.
        communication: :data:`FREE` or :data:`FIFO`.

    Returns:
        Number of operators that ran: less than n if the orders deadlock.
    """
    d = p.cost.shape[1]
    reset(p, s)
    cursor = order_pointer[:-1].copy()
    awake = np.arange(d - 1, -1, -1).astype(np.int32)
    is_awake = np.ones(d, np.bool_)
    top = d
    done = 0
    while top > 0:
        top -= 1
        device = int(awake[top])
        is_awake[device] = False
        while cursor[device] < order_pointer[device + 1] and s.waiting[order[cursor[device]]] == 0:
            operator = int(order[cursor[device]])
            cursor[device] += 1
            launch(p, s, operator, device)
            deliver(p, s, assignment, communication, operator)
            done += 1
            for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
                target = p.successor[edge]
                b = assignment[target]
                if s.waiting[target] == 0 and not is_awake[b] and b != device:
                    awake[top] = b
                    is_awake[b] = True
                    top += 1
    return done


@jit
def run_priority(p: ProblemArrays, s: State, assignment: IntArray, priority: FloatArray, communication: int) -> int:
    """Run work-conserving: a free device takes the best of its operators whose inputs have arrived.

    Larger priority first, ties by topological position. All that happens at one instant is seen
    before any device chooses.

    Returns:
        Number of operators that ran, always n.
    """
    n, d = p.cost.shape
    reset(p, s)
    ready = [[(0.0, np.int32(0))] for _ in range(d)]
    for device in range(d):
        ready[device].pop()
    events = [(0.0, np.int32(0), np.int32(0))]  # time, 0 = finish / 1 = inputs arrived, position
    events.pop()
    for i in range(n):
        if s.waiting[i] == 0:
            heapq.heappush(events, (0.0, np.int32(1), p.position[i]))
    running = np.zeros(d, np.bool_)
    done = 0
    while len(events) > 0:
        now = events[0][0]
        while len(events) > 0 and events[0][0] == now:
            _, kind, position = heapq.heappop(events)
            operator = p.topological_order[position]
            device = assignment[operator]
            if kind == 1:
                heapq.heappush(ready[device], (-priority[operator], position))
                continue
            running[device] = False
            deliver(p, s, assignment, communication, operator)
            for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
                target = p.successor[edge]
                again = edge > p.successor_pointer[operator] and p.successor[edge - 1] == target
                if s.waiting[target] == 0 and not again:
                    heapq.heappush(events, (s.ready[target], np.int32(1), p.position[target]))
        for device in range(d):
            if not running[device] and len(ready[device]) > 0:
                _, position = heapq.heappop(ready[device])
                operator = p.topological_order[position]
                launch(p, s, operator, device)
                running[device] = True
                done += 1
                heapq.heappush(events, (s.finish[operator], np.int32(0), position))
    return done
