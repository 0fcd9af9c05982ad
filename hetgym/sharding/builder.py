"""The builder of sharding problems: nodes, their prices and usages, and the tables between them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from hetgym._sums import summed
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.ops import Tensor
from hetgym.sharding.following import following, leaders
from hetgym.sharding.liveness import Liveness
from hetgym.sharding.placement import Placement, R, local_bytes
from hetgym.sharding.pricing import Prices, Table
from hetgym.sharding.problem import INFINITE, ShardingProblem
from hetgym.sharding.reads import group_of, shared_reads, value_key, weight_of, written
from hetgym.sharding.roles import Roles
from hetgym.sharding.rules.table import has_rule, is_update
from hetgym.sharding.sharded_graph import Node, ShardedGraph
from hetgym.sharding.strategies import Strategy, layout_strategy, leaf_strategies


class Builder:
    """A sharding problem under construction; nodes are added in the order in which they are first needed."""

    def __init__(self, graph: DataflowGraph, prices: Prices, *, follow: bool, layouts: bool, copies: bool) -> None:
        self.graph, self.prices, self.mesh, self.copies = graph, prices, prices.mesh, copies
        self.roles = Roles(graph)
        self.leaders = leaders(graph, self.roles, prices) if follow else [-1] * len(graph)
        self.groups = shared_reads(graph, self.roles.sources, self.leaders) if layouts else {}
        self.liveness = Liveness(graph, self.roles.sources)
        self.nodes: list[Node] = []
        self.costs: list[list[int]] = []
        self.usages: list[list[int]] = []
        self.intervals: list[tuple[int, int]] = []
        self.edges: list[tuple[int, int, int, int]] = []
        self.tables: list[Table] = []
        self.of_operator: dict[int, int] = {}
        self.parameters: dict[Hashable, int] = {}
        self.layouts: dict[Hashable, int] = {}
        self.unknown: set[str] = set()
        self.read = {source for row in self.roles.sources for source in row if source is not None}

    def add(self, i: int) -> None:
        """Add an operator with the parameters and inputs that it is the first to read."""
        op, adjoint = self.graph.operators[i], self.roles.adjoints.get(i)
        if not has_rule(op, adjoint):
            self.unknown.add(op.kind)
        found, costs = self.prices.operator(op, adjoint)
        producers = [self._producer(i, at) for at in range(len(op.inputs))]
        follows = self.of_operator[self.leaders[i]] if self.leaders[i] >= 0 else -1
        if follows >= 0:
            slots = [p[1] if p is not None and p[0] == follows else -1 for p in producers]
            chosen = following(self.nodes[follows].strategies, slots, found, costs)
            found, costs = [found[s] for s in chosen], [costs[s] for s in chosen]
        node = Node("operator", op.name, tuple(found), i, follows=follows)
        interval = (self.liveness.position[i], self.liveness.end[i])
        if is_update(op):
            interval = (0, self.liveness.steps)
        self.of_operator[i] = self._node(node, costs, self._usages(i, found), interval)
        for at, producer in enumerate(producers):
            if producer is not None:
                self._edge(i, at, producer)
        if self.copies:
            self._add_copies(i, producers)
        for slot, tensor in enumerate(op.outputs):
            if tensor.size and (i, slot) not in self.read:
                self._add_result(i, slot, tensor)

    def _node(self, node: Node, costs: list[int], usages: list[int], interval: tuple[int, int]) -> int:
        self.nodes.append(node)
        self.costs.append(costs)
        self.usages.append(usages)
        self.intervals.append(interval)
        return len(self.nodes) - 1

    def _producer(self, i: int, at: int) -> tuple[int, int] | None:
        """Node and result that an operand comes from; None for the state of an optimizer, which is the update's own."""
        op, source = self.graph.operators[i], self.roles.sources[i][at]
        if is_update(op) and op.inputs[at].constant and at != weight_of(op):
            return None
        if source is not None:
            producer = self.of_operator[source[0]], source[1]
        else:
            key = value_key(op, i, at, None)
            if key not in self.parameters:
                self.parameters[key] = self._leaf(i, at, op.inputs[at])
            producer = self.parameters[key], 0
        group = group_of(op, i, at, source)
        if (i, at) not in self.groups.get(group, ()):
            return producer
        if group not in self.layouts:
            self.layouts[group] = self._layout(producer, op.inputs[at], self.groups[group])
        return self.layouts[group], 0

    def _layout(self, producer: tuple[int, int], tensor: Tensor, readers: Sequence[tuple[int, int]]) -> int:
        """A new node of the placement of a value for several readers: any placement that one of them reads."""
        placements = dict[Placement, None]()
        for i, at in readers:
            found, _ = self.prices.operator(self.graph.operators[i], self.roles.adjoints.get(i))
            placements.update(dict.fromkeys(s.operands[at] for s in found))
        strategies = tuple(layout_strategy(placement) for placement in placements)
        axes, sizes = self._sharded_axes(*producer), self.mesh.shape
        usages = [_whole([(tensor, p)], sizes) if self.copies and _replicated(p, axes) else 0 for p in placements]
        first, origin = min(self.liveness.position[i] for i, _ in readers), self.nodes[producer[0]]
        name = f"{origin.name}:{producer[1]}" if origin.kind == "operator" else origin.name
        backward = "/backward" if self.graph.operators[readers[0][0]].kind.startswith("Gradient-") else ""
        node = self._node(
            Node("layout", f"{name}/layout{backward}", strategies, readers[0][0], tensor),
            [0] * len(strategies),
            usages,
            (first, self.liveness.until([i for i, _ in readers])),
        )
        before = [s.outputs[producer[1]] for s in origin.strategies]
        self._join(producer, node, 0, self.prices.table(tensor, before, list(placements)))
        return node

    def _leaf(self, i: int, at: int, tensor: Tensor) -> int:
        """A new node of a parameter or of an input."""
        found = leaf_strategies(tensor, self.mesh)
        name = tensor.name or f"{self.graph.operators[i].name}/{at}"
        kind = "parameter" if tensor.constant else "input"
        usages = [math.ceil(local_bytes(tensor, s.outputs[0], self.mesh.shape)) for s in found]
        interval = (0, self.liveness.steps if tensor.constant else self.liveness.until([i]))
        return self._node(Node(kind, name, tuple(found), i, tensor), [0] * len(found), usages, interval)

    def _usages(self, i: int, found: list[Strategy]) -> list[int]:
        """Bytes of the results; of an update, those of the optimizer's state."""
        op, sizes = self.graph.operators[i], self.mesh.shape
        if is_update(op):
            state = [at for at, t in enumerate(op.inputs) if t.constant and at != weight_of(op)]
            return [_whole(((op.inputs[at], s.operands[at]) for at in state), sizes) for s in found]
        if self.liveness.views[i]:
            return [0] * len(found)
        return [_whole(zip(op.outputs, s.outputs, strict=True), sizes) for s in found]

    def _edge(self, i: int, at: int, producer: tuple[int, int]) -> None:
        """Add the edge of an operand: the table of reshardings; off the diagonal of a follower, INFINITE."""
        op, (source, slot), node = self.graph.operators[i], producer, self.of_operator[i]
        before = [s.outputs[slot] for s in self.nodes[source].strategies]
        after = [s.operands[at] for s in self.nodes[node].strategies]
        table = self.prices.table(op.inputs[at], before, after, back=written(op, at))
        if self.nodes[node].follows == source:
            table = np.where(np.eye(len(before), dtype=bool), table, INFINITE)
        self._join(producer, node, at, table)

    def _join(self, producer: tuple[int, int], node: int, at: int, table: Table) -> None:
        """Add an edge; an input of the graph stays until its last reader."""
        source, slot = producer
        self.edges.append((source, node, at, slot))
        self.tables.append(table)
        if self.nodes[source].kind == "input":
            (low, high), reader = self.intervals[source], self.nodes[node]
            last = self.intervals[node][1] if reader.kind == "layout" else self.liveness.until([reader.operator])
            self.intervals[source] = low, max(high, last)

    def _add_copies(self, i: int, producers: list[tuple[int, int] | None]) -> None:
        """Add a node with the memory of the operands that an operator may have to gather."""
        op, node, at_time = self.graph.operators[i], self.of_operator[i], self.liveness.position[i]
        found = self.nodes[node].strategies
        gathered: list[tuple[int, list[bool]]] = []
        for at, producer in enumerate(producers):
            if producer is not None:
                gathered.append((at, self._sharded_axes(*producer)))
        usages = [
            _whole(
                ((op.inputs[at], s.operands[at]) for at, axes in gathered if _replicated(s.operands[at], axes)),
                self.mesh.shape,
            )
            for s in found
        ]
        if any(usages):
            own = Node("copies", op.name, found, i, follows=node)
            copies = self._node(own, [0] * len(found), usages, (at_time, at_time + 1))
            self._join((node, -1), copies, -1, np.where(np.eye(len(found), dtype=bool), 0, INFINITE))

    def _add_result(self, i: int, slot: int, tensor: Tensor) -> None:
        """Add a node of a result that nothing reads: replicated or sharded, but not partial."""
        found, at_time, source = leaf_strategies(tensor, self.mesh), self.liveness.position[i], self.of_operator[i]
        nothing, name = [0] * len(found), f"{self.graph.operators[i].name}:{slot}"
        node = self._node(Node("result", name, tuple(found), i, tensor), nothing, nothing, (at_time, at_time + 1))
        before = [s.outputs[slot] for s in self.nodes[source].strategies]
        self._join((source, slot), node, 0, self.prices.table(tensor, before, [s.outputs[0] for s in found]))

    def _sharded_axes(self, node: int, slot: int) -> list[bool]:
        """For each axis, whether a strategy of a node shards its result along it."""
        rows = zip(*(s.outputs[slot] for s in self.nodes[node].strategies), strict=True)
        return [any(e.kind == "S" for e in row) and size > 1 for row, size in zip(rows, self.mesh.shape, strict=True)]

    def result(self, limit: int | None) -> ShardedGraph:
        """The problem of all nodes and edges."""
        problem = ShardingProblem(
            np.concatenate([[0], np.cumsum([len(row) for row in self.costs], dtype=np.int64)]),
            np.concatenate([np.array(row, np.int64) for row in self.costs]),
            np.concatenate([np.array(row, np.int64) for row in self.usages]),
            np.array(self.intervals, np.int64),
            np.array([edge[:2] for edge in self.edges], np.int64).reshape(-1, 2),
            np.concatenate([np.zeros(0, np.int64), *(table.reshape(-1) for table in self.tables)]),
            limit=limit,
            name=self.graph.name,
            unit="ns",
        )
        return ShardedGraph(
            problem,
            self.graph,
            self.mesh,
            tuple(self.nodes),
            tuple(self.of_operator[i] for i in range(len(self.graph))),
            tuple(self.edges),
            tuple(sorted(self.unknown)),
        )


def _replicated(placement: Placement, axes: Iterable[bool]) -> bool:
    """Whether a placement replicates a tensor on one of some axes."""
    return any(entry == R and chosen for entry, chosen in zip(placement, axes, strict=True))


def _whole(tensors: Iterable[tuple[Tensor, Placement]], sizes: tuple[int, ...]) -> int:
    """Local bytes of tensors together [byte]."""
    return math.ceil(summed(local_bytes(tensor, placement, sizes) for tensor, placement in tensors))
