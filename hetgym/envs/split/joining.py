"""Joining: HEFT's schedule of a graph with splits in compiled code, from the blocks of its operators.

A search or an episode asks for the makespans of hundreds of splits of one graph, and hardly ever for a schedule. So no
:class:`~hetgym.Problem` is made: blocks are written one behind the other into arrays that are kept, ranked and placed.
The result is that of ``heft`` on the problem of :meth:`~hetgym.envs.split.assembly.Assembly.problem`, bit for bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._jit import lean
from hetgym._records import reader, record
from hetgym._types import FloatArray, Int64Array, IntArray, Scalar, frozen
from hetgym.graph.topology import Adjacency, fill_rows, write_kahn_order
from hetgym.planning import timeline
from hetgym.planning.intervals import new_intervals
from hetgym.planning.list_scheduling import place_in_order
from hetgym.planning.ranks import write_list_order, write_longest_path_to_exit
from hetgym.planning.ready_queue import ReadyQueue, new_queue
from hetgym.planning.timeline import Timeline
from hetgym.problem import Problem, ProblemArrays

WHOLE = -1
"""Stands for the result of an operator, not for one of its parts."""


@record
class BlockArrays(NamedTuple):
    """What a block adds to a problem.

    Attributes:
        cost: [m, d] run times of its operators [s]; ``mean``: [m] over the devices that can run each.
        ends: [2] place of the first part, and of the operator that gives the whole result, in the block.
        inner: [3, e] source, slot and target of edges within the block; ``inner_bytes``: [e].
        outer: [4, e] operator of the graph, its part or :data:`WHOLE`, slot, and target in the block of the other
            edges that end in it; ``outer_bytes``: [e].
        readers, constants: [c] operator in the block, and number of a named constant that it reads; ``constant_bytes``:
            [c].
        unnamed: [m] bytes of constants without a name.
    """

    cost: FloatArray
    mean: FloatArray
    ends: Int64Array
    inner: Int64Array
    inner_bytes: FloatArray
    outer: Int64Array
    outer_bytes: FloatArray
    readers: Int64Array
    constants: Int64Array
    constant_bytes: FloatArray
    unnamed: FloatArray


_BLOCK = BlockArrays(
    np.zeros((0, 0)), np.zeros(0), np.zeros(0, np.int64), np.zeros((3, 0), np.int64), np.zeros(0),
    np.zeros((4, 0), np.int64), np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0),
)  # fmt: skip
_read_block = reader(_BLOCK)


@record
class Joined(NamedTuple):
    """A problem in the making: n operators of b blocks, e edges, c named constants, d devices.

    Attributes:
        offset: [b + 1] where each block begins.
        source, target: [e] ends of the edges as they come; ``bytes``: [e].
        readers: [c] number of operators that read each constant.
        cost: [n, d] run times [s]; ``mean``: [n] over devices; ``weights``: [n] bytes.
        start, size, delay: [e] source, bytes and mean transfer time [s] of each edge, sorted by source.
        after, before: successors and predecessors.
        order, position: [n] Kahn's order and its inverse.
    """

    offset: Int64Array
    source: IntArray
    target: IntArray
    bytes: FloatArray
    readers: Int64Array
    cost: FloatArray
    mean: FloatArray
    weights: FloatArray
    start: IntArray
    size: FloatArray
    delay: FloatArray
    after: Adjacency
    before: Adjacency
    order: IntArray
    position: IntArray


class Desk(NamedTuple):
    """Arrays for problems of one size.

    Attributes:
        joined: the problem in the making, writable.
        arrays: the same as HEFT reads it.
        mean, delay: those of ``joined``, read-only.
        placed, queue, rank, turns, free, bonus: of HEFT.
    """

    joined: Joined
    arrays: ProblemArrays
    mean: FloatArray
    delay: FloatArray
    placed: Timeline
    queue: ReadyQueue
    rank: FloatArray
    turns: IntArray
    free: IntArray
    bonus: FloatArray


class Loads(NamedTuple):
    """What devices have to do under a schedule.

    Attributes:
        busy: [d] summed run times of its operators [s].
        operators: [d] number of its operators.
        weights: [d] bytes of their weights.
    """

    busy: FloatArray
    operators: Int64Array
    weights: FloatArray


def loads_of(problem: Problem, assignment: IntArray) -> Loads:
    """The loads of devices under a placement, [n]."""
    n, d = problem.cost.shape
    return Loads(
        np.bincount(assignment, problem.cost[np.arange(n), assignment], minlength=d).astype(np.float64),
        np.bincount(assignment, minlength=d),
        np.bincount(assignment, problem.weight_bytes, minlength=d).astype(np.float64),
    )


class Joiner:
    """Prices graphs that are joined from blocks, on the platform of one problem.

    Args:
        problem: the graph on the platform before any split.
    """

    DESKS = 64
    """Sizes of problems whose arrays are kept."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._desks: dict[tuple[int, ...], Desk] = {}

    def price(self, table: Int64Array, numbers: Int64Array, sizes: tuple[int, int, int]) -> tuple[float, Loads]:
        """The makespan of HEFT's schedule [s], and the loads of devices under it.

        Args:
            table: rows of :class:`BlockArrays`, of which every operator can run on some device.
            numbers: [b] row of the block of each operator of the graph.
            sizes: numbers of operators, of edges, and of named constants.
        """
        desk, d = self._desk((len(numbers), *sizes)), self.problem.num_devices
        loads = Loads(np.zeros(d), np.zeros(d, np.int64), np.zeros(d))
        _join(table, numbers, desk.joined, desk.queue, *self.problem.mean_transfer)
        rest = desk[1:]
        makespan = _heft(*rest, desk.joined.weights, *loads)
        return makespan, loads

    def _desk(self, sizes: tuple[int, ...]) -> Desk:
        if sizes not in self._desks:
            if len(self._desks) == self.DESKS:
                self._desks.clear()
            self._desks[sizes] = _new_desk(self.problem.arrays, *sizes)
        return self._desks[sizes]


