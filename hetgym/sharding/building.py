"""From a graph on a mesh to a sharding problem."""

from __future__ import annotations

import math

from hetgym._input.config import check_number
from hetgym.costs import CostModel, cost_model
from hetgym.errors import ConfigError, shown
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.transforms.training import training
from hetgym.sharding.builder import Builder
from hetgym.sharding.mesh import Mesh
from hetgym.sharding.pricing import Prices
from hetgym.sharding.sharded_graph import ShardedGraph


def build(
    graph: DataflowGraph,
    mesh: Mesh,
    costs: str | CostModel = "auto",
    *,
    optimizer: str | None = None,
    memory: float | None = None,
    follow: bool = True,
    layouts: bool = True,
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
        follow: whether cheap operators with one operand take the strategies of its producer, each with the same
            placement, if all of them can be kept. Alpa's rule (Zheng et al., OSDI 2022).
        layouts: whether a value with several readers in the forward pass, or in the backward pass, is resharded once
            for all of them, into a placement that is a node of its own; otherwise each reader pays for itself.
        copies: whether operators and layouts also take the memory of operands that a strategy of their producer would
            have them gather. This is an upper bound: it is charged even if the chosen strategies gather nothing.

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
    builder = Builder(graph, Prices(mesh, cost_model(costs)), follow=follow, layouts=layouts, copies=copies)
    for i in graph.topological_order.tolist():
        builder.add(i)
    return builder.result(None if memory is None else math.floor(memory))
