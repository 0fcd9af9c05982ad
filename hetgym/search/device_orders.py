"""Device orders: a placement whose operators change places on their devices, or go to a place on another one.

The timing is that of the classic model: an operator starts when its inputs have arrived and the one before it on its
device has finished. With heads and tails of all operators, the makespan after an operator passes others of its
device is estimated from those that it passes alone (Balas, Vazacopoulos, Management Science 44(2), 1998), and that
after it goes to another device from its new neighbours there (Mastrolilli, Gambardella, J. Scheduling 3, 2000).

Invariant, before and after each step: ``previous`` and ``following`` are the neighbours on the devices, ``order`` is a
topological order of the graph with these neighbours as edges, ``turn`` its inverse, and ``head`` and ``tail`` are the
longest paths.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._kernels.jit import lean, step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, IntArray
from hetgym.problem import Problem, ProblemArrays
from hetgym.search.walk import TIE
from hetgym.transfer import transfer_time


@record
class DeviceOrders(NamedTuple):
    """The device orders of a placement.

    Attributes:
        assignment: [n] device of each operator.
        duration: [n] run times [s].
        lag: [e] transfer times [s].
        order, turn: [n] a topological order of graph and device orders, and its inverse.
        previous, following: [n] the neighbours on the device, -1 where there is none.
        front: [d] the first operator of each device, -1 where there is none.
        head: [n] start of each operator [s].
        tail: [n] longest path from the finish of each operator to the end [s].
        path: [n] operators of a longest path, backward from the last one.
        passed: [n] scratch of estimates: the operators that change places.
        early: [n] scratch of estimates: their starts [s].
        marked: [n] scratch, all false between steps.
        buffer: [n] scratch.
    """

    assignment: IntArray
    duration: FloatArray
    lag: FloatArray
    order: IntArray
    turn: IntArray
    previous: IntArray
    following: IntArray
    front: IntArray
    head: FloatArray
    tail: FloatArray
    path: IntArray
    passed: IntArray
    early: FloatArray
    marked: npt.NDArray[np.bool_]
    buffer: IntArray


def forced(problem: Problem) -> bool:
    """True if every operator can run on one device only, so that nothing but the order is free."""
    return bool((np.isfinite(problem.cost).sum(axis=1) == 1).all())


def is_shop(problem: Problem) -> bool:
    """True if operators are forced on their devices, or nothing takes time between devices."""
    return forced(problem) or not problem.mean_communication.any()


def new_device_orders(problem: Problem, assignment: IntArray, order: IntArray) -> DeviceOrders:
    """Device orders of a placement [n], as they are in a topological order [n]."""
    n = problem.num_operators
    orders = DeviceOrders(
        assignment=np.array(assignment, np.int32),
        duration=np.zeros(n),
        lag=np.zeros(problem.num_edges),
        order=np.zeros(n, np.int32),
        turn=np.zeros(n, np.int32),
        previous=np.zeros(n, np.int32),
        following=np.zeros(n, np.int32),
        front=np.zeros(problem.num_devices, np.int32),
        head=np.zeros(n),
        tail=np.zeros(n),
        path=np.zeros(n, np.int32),
        passed=np.zeros(n, np.int32),
        early=np.zeros(n),
        marked=np.zeros(n, np.bool_),
        buffer=np.zeros(max(n, problem.num_devices), np.int32),
    )
    _open(problem.arrays, orders, np.asarray(order, np.int32))
    return orders


@lean
def _open(p: ProblemArrays, s: DeviceOrders, order: IntArray) -> None:
    restart(p, s, s.assignment, order)


@step
def restart(p: ProblemArrays, s: DeviceOrders, assignment: IntArray, order: IntArray) -> None:
    """Take a placement [n], and its device orders from a topological order [n]."""
    last = s.buffer
    for device in range(len(s.front)):
        last[device], s.front[device] = -1, -1
    for k in range(len(order)):
        i = order[k]
        device = assignment[i]
        s.assignment[i], s.duration[i] = device, p.cost[i, device]
        s.order[k], s.turn[i] = i, k
        s.previous[i], s.following[i] = last[device], -1
        if last[device] >= 0:
            s.following[last[device]] = i
        else:
            s.front[device] = i
        last[device] = i
    for i in range(len(order)):
        _find_lags(p, s, i)
    find_heads(p, s, 0)
    find_tails(p, s, len(order) - 1)


@step
def lag_between(p: ProblemArrays, edge: int, a: int, b: int) -> float:
    """Time of an edge's transfer between two devices [s]."""
    return 0.0 if a == b else float(transfer_time(p, a, b, p.edge_bytes[edge]))


@step
def _find_lags(p: ProblemArrays, s: DeviceOrders, operator: int) -> None:
    """Bring the transfer times of an operator's outputs up to date."""
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        s.lag[edge] = lag_between(p, edge, s.assignment[operator], s.assignment[p.successor[edge]])


