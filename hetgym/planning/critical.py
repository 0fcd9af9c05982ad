"""Critical paths: the longest path of mean times, the chain that a makespan waits for, and lists along a path."""

import numpy as np

from hetgym._kernels.jit import jit, lean
from hetgym._types import FloatArray, IntArray
from hetgym.planning.capacity import unlimited
from hetgym.planning.intervals import left_at
from hetgym.planning.ranks import upward_rank
from hetgym.planning.timeline import Timeline, of_schedule
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import Runtime, simulate
from hetgym.sim import runtime as as_runtime
from hetgym.sim.blame import blame
from hetgym.sim.runtime import charged

ROUNDING = 1e-12  # Relative difference up to which sums of the same times in different orders count as equal


def critical_path(problem: Problem) -> list[int]:
    """Operators of a longest path of mean run times and mean transfers, from an entry to an exit.

    It begins at the entry of greatest upward rank and steps to the successor behind which the longest path lies: that
    of the greatest mean transfer plus upward rank. Ties, up to rounding, go to the smaller topological position.

    Source: Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002, section 4.2, which follows equal priorities rank_u + rank_d
    instead. These are equal up to rounding only: the largest may belong to an operator further down, so that a shortcut
    would be taken.

    >>> critical_path(Problem.from_arrays([[2.0], [3.0], [4.0]], [(0, 1, 1.0), (1, 2, 1.0), (0, 2, 1.0)]))
    [0, 1, 2]
    """
    rank, position = upward_rank(problem), problem.arrays.position
    entries = np.flatnonzero(np.diff(problem.predecessors.pointer) == 0).astype(np.int32)
    path = [_first_of_greatest(entries, rank[entries], position)]
    pointer, node = problem.successors.pointer, problem.successors.node
    while pointer[path[-1]] < pointer[path[-1] + 1]:
        edges = slice(pointer[path[-1]], pointer[path[-1] + 1])
        behind = problem.mean_communication[edges] + rank[node[edges]]
        path.append(_first_of_greatest(node[edges], behind, position))
    return path


def _first_of_greatest(operators: IntArray, value: FloatArray, position: IntArray) -> int:
    """Of the operators whose value is the greatest, up to rounding, the first in topological order."""
    greatest = operators[value >= value.max() * (1.0 - ROUNDING)]
    return int(greatest[position[greatest].argmin()])


def critical_chain(problem: Problem, schedule: Schedule, runtime: str | Runtime = "classic") -> IntArray:
    """Operators that the makespan of a schedule waits for, first to last.

    Args:
        schedule: with device orders; under the classic model with start times planned for it.
        runtime: the runtime that runs the schedule; under any but ``classic`` the chain is that of
            :func:`~hetgym.sim.blame`.
    """
    if not charged(as_runtime(runtime), problem).is_classic:
        return np.array(blame(simulate(problem, schedule, unlimited(runtime))).chain, np.int32)
    chain = np.empty(problem.num_operators, np.int32)
    return chain[: find_chain(problem.arrays, of_schedule(problem, schedule), chain)]


# `operator` is the first operator of the chain so far, whose last `count` members stand in `chain`, last first. Each
# iteration steps to an operator that ends when this one starts or sends it what it waits for. Steps go down in (start,
# topological position), so the loop ends after n of them at most: at a start of 0, or behind an operator of no
# duration that holds its place on the device, which is not followed. O(e + n log n).
@lean
def find_chain(p: ProblemArrays, t: Timeline, chain: IntArray) -> int:
    """Write the operators that the makespan of a complete timeline waits for into ``chain`` [n]; return their number.

    It is followed back from the last finisher, through a predecessor whose data arrive at the moment at which the
    operator starts (the smallest id), else through the operator that leaves its device at that moment.
    """
    n = len(t.start)
    operator = np.int32(0)
    for i in range(n):
        later = t.finish[i] > t.finish[operator]
        if later or (t.finish[i] == t.finish[operator] and p.position[i] > p.position[operator]):
            operator = np.int32(i)
    count = 0
    while True:
        chain[count] = operator
        count += 1
        start, device = t.start[operator], t.assignment[operator]
        before = -1
        for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
            i = p.predecessor[k]
            arrival = t.finish[i]
            if t.assignment[i] != device:
                a = t.assignment[i]
                arrival += p.latency[a, device] + p.edge_bytes[p.predecessor_edge[k]] / p.bandwidth[a, device]
            if arrival == start and (before < 0 or i < before):
                before = i
        if before < 0 and start > 0.0:
            before = left_at(t.busy, device, start)
        if before < 0:
            break
        operator = np.int32(before)
    for k in range(count // 2):
        chain[k], chain[count - 1 - k] = chain[count - 1 - k], chain[k]
    return count


# `stack[:top]` is a path of unlisted operators, each a parent of the one below it, with a root at the bottom. An
# iteration moves the cursor of the top operator over its listed parents, then pushes the first unlisted one or lists
# the operator itself. Cursors never move back, so all iterations together take O(n + e).
@jit
def parents_first(p: ProblemArrays, parents: IntArray, roots: IntArray) -> IntArray:
    """[n] a list of all operators: roots in their order, each after its ancestors that are not listed yet.

    Args:
        parents: [e] predecessors of each operator, in the order in which they and their ancestors are listed.
        roots: operators, with repetitions or without; all exits are among them.
    """
    n = len(p.position)
    order = np.empty(n, np.int32)
    listed = np.zeros(n, np.bool_)
    cursor = p.predecessor_pointer[:-1].copy()
    stack = np.empty(n + 1, np.int32)
    count = 0
    for root in roots:
        if listed[root]:
            continue
        stack[0] = root
        top = 1
        while top > 0:
            i = stack[top - 1]
            while cursor[i] < p.predecessor_pointer[i + 1] and listed[parents[cursor[i]]]:
                cursor[i] += 1
            if cursor[i] < p.predecessor_pointer[i + 1]:
                stack[top] = parents[cursor[i]]
                top += 1
            else:
                top -= 1
                listed[i] = True
                order[count] = i
                count += 1
    return order
