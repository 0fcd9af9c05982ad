"""Device orders: a placement whose operators change places on their devices, or go to a place on another one.

The timing is that of the classic model: an operator starts when its inputs have arrived and the one before it on its
device has finished. With heads and tails of all operators, the makespan after an operator passes others of its
device is estimated from those that it passes alone (Balas, Vazacopoulos, Management Science 44(2), 1998), and that
after it goes to another device from its new neighbours there (Mastrolilli, Gambardella, J. Scheduling 3, 2000).

Invariant, before and after each step: ``previous`` and ``following`` are the neighbours on the devices, ``order`` is a
topological order of the graph with these neighbours as edges, ``turn`` its inverse, and ``head`` and ``tail`` are the
longest paths.
"""

from typing import Annotated, NamedTuple

import numpy as np

from hetgym._kernels.blanks import blank
from hetgym._kernels.jit import lean, step
from hetgym._kernels.records import record
from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.problem import Problem, ProblemArrays
from hetgym.search.walk import TIE
from hetgym.transfer import transfer_time


@record
class DeviceOrders(NamedTuple):
    """The device orders of a placement."""

    assignment: Annotated[IntArray, "n"]  # device of each operator
    duration: Annotated[FloatArray, "n"]  # run times [s]
    lag: Annotated[FloatArray, "e"]  # transfer times [s]
    # order, turn: a topological order of graph and device orders, and its inverse
    order: Annotated[IntArray, "n"]
    turn: Annotated[IntArray, "n"]
    # previous, following: the neighbours on the device, -1 where there is none
    previous: Annotated[IntArray, "n"]
    following: Annotated[IntArray, "n"]
    front: Annotated[IntArray, "d"]  # the first operator of each device, -1 where there is none
    head: Annotated[FloatArray, "n"]  # start of each operator [s]
    tail: Annotated[FloatArray, "n"]  # longest path from the finish of each operator to the end [s]
    path: Annotated[IntArray, "n"]  # operators of a longest path, backward from the last one
    passed: Annotated[IntArray, "n"]  # scratch of estimates: the operators that change places
    early: Annotated[FloatArray, "n"]  # scratch of estimates: their starts [s]
    marked: Annotated[BoolArray, "n"]  # scratch, all false between steps
    buffer: Annotated[IntArray, "most"]  # scratch, of the larger of n and d


def forced(problem: Problem) -> bool:
    """True if every operator can run on one device only, so that nothing but the order is free."""
    return bool((np.isfinite(problem.cost).sum(axis=1) == 1).all())


def is_shop(problem: Problem) -> bool:
    """True if operators are forced on their devices, or nothing takes time between devices."""
    return forced(problem) or not problem.mean_communication.any()


def new_device_orders(problem: Problem, assignment: IntArray, order: IntArray) -> DeviceOrders:
    """Device orders of a placement [n], as they are in a topological order [n]."""
    n, d, given = problem.num_operators, problem.num_devices, {"assignment": np.array(assignment, np.int32)}
    orders = blank(DeviceOrders, given, n=n, e=problem.num_edges, d=d, most=max(n, d))
    _open(problem.arrays, orders, np.asarray(order, np.int32))
    return orders


@lean
def _open(p: ProblemArrays, orders: DeviceOrders, order: IntArray) -> None:
    restart(p, orders, orders.assignment, order)


@step
def restart(p: ProblemArrays, orders: DeviceOrders, assignment: IntArray, order: IntArray) -> None:
    """Take a placement [n], and its device orders from a topological order [n]."""
    last = orders.buffer
    for device in range(len(orders.front)):
        last[device], orders.front[device] = -1, -1
    for k in range(len(order)):
        i = order[k]
        device = assignment[i]
        orders.assignment[i], orders.duration[i] = device, p.cost[i, device]
        orders.order[k], orders.turn[i] = i, k
        orders.previous[i], orders.following[i] = last[device], -1
        if last[device] >= 0:
            orders.following[last[device]] = i
        else:
            orders.front[device] = i
        last[device] = i
    for i in range(len(order)):
        _find_lags(p, orders, i)
    find_heads(p, orders, 0)
    find_tails(p, orders, len(order) - 1)


@step
def lag_between(p: ProblemArrays, edge: int, a: int, b: int) -> float:
    """Time of an edge's transfer between two devices [s]."""
    return 0.0 if a == b else float(transfer_time(p, a, b, p.edge_bytes[edge]))


@step
def _find_lags(p: ProblemArrays, orders: DeviceOrders, operator: int) -> None:
    """Bring the transfer times of an operator's outputs up to date."""
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        orders.lag[edge] = lag_between(p, edge, orders.assignment[operator], orders.assignment[p.successor[edge]])


@step
def makespan_of(orders: DeviceOrders) -> float:
    """Finish of the last operator [s]."""
    makespan = 0.0
    for i in range(len(orders.head)):
        makespan = max(makespan, orders.head[i] + orders.duration[i])
    return makespan


