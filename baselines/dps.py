"""DPS: dynamic priority scheduling."""

import numpy as np

from hetgym._kernels.heap import pop
from hetgym._kernels.jit import jit
from hetgym._types import FloatArray
from hetgym.planning import timeline
from hetgym.planning.list_scheduling import earliest_finish
from hetgym.planning.ranks import upward_rank
from hetgym.planning.ready_queue import READY, ReadyQueue, new_queue, open_queue, release
from hetgym.planning.starts import started
from hetgym.planning.timeline import Timeline
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import Runtime


def dps(problem: Problem, runtime: str | Runtime = "classic", start: str = "plain") -> Schedule:
    """The ready operator with most of its longest path still ahead, where it finishes first.

    The priority of an operator is its bottom level, the longest path from it to an exit, minus its top level, the
    longest path from an entry to it. Where devices are known, levels count run times and transfers on these, otherwise
    means. So the top level of an operator is settled when its predecessors are placed, and its bottom level is its
    upward rank. Gaps are filled.

    The rules are those of SAGA's scheduler of that name, which cites no paper; it orders all operators, ready or not.
    Ties go to the smaller topological position, then to the smaller device.

    Args:
        start: ``"replay"`` and ``"contracted"`` improve the plan, see :func:`~hetgym.planning.starts.started`.

    >>> from hetgym.workloads import textbook
    >>> dps(textbook("topcuoglu")).makespan
    80.0
    """
    return started(problem, start, runtime, _dynamic)


def _dynamic(problem: Problem, runtime: Runtime) -> Schedule:
    rank, nothing = upward_rank(problem), np.zeros(problem.cost.shape)

    def fill(placed: Timeline) -> None:
        queue = new_queue(problem.num_operators)
        _place(problem.arrays, placed, queue, rank, problem.mean_communication, nothing)

    return timeline.filled(problem, runtime, fill)


# Before each round the heap holds the ready operators by their priorities, `top` the top levels of those that are
# placed, and `reached` the longest paths to the start of the others, with mean transfers on the last edge.
@jit
def _place(
    p: ProblemArrays, t: Timeline, queue: ReadyQueue, rank: FloatArray, communication: FloatArray, nothing: FloatArray
) -> None:
    """Place all operators, given bottom levels ``rank`` [n] and mean transfer times ``communication`` [e] [s]."""
    n = len(rank)
    top, reached, priority = np.zeros(n), np.zeros(n), rank.copy()
    open_queue(p, queue, priority)
    for _ in range(n):
        i = p.topological_order[pop(queue.heaps, READY)]
        device, start = earliest_finish(p, t, i, -1, nothing, True)
        timeline.book(p, t, i, device, start)
        for k in range(p.predecessor_pointer[i], p.predecessor_pointer[i + 1]):
            j = p.predecessor[k]
            a = t.assignment[j]
            transfer = p.latency[a, device] + p.edge_bytes[p.predecessor_edge[k]] / p.bandwidth[a, device]
            top[i] = max(top[i], top[j] + p.cost[j, a] + transfer)
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            j = p.successor[edge]
            reached[j] = max(reached[j], top[i] + p.cost[i, device] + communication[edge])
            priority[j] = rank[j] - reached[j]
        release(p, queue, i, priority)
