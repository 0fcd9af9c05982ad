"""The optimal contiguous cut of a graph: dynamic programming over downsets."""

import math
from typing import NamedTuple

import numpy as np

from hetgym._sums import summed
from hetgym._types import IntArray
from hetgym.baselines.pipeline.downset_kernel import Bits, device_sets, fill_values
from hetgym.baselines.pipeline.sharing import on_shared_devices
from hetgym.errors import ConfigError, ProblemError
from hetgym.pipeline.contraction import Contraction, contract
from hetgym.pipeline.problem import PipelineProblem


class NodeStage(NamedTuple):
    """Nodes of a contraction on a device of a kind; a cut of the contraction is a list of these, first one first."""

    nodes: int  # bit set, node i being bit i
    kind: int  # position of the kind of device


@on_shared_devices
def downset_dp(problem: PipelineProblem, limit: int = 200_000) -> IntArray:
    """[n] the devices of the contiguous stages with the least max-load.

    A downset holds with each operator all that it reads. The stages 1 to s of a contiguous cut make a downset D, so the
    best cut of D among given devices is the best over all downsets D' inside D and kinds of device of the slower of D'
    on the others and D less D' on one of that kind. Nodes that must be or can be together are contracted first. A cut
    along one topological order gives an upper bound, and stages with more work than that are not looked at.

    Source: Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators",
    NeurIPS 2020, section 5.

    Args:
        limit: largest number of downsets; time grows with their square.

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
    first, value = solve(problem, small, chain, math.inf)
    better, optimum = solve(problem, small, downsets, value)
    return placement(problem, small, better if optimum <= value else first)


def prefixes(small: Contraction) -> list[int]:
    """The downsets that a topological order, that of the nodes, passes through."""
    return [(1 << k) - 1 for k in range(len(small.members) + 1)]


def placement(problem: PipelineProblem, small: Contraction, cut: list[NodeStage] | None) -> IntArray:
    """[n] device of each operator under a cut, each stage on the next free device of its kind.

    Raises:
        ProblemError: there is no cut.
    """
    if cut is None:
        raise ProblemError(
            f"pipeline {problem.name!r}: no contiguous cut fits into the devices' memory; {problem.lacks()}"
        )
    stage = np.zeros(len(small.members), np.int32)
    device = np.zeros(len(cut), np.int32)
    counts = [kind.count for kind in problem.kinds]
    free = [summed(counts[:t]) for t in range(len(counts))]
    for number, (nodes, kind) in enumerate(cut):
        stage[[k for k in range(len(stage)) if nodes >> k & 1]] = number
        device[number] = free[kind]
        free[kind] += 1
    return problem.check(device[small.expand(stage, problem.num_operators)])


def _downsets(small: Contraction, limit: int) -> list[int] | None:
    """All downsets as bit sets, or None if there are more than the limit.

    Downsets come by their sizes: those of the frontier have equally many nodes, ``can_add`` holds for each one found
    the nodes that may join it, and each of these makes one of the next frontier.
    """
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


def solve(
    problem: PipelineProblem, small: Contraction, downsets: list[int], upper: float
) -> tuple[list[NodeStage] | None, float]:
    """The best cut into differences of the given downsets, and its max-load [s].

    Args:
        small: its contraction.
        downsets: the empty one first, that of all nodes last; each after those inside it.
        upper: a max-load that can be reached; what is larger is of no interest [s].

    Returns:
        The cut, or None if there is none that is as good as ``upper``; then the max-load is inf.
    """
    counts = np.array([kind.count for kind in problem.kinds], np.int64)
    possible = np.isfinite(small.cost)
    cost, n = np.where(possible, small.cost, 0.0), len(small.members)
    words = (n + 63) // 64
    bits, work, order = _words(downsets, words), np.zeros(len(downsets)), np.arange(len(downsets))
    inside = np.unpackbits(bits.astype("<u8").view(np.uint8), axis=1, count=n, bitorder="little")
    if upper < math.inf or len(downsets) > 1 + n:  # otherwise a chain: it is in order, and nothing of it is left out
        least = np.where(possible[:, counts > 0], small.cost[:, counts > 0], np.inf).min(axis=1)
        work = np.array([math.fsum(least[nodes]) for nodes in inside.astype(np.bool_)])  # rounded once, hence monotone
        order = np.lexsort((inside.sum(axis=1), work))
    member = inside[order].astype(np.float64)
    moves, left = device_sets(counts)
    shape = len(downsets), len(left)
    value, before, kind = np.full(shape, np.inf), np.zeros(shape, np.int32), np.zeros(shape, np.int8)
    downs = bits[order], work[order], member @ cost, member @ ~possible, member @ small.size
    tensors = _words(list(small.crossing), words), np.array(list(small.crossing.values()), np.float64)
    memory = np.array([k.memory for k in problem.kinds], np.float64)
    pays, entry = np.array([k.transfers for k in problem.kinds]), np.array([float(k.entry) for k in problem.kinds])
    fill_values(value, before, kind, *downs, *tensors, moves, left, memory, pays, entry, upper * (1 + 1e-9))
    state, row, strides = shape[1] - 1, len(order) - 1, np.cumprod([1, *(counts + 1)]).tolist()
    if not np.isfinite(value[row, state]):
        return None, math.inf
    cut = []
    while row != 0:
        start, last = int(before[row, state]), int(kind[row, state])
        if start != row:
            cut.append(NodeStage(downsets[order[row]] & ~downsets[order[start]], last))
        state -= strides[last]
        row = start
    return cut[::-1], float(value[-1, -1])


def _words(sets: list[int], words: int) -> Bits:
    """Bit sets as rows of 64-bit words."""
    mask = (1 << 64) - 1
    rows = [[nodes >> 64 * w & mask for w in range(words)] for nodes in sets]
    return np.array(rows, np.uint64).reshape(len(sets), words)
