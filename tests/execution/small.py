"""Small graphs and two workers for tests, on one core where the machine has no more."""

from __future__ import annotations

import os

import pytest

from hetgym.execution import ExecutionDevice
from hetgym.graph import DataflowGraph, Operator, Tensor
from hetgym.profiling.host import HostSettings
from hetgym.schedule import Schedule

if not hasattr(os, "sched_setaffinity"):
    pytest.skip("workers are bound to cores, which only Linux does", allow_module_level=True)

CORES = sorted(os.sched_getaffinity(0))
DEVICES = (ExecutionDevice("left", HostSettings((CORES[0],))), ExecutionDevice("right", HostSettings((CORES[-1],))))


def diamond(size: int = 16, depth: int = 1) -> DataflowGraph:
    """Chains of two branches that a product joins, one after the other."""
    x, w = Tensor((size, size)), Tensor((size, size), constant=True)
    operators, edges = [Operator("in", "MatMul", (x, w), (x,))], []
    for k in range(depth):
        top = len(operators) - 1
        operators += [
            Operator(f"a{k}", "Tanh", (x,), (x,)),
            Operator(f"b{k}", "MatMul", (x, w), (x,)),
            Operator(f"join{k}", "MatMul", (x, x), (x,)),
        ]
        edges += [(top, 0, top + 1), (top, 0, top + 2), (top + 1, 0, top + 3), (top + 2, 0, top + 3)]
    return DataflowGraph(operators, edges, "diamond")


def placed(graph: DataflowGraph, assignment: list[int], scheduler: str = "") -> Schedule:
    order = [[i for i in graph.topological_order.tolist() if assignment[i] == d] for d in range(2)]
    return Schedule(assignment, order, scheduler=scheduler)
