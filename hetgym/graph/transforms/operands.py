"""Which edge brings which operand: graphs list an operator's edges and its inputs side by side."""

from __future__ import annotations

from hetgym.graph.dataflow import DataflowGraph

Source = tuple[int, int]
"""Output ``slot`` of operator ``source``."""


def operands(graph: DataflowGraph) -> list[list[Source | None]]:
    """Match each operator's inputs with the edges that end at it.

    An edge takes the first free input of its tensor's type. An input without an edge of its own that has
    the type of one that has is the same value read once more, as in ``x * x``.

    Returns:
        For each operator and input: where the value comes from; None for constants and for what the graph
        itself is given.
    """
    result = []
    for i, op in enumerate(graph.operators):
        found: list[Source | None] = [None] * len(op.inputs)
        pointer = graph.predecessors.pointer
        for k in graph.predecessors.edge[pointer[i] : pointer[i + 1]].tolist():
            source, slot, _ = graph.edges[k]
            tensor = graph.operators[source].outputs[slot]
            free = [at for at, t in enumerate(op.inputs) if found[at] is None and not t.constant and t == tensor]
            if free:
                found[free[0]] = (source, slot)
        for at, tensor in enumerate(op.inputs):
            if found[at] is None and not tensor.constant:
                same = [b for b, other in zip(found, op.inputs, strict=True) if b is not None and other == tensor]
                found[at] = same[0] if same else None
        result.append(found)
    return result
