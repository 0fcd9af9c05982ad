"""Classical plans: data parallelism, Megatron's tensor parallelism, and one axis of the mesh after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from hetgym._types import Int64Array
from hetgym.errors import ProblemError
from hetgym.sharding.placement import Entry, P, R, S, local_bytes
from hetgym.sharding.problem import ShardingProblem
from hetgym.sharding.roles import Roles
from hetgym.sharding.rules.indices import REPLICATED, Option
from hetgym.sharding.rules.table import is_update
from hetgym.sharding.sharded_graph import ShardedGraph
from hetgym.sharding.solvers.solving import solve
from hetgym.sharding.strategies import Strategy

STEPS = 300
"""Steps of the solver for each axis of the mesh."""

_SHRINK, _REDUCE, _GATHER, _NEVER = 5, 1, 10, 1000  # How far a tactic avoids a step: slices hide a choice, gathers cost

Tactic = Callable[["_Walk", int, Sequence[Option], list[Entry | None]], Option]
"""Choice of an operator's option on one axis, given the entries of its operands; None for those of parameters."""


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
    return _Walk(sharded, [_by_samples if axis in chosen else _whole for axis in range(count)], chosen).choice()


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
    tactics = [_by_weights if axis == cut else _by_samples for axis in range(count)]
    return _Walk(sharded, tactics, set(range(count)) - {cut}).choice()


def axis_by_axis(sharded: ShardedGraph, steps: int = STEPS, seed: int = 0) -> Int64Array:
    """The plan that is solved for one axis of the mesh after the other, outermost first (PartIR, arXiv 2401.11202).

    The choice on an axis is fixed before the next one is tried; later axes replicate until then. Only the last axis is
    solved under the limit of memory.

    Args:
        sharded: the graph.
        steps: steps of the solver for each axis.
        seed: of its random numbers.

    Returns:
        [n] strategy of each node; it need not fit the memory.
    """
    problem, count = sharded.problem, len(sharded.mesh.shape)
    allowed = [np.arange(width) for width in problem.widths.tolist()]
    for axis in range(count):
        rows = [_until(sharded, v, kept, axis) for v, kept in enumerate(allowed)]
        limits = [problem.limit, None] if axis == count - 1 and problem.limit is not None else [None]
        choice = _solved(problem, rows, limits, steps, seed)
        picked = [row[s] for row, s in zip(rows, choice.tolist(), strict=True)]
        allowed = [_alike(sharded, v, int(s), allowed[v], axis) for v, s in enumerate(picked)]
    return np.array(picked, np.int64)


def _leader(sharded: ShardedGraph, v: int) -> int:
    """The node whose list a node shares at last."""
    while sharded.nodes[v].follows >= 0:
        v = sharded.nodes[v].follows
    return v


def _until(sharded: ShardedGraph, v: int, kept: Int64Array, axis: int) -> Int64Array:
    """The strategies among some that replicate on all axes behind one."""
    found = sharded.nodes[_leader(sharded, v)].strategies
    return np.array([s for s in kept.tolist() if all(o.label == REPLICATED for o in found[s].options[axis + 1 :])])


def _alike(sharded: ShardedGraph, v: int, picked: int, kept: Int64Array, axis: int) -> Int64Array:
    """The strategies among some that have the option of the picked one on an axis."""
    found = sharded.nodes[_leader(sharded, v)].strategies
    return np.array([s for s in kept.tolist() if found[s].options[axis] == found[picked].options[axis]])


def _solved(
    problem: ShardingProblem, rows: Sequence[Int64Array], limits: Sequence[int | None], steps: int, seed: int
) -> Int64Array:
    """A choice among some strategies of each node, under the first limit that one fits."""
    for limit in limits:
        part = ShardingProblem.from_lists(
            [problem.costs[problem.offsets[v] + row] for v, row in enumerate(rows)],
            [problem.usages[problem.offsets[v] + row] for v, row in enumerate(rows)],
            problem.intervals.tolist(),
            problem.ends.tolist(),
            list(_tables(problem, rows)),
            limit=limit,
            name=problem.name,
            unit=problem.unit,
        )
        try:
            return solve(part, solver="trees", steps=steps, seed=seed).choice
        except ValueError:  # nothing fits, or nothing was found
            if limit is None:
                raise
    raise ProblemError(f"sharding problem {problem.name!r}: no limits to try")


