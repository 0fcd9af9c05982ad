"""The steps of a simulation: the state, and what a launch, a transfer and an arrival do to it.

Operators are *launched* on a device; when they finish, their outputs are *sent* to the devices that read them. Both
ways of running are built from these steps: :mod:`hetgym.sim.sweep`, without a clock, and :mod:`hetgym.sim.loop`, with
one.
"""

from typing import NamedTuple

import numpy as np

from hetgym._kernels.jit import inlined, step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, IntArray
from hetgym.problem import ProblemArrays
from hetgym.transfer import transfer_time

FREE, FIFO, FAIR, ENDPOINT = 0, 1, 2, 3  # positions in runtime.COMMUNICATION
PER_EDGE, CACHED, AGGREGATED = 0, 1, 2  # positions in runtime.TRANSFERS


class Switches(NamedTuple):
    """A runtime as the kernel sees it; see :class:`hetgym.sim.Runtime`."""

    communication: int  # position in `runtime.COMMUNICATION`
    transfers: int  # position in `runtime.TRANSFERS`
    dispatch: float  # host time for each launched operator [s]
    streams: int  # operators that may run at the same time on a device
    overlap: float  # relative slow-down of an operator for each one that already runs on the device at its start
    work_conserving: bool  # true if a free device may take any operator whose inputs have arrived
    by_arrival: bool = False  # true if it takes the one whose last input arrived first; only if work-conserving
    partitions: bool = False  # true if devices take time to enter a partition, or take turns


@step
def keeps_order(switches: Switches) -> bool:
    """As :attr:`hetgym.Runtime.keeps_order`; schedules by priority do not."""
    return switches.streams == 1 and not switches.work_conserving and not switches.partitions


@record
class State(NamedTuple):
    """Everything that a simulation fills in, with or without a clock."""

    start: FloatArray  # [n] start of each operator [s]
    finish: FloatArray  # [n] finish of each operator [s]
    sent: FloatArray  # [e] start of each edge's transfer [s]; with a clock inf until it is requested
    arrived: FloatArray  # [e] end of each edge's transfer [s]; equal to `sent` when it stays on a device
    ready: FloatArray  # [n] arrival of the operator's last input so far [s]
    waiting: IntArray  # [n] inputs whose arrival is not known yet
    launched: IntArray  # [d] operators launched so far
    # [d] finish of the operator that each device launched last, with several streams the last finish of those that run
    # [s]
    free: FloatArray
    link_free: FloatArray  # [l] time from which each link is free [s]
    channel_free: FloatArray  # [2, d] time from which each device's sending and receiving channel is free [s]


def new_state(p: ProblemArrays) -> State:
    """Allocate the state of one simulation."""
    n, d = p.cost.shape
    e = len(p.successor)
    return State(
        start=np.zeros(n),
        finish=np.zeros(n),
        sent=np.zeros(e),
        arrived=np.zeros(e),
        ready=np.zeros(n),
        waiting=np.zeros(n, np.int32),
        launched=np.zeros(d, np.int32),
        free=np.zeros(d),
        link_free=np.zeros(len(p.link_bandwidth)),
        channel_free=np.zeros((2, d)),
    )


@step
def reset(p: ProblemArrays, s: State) -> None:
    """Return a state to time 0."""
    for device in range(len(s.free)):
        s.launched[device] = 0
        s.free[device] = 0.0
        s.channel_free[0, device] = 0.0
        s.channel_free[1, device] = 0.0
    for link in range(len(s.link_free)):
        s.link_free[link] = 0.0
    for i in range(len(s.waiting)):
        s.ready[i] = 0.0
        s.waiting[i] = p.predecessor_pointer[i + 1] - p.predecessor_pointer[i]


