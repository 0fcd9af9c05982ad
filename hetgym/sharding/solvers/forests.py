"""Exact choices on forests: nodes whose edges to each other close no cycle, while all others keep their strategies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._kernels.draws import Random
from hetgym._kernels.jit import jit
from hetgym._kernels.records import record
from hetgym._types import FloatArray, Int64Array
from hetgym.sharding.solvers.model import Model, add_row, lowest


@record
class Forest(NamedTuple):
    """Room for a forest and the dynamic program on it."""

    nodes: Int64Array  # [n] nodes in the order in which they were reached, roots before their children
    parent: Int64Array  # [n] the edge that leads to the node's parent; -1 for a root
    member: Int64Array  # [n] the number of the forest that a node belongs to, times two; plus one if it is queued only
    links: Int64Array  # [n] edges that join a node to the forest, for nodes that are not in it
    value: FloatArray  # [s] least cost of the subtree of each strategy
    front: Int64Array  # [n] nodes that the forest may grow by
    root: Int64Array  # [n] scratch
    figures: Int64Array  # [2] number of the forest; and how many nodes it has


def new_forest(model: Model) -> Forest:
    """Room for the forests of a model."""
    n = len(model.offsets) - 1
    return Forest(
        np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64),
        np.zeros(len(model.costs)), np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(2, np.int64),
    )  # fmt: skip


@jit
def grow(model: Model, forest: Forest, root: int, most: int, draws: Random) -> int:
    """Grow a random induced tree of up to `most` nodes from a root: no two of them have an edge outside the tree."""
    forest.figures[0] += 1
    mark = 2 * forest.figures[0]
    forest.nodes[0], forest.parent[root], forest.member[root] = root, -1, mark
    size, front = 1, _look(model, forest, root, 0, mark)
    while size < most and front > 0:
        pick = int(draws.random() * front)
        v = forest.front[pick]
        front -= 1
        forest.front[pick] = forest.front[front]
        if forest.links[v] != 1:
            continue
        forest.member[v] = mark
        forest.nodes[size] = v
        size += 1
        front = _look(model, forest, v, front, mark)
    forest.figures[1] = size
    return size


@jit
def _look(model: Model, forest: Forest, v: int, front: int, mark: int) -> int:
    """Note the neighbours of a new node of the tree."""
    ahead, behind = model.first[v], model.second_offsets[v]
    edges = model.first[v + 1] - ahead
    for i in range(edges + model.second_offsets[v + 1] - behind):
        e = ahead + i if i < edges else model.second[behind + i - edges]
        w = model.ends[e, 1] if i < edges else model.ends[e, 0]
        if forest.member[w] == mark:
            continue
        if forest.member[w] == mark + 1:
            forest.links[w] += 1
        else:
            forest.member[w], forest.links[w], forest.parent[w] = mark + 1, 1, e
            forest.front[front] = w
            front += 1
    return front


@jit
def spread(model: Model, forest: Forest, order: Int64Array) -> int:
    """Make a maximal induced forest: nodes enter in order, unless they would close a cycle."""
    forest.figures[0] += 1
    mark = 2 * forest.figures[0]
    root = forest.root
    for v in range(len(root)):
        root[v] = v
    for i in range(len(order)):
        v = order[i]
        fresh = True
        ahead, behind = model.first[v], model.second_offsets[v]
        edges = model.first[v + 1] - ahead
        both = edges + model.second_offsets[v + 1] - behind
        for i in range(both):
            w = model.ends[ahead + i, 1] if i < edges else model.ends[model.second[behind + i - edges], 0]
            if forest.member[w] == mark:
                r = _root(root, w)
                fresh &= forest.links[r] != v + 1
                forest.links[r] = v + 1
        for i in range(both):
            w = model.ends[ahead + i, 1] if i < edges else model.ends[model.second[behind + i - edges], 0]
            if forest.member[w] == mark:
                r = _root(root, w)
                forest.links[r] = 0
                if fresh:
                    root[r] = v
        if fresh:
            forest.member[v] = mark
            forest.links[v] = 0
    size = 0
    for i in range(len(order)):  # from now on, nodes that are reached have mark + 1
        v = order[i]
        if forest.member[v] != mark:
            continue
        head = size
        forest.nodes[size], forest.parent[v], forest.member[v] = v, -1, mark + 1
        size += 1
        while head < size:
            u = forest.nodes[head]
            head += 1
            ahead, behind = model.first[u], model.second_offsets[u]
            edges = model.first[u + 1] - ahead
            for i in range(edges + model.second_offsets[u + 1] - behind):
                e = ahead + i if i < edges else model.second[behind + i - edges]
                w = model.ends[e, 1] if i < edges else model.ends[e, 0]
                if forest.member[w] == mark:
                    forest.nodes[size], forest.parent[w], forest.member[w] = w, e, mark + 1
                    size += 1
    forest.figures[1] = size
    for k in range(size):
        forest.member[forest.nodes[k]] = mark
    return size


@jit
def _root(root: Int64Array, v: int) -> int:
    while root[v] != v:
        root[v] = root[root[v]]
        v = root[v]
    return v


@jit
def optimise(model: Model, forest: Forest, theta: FloatArray, choice: Int64Array) -> None:
    """Give the nodes of the forest the strategies of least cost, while all other nodes keep theirs.

    Args:
        theta: [s] priced costs.
        choice: [n] strategies, which are changed.
    """
    mark, size = 2 * forest.figures[0], forest.figures[1]
    offsets, value = model.offsets, forest.value
    for k in range(size):
        v = forest.nodes[k]
        low, width = offsets[v], offsets[v + 1] - offsets[v]
        for s in range(low, low + width):
            value[s] = theta[s]
        for e in range(model.first[v], model.first[v + 1]):
            w = model.ends[e, 1]
            if forest.member[w] != mark:
                add_row(value, low, width, model.turned, model.table_offsets[e] + choice[w] * width)
        for i in range(model.second_offsets[v], model.second_offsets[v + 1]):
            e = model.second[i]
            w = model.ends[e, 0]
            if forest.member[w] != mark:
                add_row(value, low, width, model.tables, model.table_offsets[e] + choice[w] * width)
    for k in range(size - 1, -1, -1):
        v = forest.nodes[k]
        e = forest.parent[v]
        if e < 0:
            continue
        low, width = offsets[v], offsets[v + 1] - offsets[v]
        # Rows of the table are the parent's strategies.
        first = model.ends[e, 0] == v
        w = model.ends[e, 1] if first else model.ends[e, 0]
        table = model.turned if first else model.tables
        at = model.table_offsets[e]
        for t in range(offsets[w], offsets[w + 1]):
            least = value[low] + table[at]
            for s in range(1, width):
                cost = value[low + s] + table[at + s]
                least = cost if cost < least else least
            value[t] += least
            at += width
    for k in range(size):
        v = forest.nodes[k]
        e = forest.parent[v]
        low, width = offsets[v], offsets[v + 1] - offsets[v]
        if e >= 0:
            first = model.ends[e, 0] == v
            w = model.ends[e, 1] if first else model.ends[e, 0]
            table = model.turned if first else model.tables
            add_row(value, low, width, table, model.table_offsets[e] + choice[w] * width)
        choice[v] = lowest(value, low, width)
