"""Walk through a graph that chooses an option for each operator and axis, by a tactic for each axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hetgym._types import Int64Array
from hetgym.sharding.placement import Entry, P, R, S, local_bytes
from hetgym.sharding.roles import Roles
from hetgym.sharding.rules.indices import REPLICATED, Option
from hetgym.sharding.rules.table import is_update
from hetgym.sharding.sharded_graph import ShardedGraph
from hetgym.sharding.strategies import Strategy

Tactic = Callable[["Walk", int, Sequence[Option], list[Entry | None]], Option]
"""Function that chooses an operator's option on one axis, given the walk, the node, its options and the entries of its
operands on the axis; None for those of parameters."""


class Walk:
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
