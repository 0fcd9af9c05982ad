"""The optimal contiguous cut of a graph: dynamic programming over downsets."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hetgym._jit import jit
from hetgym._types import FloatArray, IntArray
from hetgym.errors import ConfigError, ProblemError
from hetgym.pipeline.contraction import Contraction, contract
from hetgym.pipeline.problem import PipelineProblem

Bits = npt.NDArray[np.uint64]

Plan = list[tuple[int, int]]
"""Stages, first one first: the nodes as a bit set, and the kind of device."""


def downset_dp(problem: PipelineProblem, limit: int = 200_000) -> IntArray:
    """Cut a graph into contiguous stages so that the slowest device is as fast as it can be.

    A downset holds with each operator all that it reads. The stages 1 to s of a contiguous cut make
    a downset D, so the best cut of D among given devices is the best over all downsets D' inside D
    and kinds of device of the slower of D' on the others and D less D' on one of that kind. Nodes
    that must be or can be together are contracted first. A cut along one topological order gives an
    upper bound, and stages with more work than that are not looked at.

    Source: Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators",
    NeurIPS 2020, section 5.

    Args:
        problem: what is to be cut.
        limit: most downsets; time grows with their square.

    Returns:
        [n] device of each operator.

    Raises:
        ConfigError: the graph has more downsets than the limit.
        ProblemError: no contiguous cut fits into memory.
    """
    small = contract(problem)
    downsets = _downsets(small, limit)
    if downsets is None:
        raise ConfigError(
            f"pipeline {problem.name!r} has more than {limit} downsets: raise limit=…, or take a cheaper method"
        )
    chain = prefixes(small)
    plan, value = solve(problem, small, chain, math.inf)
    better, optimum = solve(problem, small, downsets, value)
    return placement(problem, small, better if optimum <= value else plan)


def prefixes(small: Contraction) -> list[int]:
    """The downsets that a topological order, that of the nodes, passes through."""
    return [(1 << k) - 1 for k in range(len(small.members) + 1)]


def placement(problem: PipelineProblem, small: Contraction, plan: Plan | None) -> IntArray:
    """[n] device of each operator under a plan, each stage on the next free device of its kind.

    Raises:
        ProblemError: there is no plan.
    """
    if plan is None:
        raise ProblemError(f"pipeline {problem.name!r}: no contiguous cut fits into the devices' memory")
    stage = np.zeros(len(small.members), np.int32)
    device = np.zeros(len(plan), np.int32)
    counts = [kind.count for kind in problem.kinds]
    free = [sum(counts[:t]) for t in range(len(counts))]
    for number, (nodes, kind) in enumerate(plan):
        stage[[k for k in range(len(stage)) if nodes >> k & 1]] = number
        device[number] = free[kind]
        free[kind] += 1
    return problem.check(device[small.expand(stage, problem.num_operators)])


def _downsets(small: Contraction, limit: int) -> list[int] | None:
    """All downsets as bit sets, or None if there are more than the limit."""
    sources = sum(1 << k for k, before in enumerate(small.before) if before == 0)
    can_add = {0: sources}
    frontier = [0]
    while frontier:
        following: list[int] = []
        for downset in frontier:
            rest = can_add[downset]
            while rest:
                bit = rest & -rest
                rest ^= bit
                larger = downset | bit
                if larger in can_add:
                    continue
                if len(can_add) >= limit:
                    return None
                adding = can_add[downset] ^ bit
                readers = small.after[bit.bit_length() - 1]
                while readers:
                    reader = readers & -readers
                    readers ^= reader
                    if small.before[reader.bit_length() - 1] & ~larger == 0:
                        adding |= reader
                can_add[larger] = adding
                following.append(larger)
        frontier = following
    return list(can_add)


def solve(problem: PipelineProblem, small: Contraction, downsets: list[int], upper: float) -> tuple[Plan | None, float]:
    """The best cut into differences of the given downsets, and its max-load [s].

    Args:
        problem: what is to be cut.
        small: its contraction.
        downsets: among them the empty one and that of all nodes.
        upper: a max-load that can be reached; what is larger is of no interest [s].
    """
    counts = np.array([kind.count for kind in problem.kinds], np.int32)
    possible = np.isfinite(small.cost)
    cost = np.where(possible, small.cost, 0.0)
    least = np.where(possible[:, counts > 0], small.cost[:, counts > 0], np.inf).min(axis=1)
    inside = [[k for k in range(len(least)) if downset >> k & 1] for downset in downsets]
    work = [math.fsum(least[k] for k in nodes) for nodes in inside]  # rounded once, hence monotone
    order = sorted(range(len(downsets)), key=lambda i: (work[i], len(inside[i])))
    member = np.zeros((len(downsets), len(least)))
    for row, i in enumerate(order):
        member[row, inside[i]] = 1.0
    words = (len(least) + 63) // 64
    bits = _words([downsets[i] for i in order], words)
    value, cut, kind = _dp(
        bits, np.array([work[i] for i in order]), member @ cost, member @ ~possible, member @ small.size,
        _words(list(small.crossing), words), np.array(list(small.crossing.values()), np.float64), counts,
        np.array([k.memory for k in problem.kinds]), np.array([k.transfers for k in problem.kinds]),
        upper * (1 + 1e-9),
    )  # fmt: skip
    state, row = value.shape[1] - 1, len(order) - 1
    if not np.isfinite(value[row, state]):
        return None, math.inf
    strides = np.cumprod([1, *(counts + 1)])[:-1]
    plan = []
    while row != 0:
        before = int(cut[row, state])
        if before != row:
            plan.append((downsets[order[row]] & ~downsets[order[before]], int(kind[row, state])))
        state -= int(strides[kind[row, state]])
        row = before
    return plan[::-1], float(value[-1, -1])


def _words(sets: list[int], words: int) -> Bits:
    """Bit sets as rows of 64-bit words."""
    mask = (1 << 64) - 1
    rows = [[nodes >> 64 * w & mask for w in range(words)] for nodes in sets]
    return np.array(rows, np.uint64).reshape(len(sets), words)


@jit
def _dp(
    bits: Bits,
    work: FloatArray,
    cost: FloatArray,
    blocked: FloatArray,
    size: FloatArray,
    crossing: Bits,
    seconds: FloatArray,
    counts: IntArray,
    memory: FloatArray,
    pays: npt.NDArray[np.bool_],
    upper: float,
) -> tuple[FloatArray, IntArray, npt.NDArray[np.int8]]:
    """Best max-load of each downset on each multiset of devices, and the last cut that reaches it.

    Args:
        bits: [m, w] downsets, each after all that it holds; the first is empty, the last is everything.
        work: [m] least work of each, not falling [s].
        cost: [m, k] work on each kind of device [s].
        blocked: [m, k] number of nodes that the kind cannot run.
        size: [m] bytes.
        crossing: [h, w] nodes that a tensor connects.
        seconds: [h] price of the tensor [s].
        counts: [k] devices of each kind.
        memory: [k] bytes of one.
        pays: [k] whether it pays for transfers.
        upper: larger values are of no interest [s].
    """
    m, words = bits.shape
    kinds = len(counts)
    stride = np.ones(kinds + 1, np.int32)
    for t in range(kinds):
        stride[t + 1] = stride[t] * (counts[t] + 1)
    states = stride[kinds]
    value = np.full((m, states), np.inf)
    cut = np.zeros((m, states), np.int32)
    chosen = np.zeros((m, states), np.int8)
    value[0, :] = 0.0
    used = np.zeros(states, np.int32)
    for s in range(states):
        for t in range(kinds):
            used[s] += s // stride[t] % (counts[t] + 1)
    wanted = np.zeros(states, np.bool_)
    target = np.zeros(states * kinds, np.int32)
    used_kind = np.zeros(states * kinds, np.int32)
    useful = np.zeros(m, np.bool_)
    useful[0] = True
    outside = np.zeros(m)
    here = np.zeros((len(seconds), words), np.uint64)
    price = np.zeros(len(seconds))
    for a in range(1, m):
        open_tensors = _open_tensors(bits[a], crossing, seconds, here, price)
        outside[a] = price[:open_tensors].sum()
        moves = 0
        for s in range(states):  # what is left must fit on the devices that are left
            left = used[states - 1] - used[s]
            wanted[s] = left * upper >= work[m - 1] - work[a] if left > 0 else a == m - 1
            for t in range(kinds):
                if wanted[s] and s // stride[t] % (counts[t] + 1) > 0:
                    target[moves], used_kind[moves] = s, t
                    moves += 1
        for b in range(a - 1, -1, -1):
            if work[a] - work[b] > upper:
                break
            if not useful[b]:
                continue
            contained = True
            for w in range(words - 1, -1, -1):
                if bits[b, w] & ~bits[a, w] != 0:
                    contained = False
                    break
            if not contained:
                continue
            transfers = -1.0  # not known yet: most pairs cannot help, whatever crosses the cut
            for k in range(moves):
                s, t = target[k], used_kind[k]
                before = value[b, s - stride[t]]
                load = cost[a, t] - cost[b, t]
                if max(before, load) >= value[a, s]:
                    continue
                if blocked[a, t] > blocked[b, t] or size[a] - size[b] > memory[t] * (1 + 1e-12):
                    continue
                if pays[t] and transfers < 0:
                    transfers = max(0.0, outside[b] + _crossing_time(here[:open_tensors], price, bits[b]))
                best = max(before, load + (transfers if pays[t] else 0.0))
                if best < value[a, s] and best <= upper:
                    value[a, s] = best
                    cut[a, s] = b
                    chosen[a, s] = t
        for s in range(states):  # a device may stay empty
            for t in range(kinds):
                if wanted[s] and s // stride[t] % (counts[t] + 1) > 0 and value[a, s - stride[t]] < value[a, s]:
                    value[a, s] = value[a, s - stride[t]]
                    cut[a, s] = a
                    chosen[a, s] = t
            useful[a] |= value[a, s] <= upper
    return value, cut, chosen


@jit
def _open_tensors(downset: Bits, crossing: Bits, seconds: FloatArray, here: Bits, price: FloatArray) -> int:
    """List the tensors that connect a downset with the rest: their nodes inside it, and their price."""
    count = 0
    for h in range(len(seconds)):
        some, all_of_it = False, True
        for w in range(len(downset)):
            both = crossing[h, w] & downset[w]
            some |= both != 0
            all_of_it &= both == crossing[h, w]
        if some and not all_of_it:
            here[count] = crossing[h] & downset
            price[count] = seconds[h]
            count += 1
    return count


@jit
def _crossing_time(here: Bits, price: FloatArray, inside: Bits) -> float:
    """What a stage pays beyond all tensors that leave the downset before it [s].

    Tensors that end in the stage are among those. Of tensors that go on behind the stage, those that
    begin in it come on top, and those that pass it by without a reader must be taken off.
    """
    total = 0.0
    for h in range(len(here)):
        reaches, begun = False, False
        for w in range(len(inside)):
            reaches |= (here[h, w] & ~inside[w]) != 0
            begun |= (here[h, w] & inside[w]) != 0
        total += price[h] * (reaches - begun)
    return total
