"""From a graph on a mesh to a sharding problem."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hetgym._input.config import check_number
from hetgym._sums import summed
from hetgym.costs import CostModel, cost_model
from hetgym.errors import ConfigError, shown
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.ops import WRITERS, Operator, Tensor
from hetgym.graph.transforms.training import training
from hetgym.sharding.evaluation import as_choice
from hetgym.sharding.liveness import Liveness
from hetgym.sharding.mesh import Mesh
from hetgym.sharding.placement import Placement, R, local_bytes
from hetgym.sharding.pricing import Prices, Table
from hetgym.sharding.problem import INFINITE, ShardingProblem
from hetgym.sharding.roles import Roles
from hetgym.sharding.rules.table import has_rule, is_loss, is_update
from hetgym.sharding.strategies import Strategy, leaf_strategies

FOLLOWERS = ("elementwise", "view")
"""Families of operators that follow their operand; so do copies and transpositions."""


@dataclass(frozen=True, eq=False)
class Node:
    """A node of the sharding problem of a graph.

    Attributes:
        kind: ``operator``; ``parameter``, a constant; ``input``, an operand from outside the graph; ``result``, a value
            that nothing reads; or ``copies``, the memory of an operator for operands that it gathers.
        name: of the operator, or of the tensor.
        strategies: its strategies, in the order of the problem.
        operator: number of the operator in the graph; the first reader of a parameter or an input, and the producer of
            a result.
        tensor: of a parameter, an input or a result.
        follows: node whose strategies an operator follows; -1 for none.
    """

    kind: str
    name: str
    strategies: tuple[Strategy, ...]
    operator: int
    tensor: Tensor | None = None
    follows: int = -1


@dataclass(frozen=True, eq=False)
class ShardedGraph:
    """A graph on a mesh as a sharding problem.

    Attributes:
        problem: costs in nanoseconds [ns], usages in bytes of one rank [byte].
        graph: the graph, of a training step if an optimizer was given.
        mesh: the mesh.
        nodes: the nodes of the problem, in order.
        of_operator: [n] node of each operator.
        edges: for each edge of the problem the operand that it brings: the nodes at its ends, the operand's number and,
            if the first node is an operator, the result's number; (-1, -1) between an operator and its copies.
        unknown: kinds of operators without a rule, which are replicated, in alphabetical order.
    """

    problem: ShardingProblem
    graph: DataflowGraph
    mesh: Mesh
    nodes: tuple[Node, ...]
    of_operator: tuple[int, ...]
    edges: tuple[tuple[int, int, int, int], ...] = field(repr=False)
    unknown: tuple[str, ...] = ()

    def labels(self, choice: npt.ArrayLike) -> dict[str, str]:
        """Name of each operator, parameter and input -> label of its strategy; InvalidSharding as for evaluate."""
        chosen = as_choice(self.problem, choice).tolist()
        pairs = zip(self.nodes, chosen, strict=True)
        return {node.name: node.strategies[s].label for node, s in pairs if node.kind != "copies"}

    def strategy(self, choice: npt.ArrayLike, operator: int) -> Strategy:
        """The strategy that a choice gives an operator; InvalidSharding as for evaluate."""
        node = self.of_operator[operator]
        return self.nodes[node].strategies[int(as_choice(self.problem, choice)[node])]

    def __repr__(self) -> str:
        return f"ShardedGraph({self.graph.name!r}, {self.mesh}, {self.problem.nodes} nodes)"


def build(
    graph: DataflowGraph,
    mesh: Mesh,
    costs: str | CostModel = "auto",
    *,
    optimizer: str | None = None,
    memory: float | None = None,
    follow: bool = True,
    copies: bool = True,
) -> ShardedGraph:
    """The sharding problem of a graph on a mesh.

    Every operator, parameter and input of the graph is a node, and so is every result that nothing reads, which must
    not stay a partial sum. The cost of an operator is the time of its local part by the cost model, and of the
    collectives that belong to the strategy; that of an edge is the time of the resharding from the producer's placement
    to the reader's, at least 1 ns where they differ. Communication and computation do not overlap. Operands that are
    written, such as a weight by its update, are priced both ways.

    Time is the position in the topological order. Parameters and the optimizer's state take memory at all times; a
    result from its operator up to its last reader; a view takes none, but keeps its operand.

    Edges name no operands: an operator that reads several results of the same type reads them in the order of the
    operators that make them.

    Args:
        graph: the graph, of inference if an optimizer is given.
        mesh: the mesh.
        costs: see :func:`~hetgym.costs.cost_model`.
        optimizer: one of :data:`~hetgym.graph.transforms.training.OPTIMIZERS`, which makes the graph a training step.
        memory: most memory of a rank [byte]; None for no limit.
        follow: whether cheap operators with one operand follow its producer: each of its strategies then allows just
            one of theirs, that with the same placement if there is one. Alpa's rule (Zheng et al., OSDI 2022).
        copies: whether an operator also takes the memory of operands that a strategy of their producer would have it
            gather. This is an upper bound: the memory is charged even if the chosen strategies gather nothing.

    Raises:
        ConfigError: an argument out of range.
        UnknownName: no such optimizer or cost model.
        GraphError: a graph that cannot be trained.

    >>> from hetgym.graph import DataflowGraph, Operator, Tensor
    >>> x, w, y = Tensor((8, 4)), Tensor((4, 6), constant=True, name="w"), Tensor((8, 6))
    >>> layers = Operator("fc", "MatMul", (x, w), (y,)), Operator("act", "Relu", (y,), (y,))
    >>> graph = DataflowGraph(layers, [(0, 0, 1)])
    >>> sharded = build(graph, Mesh((2,)), copies=False)
    >>> sharded
    ShardedGraph('graph', Mesh('2', tp: nvlink3), 5 nodes)
    >>> sharded.labels([0, 2, 2, 2, 2])
    {'fc/0': 'replicated', 'w': 'd1', 'fc': 'n', 'act': 'd1', 'act:0': 'd1'}
    """
    if not isinstance(mesh, Mesh):
        raise ConfigError(f"mesh is {shown(mesh)}; it must be a Mesh")
    if memory is not None:
        check_number(memory, "memory", ConfigError, positive=True)
    if optimizer is not None:
        graph = training(graph, optimizer)
    builder = _Builder(graph, Prices(mesh, cost_model(costs)), follow, copies)
    for i in graph.topological_order.tolist():
        builder.add(i)
    return builder.result(None if memory is None else math.floor(memory))


class _Builder:
    """A sharding problem under construction; nodes are added in the order in which they are first needed."""

    def __init__(self, graph: DataflowGraph, prices: Prices, follow: bool, copies: bool) -> None:
        self.graph, self.prices, self.mesh = graph, prices, prices.mesh
        self.follow, self.copies = follow, copies
        self.roles = Roles(graph)
        self.liveness = Liveness(graph, self.roles.sources)
        self.nodes: list[Node] = []
        self.costs: list[list[int]] = []
        self.usages: list[list[int]] = []
        self.intervals: list[tuple[int, int]] = []
        self.edges: list[tuple[int, int, int, int]] = []
        self.tables: list[Table] = []
        self.of_operator: dict[int, int] = {}
        self.parameters: dict[object, int] = {}
        self.unknown: set[str] = set()
        self.read = {source for row in self.roles.sources for source in row if source is not None}

    def add(self, i: int) -> None:
        """Add an operator with the parameters and inputs that it is the first to read."""
        op, adjoint = self.graph.operators[i], self.roles.adjoints.get(i)
        if not has_rule(op, adjoint):
            self.unknown.add(op.kind)
        found, costs = self.prices.operator(op, adjoint)
        producers = [self._producer(i, at) for at in range(len(op.inputs))]
        follows = self._followed(i, producers)
        if follows >= 0:
            chosen = self._following(i, follows, producers, found, costs)
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
        if source is not None:
            return self.of_operator[source[0]], source[1]
        tensor = op.inputs[at]
        if is_update(op) and tensor.constant and at != _weight(op):
            return None
        key = (tensor.name, tensor.shape, tensor.dtype) if tensor.name else (i, at)
        if key not in self.parameters:
            self.parameters[key] = self._leaf(i, at, tensor)
        return self.parameters[key], 0

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
            state = [at for at, t in enumerate(op.inputs) if t.constant and at != _weight(op)]
            return [_whole(((op.inputs[at], s.operands[at]) for at in state), sizes) for s in found]
        if self.liveness.views[i]:
            return [0] * len(found)
        return [_whole(zip(op.outputs, s.outputs, strict=True), sizes) for s in found]

    def _followed(self, i: int, producers: list[tuple[int, int] | None]) -> int:
        """Node that an operator follows; -1 for none."""
        op = self.graph.operators[i]
        family = op.spec.family in FOLLOWERS or op.kind in ("Copy", "Transpose")
        nodes = {p[0] for p in producers if p is not None and self.nodes[p[0]].kind == "operator"}
        outside = any(p is not None and self.nodes[p[0]].kind == "input" for p in producers)
        if not self.follow or not family or len(nodes) != 1 or outside or is_update(op) or is_loss(op):
            return -1
        return nodes.pop()

    def _following(
        self, i: int, node: int, producers: list[tuple[int, int] | None], found: list[Strategy], costs: list[int]
    ) -> list[int]:
        """For each strategy of the followed node the operator's strategy behind it.

        It is the one that changes the placement on the fewest axes, and among those the cheapest.
        """
        op, before = self.graph.operators[i], self.nodes[node].strategies
        total = np.broadcast_to(np.array(costs, np.float64), (len(before), len(found)))
        changed = np.zeros((len(before), len(found)), np.int64)
        for at, producer in enumerate(producers):
            if producer is not None and producer[0] == node:
                sources, targets = [s.outputs[producer[1]] for s in before], [s.operands[at] for s in found]
                total = total + self.prices.table(op.inputs[at], sources, targets)
                changed += np.array([[_changes(a, b) for b in targets] for a in sources], np.int64)
        nearest = changed == changed.min(axis=1, keepdims=True)
        nearest &= total < INFINITE
        open_ = np.where(nearest.any(axis=1, keepdims=True), np.where(nearest, total, np.inf), total)
        return [int(s) for s in np.argmin(open_, axis=1)]

    def _edge(self, i: int, at: int, producer: tuple[int, int]) -> None:
        """Add the edge of an operand: the table of reshardings; off the diagonal of a follower, INFINITE."""
        op, (source, slot), node = self.graph.operators[i], producer, self.of_operator[i]
        before = [s.outputs[slot] for s in self.nodes[source].strategies]
        after = [s.operands[at] for s in self.nodes[node].strategies]
        table = self.prices.table(op.inputs[at], before, after, back=_written(op, at))
        if self.nodes[node].follows == source:
            table = np.where(np.eye(len(before), dtype=bool), table, INFINITE)
        self.edges.append((source, node, at, slot))
        self.tables.append(table)
        if self.nodes[source].kind == "input":
            low, high = self.intervals[source]
            self.intervals[source] = low, max(high, self.liveness.until([i]))

    def _add_copies(self, i: int, producers: list[tuple[int, int] | None]) -> None:
        """Add a node with the memory of the operands that an operator may have to gather."""
        op, node, at_time = self.graph.operators[i], self.of_operator[i], self.liveness.position[i]
        found = self.nodes[node].strategies
        gathered: list[tuple[int, list[bool]]] = []
        for at, producer in enumerate(producers):
            if producer is not None:
                sharded = self._sharded_axes(*producer)
                gathered.append((at, [a and size > 1 for a, size in zip(sharded, self.mesh.shape, strict=True)]))
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
            self.edges.append((node, copies, -1, -1))
            self.tables.append(np.where(np.eye(len(found), dtype=bool), 0, INFINITE))

    def _add_result(self, i: int, slot: int, tensor: Tensor) -> None:
        """Add a node of a result that nothing reads: replicated or sharded, but not partial."""
        found, at_time, source = leaf_strategies(tensor, self.mesh), self.liveness.position[i], self.of_operator[i]
        name = f"{self.graph.operators[i].name}:{slot}"
        usages = [0] * len(found)
        node = self._node(
            Node("result", name, tuple(found), i, tensor), [0] * len(found), usages, (at_time, at_time + 1)
        )
        before = [s.outputs[slot] for s in self.nodes[source].strategies]
        self.edges.append((source, node, 0, slot))
        self.tables.append(self.prices.table(tensor, before, [s.outputs[0] for s in found]))

    def _sharded_axes(self, node: int, slot: int) -> list[bool]:
        """For each axis, whether a strategy of a node shards its result along it."""
        rows = zip(*(s.outputs[slot] for s in self.nodes[node].strategies), strict=True)
        return [any(entry.kind == "S" for entry in row) for row in rows]

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


def _weight(op: Operator) -> int:
    """Place of the weight among the operands of an update: its first constant."""
    return next(at for at, tensor in enumerate(op.inputs) if tensor.constant)


def _written(op: Operator, at: int) -> bool:
    """Whether an operator writes to a constant operand."""
    return op.inputs[at].constant and (op.kind in WRITERS or (is_update(op) and at == _weight(op)))


def _changes(source: Placement, target: Placement) -> int:
    """Number of axes on which two placements differ."""
    return sum(a != b for a, b in zip(source, target, strict=True))


def _replicated(placement: Placement, axes: Iterable[bool]) -> bool:
    """Whether a placement replicates a tensor on one of some axes."""
    return any(entry == R and chosen for entry, chosen in zip(placement, axes, strict=True))


def _whole(tensors: Iterable[tuple[Tensor, Placement]], sizes: tuple[int, ...]) -> int:
    """Local bytes of tensors together [byte]."""
    return math.ceil(summed(local_bytes(tensor, placement, sizes) for tensor, placement in tensors))
