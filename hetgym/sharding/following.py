"""Followers: cheap operators with one operand, which take the strategies of its producer (Alpa, OSDI 2022)."""

from __future__ import annotations

from collections.abc import Sequence

from hetgym.graph.dataflow import DataflowGraph
from hetgym.sharding.placement import Placement
from hetgym.sharding.pricing import Prices
from hetgym.sharding.roles import Roles
from hetgym.sharding.rules.table import is_loss, is_update
from hetgym.sharding.strategies import Strategy

FAMILIES = ("elementwise", "view")
"""Families of operators that follow; so do copies and transpositions."""


def leaders(graph: DataflowGraph, roles: Roles, prices: Prices) -> list[int]:
    """[n] the operator that each operator follows; -1 for none.

    It is the only operator that it reads from; the other operands must be constants. The follower must be able to take
    every placement of the result unchanged: behind a product, which may return partial sums, only operators that pass
    them on can follow, since others choose between an all-reduce and a reduce-scatter.
    """
    result = []
    for i, (op, row) in enumerate(zip(graph.operators, roles.sources, strict=True)):
        read = {source[0] for source in row if source is not None}
        outside = any(source is None and not t.constant for source, t in zip(row, op.inputs, strict=True))
        cheap = op.spec.family in FAMILIES or op.kind in ("Copy", "Transpose")
        alone = cheap and len(read) == 1 and not outside and not is_update(op) and not is_loss(op)
        leader = read.pop() if alone else -1
        if leader >= 0:
            before, found = (prices.operator(graph.operators[j], roles.adjoints.get(j))[0] for j in (leader, i))
            slots = [-1 if source is None else source[1] for source in row]
            taken = {tuple(s.operands[at] for at, slot in enumerate(slots) if slot >= 0) for s in found}
            given = {tuple(s.outputs[slot] for slot in slots if slot >= 0) for s in before}
            leader = leader if given <= taken else -1
        result.append(leader)
    return result


def following(
    before: Sequence[Strategy], slots: Sequence[int], found: Sequence[Strategy], costs: Sequence[int]
) -> list[int]:
    """For each strategy of the followed operator the cheapest strategy of the follower with the same placement.

    Args:
        before: strategies of the followed operator.
        slots: for each operand of the follower the followed operator's result; -1 for others.
        found: strategies of the follower.
        costs: their costs [ns].
    """
    cheapest: dict[tuple[Placement, ...], int] = {}
    for s in sorted(range(len(found)), key=lambda s: (costs[s], s)):
        cheapest.setdefault(tuple(found[s].operands[at] for at, slot in enumerate(slots) if slot >= 0), s)
    return [cheapest[tuple(s.outputs[slot] for slot in slots if slot >= 0)] for s in before]