def _new_desk(like: ProblemArrays, b: int, n: int, e: int, c: int) -> Desk:
    d = like.cost.shape[1]

    def ints(count: int) -> IntArray:
        return np.zeros(count, np.int32)

    after, before = (Adjacency(ints(n + 1), ints(e), ints(e)) for _ in range(2))
    joined = Joined(
        offset=np.zeros(b + 1, np.int64), source=ints(e), target=ints(e), bytes=np.zeros(e),
        readers=np.zeros(c, np.int64), cost=np.zeros((n, d)), mean=np.zeros(n), weights=np.zeros(n),
        start=ints(e), size=np.zeros(e), delay=np.zeros(e), after=after, before=before, order=ints(n), position=ints(n),
    )  # fmt: skip
    arrays = like._replace(
        cost=_seen(joined.cost), successor_pointer=_seen(after.pointer), successor=_seen(after.node),
        edge_source=_seen(joined.start), predecessor_pointer=_seen(before.pointer), predecessor=_seen(before.node),
        predecessor_edge=_seen(before.edge), edge_bytes=_seen(joined.size), edge_tensor=_seen(ints(e)),
        topological_order=_seen(joined.order), position=_seen(joined.position), occupancy=_seen(np.ones((n, d))),
    )  # fmt: skip
    return Desk(
        joined, arrays, _seen(joined.mean), _seen(joined.delay),
        Timeline(np.full(n, -1, np.int32), np.zeros(n), np.zeros(n), new_intervals(n, d)),
        new_queue(n), np.zeros(n), ints(n), np.full(n, -1, np.int32), np.zeros((n, d)),
    )  # fmt: skip


def _seen(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """A read-only view, as kernels are compiled for."""
    return frozen(array.view())


# Blocks are written in the order of the graph's operators: first where each begins, then operators, and edges, whose
# sources may lie in any block. Weights are summed up as in :attr:`hetgym.graph.DataflowGraph.resident_bytes`.
@lean
def _join(
    table: Int64Array, numbers: Int64Array, s: Joined, queue: ReadyQueue, latency: float, per_byte: float
) -> None:
    """Write the problem of blocks."""
    d = s.cost.shape[1]
    at = 0
    for k in range(len(numbers)):
        s.offset[k] = at
        at += len(_read_block(table[numbers[k]]).mean)
    s.offset[len(numbers)] = at
    s.readers[:] = 0
    edge = 0
    for k in range(len(numbers)):
        block, first = _read_block(table[numbers[k]]), s.offset[k]
        for i in range(len(block.mean)):
            for a in range(d):
                s.cost[first + i, a] = block.cost[i, a]
            s.mean[first + i] = block.mean[i]
            s.weights[first + i] = 0.0
        for j in range(len(block.constants)):
            s.readers[block.constants[j]] += 1
        for j in range(len(block.inner_bytes)):
            s.source[edge] = first + block.inner[0, j]
            s.target[edge] = first + block.inner[2, j]
            s.bytes[edge] = block.inner_bytes[j]
            edge += 1
        for j in range(len(block.outer_bytes)):
            operator, part = block.outer[0, j], block.outer[1, j]
            ends = _read_block(table[numbers[operator]]).ends
            s.source[edge] = s.offset[operator] + (ends[1] if part == WHOLE else ends[0] + part)
            s.target[edge] = first + block.outer[3, j]
            s.bytes[edge] = block.outer_bytes[j]
            edge += 1
    for k in range(len(numbers)):
        block, first = _read_block(table[numbers[k]]), s.offset[k]
        for j in range(len(block.constants)):
            s.weights[first + block.readers[j]] += block.constant_bytes[j] / s.readers[block.constants[j]]
        for i in range(len(block.unnamed)):
            s.weights[first + i] += block.unnamed[i]
    fill_rows(s.source, s.target, s.after.pointer, s.after.node, s.after.edge, s.position)
    for i in range(len(s.mean)):
        for k in range(s.after.pointer[i], s.after.pointer[i + 1]):
            s.start[k] = i
            s.size[k] = s.bytes[s.after.edge[k]]
            s.delay[k] = latency + s.size[k] * per_byte
    fill_rows(s.after.node, s.start, s.before.pointer, s.before.node, s.before.edge, s.position)
    for i in range(len(s.mean)):
        queue.waiting[i] = s.before.pointer[i + 1] - s.before.pointer[i]
    write_kahn_order(s.after.pointer, s.after.node, queue.waiting, queue.heaps, s.order)
    for k in range(len(s.order)):
        s.position[s.order[k]] = k


@lean
def _heft(
    p: ProblemArrays,
    mean: FloatArray,
    delay: FloatArray,
    t: Timeline,
    queue: ReadyQueue,
    rank: FloatArray,
    turns: IntArray,
    free: IntArray,
    bonus: FloatArray,
    weights: FloatArray,
    busy: FloatArray,
    operators: Int64Array,
    held: FloatArray,
) -> float:
    """Place all operators, and sum up what devices have to do."""
    timeline.clear(t)
    write_longest_path_to_exit(p, mean, delay, rank)
    write_list_order(p, queue, rank, turns)
    makespan = place_in_order(p, t, turns, free, bonus, True)
    for i in range(len(turns)):
        a = t.assignment[i]
        busy[a] += p.cost[i, a]
        operators[a] += 1
        held[a] += weights[i]
    return makespan
