"""Reads of values: which operands are the same value, which are written, and which readers share a resharding."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.ops import WRITERS, Operator
from hetgym.graph.transforms.operands import Source
from hetgym.sharding.rules.table import is_update

Read = tuple[int, int]
"""Number of an operator, and of its operand."""


def value_key(op: Operator, i: int, at: int, source: Source | None) -> Hashable:
    """Equal for operands that are the same value: a result of an operator, or a tensor of one name and type."""
    if source is not None:
        return source
    tensor = op.inputs[at]
    return (tensor.name, tensor.shape, tensor.dtype) if tensor.name else (op.name, i, at)


def weight_of(op: Operator) -> int:
    """Place of the weight among the operands of an update: its first constant."""
    return next(at for at, tensor in enumerate(op.inputs) if tensor.constant)


def written(op: Operator, at: int) -> bool:
    """Whether an operator writes to a constant operand."""
    return op.inputs[at].constant and (op.kind in WRITERS or (is_update(op) and at == weight_of(op)))


def group_of(op: Operator, i: int, at: int, source: Source | None) -> Hashable:
    """Equal for reads that may share a resharding: of one value, all in the forward or all in the backward pass."""
    return value_key(op, i, at, source), op.kind.startswith("Gradient-")


def shared_reads(
    graph: DataflowGraph, sources: Sequence[Sequence[Source | None]], leaders: Sequence[int]
) -> dict[Hashable, list[Read]]:
    """Groups of reads by several operators, in the order in which the operators run.

    Followers read from the operator that they follow, and operands that are written stay where they are.
    """
    groups: dict[Hashable, list[Read]] = {}
    for i in graph.topological_order.tolist():
        op = graph.operators[i]
        for at, source in enumerate(sources[i]):
            follows = source is not None and source[0] == leaders[i]
            if not follows and not is_update(op) and not written(op, at):
                groups.setdefault(group_of(op, i, at, source), []).append((i, at))
    return {group: reads for group, reads in groups.items() if len({i for i, _ in reads}) > 1}
