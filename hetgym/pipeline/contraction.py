"""Contraction: merging of operators that must share a device, or that an optimal cut may keep on one device."""

from dataclasses import dataclass, field

import numpy as np

from hetgym._types import FloatArray, IntArray
from hetgym.errors import ProblemError
from hetgym.pipeline.problem import PipelineProblem


@dataclass
class Contraction:
    """A smaller graph whose contiguous cuts include an optimal cut of the whole problem.

    Sets of nodes are Python integers; bit i stands for node i.
    """

    members: list[tuple[int, ...]]  # operators of each node
    cost: FloatArray  # [m, k] seconds on each kind of device
    # [m] bytes; zeros if everything fits on one device. A weight that several nodes read counts for each.
    size: FloatArray
    # before, after: for each node the set of nodes that it reads from, and of those that read from it
    before: list[int]
    after: list[int]
    # set of nodes that a tensor connects -> seconds that each device with some but not all of them pays. A device that
    # makes a tensor which others read pays as much as one that reads a tensor made elsewhere, so it does not matter
    # which of the nodes makes it.
    crossing: dict[int, float]
    # nodes that can be placed anywhere, in the order in which they were taken out. Each comes with the nodes that it
    # reads from, or, if the flag is set, with those that read from it.
    left_out: list[tuple[tuple[int, ...], tuple[int, ...], bool]] = field(default_factory=list)

    def expand(self, stage: IntArray, operators: int) -> IntArray:
        """[n] the stage of each operator, given that of each node; stages are numbered in reading order."""
        assignment = np.zeros(operators, np.int32)
        for node, inside in enumerate(self.members):
            assignment[list(inside)] = stage[node]
        for inside, neighbours, readers in reversed(self.left_out):
            there = assignment[list(neighbours)] if neighbours else np.zeros(1, np.int32)
            assignment[list(inside)] = there.min() if readers else there.max()
        return assignment


def contract(problem: PipelineProblem) -> Contraction:
    """Merge operators that must share a device (:func:`bind`), then all that can be merged without losing the optimum.

    The second part applies to nodes that have no work, and either have no bytes or occur in a problem whose memory
    suffices in any case. Such a node is merged with the only node that it reads from, or the only one that reads from
    it, if every tensor that connects it also connects that node. If none of its tensors costs anything, it is left out
    and placed at the end. Neither step increases the load of any device. For ProblemError see :func:`bind`.
    """
    small = bind(problem)
    if small.size.sum() <= min(kind.memory for kind in problem.kinds if kind.count):
        small.size = np.zeros(len(small.members))
    return _reduce(small)


def bind(problem: PipelineProblem) -> Contraction:
    """Merge operators that must share a device; nodes are in topological order.

    Operators of one colour become one node, and so do nodes on a cycle. Backward operators are placed with the forward
    operators of their colour. A backward operator whose colour has no forward operators is placed like an imaginary
    forward twin with reversed edges: the twin is read by whatever the operator reads from, and reads from its readers.

    Raises:
        ProblemError: operators that must be together have no kind of device that can run them all.
    """
    node = _bound_together(problem)
    count, nodes = int(node.max()) + 1, node.tolist()
    if count == problem.num_operators:
        alone = np.argsort(node)
        members: list[tuple[int, ...]] = [(i,) for i in alone.tolist()]
        cost, size = problem.cost[alone], problem.size[alone]
    else:
        members = [tuple(np.flatnonzero(node == k).tolist()) for k in range(count)]
        cost = np.stack([problem.cost[list(inside)].sum(axis=0) for inside in members])
        size = np.array([problem.size[list(inside)].sum() for inside in members]) - problem.shared.spared(node, count)
    stuck = np.flatnonzero(~np.isfinite(cost[:, [kind.count > 0 for kind in problem.kinds]]).any(axis=1))
    if len(stuck):
        first = problem.operator_names[members[int(stuck[0])][0]]
        raise ProblemError(
            f"pipeline {problem.name!r}: no device can run operator {first!r} and all that is bound to it"
        )
    before, after = [0] * count, [0] * count
    for u, v in _node_edges(problem, nodes):
        after[u] |= 1 << v
        before[v] |= 1 << u
    touched = [1 << k for k in nodes]
    for source, target in zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True):
        touched[source] |= 1 << nodes[target]
    crossing: dict[int, float] = {}
    for connected, seconds in zip(touched, problem.transfer.tolist(), strict=True):
        if seconds > 0 and connected.bit_count() > 1:
            crossing[connected] = crossing.get(connected, 0.0) + seconds
    return Contraction(members, cost, size, before, after, crossing)