def _tables(problem: ShardingProblem, rows: Sequence[Int64Array]) -> Iterator[Int64Array]:
    """The parts of all tables that some strategies of each node leave."""
    for e, (u, v) in enumerate(problem.ends.tolist()):
        table = problem.tables[problem.table_offsets[e] : problem.table_offsets[e + 1]]
        yield table.reshape(problem.widths[u], problem.widths[v])[np.ix_(rows[u], rows[v])]


class _Walk:
    """Choices in the order of the graph, one option for each axis."""

    def __init__(self, sharded: ShardedGraph, tactics: Sequence[Tactic], samples: set[int]) -> None:
        self.sharded, self.tactics, self.samples = sharded, tactics, samples
        self.roles = Roles(sharded.graph)
        self.chosen = [-1] * sharded.problem.nodes
        self.incoming: dict[int, list[tuple[int, int, int]]] = {}  # node -> operands: number, node, result
        self.readers: dict[int, list[tuple[int, int, int]]] = {}  # node -> readers: result, node, operand
        for source, target, at, slot in sharded.edges:
            if at >= 0:
                self.incoming.setdefault(target, []).append((at, source, slot))
                self.readers.setdefault(source, []).append((slot, target, at))

    def choice(self) -> Int64Array:
        """The strategies of all nodes: operators, then parameters where they are first read, then updates."""
        nodes = self.sharded.nodes
        updates = [v for v, node in enumerate(nodes) if node.kind == "operator" and self._updates(v)]
        for v, node in enumerate(nodes):
            if node.kind == "input":
                self.chosen[v] = self._input(v)
            elif node.kind == "layout" and self.sharded.nodes[self.incoming[v][0][1]].kind != "parameter":
                self.chosen[v] = self._held(v)
            elif node.kind == "operator" and v not in set(updates):
                self.chosen[v] = self._operator(v)
        for kind in ("layout", "parameter"):  # a parameter comes before its layout
            for v, node in enumerate(nodes):
                if node.kind == kind and self.chosen[v] < 0:
                    self.chosen[v] = self._parameter(v)
        for v in updates:
            self.chosen[v] = self._update(v)
        for v, node in enumerate(nodes):
            if node.kind == "copies":
                self.chosen[v] = self.chosen[node.follows]
            elif node.kind == "result":
                self.chosen[v] = self._held(v)
        return np.array(self.chosen, np.int64)

    def _updates(self, v: int) -> bool:
        return is_update(self.sharded.graph.operators[self.sharded.nodes[v].operator])

    def _input(self, v: int) -> int:
        """The first dimension on the axes of samples, as far as it divides."""
        wanted = tuple(S(0) if axis in self.samples else R for axis in range(len(self.sharded.mesh.shape)))
        tensor = self.sharded.nodes[v].tensor
        assert tensor is not None
        found = [s.outputs[0] for s in self.sharded.nodes[v].strategies]
        fits = [at for at, p in enumerate(found) if all(a in (b, R) for a, b in zip(p, wanted, strict=True))]
        return min(fits, key=lambda at: local_bytes(tensor, found[at], self.sharded.mesh.shape))

    def _held(self, v: int) -> int:
        """The placement of the value before a layout or a result, replicated where it is a partial sum."""
        ((_, source, slot),) = self.incoming[v]
        held = self.sharded.nodes[source].strategies[self.chosen[source]].outputs[slot]
        found = [s.outputs[0] for s in self.sharded.nodes[v].strategies]
        wanted = tuple(R if entry == P else entry for entry in held)
        return found.index(wanted) if wanted in found else 0

    def _operator(self, v: int) -> int:
        node = self.sharded.nodes[v]
        if node.follows >= 0:
            return self.chosen[node.follows]
        labels = []
        for axis, tactic in enumerate(self.tactics):
            present = list(dict.fromkeys(s.options[axis] for s in node.strategies))
            forward = self.roles.forward.get(node.operator)
            mine = [] if forward is None else [o for o in present if o.label == self._label(forward, axis)]
            option = mine[0] if mine else tactic(self, v, present, self.entries(v, axis))
            labels.append(option.label)
        return _nearest(node.strategies, labels)

    def _label(self, operator: int, axis: int) -> str:
        """Label of the option of an operator that was chosen before."""
        node = self.sharded.of_operator[operator]
        return self.sharded.nodes[node].strategies[self.chosen[node]].options[axis].label

    def entries(self, v: int, axis: int) -> list[Entry | None]:
        """Entries on an axis of the values that a node reads; None for parameters."""
        count = len(self.sharded.graph.operators[self.sharded.nodes[v].operator].inputs)
        found: list[Entry | None] = [None] * count
        for at, source, slot in self.incoming.get(v, []):
            if not self._is_parameter(source):
                found[at] = self.sharded.nodes[source].strategies[self.chosen[source]].outputs[slot][axis]
        return found

    def _is_parameter(self, v: int) -> bool:
        """Whether a node is a parameter or the layout of one."""
        node = self.sharded.nodes[v]
        return node.kind == "parameter" or (node.kind == "layout" and self._is_parameter(self.incoming[v][0][1]))

    def keeps(self, v: int, slot: int, entry: Entry, axis: int, depth: int = 12) -> bool:
        """Whether all readers of a result up to the next products can work on a part of it."""
        for of, reader, at in self.readers.get(v, []):
            op = self.sharded.graph.operators[self.sharded.nodes[reader].operator]
            kind = self.sharded.nodes[reader].kind
            if of != slot or op.kind.startswith("Gradient-") or kind == "result":
                continue
            if kind == "layout":
                if not self.keeps(reader, 0, entry, axis, depth):
                    return False
                continue
            fits = [o for s in self.sharded.nodes[reader].strategies for o in s.options[axis : axis + 1]
                    if o.operands[at] == entry]  # fmt: skip
            if not fits or not depth:
                return False
            kept = fits[0].outputs
            product = op.spec.family in ("matmul", "conv") and op.kind != "Attention"
            if not product and not all(self.keeps(reader, k, e, axis, depth - 1) for k, e in enumerate(kept)):
                return False
        return True

    def _parameter(self, v: int) -> int:
        """The placement in which the first reader of a parameter, or of its layout, reads it."""
        _, reader, at = self.readers[v][0]
        chosen = self.sharded.nodes[reader].strategies[self.chosen[reader]]
        wanted = chosen.operands[at] if chosen.operands else chosen.outputs[0]
        found = [s.outputs[0] for s in self.sharded.nodes[v].strategies]
        return found.index(wanted) if wanted in found else 0

    def _update(self, v: int) -> int:
        """The placement of its weight."""
        for at, source, _ in self.incoming[v]:
            if self.sharded.nodes[source].kind == "parameter":
                held = self.sharded.nodes[source].strategies[self.chosen[source]].outputs[0]
                found = [s.operands[at] for s in self.sharded.nodes[v].strategies]
                return found.index(held) if held in found else 0
        return 0


def _nearest(found: Sequence[Strategy], labels: Sequence[str]) -> int:
    """The strategy with these labels, or the one with most of them, others replicated."""

    def score(at: int) -> int:
        pairs = list(zip(found[at].options, labels, strict=True))
        if any(option.label not in (label, REPLICATED) for option, label in pairs):
            return -1
        return sum(option.label == label for option, label in pairs)

    return max(range(len(found)), key=lambda at: (score(at), -at))


def _whole(walk: _Walk, v: int, options: Sequence[Option], entries: list[Entry | None]) -> Option:
    """Replicate."""
    return options[0]


def _by_samples(walk: _Walk, v: int, options: Sequence[Option], entries: list[Entry | None]) -> Option:
    """Keep the placements of values, and parameters whole."""
    fits = [o for o in options if all(e is not None or o.operands[at] == R for at, e in enumerate(entries))]
    return min(fits, key=lambda option: _distance(option, entries))


def _by_weights(walk: _Walk, v: int, options: Sequence[Option], entries: list[Entry | None]) -> Option:
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
            total += _SHRINK if entry.kind == "R" else _REDUCE if entry.kind == "P" else _GATHER
    return total
