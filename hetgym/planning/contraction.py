"""Contraction: smaller problems in which operators that should not be separated are one.

An edge whose transfer takes long beside the operators at its ends seldom crosses devices in a good plan. A list
scheduler that decides operator by operator cannot see that: it is cheap to leave a device now, and dear for all that
follows. On the contracted problem it decides for whole groups.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from hetgym._kernels.jit import jit, step
from hetgym._types import FloatArray, IntArray
from hetgym.errors import ProblemError
from hetgym.problem import Problem, Routes

SEARCHED = 256
"""Edges that the search for a cycle of pairs follows, before the pair is given up: then rounds are linear."""

LEAST = 0.002
"""Contraction ends after two rounds that each merge less than this share of the groups."""


class Groups(NamedTuple):
    """A contracted graph; edges are sorted by source, target, tensor, and each names its tensor once."""

    parent: IntArray  # [n] group of each operator of the problem
    cost: FloatArray  # [m, d] run time of each group [s]
    weight: FloatArray  # [m] bytes of weights, those that members share for each of them
    source: IntArray  # [e]
    target: IntArray  # [e]
    tensor: IntArray  # [e]
    size: FloatArray  # [e] bytes


def contracted(problem: Problem, fraction: float) -> tuple[Problem, IntArray]:
    """Merge neighbours whose edges are dear until about a fraction of the operators is left.

    See :func:`contractions`.

    Args:
        fraction: share of the number of operators that is aimed at, in (0, 1].

    Returns:
        The contracted problem of m groups, and [n] the group of each operator.

    Raises:
        ProblemError: a fraction out of range.

    >>> chain = Problem.from_arrays([[1.0, 1.0]] * 4, [(0, 1, 9.0), (1, 2, 1.0), (2, 3, 9.0)])
    >>> contracted(chain, 0.5)[1]
    array([0, 0, 1, 1], dtype=int32)
    """
    return next(contractions(problem, (fraction,)))


def contractions(problem: Problem, fractions: Sequence[float]) -> Iterator[tuple[Problem, IntArray]]:
    """Contract a problem further and further.

    In each round neighbours are paired, each operator with at most one other, by descending
    ``t / (t + r)``, where t is the mean time of the transfers between the two and r the smaller of their least run
    times. Only operators of levels 2k and 2k + 1 are paired, in the next round only those of levels 2k - 1 and 2k; the
    level is the number of edges of the longest path from an entry. A cycle of groups would then consist of pairs of the
    same two levels, and a pair that closes one, or may do so, is not made. Nor is one that no device could run and
    hold. A group runs its members one after the other; its weights are those of its members, shared ones once, and its
    edges carry each tensor once to each other group.

    Args:
        fractions: shares of the number of operators that are aimed at, descending, in (0, 1]. Rounds end earlier if no
            further pairs can be made.

    Returns:
        For each fraction the contracted problem of m groups, and [n] the group of each operator.

    Raises:
        ProblemError: a fraction out of range.
    """
    n = problem.num_operators
    latency, per_byte = problem.mean_transfer
    groups = Groups(
        np.arange(n, dtype=np.int32),
        np.array(problem.cost),
        np.array(problem.weight_bytes),
        np.array(problem.edge_source),
        np.array(problem.edge_target),
        np.array(problem.edge_tensor),
        np.array(problem.edge_bytes),
    )
    parity, idle = 0, 0
    for fraction in fractions:
        if not 0 < fraction <= 1:
            raise ProblemError(f"contraction: a fraction is {fraction}; it must be above 0 and at most 1")
        goal = max(1, round(fraction * n))
        while (left := len(groups.cost)) > goal and idle < 2:
            groups = _halved(groups, problem.memory_capacity, latency, per_byte, parity, left - goal)
            idle = idle + 1 if left - len(groups.cost) <= LEAST * left else 0
            parity = 1 - parity
        yield _problem_of(problem, groups), groups.parent


def _halved(groups: Groups, capacity: FloatArray, latency: float, per_byte: float, parity: int, most: int) -> Groups:
    """Merge up to ``most`` pairs of groups of adjacent levels, whose lower level has the given parity."""
    m = len(groups.cost)
    pointer = np.zeros(m + 1, np.int32)
    np.cumsum(np.bincount(groups.source, minlength=m), out=pointer[1:])
    level = _levels(pointer, groups.target)
    value = _values(groups, groups.cost.min(axis=1), capacity, level, parity, latency, per_byte)
    worth = np.flatnonzero(value >= 0.0)
    edges: IntArray = worth[np.argsort(-value[worth], kind="stable")].astype(np.int32)
    number, count = _paired(pointer, groups.source, groups.target, level, edges, most)
    return Groups(number[groups.parent], *_merged(groups, number, count))


@jit
def _levels(pointer: IntArray, target: IntArray) -> IntArray:
    """[m] number of edges of the longest path from an entry to each group."""
    m = len(pointer) - 1
    level, waiting, queue = np.zeros(m, np.int32), np.zeros(m, np.int32), np.empty(m, np.int32)
    for j in target:
        waiting[j] += 1
    last = 0
    for i in range(m):
        if waiting[i] == 0:
            queue[last] = i
            last += 1
    for first in range(m):
        i = queue[first]
        for k in range(pointer[i], pointer[i + 1]):
            j = target[k]
            level[j] = max(level[j], level[i] + 1)
            waiting[j] -= 1
            if waiting[j] == 0:
                queue[last] = j
                last += 1
    return level


@jit
def _values(
    groups: Groups,
    least: FloatArray,
    capacity: FloatArray,
    level: IntArray,
    parity: int,
    latency: float,
    per_byte: float,
) -> FloatArray:
    """[e] worth of a pair of groups, at the first edge between them; -1 elsewhere, and for impossible pairs."""
    source, target = groups.source, groups.target
    e = len(source)
    value = np.full(e, -1.0)
    k = 0
    while k < e:
        i, j, first, time = source[k], target[k], k, 0.0
        while k < e and source[k] == i and target[k] == j:
            time += latency + groups.size[k] * per_byte
            k += 1
        if level[i] & 1 == parity and level[j] == level[i] + 1:
            weight, able = groups.weight[i] + groups.weight[j], False
            for a in range(len(capacity)):
                able |= groups.cost[i, a] + groups.cost[j, a] < np.inf and weight <= capacity[a]
            if able:
                shorter = min(least[i], least[j])
                value[first] = time / (time + shorter) if time > 0.0 else 0.0
    return value


# `mate` holds the pairs so far. Between two levels a group has either readers or sources, so that a path from one pair
# to another one leads from lower members to the mates of their readers.
@jit
def _paired(
    pointer: IntArray, source: IntArray, target: IntArray, level: IntArray, edges: IntArray, most: int
) -> tuple[IntArray, int]:
    """Pair the ends of edges, in their order, up to ``most`` pairs; [m] new number of each group, and their count."""
    m = len(level)
    mate, seen, stack = np.full(m, -1, np.int32), np.full(m, -1, np.int32), np.empty(SEARCHED + 1, np.int32)
    made = 0
    for k in edges:
        i, j = source[k], target[k]
        if made == most:
            break
        if mate[i] < 0 and mate[j] < 0 and not _closes(pointer, target, level, mate, seen, stack, (k, i, j)):
            mate[i], mate[j] = j, i
            made += 1
    number, count = np.full(m, -1, np.int32), 0
    for i in range(m):
        if number[i] < 0:
            number[i] = count
            if mate[i] >= 0:
                number[mate[i]] = count
            count += 1
    return number, count


@step
def _closes(
    pointer: IntArray,
    target: IntArray,
    level: IntArray,
    mate: IntArray,
    seen: IntArray,
    stack: IntArray,
    pair: tuple[int, int, int],
) -> bool:
    """True if a pair closes a cycle of pairs, or if the search for one takes too long.

    Args:
        pair: number of the edge, with which groups are marked that the search has reached, and its two ends.
    """
    edge, i, j = pair
    stack[0], top, followed = i, 1, 0
    seen[i] = edge
    while top > 0:
        top -= 1
        at = stack[top]
        for k in range(pointer[at], pointer[at + 1]):
            followed += 1
            if followed > SEARCHED:
                return True
            reader = target[k]
            if reader == j and at != i:
                return True
            lower = mate[reader]
            if lower >= 0 and level[reader] == level[i] + 1 and level[lower] == level[i] and seen[lower] != edge:
                seen[lower] = edge
                stack[top] = lower
                top += 1
    return False


@jit
def _merged(
    groups: Groups, number: IntArray, count: int
) -> tuple[FloatArray, FloatArray, IntArray, IntArray, IntArray, FloatArray]:
    """All fields of the next groups but their parents, given the number of each group's next one, [m]."""
    m, d = groups.cost.shape
    cost, weight = np.zeros((count, d)), np.zeros(count)
    for i in range(m):
        weight[number[i]] += groups.weight[i]
        for a in range(d):
            cost[number[i], a] += groups.cost[i, a]
    e = len(groups.source)
    source, target = number[groups.source], number[groups.target]
    order = _sorted_by(source, _sorted_by(target, np.arange(e).astype(np.int32), count), count)
    new_source, new_target = np.empty(e, np.int32), np.empty(e, np.int32)
    tensor, size = np.empty(e, np.int32), np.empty(e)
    kept = 0
    row = 0  # where the edges between the same groups begin
    for k in order:
        i, j = source[k], target[k]
        if i == j:
            continue
        if kept == 0 or new_source[kept - 1] != i or new_target[kept - 1] != j:
            row = kept
        at = kept
        while at > row and tensor[at - 1] > groups.tensor[k]:
            at -= 1
        if at > row and tensor[at - 1] == groups.tensor[k]:
            size[at - 1] = max(size[at - 1], groups.size[k])
            continue
        for other in range(kept, at, -1):
            tensor[other], size[other] = tensor[other - 1], size[other - 1]
        tensor[at], size[at] = groups.tensor[k], groups.size[k]
        new_source[kept], new_target[kept] = i, j
        kept += 1
    return cost, weight, new_source[:kept].copy(), new_target[:kept].copy(), tensor[:kept].copy(), size[:kept].copy()


