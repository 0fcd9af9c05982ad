"""ShardedGraph: a graph on a mesh, the sharding problem made of it, and what its nodes stand for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy.typing as npt

from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.ops import Tensor
from hetgym.sharding.evaluation import as_choice
from hetgym.sharding.mesh import Mesh
from hetgym.sharding.problem import ShardingProblem
from hetgym.sharding.strategies import Strategy


@dataclass(frozen=True, eq=False)
class Node:
    """A node of the sharding problem of a graph.

    Attributes:
        kind: ``operator``; ``parameter``, a constant; ``input``, an operand from outside the graph; ``layout``, the
            placement of a value for several readers, into which it is resharded once; ``result``, a value that nothing
            reads; or ``copies``, the memory of an operator for operands that it gathers.
        name: of the operator, or of the tensor.
        strategies: its strategies, in the order of the problem.
        operator: number of the operator in the graph; the first reader of a parameter, an input or a layout, and the
            producer of a result.
        tensor: of a parameter, an input, a layout or a result.
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
        edges: for each edge of the problem the operand that it brings: the nodes at its ends, the operand's number, and
            the number of the first node's result; (-1, -1) between an operator and its copies.
        unknown: kinds of operators that are replicated for want of a rule that knows their kind and understands their
            shapes, in alphabetical order.
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
