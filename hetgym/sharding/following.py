"""Followers: cheap operators with one operand, which take the strategies of its producer (Alpa, OSDI 2022)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.ops import Operator
from hetgym.graph.transforms.operands import Source
from hetgym.sharding.placement import Placement
from hetgym.sharding.pricing import Prices
from hetgym.sharding.problem import INFINITE
from hetgym.sharding.rules.table import is_loss, is_update
from hetgym.sharding.strategies import Strategy

FAMILIES = ("elementwise", "view")
"""Families of operators that follow; so do copies and transpositions."""


def leaders(graph: DataflowGraph, sources: Sequence[Sequence[Source | None]]) -> list[int]:
    """[n] the operator that each operator follows; -1 for none.

    It is the only operator that it reads from; the other operands must be constants.
    """
    result = []
    for op, row in zip(graph.operators, sources, strict=True):
        read = {source[0] for source in row if source is not None}
        outside = any(source is None and not t.constant for source, t in zip(row, op.inputs, strict=True))
        cheap = op.spec.family in FAMILIES or op.kind in ("Copy", "Transpose")
        alone = cheap and len(read) == 1 and not outside and not is_update(op) and not is_loss(op)
        result.append(read.pop() if alone else -1)
    return result


def following(
    op: Operator,
    before: Sequence[Strategy],
    slots: Sequence[int],
    found: Sequence[Strategy],
    costs: Sequence[int],
    prices: Prices,
) -> list[int]:
    """For each strategy of the followed operator the follower's strategy behind it.

    It is the one that changes the placement on the fewest axes, and among those the cheapest.

    Args:
        op: the follower.
        before: strategies of the followed operator.
        slots: for each operand of the follower the followed operator's result; -1 for others.
        found: strategies of the follower.
        costs: their costs [ns].
        prices: prices of reshardings.
    """
    total = np.broadcast_to(np.array(costs, np.float64), (len(before), len(found)))
    changed = np.zeros((len(before), len(found)), np.int64)
    for at, slot in enumerate(slots):
        if slot >= 0:
            sources, targets = [s.outputs[slot] for s in before], [s.operands[at] for s in found]
            total = total + prices.table(op.inputs[at], sources, targets)
            changed += np.array([[_changes(a, b) for b in targets] for a in sources], np.int64)
    changed = np.where(total < INFINITE, changed, np.iinfo(np.int64).max)
    nearest = changed == changed.min(axis=1, keepdims=True)
    return [int(s) for s in np.argmin(np.where(nearest, total, np.inf), axis=1)]


def _changes(source: Placement, target: Placement) -> int:
    """Number of axes on which two placements differ."""
    return sum(a != b for a, b in zip(source, target, strict=True))