@step
def arrival(p: ProblemArrays, orders: DeviceOrders, operator: int) -> float:
    """Time at which the last input of an operator has arrived [s]."""
    latest = 0.0
    for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        j = p.predecessor[m]
        latest = max(latest, orders.head[j] + orders.duration[j] + orders.lag[p.predecessor_edge[m]])
    return latest


@step
def remainder(p: ProblemArrays, orders: DeviceOrders, operator: int) -> float:
    """Longest path from an operator's finish over its readers to the end [s]."""
    longest = 0.0
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        j = p.successor[edge]
        longest = max(longest, orders.lag[edge] + orders.duration[j] + orders.tail[j])
    return longest


@step
def find_heads(p: ProblemArrays, orders: DeviceOrders, first: int) -> None:
    """Bring the heads of operators from a turn on up to date."""
    for k in range(first, len(orders.order)):
        i = orders.order[k]
        head, j = arrival(p, orders, i), orders.previous[i]
        orders.head[i] = max(head, orders.head[j] + orders.duration[j]) if j >= 0 else head


@step
def find_tails(p: ProblemArrays, orders: DeviceOrders, last: int) -> None:
    """Update the tails of operators up to a turn."""
    for k in range(last, -1, -1):
        i = orders.order[k]
        tail, j = remainder(p, orders, i), orders.following[i]
        orders.tail[i] = max(tail, orders.duration[j] + orders.tail[j]) if j >= 0 else tail


# Where the device and an input hold an operator back equally, the draw decides; at most one of several inputs counts.
@step
def find_path(p: ProblemArrays, orders: DeviceOrders, rng: np.random.Generator) -> int:
    """Find a longest path; return the number of its operators."""
    i = orders.order[0]
    for k in range(len(orders.order)):
        j = orders.order[k]
        if orders.head[j] + orders.duration[j] > orders.head[i] + orders.duration[i]:
            i = j
    count = 0
    while True:
        orders.path[count] = i
        count += 1
        if orders.head[i] <= 0.0:
            return count
        before = orders.previous[i]
        if before >= 0 and orders.head[before] + orders.duration[before] < orders.head[i]:
            before = -1
        if before < 0 or rng.random() < 0.5:
            for m in range(p.predecessor_pointer[i], p.predecessor_pointer[i + 1]):
                j = p.predecessor[m]
                if orders.head[j] + orders.duration[j] + orders.lag[p.predecessor_edge[m]] == orders.head[i]:
                    before = j
        i = before


# Where run times are positive, what follows a reader of the operator ends earlier than that reader's own path. The
# reader itself has to be looked for.
@step
def may_follow(p: ProblemArrays, orders: DeviceOrders, operator: int, other: int) -> bool:
    """True if no reader of an operator comes before another one, or is it: then it may be put right behind that."""
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        if p.successor[edge] == other:
            return False
    return bool(orders.duration[other] + orders.tail[other] >= remainder(p, orders, operator))


@step
def may_precede(p: ProblemArrays, orders: DeviceOrders, operator: int, other: int) -> bool:
    """True if no predecessor of an operator comes after another one, or is it: then it may be put right before that."""
    for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        if p.predecessor[m] == other:
            return False
    return bool(orders.head[other] + orders.duration[other] >= arrival(p, orders, operator))


@step
def estimate(p: ProblemArrays, orders: DeviceOrders, operator: int, other: int, behind: bool) -> float:
    """Longest path over the operators that change places, by the heads and tails around them [s].

    Args:
        operator, other: the one that passes others, and the last one that it passes, of the same device.
        behind: true if it goes behind the other one, false if before it.
    """
    count, i = 0, operator if behind else other
    last = other if behind else operator
    if not behind:
        orders.passed[0], count = operator, 1
    first = orders.previous[i]
    while True:
        if i != operator:
            orders.passed[count] = i
            count += 1
        if i == last:
            break
        i = orders.following[i]
    if behind:
        orders.passed[count] = operator
        count += 1
    free = orders.head[first] + orders.duration[first] if first >= 0 else 0.0
    for k in range(count):
        i = orders.passed[k]
        orders.early[k] = max(free, arrival(p, orders, i))
        free = orders.early[k] + orders.duration[i]
    after = orders.following[last]
    rest = orders.duration[after] + orders.tail[after] if after >= 0 else 0.0
    longest = 0.0
    for k in range(count - 1, -1, -1):
        i = orders.passed[k]
        rest = orders.duration[i] + max(rest, remainder(p, orders, i))
        longest = max(longest, orders.early[k] + rest)
    return longest


