"""Which tensor feeds which operand: edges say what an operator reads, not as which of its operands."""

from __future__ import annotations

from typing import NamedTuple

from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.ops import Operator, Tensor

OWN = -1
"""In place of a tensor: nothing in the graph feeds the operand, it is an input of the whole graph."""


class Binding(NamedTuple):
    """What one operator reads.

    Attributes:
        operands: for each operand that is not a constant, in operand order, the tensor that feeds it
            (a number of :attr:`DataflowGraph.edge_tensor`) or :data:`OWN`.
        tokens: tensors that it waits for and that are of no operand's type; it only depends on them.
    """

    operands: tuple[int, ...]
    tokens: tuple[int, ...]


def bind(graph: DataflowGraph) -> tuple[Binding, ...]:
    """Match the incoming edges of every operator with its operands by shape and dtype, in order.

    Where several operands have one type, which of them an edge feeds is a guess. It changes numbers,
    not run times.

    Args:
        graph: any graph.

    Returns:
        One binding an operator.

    >>> from hetgym.graph import Operator, Tensor
    >>> x, w = Tensor((1, 8)), Tensor((8, 8), constant=True)
    >>> graph = DataflowGraph(
    ...     [Operator("a", "MatMul", (x, w), (x,)), Operator("b", "Add", (x, x), (x,))], [(0, 0, 1)]
    ... )
    >>> bind(graph)
    (Binding(operands=(-1,), tokens=()), Binding(operands=(0, -1), tokens=()))
    """
    incoming: list[list[int]] = [[] for _ in graph.operators]
    made = {int(tensor): graph.operators[e.source].outputs[e.slot] for tensor, e in zip(graph.edge_tensor, graph.edges, strict=True)}  # fmt: skip # noqa: E501
    for tensor, edge in zip(graph.edge_tensor.tolist(), graph.edges, strict=True):
        incoming[edge.target].append(tensor)
    return tuple(_bind_one(op, sorted(set(fed)), made) for op, fed in zip(graph.operators, incoming, strict=True))


def _bind_one(operator: Operator, fed: list[int], made: dict[int, Tensor]) -> Binding:
    open_types = [(t.shape, t.dtype) for t in operator.inputs if not t.constant]
    operands = [OWN] * len(open_types)
    tokens = []
    for tensor in fed:
        kind = (made[tensor].shape, made[tensor].dtype)
        free = [at for at, wanted in enumerate(open_types) if operands[at] == OWN and wanted == kind]
        if free:
            operands[free[0]] = tensor
        else:
            tokens.append(tensor)
    return Binding(tuple(operands), tuple(tokens))
