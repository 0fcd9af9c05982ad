"""Work: the description of a graph from which worker processes run it, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hetgym.execution.steps import INPUT, Flow
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.ops import Tensor
from hetgym.graph.serialization import to_json
from hetgym.problem import Problem


@dataclass(frozen=True)
class Work:
    """A graph in the form that is sent to workers."""

    graph: DataflowGraph  # the graph to run, whose operators and edges occur in traces
    # [t] types of the tensors that may move; the first ones are those of `graph.edge_tensor`
    tensors: tuple[Tensor, ...]
    flow: Flow  # maker and readers of each tensor
    program: dict[str, Any]  # description from which a worker makes the operators, see load_program

    @classmethod
    def of_graph(cls, graph: DataflowGraph) -> Work:
        """The work of a graph whose operators run as kernels with random weights."""
        count = int(graph.edge_tensor.max()) + 1 if len(graph.edges) else 0
        maker = [(INPUT, 0)] * count
        readers: list[list[int]] = [[] for _ in range(count)]
        for tensor, edge in zip(graph.edge_tensor.tolist(), graph.edges, strict=True):
            maker[tensor] = (edge.source, edge.slot)
            readers[tensor].append(edge.target)
        tensors = tuple(graph.operators[operator].outputs[slot] for operator, slot in maker)
        flow = Flow(tuple(maker), tuple(map(tuple, readers)), frozenset())
        return cls(graph, tensors, flow, {"kind": "kernels", "graph": to_json(graph)})

    def message(self) -> dict[str, Any]:
        """The message to the workers."""
        return {
            "operators": len(self.graph),
            "tensors": [[list(t.shape), t.dtype] for t in self.tensors],
            "maker": self.flow.maker,
            "readers": self.flow.readers,
            "results": sorted(self.flow.results),
            "program": self.program,
        }


def bare_problem(graph: DataflowGraph, devices: tuple[str, ...]) -> Problem:
    """A problem with the structure of the graph, in which every operator takes no time on any device."""
    n, d = len(graph), len(devices)
    return Problem(
        cost=np.zeros((n, d)),
        edge_source=graph.edge_source,
        edge_target=graph.edge_target,
        edge_bytes=graph.edge_bytes,
        edge_tensor=graph.edge_tensor,
        latency=np.zeros((d, d)),
        bandwidth=np.full((d, d), np.inf),
        weight_bytes=graph.resident_bytes,
        output_bytes=graph.output_bytes,
        memory_capacity=np.full(d, np.inf),
        operator_names=[op.name for op in graph.operators],
        operator_kinds=[op.kind for op in graph.operators],
        device_names=devices,
        name=graph.name,
        shared_weights=graph.shared_weights,
    )