@step
def insertion(p: ProblemArrays, orders: DeviceOrders, operator: int, device: int) -> tuple[float, int, bool]:
    """The best place for an operator on another device, by the heads and tails there.

    Returns:
        The longest path over the operator [s], an operator of the device (-1 if it has none), and True if the place is
        right behind that one, False if right before it.
    """
    ready, rest = 0.0, 0.0
    for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        j, edge = p.predecessor[m], p.predecessor_edge[m]
        ready = max(ready, orders.head[j] + orders.duration[j] + lag_between(p, edge, orders.assignment[j], device))
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        j = p.successor[edge]
        rest = max(rest, lag_between(p, edge, device, orders.assignment[j]) + orders.duration[j] + orders.tail[j])
    arrived, left = arrival(p, orders, operator), remainder(p, orders, operator)
    duration = p.cost[operator, device]
    least, other, behind = np.inf, -1, True
    before, after = -1, orders.front[device]
    if after < 0:
        return ready + duration + rest, -1, True
    while True:
        # no predecessor comes behind the place, and no reader before it
        if before >= 0 and orders.duration[before] + orders.tail[before] <= left:
            break
        if after < 0 or orders.head[after] + orders.duration[after] > arrived:
            start, tail = ready, rest
            if before >= 0:
                start = max(start, orders.head[before] + orders.duration[before])
            if after >= 0:
                tail = max(tail, orders.duration[after] + orders.tail[after])
            if start + duration + tail < least * TIE:
                least, other, behind = start + duration + tail, before if before >= 0 else after, before >= 0
        if after < 0:
            break
        before, after = after, orders.following[after]
    return least, other, behind


@step
def _unlink(orders: DeviceOrders, operator: int) -> None:
    before, after = orders.previous[operator], orders.following[operator]
    if before >= 0:
        orders.following[before] = after
    else:
        orders.front[orders.assignment[operator]] = after
    if after >= 0:
        orders.previous[after] = before


@step
def _link(p: ProblemArrays, orders: DeviceOrders, operator: int, device: int, before: int, after: int) -> None:
    orders.previous[operator], orders.following[operator] = before, after
    if before >= 0:
        orders.following[before] = operator
    else:
        orders.front[device] = operator
    if after >= 0:
        orders.previous[after] = operator
    if orders.assignment[operator] != device:
        orders.assignment[operator], orders.duration[operator] = device, p.cost[operator, device]
        _find_lags(p, orders, operator)
        for m in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
            j, edge = p.predecessor[m], p.predecessor_edge[m]
            orders.lag[edge] = lag_between(p, edge, orders.assignment[j], device)


@step
def put(p: ProblemArrays, orders: DeviceOrders, operator: int, device: int, other: int, behind: bool) -> bool:
    """Put an operator right behind or right before another of a device; False and no change if a cycle would close.

    Args:
        other: its neighbour there, -1 if the device has no operators.
        behind: true if it goes behind the other one, false if before it.
    """
    device_before, was_before, was_after = (
        orders.assignment[operator],
        orders.previous[operator],
        orders.following[operator],
    )
    _unlink(orders, operator)
    if other < 0:
        _link(p, orders, operator, device, -1, -1)
        low = high = orders.turn[operator]
    else:
        if behind:
            _link(p, orders, operator, device, other, orders.following[other])
        else:
            _link(p, orders, operator, device, orders.previous[other], other)
        low, high = orders.turn[operator], orders.turn[operator]
        before, after = orders.previous[operator], orders.following[operator]
        if before >= 0 and orders.turn[before] > high:
            high, possible = orders.turn[before], _pass(p, orders, operator, before, True)
        elif after >= 0 and orders.turn[after] < low:
            low, possible = orders.turn[after], _pass(p, orders, operator, after, False)
        else:
            possible = True
        if not possible:
            _unlink(orders, operator)
            _link(p, orders, operator, device_before, was_before, was_after)
            return False
    find_heads(p, orders, low)
    find_tails(p, orders, high)
    return True


# Only turns between the two change. Behind another one, the operator takes along what must follow it; before another
# one, what must precede it.
@step
def _pass(p: ProblemArrays, orders: DeviceOrders, operator: int, other: int, behind: bool) -> bool:
    """Give an operator and what is bound to it turns behind or before another one; False if that is a circle."""
    low, high = min(orders.turn[operator], orders.turn[other]), max(orders.turn[operator], orders.turn[other])
    orders.marked[operator] = True
    for k in range(1, high - low + 1):
        i = orders.order[low + k] if behind else orders.order[high - k]
        found = False
        if behind:
            j = orders.previous[i]
            found = j >= 0 and orders.marked[j]
            for m in range(p.predecessor_pointer[i], p.predecessor_pointer[i + 1]):
                found = found or orders.marked[p.predecessor[m]]
        else:
            j = orders.following[i]
            found = j >= 0 and orders.marked[j]
            for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
                found = found or orders.marked[p.successor[edge]]
        orders.marked[i] = found
    possible = not orders.marked[other]
    if possible:
        count = 0
        for half in range(2):  # those that stay come first if the operator goes behind, else those that it takes along
            for k in range(low, high + 1):
                i = orders.order[k]
                if orders.marked[i] == ((half == 1) == behind):
                    orders.buffer[count] = i
                    count += 1
        for k in range(count):
            i = orders.buffer[k]
            orders.order[low + k], orders.turn[i] = i, low + k
    for k in range(low, high + 1):
        orders.marked[orders.order[k]] = False
    return bool(possible)