@step
def launch(
    p: ProblemArrays,
    s: State,
    operator: int,
    device: int,
    now: float,
    beside: int,
    factor: float,
    ahead: bool,
    entry: float,
    switches: Switches,
) -> None:
    """Start an operator.

    Args:
        now: time at which the device takes it [s].
        beside: number of operators that run on the device at this moment.
        factor: noise and slow-down, as a factor of the run time.
        ahead: true if a host issued it ahead of time, so that the device does not spend the dispatch time.
        entry: time to enter the partition that it begins, part of its run time [s].
    """
    start = now if ahead else now + switches.dispatch
    s.start[operator] = start
    s.finish[operator] = start + entry + p.cost[operator, device] * factor * (1.0 + switches.overlap * beside)
    s.free[device] = s.finish[operator]
    s.launched[device] += 1


@inlined
def way_free(
    p: ProblemArrays, communication: int, link_free: FloatArray, channel_free: FloatArray, a: int, b: int, now: float
) -> float:
    """Time from ``now`` on at which every link or channel that a transfer from a to b would hold is free [s].

    Arguments are those of :func:`book_transfer`; not for fair sharing.
    """
    free = now
    if communication == FIFO:
        route = a * p.cost.shape[1] + b
        for k in range(p.route_pointer[route], p.route_pointer[route + 1]):
            free = max(free, link_free[p.route_link[k]])
    elif communication == ENDPOINT:
        free = max(free, channel_free[0, a], channel_free[1, b])
    return free


@inlined
def book_transfer(
    p: ProblemArrays,
    communication: int,
    link_free: FloatArray,
    channel_free: FloatArray,
    a: int,
    b: int,
    size: float,
    request: float,
) -> tuple[float, float]:
    """Book a transfer between two devices on every link or channel that it holds; not for fair sharing.

    Args:
        communication: :data:`FREE`, :data:`FIFO` or :data:`ENDPOINT`.
        link_free: [l] time from which each link is free [s]; updated.
        channel_free: [2, d] time from which each device may send, and receive [s]; updated.
        a, b, size: device that sends, device that receives, and payload [byte].
        request: time of the request [s].

    Returns:
        Its start and its end [s].
    """
    sent = way_free(p, communication, link_free, channel_free, a, b, request)
    arrived = sent + transfer_time(p, a, b, size)
    if communication == FIFO:
        route = a * p.cost.shape[1] + b
        for k in range(p.route_pointer[route], p.route_pointer[route + 1]):
            link_free[p.route_link[k]] = arrived
    elif communication == ENDPOINT:
        channel_free[0, a] = arrived
        channel_free[1, b] = arrived
    return sent, arrived


@inlined
def settle(p: ProblemArrays, s: State, edge: int, sent: float, arrived: float) -> None:
    """Record an edge's transfer: the arrival of one more input of its reader is known."""
    target = p.successor[edge]
    s.sent[edge] = sent
    s.arrived[edge] = arrived
    s.ready[target] = max(s.ready[target], arrived)
    s.waiting[target] -= 1


@inlined
def shares_copy(p: ProblemArrays, assignment: IntArray, edge: int, first: int) -> int:
    """The earliest edge from ``first`` on that carries this edge's tensor to the same device."""
    tensor, device = p.edge_tensor[edge], assignment[p.successor[edge]]
    for k in range(first, edge):
        if p.edge_tensor[k] == tensor and assignment[p.successor[k]] == device:
            return k
    return edge


@inlined
def copy_size(p: ProblemArrays, assignment: IntArray, edge: int, last: int) -> float:
    """Bytes of the one copy that serves all readers of this edge's tensor on its target device."""
    size = float(p.edge_bytes[edge])
    tensor, device = p.edge_tensor[edge], assignment[p.successor[edge]]
    for k in range(edge + 1, last):
        if p.edge_tensor[k] == tensor and assignment[p.successor[k]] == device:
            size = max(size, p.edge_bytes[k])
    return size


@step
def makespan_of(s: State, done: int) -> float:
    """The last finish of all operators [s]; inf if not all are done."""
    if done < len(s.finish):
        return np.inf
    last = 0.0
    for i in range(len(s.finish)):
        last = max(last, s.finish[i])
    return last
