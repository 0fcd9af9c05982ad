"""Order, levels and reachability of a directed acyclic graph given as plain edge arrays.

This module is independent of operators and costs: both :class:`~hetgym.graph.DataflowGraph` and
:class:`~hetgym.Problem` use it.
"""

from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._kernels.heap import Heaps, new_heaps, pop, push
from hetgym._kernels.interpreted import interpreted
from hetgym._kernels.jit import jit, lean, step
from hetgym._kernels.records import record
from hetgym._types import BoolArray, Int64Array, IntArray, frozen

Table = npt.NDArray[np.int64]


@record
class Adjacency(NamedTuple):
    """Compressed sparse rows: the neighbours of ``i`` are ``node[pointer[i]:pointer[i + 1]]``."""

    pointer: Annotated[IntArray, "n + 1"]  # row starts
    node: Annotated[IntArray, "e"]  # neighbour ids, ascending in each row
    edge: Annotated[IntArray, "e"]  # the edge's position in the edge arrays


def adjacency(n: int, source: IntArray, target: IntArray) -> Adjacency:
    """Sort edges by source, then target, then position, into compressed sparse rows.

    >>> adjacency(3, np.array([0, 0, 1], np.int32), np.array([2, 1, 2], np.int32)).node
    array([1, 2, 2], dtype=int32)
    """
    edge = np.lexsort((target, source)).astype(np.int32)  # a stable sort
    pointer = np.zeros(n + 1, np.int32)
    np.cumsum(np.bincount(source, minlength=n), out=pointer[1:])
    return Adjacency(frozen(pointer), frozen(target[edge].astype(np.int32)), frozen(edge))


# ``waiting[i]`` is the number of predecessors of i that are not in the order yet; i is pushed once, when it becomes 0.
# Nodes on a cycle, and those behind one, are never pushed.
@step
def write_kahn_order(pointer: IntArray, index: IntArray, waiting: IntArray, ready: Heaps, order: IntArray) -> int:
    """As :func:`kahn_order`, for kernels; returns the number of nodes that are in the order.

    Args:
        pointer: [n + 1] row starts of the successors.
        index: [e] the successors.
        waiting: [n] number of predecessors of each node; overwritten.
        ready: heaps whose first one is empty and has room for n nodes.
        order: [n] filled in.
    """
    count = 0
    for node in range(len(waiting)):
        if waiting[node] == 0:
            push(ready, 0, float(node), node)
    while ready.size[0] > 0:
        node = pop(ready, 0)
        order[count] = node
        count += 1
        for k in range(pointer[node], pointer[node + 1]):
            successor = index[k]
            waiting[successor] -= 1
            if waiting[successor] == 0:
                push(ready, 0, float(successor), successor)
    return count


@interpreted
@lean
def _kahn(pointer: IntArray, index: IntArray, waiting: IntArray, ready: Heaps, order: IntArray) -> int:
    return write_kahn_order(pointer, index, waiting, ready, order)


def kahn_order(successors: Adjacency, indegree: IntArray) -> IntArray:
    """[n] topological order that always takes the smallest ready id (Kahn 1962); shorter if there is a cycle."""
    n = len(indegree)
    order = np.empty(n, np.int32)
    count = _kahn(successors.pointer, successors.node, np.array(indegree, np.int32), new_heaps([n]), order)
    return frozen(order[:count].copy() if count < n else order)


@lean
def sort_edges(source: Int64Array, target: Int64Array, by_target: Table, by_source: Table, at: Int64Array) -> None:
    """Sort edges by source, then target, then position.

    ``by_source`` ([2, e]) is filled in with sources and targets; ``by_target`` ([2, e]) and ``at`` ([n]) are scratch.
    """
    _sort_by(target, source, target, by_target, at)
    _sort_by(by_target[0], by_target[0], by_target[1], by_source, at)


@step
def _sort_by(key: Int64Array, source: Int64Array, target: Int64Array, edges: Table, at: Int64Array) -> None:
    """Write edges in the order of their keys."""
    for i in range(len(at)):
        at[i] = 0
    for k in range(len(key)):
        at[key[k]] += 1
    before = 0
    for i in range(len(at)):
        before, at[i] = before + at[i], before
    for k in range(len(key)):
        to = at[key[k]]
        edges[0, to], edges[1, to] = source[k], target[k]
        at[key[k]] += 1


# A counting sort: edges are taken in their order, and so are the edges of each row. ``at`` is scratch.
@step
def fill_rows(here: IntArray, there: IntArray, pointer: IntArray, node: IntArray, edge: IntArray, at: IntArray) -> None:
    """Write compressed sparse rows of edges, each row in the order of the edges.

    ``pointer`` ([n + 1]) is filled in with row starts, ``node`` and ``edge`` ([e]) with the other ends and the edges;
    ``at`` ([n]) is scratch. ``here`` and ``there`` are [e] the node in whose row each edge is, and its other end.
    """
    n = len(at)
    for i in range(n + 1):
        pointer[i] = 0
    for k in range(len(here)):
        pointer[here[k] + 1] += 1
    for i in range(n):
        pointer[i + 1] += pointer[i]
        at[i] = pointer[i]
    for k in range(len(here)):
        to = at[here[k]]
        node[to], edge[to] = there[k], k
        at[here[k]] += 1


