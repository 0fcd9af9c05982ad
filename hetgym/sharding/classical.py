"""Classical plans: data parallelism and Megatron's tensor parallelism."""

from __future__ import annotations

from collections.abc import Sequence

from hetgym._types import Int64Array
from hetgym.sharding.placement import Entry, P, R
from hetgym.sharding.rules.indices import Option
from hetgym.sharding.sharded_graph import ShardedGraph
from hetgym.sharding.walk import Tactic, Walk

_SLICE, _REDUCE, _GATHER, _NEVER = 5, 1, 10, 1000
"""How far a tactic avoids a change: reductions must come some time, slices make work for later, gathers undo it."""


def data_parallel(sharded: ShardedGraph, axes: Sequence[str | int] | None = None) -> Int64Array:
    """The plan that shards samples: inputs by their first dimension, parameters replicated.

    Gradients of parameters are partial sums, so each is all-reduced before its update. An operator that cannot keep the
    shard of its operand gathers it.

    Args:
        sharded: the graph.
        axes: names or numbers of the axes that share the samples; the others replicate. By default all.

    Returns:
        [n] strategy of each node; it need not fit the memory.

    Raises:
        ConfigError: no such axis.
    """
    chosen = {sharded.mesh.axis(axis) for axis in (range(len(sharded.mesh.shape)) if axes is None else axes)}
    count = len(sharded.mesh.shape)
    return Walk(sharded, [_by_samples if axis in chosen else _whole for axis in range(count)], chosen).choice()


def megatron(sharded: ShardedGraph, tensor: str | int | None = None) -> Int64Array:
    """The plan of Megatron-LM (Shoeybi et al., arXiv 1909.08053): products by columns, then by rows.

    On one axis a product whose operand is whole is cut by the columns of its weight, if all readers up to the next
    product can work on such a part, and one whose operand is cut by the rows; attention is cut by heads, an embedding
    by the rows of its table. The other axes share the samples.

    Args:
        sharded: the graph.
        tensor: name or number of the axis that cuts weights; by default the last.

    Returns:
        [n] strategy of each node; it need not fit the memory.

    Raises:
        ConfigError: no such axis.
    """
    count = len(sharded.mesh.shape)
    cut = count - 1 if tensor is None else sharded.mesh.axis(tensor)
    tactics: list[Tactic] = [_by_weights if axis == cut else _by_samples for axis in range(count)]
    return Walk(sharded, tactics, set(range(count)) - {cut}).choice()


def _whole(walk: Walk, v: int, options: Sequence[Option], entries: list[Entry | None]) -> Option:
    """Replicate."""
    return options[0]


def _by_samples(walk: Walk, v: int, options: Sequence[Option], entries: list[Entry | None]) -> Option:
    """Keep the placements of values, and parameters whole."""
    fits = [o for o in options if all(e is not None or o.operands[at] == R for at, e in enumerate(entries))]
    return min(fits, key=lambda option: _distance(option, entries))


def _by_weights(walk: Walk, v: int, options: Sequence[Option], entries: list[Entry | None]) -> Option:
    """Cut products by columns or rows, an embedding by rows; keep the placements of values elsewhere."""
    op = walk.sharded.graph.operators[walk.sharded.nodes[v].operator]
    by_label = {option.label: option for option in options}
    axis = walk.tactics.index(_by_weights)
    weighted = len(op.inputs) > 1 and entries[1] is None and op.inputs[1].constant
    if op.kind == "Gather" and entries[0] is None and "rows" in by_label:
        return by_label["rows"]
    if op.spec.family in ("matmul", "conv") and op.kind != "Attention" and weighted:
        for label in ("k", "in"):
            if label in by_label and by_label[label].operands[0] == entries[0]:
                return by_label[label]
        for label in ("n", "out"):
            option = by_label.get(label)
            if option and entries[0] in (R, option.operands[0]) and walk.keeps(v, 0, option.outputs[0], axis):
                return option
    if all(entry is None for entry in entries):
        return options[0]
    return min(options, key=lambda option: _distance(option, entries))


def _distance(option: Option, entries: list[Entry | None]) -> int:
    """How much the values that an operator reads have to change for an option."""
    total = 0
    if option.operands.count(P) > 1:  # classical plans sum before they add
        return _NEVER
    for entry, wanted in zip(entries, option.operands, strict=True):
        if entry is None or entry == wanted:
            continue
        if wanted.kind == "P":
            total += _NEVER
        else:
            total += _SLICE if entry.kind == "R" else _REDUCE if entry.kind == "P" else _GATHER
    return total
