"""Casting: the same graph in another floating-point format."""

from dataclasses import replace

from hetgym.errors import GraphError
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.ops import Operator, Tensor

FLOATS = ("float16", "bfloat16", "float32", "float64")  # Formats that a graph can be cast to and from


def cast(graph: DataflowGraph, dtype: str) -> DataflowGraph:
    """Give every floating-point tensor of a graph another dtype; whole numbers and booleans keep theirs.

    Args:
        graph: the graph.
        dtype: one of :data:`FLOATS`.

    Raises:
        GraphError: no such format.

    >>> import hetgym
    >>> graph = hetgym.load_graph("alexnet")
    >>> float(cast(graph, "float16").edge_bytes.sum() / graph.edge_bytes.sum())
    0.5
    """
    if dtype not in FLOATS:
        raise GraphError(f"a graph cannot be cast to {dtype!r}; expected one of {', '.join(FLOATS)}")

    def other(tensor: Tensor) -> Tensor:
        return replace(tensor, dtype=dtype) if tensor.dtype in FLOATS else tensor

    operators = [
        Operator(op.name, op.kind, tuple(map(other, op.inputs)), tuple(map(other, op.outputs)), op.attributes)
        for op in graph.operators
    ]
    return DataflowGraph(operators, graph.edges, graph.name, graph.notes)
