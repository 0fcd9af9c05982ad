"""MH: the mapping heuristic, list scheduling over routes that carry other transfers, too."""

import numpy as np

from hetgym._kernels.heap import pop, push
from hetgym._kernels.jit import jit
from hetgym._types import FloatArray, IntArray
from hetgym.planning import timeline
from hetgym.planning.list_scheduling import earliest_finish
from hetgym.planning.ready_list import static_level
from hetgym.planning.ready_queue import READY, ReadyQueue, new_queue
from hetgym.planning.starts import started
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import Runtime


def mapping_heuristic(problem: Problem, runtime: str | Runtime = "classic", start: str = "plain") -> Schedule:
    """In the order in which operators become ready, each where it finishes first on links that others use, too.

    An operator becomes ready when the last of its predecessors finishes; of those that do at the same time, the one
    with the longest path of median run times to an exit goes first. Its transfers are booked on their routes, behind
    and between those that are there. Operators are appended.

    The paper keeps tables of routes and delays that are updated as transfers begin and end; here the bookings of the
    timeline take their place. Further ties go to the smaller topological position, then to the smaller device.

    Args:
        start: ``"replay"`` and ``"contracted"`` improve the plan, see :func:`~hetgym.planning.starts.started`.

    >>> from hetgym.workloads import textbook
    >>> mapping_heuristic(textbook("topcuoglu")).makespan
    91.0
    """
    return started(problem, start, runtime, _as_ready)


def _as_ready(problem: Problem, runtime: Runtime) -> Schedule:
    p, n, nothing = problem.arrays, problem.num_operators, np.zeros(problem.cost.shape)
    by_level = np.lexsort((p.position, -static_level(problem))).astype(np.int32)
    return timeline.filled(problem, runtime, lambda placed: _place(p, placed, new_queue(n), by_level, nothing))


# The heap holds the ready operators by the time at which they became ready, as places in `by_level`. Nothing that is
# placed later becomes ready earlier.
@jit
def _place(p: ProblemArrays, t: timeline.Timeline, queue: ReadyQueue, by_level: IntArray, nothing: FloatArray) -> None:
    """Place all operators; of those ready at the same time, the earlier ones in ``by_level`` [n] go first."""
    n = len(by_level)
    place, since = np.empty(n, np.int32), np.zeros(n)
    for k in range(n):
        i = by_level[k]
        place[i] = k
        queue.waiting[i] = p.predecessor_pointer[i + 1] - p.predecessor_pointer[i]
        if queue.waiting[i] == 0:
            push(queue.heaps, READY, 0.0, k)
    for _ in range(n):
        i = by_level[pop(queue.heaps, READY)]
        device, start = earliest_finish(p, t, i, -1, nothing, False)
        timeline.book(p, t, i, device, start)
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            j = p.successor[edge]
            since[j] = max(since[j], t.finish[i])
            queue.waiting[j] -= 1
            if queue.waiting[j] == 0:
                push(queue.heaps, READY, since[j], place[j])
