"""When the tensors of a graph take memory: positions in the execution order."""

from __future__ import annotations

from collections.abc import Sequence

from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.transforms.operands import Source


class Liveness:
    """Times of a graph whose operators run in its topological order; operator i runs at ``position[i]``.

    Attributes:
        steps: number of times.
        position: [n] time of each operator.
        end: [n] time at which the results of each operator are no longer needed: one after their last reader, or after
            the operator itself without readers. A view needs the memory of its operand.
        views: [n] True for operators whose results are views of their operand and take no memory of their own.
    """

    def __init__(self, graph: DataflowGraph, sources: Sequence[Sequence[Source | None]]) -> None:
        order = graph.topological_order.tolist()
        self.steps = len(order)
        self.position = [0] * len(order)
        for at, i in enumerate(order):
            self.position[i] = at
        self.views = [
            op.spec.family == "view" and op.flops == 0 and len({s for s in row if s is not None}) == 1
            for op, row in zip(graph.operators, sources, strict=True)
        ]
        self.end = [at + 1 for at in self.position]
        for i in reversed(order):
            last = self.end[i] if self.views[i] else self.position[i] + 1
            for source in sources[i]:
                if source is not None:
                    self.end[source[0]] = max(self.end[source[0]], last)

    def until(self, readers: Sequence[int]) -> int:
        """Time after the last of some operators, and of the views of what they read."""
        return max((self.end[i] if self.views[i] else self.position[i] + 1 for i in readers), default=0)