@step
def makespan_of(s: DeviceOrders) -> float:
    """Finish of the last operator [s]."""
    makespan = 0.0
    for i in range(len(s.head)):
        makespan = max(makespan, s.head[i] + s.duration[i])
    return makespan


@step
def arrival(p: ProblemArrays, s: DeviceOrders, operator: int) -> float:
    """Time at which the last input of an operator has arrived [s]."""
    latest = 0.0
    for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        j = p.predecessor[m]
        latest = max(latest, s.head[j] + s.duration[j] + s.lag[p.predecessor_edge[m]])
    return latest


@step
def remainder(p: ProblemArrays, s: DeviceOrders, operator: int) -> float:
    """Longest path from an operator's finish over its readers to the end [s]."""
    longest = 0.0
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        j = p.successor[edge]
        longest = max(longest, s.lag[edge] + s.duration[j] + s.tail[j])
    return longest


@step
def find_heads(p: ProblemArrays, s: DeviceOrders, first: int) -> None:
    """Bring the heads of operators from a turn on up to date."""
    for k in range(first, len(s.order)):
        i = s.order[k]
        head, j = arrival(p, s, i), s.previous[i]
        s.head[i] = max(head, s.head[j] + s.duration[j]) if j >= 0 else head


@step
def find_tails(p: ProblemArrays, s: DeviceOrders, last: int) -> None:
    """Bring the tails of operators up to a turn up to date."""
    for k in range(last, -1, -1):
        i = s.order[k]
        tail, j = remainder(p, s, i), s.following[i]
        s.tail[i] = max(tail, s.duration[j] + s.tail[j]) if j >= 0 else tail


# Where the device and an input hold an operator back equally, the draw decides; at most one of several inputs counts.
@step
def find_path(p: ProblemArrays, s: DeviceOrders, rng: np.random.Generator) -> int:
    """Find a longest path; return the number of its operators."""
    i = s.order[0]
    for k in range(len(s.order)):
        j = s.order[k]
        if s.head[j] + s.duration[j] > s.head[i] + s.duration[i]:
            i = j
    count = 0
    while True:
        s.path[count] = i
        count += 1
        if s.head[i] <= 0.0:
            return count
        before = s.previous[i]
        if before >= 0 and s.head[before] + s.duration[before] < s.head[i]:
            before = -1
        if before < 0 or rng.random() < 0.5:
            for m in range(p.predecessor_pointer[i], p.predecessor_pointer[i + 1]):
                j = p.predecessor[m]
                if s.head[j] + s.duration[j] + s.lag[p.predecessor_edge[m]] == s.head[i]:
                    before = j
        i = before


# Where run times are positive, what follows a reader of the operator ends earlier than that reader's own path. The
# reader itself has to be looked for.
@step
def may_follow(p: ProblemArrays, s: DeviceOrders, operator: int, other: int) -> bool:
    """True if no reader of an operator comes before another one, or is it: then it may be put right behind that."""
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        if p.successor[edge] == other:
            return False
    return bool(s.duration[other] + s.tail[other] >= remainder(p, s, operator))


@step
def may_precede(p: ProblemArrays, s: DeviceOrders, operator: int, other: int) -> bool:
    """True if no predecessor of an operator comes after another one, or is it: then it may be put right before that."""
    for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        if p.predecessor[m] == other:
            return False
    return bool(s.head[other] + s.duration[other] >= arrival(p, s, operator))


@step
def estimate(p: ProblemArrays, s: DeviceOrders, operator: int, other: int, behind: bool) -> float:
    """Longest path over the operators that change places, by the heads and tails around them [s].

    Args:
        p: the problem.
        s: the device orders.
        operator: the one that passes others.
        other: the last one that it passes, of the same device.
        behind: true if it goes behind the other one, false if before it.
    """
    count, i = 0, operator if behind else other
    last = other if behind else operator
    if not behind:
        s.passed[0], count = operator, 1
    first = s.previous[i]
    while True:
        if i != operator:
            s.passed[count] = i
            count += 1
        if i == last:
            break
        i = s.following[i]
    if behind:
        s.passed[count] = operator
        count += 1
    free = s.head[first] + s.duration[first] if first >= 0 else 0.0
    for k in range(count):
        i = s.passed[k]
        s.early[k] = max(free, arrival(p, s, i))
        free = s.early[k] + s.duration[i]
    after = s.following[last]
    rest = s.duration[after] + s.tail[after] if after >= 0 else 0.0
    longest = 0.0
    for k in range(count - 1, -1, -1):
        i = s.passed[k]
        rest = s.duration[i] + max(rest, remainder(p, s, i))
        longest = max(longest, s.early[k] + rest)
    return longest


