"""Blocks: the units of a graph that pipelines never cut."""

from collections import Counter
from itertools import pairwise

import numpy as np

from hetgym._types import BoolArray, Int64Array, IntArray, frozen
from hetgym.errors import ConfigError, check_name
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.layers import layer_of

BLOCKS = ("auto", "trunk", "layers", "steps", "operators")
"""Kinds of blocks, the units that are never cut. ``trunk``: the operators between two places where few tensors cross;
``layers``: those of a layer by its name, see :func:`~hetgym.graph.layer_of`, as programs cut language models;
``steps``: a time step of a recurrent network; ``operators``: a single operator. ``auto`` takes ``steps`` if the graph
has several time steps, otherwise ``trunk``; so does ``layers`` in graphs without several layers."""

LARGEST = 0.25  # Share of a graph's operators above which a block is cut where more than one operator's results cross
SMALL = 8  # Operators up to which no such block is cut


def blocks(graph: DataflowGraph, how: str = "auto") -> IntArray:
    """[n] block of each operator; blocks are numbered in reading order.

    A trunk block ends where only one operator's results are still to be read. A block of more than :data:`LARGEST` of
    the operators and more than :data:`SMALL`, which a skip or the output of an encoder makes, is cut again where the
    results of two operators cross, of three, and so on. Operators that do not lead to the end of the longest path
    (writes to a cache, auxiliary outputs) follow the last one that they read from; those that do not depend on its
    start (the words of a decoder) precede their first reader.

    Blocks of layers are the trunk blocks, with those that share a layer joined.

    The time step of a recurrent cell is the number of earlier cells with the same weights; other operators belong to
    the latest step that they read from.

    Args:
        how: one of :data:`BLOCKS`.

    Raises:
        UnknownName: no such kind of blocks.
        ConfigError: ``steps`` for a graph without recurrent cells that share weights.

    >>> from hetgym.graph.generators import lstm_grid
    >>> blocks(lstm_grid(layers=2, steps=3)).tolist()
    [0, 1, 2, 0, 1, 2]
    """
    check_name("kind of blocks", how, BLOCKS)
    if how in ("auto", "steps", "layers"):
        steps = _steps(graph)
        if steps is not None:
            return frozen(steps)
        if how == "steps":
            raise ConfigError(f"graph {graph.name!r} has no recurrent cells that share weights, hence no time steps")
    found = np.zeros(len(graph), np.int32)
    if how == "operators":
        found[graph.topological_order] = np.arange(len(graph))
        return frozen(found)
    order = _reading_order(graph)
    found[order] = np.concatenate([[0], np.cumsum(_ends(graph, order)[:-1])])
    return frozen(_joined(graph, found) if how == "layers" else found)


def _joined(graph: DataflowGraph, block: IntArray) -> IntArray:
    """[n] blocks, with consecutive ones that share a layer joined; unchanged if that would leave too few."""
    names: list[set[str]] = [set() for _ in range(int(block.max()) + 1)]
    for k, op in zip(block.tolist(), graph.operators, strict=True):
        names[k] |= {layer_of(op.name)} - {""}
    starts = np.array([0] + [int(not before & own) for before, own in pairwise(names)], np.int32)
    joined = np.cumsum(starts).astype(np.int32)[block]
    return joined if joined.max() + 1 >= len(set().union(*names)) > 1 else block


def _steps(graph: DataflowGraph) -> IntArray | None:
    """[n] time step of each operator; None if there is only one step."""
    step = np.zeros(len(graph), np.int32)
    runs: Counter[str] = Counter()
    pointer, node = graph.predecessors.pointer, graph.predecessors.node
    for i in graph.topological_order.tolist():
        step[i] = step[node[pointer[i] : pointer[i + 1]]].max(initial=0)
        op = graph.operators[i]
        named = [t for t in op.inputs if t.constant and t.name]
        if op.spec.family == "recurrent" and named:
            weights = max(named, key=lambda t: t.bytes).name  # the first step may also have a constant initial state
            step[i] = max(int(step[i]), runs[weights])
            runs[weights] = int(step[i]) + 1
    return step if step.any() else None


def _reading_order(graph: DataflowGraph) -> IntArray:
    """[n] the topological order, with side branches beside the operators that they read from, or that read from them.

    The main path is a longest one. Its operators, those that it leads to and that lead to its end, keep their places.
    """
    n, order = len(graph), graph.topological_order.tolist()
    before = [graph.predecessors.node[a:b].tolist() for a, b in _rows(graph.predecessors.pointer)]
    after = [graph.successors.node[a:b].tolist() for a, b in _rows(graph.successors.pointer)]
    depth, start = [0] * n, list(range(n))  # operators before it on a longest path, and the first one there
    for i in order:
        for p in before[i]:
            if depth[p] >= depth[i]:
                depth[i], start[i] = depth[p] + 1, start[p]
    end = max(order, key=lambda i: depth[i])
    leads, follows = [i == end for i in range(n)], [i == start[end] for i in range(n)]
    for i in reversed(order):
        leads[i] |= any(leads[j] for j in after[i])
    for i in order:
        follows[i] |= any(follows[p] for p in before[i])
    place = [0] * n
    for k, i in enumerate(order):
        place[i] = k
    for i in reversed(order):
        if leads[i] and not follows[i]:
            place[i] = min(place[j] for j in after[i] if leads[j])
    for i in order:
        if not leads[i]:
            place[i] = max((place[p] for p in before[i]), default=place[i])
    late = [1 if not leads[i] else 0 if follows[i] else -1 for i in range(n)]
    rank = {i: k for k, i in enumerate(order)}
    return np.array(sorted(order, key=lambda i: (place[i], late[i], rank[i])), np.int32)


def _rows(pointer: IntArray) -> list[tuple[int, int]]:
    ends = pointer.tolist()
    return list(zip(ends[:-1], ends[1:], strict=True))


def _ends(graph: DataflowGraph, order: IntArray) -> BoolArray:
    """[n] True for places in the order behind which a block ends.

    Let the results of c operators cross behind a place. It ends a block if c is at most 1, or if the operators between
    the nearest places on both sides with a smaller c are too many. Those places end blocks, too, since they lie in a
    wider gap: so blocks that are too large are cut where least crosses, and their parts likewise.
    """
    n = len(order)
    here, place = np.arange(n), np.empty(n, np.int64)
    place[order] = here
    last = here.copy()  # place of the last reader of each operator's results
    np.maximum.at(last, place[graph.edge_source], place[graph.edge_target])
    live = last > here
    crossing: Int64Array = np.cumsum(live) - np.cumsum(np.bincount(last[live], minlength=n))
    # An operator whose results nobody reads, and that reads nothing for the last time, changes nothing: no cut before.
    idle = ~live & ~np.isin(here, last[live])
    crossing[:-1][idle[1:]] = n + 1
    lower = [-1] * n  # nearest places with a smaller number, before and behind
    upper = [n - 1] * n
    rising: list[int] = []
    for i, crossed in enumerate(crossing.tolist()):
        while rising and crossing[rising[-1]] > crossed:
            upper[rising.pop()] = i
        top = rising[-1] if rising else -1
        lower[i] = lower[top] if top >= 0 and crossing[top] == crossed else top
        rising.append(i)
    wide = np.array(upper) - np.array(lower) > max(LARGEST * n, SMALL)
    return np.asarray((crossing <= 1) | (wide & (crossing <= n)))
