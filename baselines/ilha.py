"""ILHA: iso-level heterogeneous allocation, which balances ready operators in chunks."""

from functools import partial

import numpy as np

from hetgym._kernels.heap import pop
from hetgym._kernels.jit import jit
from hetgym._types import FloatArray, IntArray
from hetgym.errors import ConfigError
from hetgym.planning import timeline
from hetgym.planning.list_scheduling import earliest_finish
from hetgym.planning.ranks import upward_rank
from hetgym.planning.ready_queue import READY, ReadyQueue, new_queue, open_queue, release
from hetgym.planning.starts import started
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import Runtime

PER_DEVICE = 4  # Operators of a chunk for each device, by default: the paper uses 38 on ten devices


def ilha(
    problem: Problem, chunk: int | None = None, runtime: str | Runtime = "classic", start: str = "plain"
) -> Schedule:
    """Chunks of ready operators: first those that need no transfer, as far as loads are even, then the others.

    A chunk holds the ready operators of largest upward rank. An operator all of whose predecessors are on one device
    stays there if it fits into what is left of the device's share of the chunk, so that nothing is sent. Then the
    others go, by rank, where they finish first, gaps filled. Operators that become ready meanwhile wait for the next
    chunk.

    The paper's devices differ by a factor, one for all operators, and shares are numbers of operators of equal length.
    Here a share is the time that the chunk would take if it could be divided freely and every device had its mean speed
    for the chunk. Made for the one-port model, ``communication="endpoint"``. Ties go to the smaller topological
    position, then to the smaller device.

    Args:
        chunk: number of operators of a chunk; four for each device by default.
        start: ``"replay"`` and ``"contracted"`` improve the plan, see :func:`~hetgym.planning.starts.started`.

    Raises:
        ConfigError: a chunk of no operators.

    >>> from hetgym.workloads import textbook
    >>> ilha(textbook("topcuoglu")).makespan
    86.0
    """
    if chunk is not None and chunk < 1:
        raise ConfigError(f"ilha: chunk is {chunk}; it must hold at least one operator")
    return started(problem, start, runtime, partial(_in_chunks, chunk=chunk))


def _in_chunks(problem: Problem, runtime: Runtime, chunk: int | None) -> Schedule:
    n, d = problem.cost.shape
    rank, nothing = upward_rank(problem), np.zeros((n, d))
    members = np.empty(min(chunk or PER_DEVICE * d, n), np.int32)
    return timeline.filled(
        problem, runtime, lambda placed: _place(problem.arrays, placed, new_queue(n), rank, members, nothing)
    )


# In each round `members[:count]` are the operators of the chunk by rank. `share` is the time in which the devices
# together would run it, each at its mean speed. O(e p + n log n) in all, gaps aside.
@jit
def _place(
    p: ProblemArrays, t: timeline.Timeline, queue: ReadyQueue, rank: FloatArray, members: IntArray, nothing: FloatArray
) -> None:
    """Place all operators; ``members``, [chunk], is scratch."""
    d = p.cost.shape[1]
    load = np.empty(d)
    open_queue(p, queue, rank)
    while queue.heaps.size[READY] > 0:
        count = 0
        while count < len(members) and queue.heaps.size[READY] > 0:
            members[count] = p.topological_order[pop(queue.heaps, READY)]
            count += 1
        speed = 0.0
        for device in range(d):
            load[device] = 0.0
            work, able = 0.0, 0
            for k in range(count):
                if p.cost[members[k], device] < np.inf:
                    work += p.cost[members[k], device]
                    able += 1
            if able > 0:
                speed += able / (work * count) if work > 0.0 else np.inf
        share = 1.0 / speed
        for k in range(count):
            i = members[k]
            first = p.predecessor_pointer[i]
            device = t.assignment[p.predecessor[first]] if first < p.predecessor_pointer[i + 1] else -1
            for m in range(first, p.predecessor_pointer[i + 1]):
                if t.assignment[p.predecessor[m]] != device:
                    device = -1
            if device < 0 or load[device] + p.cost[i, device] > share or not timeline.fits(t, i, device):
                continue
            timeline.book(p, t, i, device, timeline.start_on(p, t, i, device, True))
            load[device] += p.cost[i, device]
        for k in range(count):
            i = members[k]
            if t.assignment[i] < 0:
                device, start = earliest_finish(p, t, i, -1, nothing, True)
                timeline.book(p, t, i, device, start)
        for k in range(count):
            release(p, queue, members[k], rank)
