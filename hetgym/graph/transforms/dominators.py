"""Immediate post-dominators of a dataflow graph."""

import numpy as np

from hetgym._types import IntArray, frozen
from hetgym.graph.dataflow import DataflowGraph


def post_dominators(graph: DataflowGraph) -> IntArray:
    """[n] the first operator after each operator that all its paths to a sink pass; -1 where there is none.

    In a graph without cycles one pass in reverse topological order is exact: the immediate post-dominator is the
    lowest common ancestor of all readers in the tree built so far (Cooper, Harvey, Kennedy, *A simple, fast
    dominance algorithm*, 2001).

    >>> from hetgym.graph import DataflowGraph, Operator, Tensor
    >>> x = Tensor((4,))
    >>> nodes = [Operator(name, "Relu", (x,), (x,)) for name in "abcd"]
    >>> post_dominators(DataflowGraph(nodes, [(0, 0, 1), (0, 0, 2), (1, 0, 3), (2, 0, 3)]))
    array([ 3,  3,  3, -1], dtype=int32)
    """
    n = len(graph)
    parent, depth = np.full(n, -1, np.int32), np.zeros(n, np.int32)  # the exit, -1, has depth 0
    pointer, node = graph.successors.pointer, graph.successors.node
    for i in graph.topological_order[::-1].tolist():
        readers = node[pointer[i] : pointer[i + 1]].tolist()
        meet = readers[0] if readers else -1
        for other in readers[1:]:
            a = other
            while meet != a:
                if meet >= 0 and (a < 0 or depth[meet] >= depth[a]):
                    meet = int(parent[meet])
                else:
                    a = int(parent[a])
        parent[i] = meet
        depth[i] = 1 + (depth[meet] if meet >= 0 else 0)
    return frozen(parent)


def between(graph: DataflowGraph, start: int, end: int) -> list[int]:
    """Operators on paths from ``start`` to its post-dominator ``end``, without these two; in ascending order."""
    pointer, node = graph.successors.pointer, graph.successors.node
    seen: set[int] = set()
    stack = [start]
    while stack:
        i = stack.pop()
        for j in node[pointer[i] : pointer[i + 1]].tolist():
            if j != end and j not in seen:
                seen.add(j)
                stack.append(j)
    return sorted(seen)