@step
def insertion(p: ProblemArrays, s: DeviceOrders, operator: int, device: int) -> tuple[float, int, bool]:
    """The best place for an operator on another device, by the heads and tails there.

    Returns:
        The longest path over the operator [s], an operator of the device (-1 if it has none), and True if the place is
        right behind that one, False if right before it.
    """
    ready, rest = 0.0, 0.0
    for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        j, edge = p.predecessor[m], p.predecessor_edge[m]
        ready = max(ready, s.head[j] + s.duration[j] + lag_between(p, edge, s.assignment[j], device))
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        j = p.successor[edge]
        rest = max(rest, lag_between(p, edge, device, s.assignment[j]) + s.duration[j] + s.tail[j])
    arrived, left = arrival(p, s, operator), remainder(p, s, operator)
    duration = p.cost[operator, device]
    least, other, behind = np.inf, -1, True
    before, after = -1, s.front[device]
    if after < 0:
        return ready + duration + rest, -1, True
    while True:
        # no predecessor comes behind the place, and no reader before it
        if before >= 0 and s.duration[before] + s.tail[before] <= left:
            break
        if after < 0 or s.head[after] + s.duration[after] > arrived:
            start, tail = ready, rest
            if before >= 0:
                start = max(start, s.head[before] + s.duration[before])
            if after >= 0:
                tail = max(tail, s.duration[after] + s.tail[after])
            if start + duration + tail < least * TIE:
                least, other, behind = start + duration + tail, before if before >= 0 else after, before >= 0
        if after < 0:
            break
        before, after = after, s.following[after]
    return least, other, behind


@step
def _unlink(s: DeviceOrders, operator: int) -> None:
    before, after = s.previous[operator], s.following[operator]
    if before >= 0:
        s.following[before] = after
    else:
        s.front[s.assignment[operator]] = after
    if after >= 0:
        s.previous[after] = before


@step
def _link(p: ProblemArrays, s: DeviceOrders, operator: int, device: int, before: int, after: int) -> None:
    s.previous[operator], s.following[operator] = before, after
    if before >= 0:
        s.following[before] = operator
    else:
        s.front[device] = operator
    if after >= 0:
        s.previous[after] = operator
    if s.assignment[operator] != device:
        s.assignment[operator], s.duration[operator] = device, p.cost[operator, device]
        _find_lags(p, s, operator)
        for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
            j, edge = p.predecessor[m], p.predecessor_edge[m]
            s.lag[edge] = lag_between(p, edge, s.assignment[j], device)


@step
def put(p: ProblemArrays, s: DeviceOrders, operator: int, device: int, other: int, behind: bool) -> bool:
    """Put an operator right behind or right before another one of a device; False and no change if that is a circle.

    Args:
        p: the problem.
        s: the device orders.
        operator: the one that is moved.
        device: where it goes.
        other: its neighbour there, -1 if the device has no operators.
        behind: true if it goes behind the other one, false if before it.
    """
    device_before, was_before, was_after = s.assignment[operator], s.previous[operator], s.following[operator]
    _unlink(s, operator)
    if other < 0:
        _link(p, s, operator, device, -1, -1)
        low = high = s.turn[operator]
    else:
        if behind:
            _link(p, s, operator, device, other, s.following[other])
        else:
            _link(p, s, operator, device, s.previous[other], other)
        low, high = s.turn[operator], s.turn[operator]
        before, after = s.previous[operator], s.following[operator]
        if before >= 0 and s.turn[before] > high:
            high, possible = s.turn[before], _pass(p, s, operator, before, True)
        elif after >= 0 and s.turn[after] < low:
            low, possible = s.turn[after], _pass(p, s, operator, after, False)
        else:
            possible = True
        if not possible:
            _unlink(s, operator)
            _link(p, s, operator, device_before, was_before, was_after)
            return False
    find_heads(p, s, low)
    find_tails(p, s, high)
    return True


# Only turns between the two change. Behind another one, the operator takes along what must follow it; before another
# one, what must precede it.
@step
def _pass(p: ProblemArrays, s: DeviceOrders, operator: int, other: int, behind: bool) -> bool:
    """Give an operator and what is bound to it turns behind or before another one; False if that is a circle."""
    low, high = min(s.turn[operator], s.turn[other]), max(s.turn[operator], s.turn[other])
    s.marked[operator] = True
    for k in range(1, high - low + 1):
        i = s.order[low + k] if behind else s.order[high - k]
        found = False
        if behind:
            j = s.previous[i]
            found = j >= 0 and s.marked[j]
            for m in range(p.predecessor_pointer[i], p.predecessor_pointer[i + 1]):
                found = found or s.marked[p.predecessor[m]]
        else:
            j = s.following[i]
            found = j >= 0 and s.marked[j]
            for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
                found = found or s.marked[p.successor[edge]]
        s.marked[i] = found
    possible = not s.marked[other]
    if possible:
        count = 0
        for half in range(2):  # those that stay come first if the operator goes behind, else those that it takes along
            for k in range(low, high + 1):
                i = s.order[k]
                if s.marked[i] == ((half == 1) == behind):
                    s.buffer[count] = i
                    count += 1
        for k in range(count):
            i = s.buffer[k]
            s.order[low + k], s.turn[i] = i, low + k
    for k in range(low, high + 1):
        s.marked[s.order[k]] = False
    return bool(possible)