@jit
def _sorted_by(key: IntArray, order: IntArray, count: int) -> IntArray:
    """The same order of edges, sorted by a key below ``count``; equal ones stay in their order."""
    at = np.zeros(count + 1, np.int64)
    for k in order:
        at[key[k] + 1] += 1
    for i in range(count):
        at[i + 1] += at[i]
    result = np.empty_like(order)
    for k in order:
        result[at[key[k]]] = k
        at[key[k]] += 1
    return result


def _problem_of(problem: Problem, groups: Groups) -> Problem:
    """The problem of placing whole groups, on the same devices and links."""
    part, m = groups.parent, len(groups.cost)
    first = np.full(m, -1)
    first[part[::-1]] = np.arange(len(part))[::-1]
    leaves = np.ones(problem.num_operators, np.bool_)  # operators whose output is not only read within their group
    leaves[problem.edge_source] = False
    leaves[problem.edge_source[part[problem.edge_source] != part[problem.edge_target]]] = True
    shared = problem.shared_weights
    return Problem(
        cost=groups.cost,
        edge_source=groups.source,
        edge_target=groups.target,
        edge_bytes=groups.size,
        edge_tensor=groups.tensor,
        latency=problem.latency,
        bandwidth=problem.bandwidth,
        weight_bytes=groups.weight - shared.spared(part, m),
        output_bytes=np.bincount(part, np.where(leaves, problem.output_bytes, 0.0), minlength=m).astype(np.float64),
        memory_capacity=problem.memory_capacity,
        operator_names=[problem.operator_names[i] for i in first.tolist()],
        operator_kinds=[problem.operator_kinds[i] for i in first.tolist()],
        device_names=problem.device_names,
        name=f"{problem.name}, contracted",
        routes=Routes(problem.route_pointer, problem.route_link, problem.link_bandwidth),
        asynchronous=problem.asynchronous,
        occupancy=_occupancy(problem, part, m),
        partition_overhead=problem.partition_overhead,
        shared_weights=shared.grouped(part, m),
        memory_pool=problem.memory_pool,
        synchronous=problem.synchronous,
    )


def _occupancy(problem: Problem, part: IntArray, m: int) -> FloatArray | float:
    """[m, d] mean share of the device that the members of each group need, over their run times."""
    if (problem.occupancy == 1.0).all():
        return 1.0
    time = np.where(np.isfinite(problem.cost), problem.cost, 0.0) + 1e-100
    share, whole = np.zeros((m, problem.num_devices)), np.zeros((m, problem.num_devices))
    np.add.at(share, part, time * problem.occupancy)
    np.add.at(whole, part, time)
    return np.minimum(1.0, share / whole)
