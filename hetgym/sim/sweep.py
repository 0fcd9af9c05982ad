"""The sweep: simulation of a schedule without a clock, where the order of events does not matter.

Its results equal those of :mod:`hetgym.sim.loop` bit for bit, and it is faster: it needs no heap and visits every
operator and edge once.
"""

from hetgym._kernels.interpreted import interpreted
from hetgym._kernels.jit import inlined, lean, step
from hetgym._types import FloatArray, IntArray
from hetgym.problem import ProblemArrays
from hetgym.sim.kernel import (
    CACHED,
    FREE,
    PER_EDGE,
    State,
    Switches,
    book_transfer,
    copy_size,
    launch,
    makespan_of,
    reset,
    settle,
    shares_copy,
)


# Invariant of the sweep. ``waiting[i]`` counts the inputs of i that are not settled, and one more until the operator
# before i on its device has run; the stack holds exactly the operators that have not run and whose count is 0. Each
# iteration runs one of them, which settles its outputs and decrements the count of the next operator of its device. All
# times that it reads are final: those of its inputs and of its device. The order of iterations does not affect devices,
# nor links, because all requests for a link come from one device in its order. Every operator is stacked at most once,
# so the loop ends after at most n iterations and O(n + e) steps; if fewer ran, the orders deadlock.
@step
def run_order(
    p: ProblemArrays,
    s: State,
    stack: IntArray,
    assignment: IntArray,
    order: IntArray,
    order_pointer: IntArray,
    factor: FloatArray,
    switches: Switches,
) -> int:
    """Run every device's operators in a fixed order; return how many ran: less than n if the orders deadlock.

    Exact for transfers that are pushed, over links that pairs of devices do not share.

    Args:
        stack: [n + 1] scratch: operators that may run next.
        assignment: [n] device of each operator.
        order, order_pointer: [n] operators, device after device, and [d + 1] starts.
        factor: [n] noise, as a factor of each run time.
    """
    reset(p, s)
    top = 0
    for device in range(p.cost.shape[1]):
        first, last = order_pointer[device], order_pointer[device + 1]
        for cursor in range(first + 1, last):
            s.waiting[order[cursor]] += 1  # for the operator before it
        if first < last:
            top = _put(s, stack, order[first], top)
    done = 0
    while top > 0:
        top -= 1
        done += 1
        operator = int(stack[top])
        device = assignment[operator]
        now = max(s.ready[operator], s.free[device], _issue_time(p, s, device, switches))
        launch(p, s, operator, device, now, 0, factor[operator], p.asynchronous[device], 0.0, switches)
        first, last = p.successor_pointer[operator], p.successor_pointer[operator + 1]
        for edge in range(first, last):
            _deliver(p, s, assignment, edge, first, last, device, s.finish[operator], switches)
            top = _put(s, stack, p.successor[edge], top)
        cursor = order_pointer[device] + s.launched[device]
        if cursor < order_pointer[device + 1]:
            s.waiting[order[cursor]] -= 1
            top = _put(s, stack, order[cursor], top)
    return done


@interpreted
@lean
def run_orders(
    p: ProblemArrays,
    s: State,
    stack: IntArray,
    assignment: IntArray,
    order: IntArray,
    order_pointer: IntArray,
    factor: FloatArray,
    switches: Switches,
    makespan: FloatArray,
) -> int:
    """As :func:`run_order` for a batch: a row of ``assignment``, ``order`` and ``order_pointer`` for each.

    Fills in the ``makespan`` of each [s], inf for a deadlock; returns the smallest number of operators that ran in one.
    """
    least = len(s.start)
    for row in range(len(makespan)):
        done = run_order(p, s, stack, assignment[row], order[row], order_pointer[row], factor, switches)
        makespan[row] = makespan_of(s, done)
        least = min(least, done)
    return least


@inlined
def _put(s: State, stack: IntArray, operator: int, top: int) -> int:
    """Put an operator on the stack if it may run; without a branch, which would be mispredicted too often."""
    stack[top] = operator
    return top + int(s.waiting[operator] == 0)


@inlined
def _issue_time(p: ProblemArrays, s: State, device: int, switches: Switches) -> float:
    """Time at which the host has issued the next operator of a device's order [s]; as in the event loop."""
    if p.asynchronous[device]:
        return float((s.launched[device] + 1) * switches.dispatch)
    return 0.0


@inlined
def _deliver(
    p: ProblemArrays,
    s: State,
    assignment: IntArray,
    edge: int,
    first: int,
    last: int,
    a: int,
    request: float,
    switches: Switches,
) -> None:
    """Take one output of a finished operator, whose edges are ``first`` to before ``last``, to its reader."""
    to = assignment[p.successor[edge]]
    if switches.communication == FREE and switches.transfers == PER_EDGE:  # on one device this takes no time, too
        sent, arrived = book_transfer(p, FREE, s.link_free, s.channel_free, a, to, p.edge_bytes[edge], request)
        settle(p, s, edge, sent, arrived)
        return
    if a == to:
        settle(p, s, edge, request, request)
        return
    size = p.edge_bytes[edge]
    if switches.transfers == CACHED:
        leader = shares_copy(p, assignment, edge, first)
        if leader < edge:
            settle(p, s, edge, s.sent[leader], s.arrived[leader])
            return
        size = copy_size(p, assignment, edge, last)
    sent, arrived = book_transfer(p, switches.communication, s.link_free, s.channel_free, a, to, size, request)
    settle(p, s, edge, sent, arrived)