def _bound_together(problem: PipelineProblem) -> IntArray:
    """[n] node of each operator; nodes are numbered in topological order."""
    import networkx as nx

    if not problem.backward.any() and (problem.colour < 0).all():
        alone = np.empty(problem.num_operators, np.int32)
        alone[problem.order] = np.arange(problem.num_operators)
        return alone
    group = np.where(problem.colour >= 0, problem.colour, -2 - np.arange(problem.num_operators)).tolist()
    graph = nx.DiGraph()
    graph.add_nodes_from(group)
    graph.add_edges_from(_group_edges(problem, group))
    circles = nx.condensation(graph)
    first: dict[int, int] = {}
    for i in problem.order.tolist():
        first.setdefault(circles.graph["mapping"][group[i]], len(first))
    order = nx.lexicographical_topological_sort(circles, key=lambda circle: first[circle])
    rank = {circle: k for k, circle in enumerate(order)}
    return np.array([rank[circles.graph["mapping"][g]] for g in group], np.int32)


def _group_edges(problem: PipelineProblem, group: list[int]) -> list[tuple[int, int]]:
    """Edges that stages must respect: those of the forward pass and those of forward twins, see :func:`bind`."""
    backward = problem.backward
    has_forward = {g for g, late in zip(group, backward.tolist(), strict=True) if not late}
    edges = []
    for u, v in zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True):
        if group[u] == group[v]:
            continue
        if not backward[u] and not backward[v]:
            edges.append((group[u], group[v]))
        elif backward[u] and backward[v] and not (group[u] in has_forward and group[v] in has_forward):
            edges.append((group[v], group[u]))
    return edges


def _node_edges(problem: PipelineProblem, nodes: list[int]) -> set[tuple[int, int]]:
    if problem.backward.any():
        by_colour = np.where(problem.colour >= 0, problem.colour, -2 - np.arange(problem.num_operators)).tolist()
        number = dict(zip(by_colour, nodes, strict=True))
        pairs = {(number[u], number[v]) for u, v in _group_edges(problem, by_colour)}
    else:
        sources, targets = problem.edge_source.tolist(), problem.edge_target.tolist()
        pairs = {(nodes[u], nodes[v]) for u, v in zip(sources, targets, strict=True)}
    return {(u, v) for u, v in pairs if u != v}


def _reduce(merged: Contraction) -> Contraction:
    """Merge or leave out nodes without work for as long as possible."""
    idle = [k for k in range(len(merged.members)) if not merged.cost[k].any() and merged.size[k] == 0]
    alive = set(range(len(merged.members)))
    changed = True
    while changed:
        changed = False
        for k in list(idle):
            bit = 1 << k
            touching = [nodes for nodes in merged.crossing if nodes & bit]
            if merged.before[k] and merged.after[k]:
                continue
            neighbours = merged.before[k] | merged.after[k]
            if touching and (neighbours.bit_count() != 1 or any(not nodes & neighbours for nodes in touching)):
                continue
            for nodes in touching:
                seconds = merged.crossing.pop(nodes)
                if (nodes & ~bit).bit_count() > 1:
                    merged.crossing[nodes & ~bit] = merged.crossing.get(nodes & ~bit, 0.0) + seconds
            near = [q for q in alive if neighbours >> q & 1]
            operators = tuple(i for q in near for i in merged.members[q])
            merged.left_out.append((merged.members[k], operators, bool(merged.after[k])))
            for q in near:
                merged.before[q] &= ~bit
                merged.after[q] &= ~bit
            merged.before[k] = merged.after[k] = 0
            alive.discard(k)
            idle.remove(k)
            changed = True
    if not alive:  # no node has any work
        alive = {0}
        merged.left_out = [row for row in merged.left_out if row[0] != merged.members[0]]
    return _renumber(merged, sorted(alive))


def _renumber(merged: Contraction, alive: list[int]) -> Contraction:
    place = {old: new for new, old in enumerate(alive)}

    def moved(nodes: int) -> int:
        return sum(1 << new for old, new in place.items() if nodes >> old & 1)

    return Contraction(
        members=[merged.members[k] for k in alive],
        cost=merged.cost[alive],
        size=merged.size[alive],
        before=[moved(merged.before[k]) for k in alive],
        after=[moved(merged.after[k]) for k in alive],
        crossing={moved(nodes): seconds for nodes, seconds in merged.crossing.items()},
        left_out=merged.left_out,
    )
