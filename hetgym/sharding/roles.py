"""Roles of the operands of a training step: which values they are, and what they are of the forward operator."""

from __future__ import annotations

from collections.abc import Sequence

from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.transforms.operands import Source, operands
from hetgym.graph.transforms.training import weights_of
from hetgym.sharding.rules.gradients import Adjoint

_BACKWARD = "/backward"  # end of the names of backward operators; see transforms.training


class Roles:
    """The sources of all operands of a graph, and the adjoints of its backward operators.

    Attributes:
        sources: for each operator and operand the output that it reads; None for constants and inputs of the graph.
        adjoints: number of a backward operator -> how it belongs to its forward operator.
        forward: number of a backward operator -> number of its forward operator.
    """

    def __init__(self, graph: DataflowGraph) -> None:
        self.graph = graph
        self.sources: list[list[Source | None]] = operands(graph)
        self.adjoints: dict[int, Adjoint] = {}
        self.forward: dict[int, int] = {}
        names = {op.name: i for i, op in enumerate(graph.operators)}
        self._learn = {i for name, i in names.items() if name + _BACKWARD in names}
        for i, op in enumerate(graph.operators):
            of = names.get(op.name.removesuffix(_BACKWARD))
            if op.kind.startswith("Gradient-") and op.name.endswith(_BACKWARD) and of is not None:
                self._backward(i, of)

    def _incoming(self, i: int) -> list[Source]:
        """Outputs that an operator reads, in the order of its edges."""
        pointer, edges = self.graph.predecessors.pointer, self.graph.predecessors.edge
        return [(e.source, e.slot) for e in (self.graph.edges[k] for k in edges[pointer[i] : pointer[i + 1]].tolist())]

    def _backward(self, i: int, of: int) -> None:
        """Match the operands of a backward operator in the order in which transforms.training writes them.

        These are the gradients of all results, the values that the forward operator read unless it only moved them,
        and its weights if a gradient of a value is wanted. An operator whose operands differ from that stays without
        an adjoint, so it is replicated.
        """
        graph, op, forward = self.graph, self.graph.operators[i], self.graph.operators[of]
        weights, incoming = weights_of(forward), self._incoming(of)
        kept = [] if forward.spec.family in ("view", "move") else incoming
        values = len(op.outputs) - len(weights)
        held = weights if values > 0 else []
        given = len(op.inputs) - len(kept) - len(held)
        wanted = [s for s in incoming if s[0] in self._learn and "float" in graph.operators[s[0]].outputs[s[1]].dtype]
        if given < 1 or len(wanted) != values:
            return
        places = [next(at for at, s in enumerate(self.sources[of]) if s == source) for source in incoming]
        where = dict(zip(incoming, places, strict=True))
        constants = _positions(forward.inputs, weights)
        slots = [next((k for k, t in enumerate(forward.outputs) if t == op.inputs[at]), -1) for at in range(given)]
        if min(slots) < 0:
            return
        self.forward[i] = of
        self.adjoints[i] = Adjoint(
            forward,
            gradients=(*slots, *(-1 for _ in (*kept, *held))),
            kept=(*(-1 for _ in slots), *(where[s] for s in kept), *(constants if held else ())),
            wanted=(*(where[s] for s in wanted), *constants),
        )
        parts = [s for s in self._incoming(i) if s not in kept or self._is_gradient(s)]
        read: list[Source | None] = [None] * given
        for source in parts:
            tensor = graph.operators[source[0]].outputs[source[1]]
            free = [at for at in range(given) if read[at] is None and op.inputs[at] == tensor]
            if free:
                read[free[0]] = source
        self.sources[i] = [*read, *kept, *(None for _ in held)]

    def _is_gradient(self, source: Source) -> bool:
        return self.graph.operators[source[0]].kind.startswith("Gradient-")


def _positions(inputs: Sequence[object], chosen: Sequence[object]) -> tuple[int, ...]:
    """Places of some operands among all, in order."""
    result: list[int] = []
    for tensor in chosen:
        result.append(next(at for at, other in enumerate(inputs) if other == tensor and at not in result))
    return tuple(result)
