"""Matching of edges and operands: a graph lists an operator's edges and its inputs separately."""

from hetgym.graph.dataflow import DataflowGraph

Source = tuple[int, int]  # Output `slot` of operator `source`


def operands(graph: DataflowGraph) -> list[list[Source | None]]:
    """For each operator and input the source of the value; None for constants and for inputs of the graph.

    An edge is matched with the first free input of its tensor's type. An input that is left without an edge, but has
    the same type as a matched one, reads the same value again, as in ``x * x``.
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