@interpreted
@lean
def _arrange(source: IntArray, target: IntArray, after: Adjacency, before: Adjacency, waiting: IntArray) -> None:
    fill_rows(source, target, after.pointer, after.node, after.edge, waiting)
    fill_rows(target, source, before.pointer, before.node, before.edge, waiting)
    for i in range(len(waiting)):
        waiting[i] = before.pointer[i + 1] - before.pointer[i]


def arrange(n: int, source: IntArray, target: IntArray) -> tuple[Adjacency, Adjacency, IntArray]:
    """Successors, predecessors, and the order of :func:`kahn_order`, of edges that are sorted by source and target."""
    e = len(source)
    after, before = (
        Adjacency(np.empty(n + 1, np.int32), np.empty(e, np.int32), np.empty(e, np.int32)) for _ in range(2)
    )
    waiting, order = np.empty(n, np.int32), np.empty(n, np.int32)
    _arrange(source, target, after, before, waiting)
    for array in (*after, *before):
        frozen(array)
    count = _kahn(after.pointer, after.node, waiting, new_heaps([n]), order)
    return after, before, frozen(order[:count].copy() if count < n else order)


def find_cycle(successors: Adjacency, order: IntArray) -> list[int]:
    """Node ids along one cycle among the nodes that :func:`kahn_order` could not place, which gave ``order``.

    Each is the predecessor of the next; the last is the predecessor of the first.
    """
    stuck = np.ones(len(successors.pointer) - 1, np.bool_)
    stuck[order] = False
    predecessor = {}
    for node in np.flatnonzero(stuck).tolist():
        row = successors.node[successors.pointer[node] : successors.pointer[node + 1]]
        predecessor.update({int(s): node for s in row if stuck[s]})
    # Every stuck node has a stuck predecessor, so a walk along predecessors must return to a visited node.
    node = next(iter(predecessor))
    seen: dict[int, int] = {}
    path: list[int] = []
    while node not in seen:
        seen[node] = len(path)
        path.append(node)
        node = predecessor[node]
    return path[seen[node] :][::-1]


@interpreted
@jit
def _levels(order: IntArray, pointer: IntArray, index: IntArray) -> IntArray:
    level = np.zeros(len(order), np.int32)
    for node in order:
        for k in range(pointer[node], pointer[node + 1]):
            level[index[k]] = max(level[index[k]], level[node] + 1)
    return level


def depths(successors: Adjacency, order: IntArray) -> IntArray:
    """[n] number of edges on the longest path from any source to each node."""
    return frozen(_levels(order, successors.pointer, successors.node))


def heights(predecessors: Adjacency, order: IntArray) -> IntArray:
    """[n] number of edges on the longest path from each node to any sink."""
    return frozen(_levels(order[::-1].copy(), predecessors.pointer, predecessors.node))


# Nodes are visited in reverse topological order, so the rows of all successors of a node are complete when it is.
@jit
def _closure(order: IntArray, pointer: IntArray, index: IntArray) -> npt.NDArray[np.uint64]:
    n = len(order)
    words = (n + 63) // 64
    reach = np.zeros((n, words), np.uint64)
    for position in range(n - 1, -1, -1):
        node = order[position]
        for k in range(pointer[node], pointer[node + 1]):
            successor = index[k]
            for word in range(words):
                reach[node, word] |= reach[successor, word]
            reach[node, successor >> 6] |= np.uint64(1) << np.uint64(successor & 63)
    return reach


def closure(successors: Adjacency, order: IntArray) -> npt.NDArray[np.uint64]:
    """[n, ceil(n / 64)] reachability as bit rows: node i reaches j iff bit ``j % 64`` of ``[i, j // 64]`` is set.

    Takes O(n e / 64) time and n²/8 bytes.
    """
    return frozen(_closure(order, successors.pointer, successors.node))


def on_trunk(order: IntArray, source: IntArray, target: IntArray) -> BoolArray:
    """[n] True where every path from a source to a sink passes the node; ``order`` is topological."""
    n = len(order)
    position = np.empty(n, np.int64)
    position[order] = np.arange(n)
    # An edge that spans a position of the order bypasses the node there. A virtual entry at position -1 precedes all
    # sources, and a virtual exit at n follows all sinks.
    entries = position[np.bincount(target, minlength=n) == 0]
    exits = position[np.bincount(source, minlength=n) == 0]
    start = np.concatenate([position[source], np.full(len(entries), -1), exits])
    end = np.concatenate([position[target], entries, np.full(len(exits), n)])
    spanning = np.cumsum(np.bincount(start + 1, minlength=n + 1) - np.bincount(end, minlength=n + 1))
    return frozen(spanning[position] == 0)
