"""Matching of tensors and operands: edges state the tensors that an operator reads, but not as which operand."""

from typing import NamedTuple

from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.transforms.operands import operands

OWN = -1  # Stands for a tensor if no operator feeds the operand, which then is an input of the whole graph


class Binding(NamedTuple):
    """The tensors that one operator reads."""

    # for each operand that is not a constant, in operand order, the tensor that feeds it (a number of
    # DataflowGraph.edge_tensor) or OWN
    operands: tuple[int, ...]
    tokens: tuple[int, ...]  # tensors whose type matches no operand; the operator waits for them but does not read them


def bind(graph: DataflowGraph) -> tuple[Binding, ...]:
    """One binding for each operator: its incoming edges, matched with its operands; see :func:`operands`.

    If several operands have the same type, the operand that an edge feeds is a guess. A wrong guess changes results,
    but not run times.

    >>> from hetgym.graph import Operator, Tensor
    >>> x, y, w = Tensor((1, 8)), Tensor((2, 8)), Tensor((8, 8), constant=True)
    >>> graph = DataflowGraph(
    ...     [Operator("a", "MatMul", (x, w), (x,)), Operator("b", "Concat", (x, x, y), (Tensor((4, 8)),))], [(0, 0, 1)]
    ... )
    >>> bind(graph)
    (Binding(operands=(-1,), tokens=()), Binding(operands=(0, 0, -1), tokens=()))
    """
    number = {(e.source, e.slot): int(t) for t, e in zip(graph.edge_tensor, graph.edges, strict=True)}
    incoming: list[set[int]] = [set() for _ in graph.operators]
    for tensor, edge in zip(graph.edge_tensor.tolist(), graph.edges, strict=True):
        incoming[edge.target].add(tensor)
    found = []
    for op, sources, fed in zip(graph.operators, operands(graph), incoming, strict=True):
        read = tuple(
            OWN if source is None else number[source]
            for tensor, source in zip(op.inputs, sources, strict=True)
            if not tensor.constant
        )
        found.append(Binding(read, tuple(sorted(fed.difference(read)))))
    return tuple(found)
