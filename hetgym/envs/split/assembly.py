"""Assembly: the problem of a graph with some operators split, put together from blocks instead of rewritten.

A search tries hundreds of splits of one graph. To rewrite the graph (:func:`hetgym.graph.transforms.split`) takes
milliseconds for every operator that is split. Here each operator is a *block*: the operator itself, or its scatters,
parts and gather. A block is made once for every way in which the operator and its neighbours are split. A problem is
the concatenation of its blocks, and equal to that of the rewritten graph in all arrays. Searches, which read no
weights, leave ``weight_bytes`` at 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._records import entry as row_of
from hetgym._types import FloatArray
from hetgym.costs import occupancy
from hetgym.envs.split.instance import SplitInstance
from hetgym.envs.split.joining import WHOLE, BlockArrays, Joiner, Loads
from hetgym.envs.split.menu import Choice
from hetgym.graph import DataflowGraph, Operator
from hetgym.graph.transforms import pieces
from hetgym.graph.transforms.operands import Source, operands
from hetgym.graph.transforms.pieces import cut
from hetgym.graph.transforms.splitting import joints
from hetgym.problem import Problem, Routes

Ints = npt.NDArray[np.int64]

_SLOTS = 1 << 12  # more outputs than any operator has


class Scatter(NamedTuple):
    """An operand that is dealt out to parts.

    Attributes:
        source: output that is dealt out.
        operator: the ``SplitView`` that deals it out, whose output k goes to part k.
        readers: parts that read theirs.
    """

    source: Source
    operator: Operator
    readers: tuple[int, ...]


class Form(NamedTuple):
    """An operator in one way of splitting it, whatever its neighbours are.

    Attributes:
        scatters: operands that are dealt out.
        parts: the parts, or the operator itself.
        gather: what joins the parts; None for an operator that is whole.
        result: dimension of the result that is cut, None if it is whole or summed.
        lengths: of the parts along it.
        whole: (output that is read as a whole, part that reads it).
    """

    scatters: tuple[Scatter, ...]
    parts: tuple[Operator, ...]
    gather: Operator | None
    result: int | None
    lengths: tuple[int, ...]
    whole: tuple[tuple[Source, int], ...]


class Block(NamedTuple):
    """Operators that take the place of one, and the edges that end at them.

    Attributes:
        arrays: what they add to a problem.
        occupancy: [m, d] of its operators.
        output_bytes: [m].
        operators: [m]; names, kinds: [m] of them.
        number: place among the blocks of the assembly.
    """

    arrays: BlockArrays
    occupancy: FloatArray
    output_bytes: FloatArray
    operators: tuple[Operator, ...]
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    number: int


class Numbered(NamedTuple):
    """The blocks of a graph with splits.

    Attributes:
        entries: [k] of the key operators.
        numbers: [n] of the blocks.
    """

    entries: tuple[int, ...]
    numbers: Ints


class Places(NamedTuple):
    """Where the operators of a graph went in a problem.

    Attributes:
        offset: [n + 1] the block of operator i is ``offset[i] .. offset[i + 1]``.
        first: [n] its first part.
    """

    offset: Ints
    first: Ints


class Assembly:
    """Makes problems of one graph from blocks.

    Args:
        instance: the graph on a platform, with the ways of splitting its key operators. No operator of the graph may
            be a part of an earlier split.
        menu: the choices that these ways belong to.
        weights: true to fill in ``weight_bytes``.
    """

    def __init__(self, instance: SplitInstance, menu: Sequence[Choice], weights: bool = False) -> None:
        self.instance, self.menu, self.weights = instance, menu, weights
        self._names: dict[str, int] = {}
        graph, platform = instance.graph, instance.platform
        self._turn = {operator: turn for turn, operator in enumerate(instance.keys)}
        self._sources = operands(graph)
        self._edges: list[list[Source]] = [[] for _ in graph.operators]
        for edge in graph.edges:
            self._edges[edge.target].append((edge.source, edge.slot))
        self._forms: dict[tuple[int, int], Form] = {}
        self._blocks: dict[tuple[int, int, tuple[bool, ...], bool], Block] = {}
        self._next = [self._around(i) for i in range(len(graph))]
        self._table, self._sizes = np.zeros((0, 0), np.int64), np.zeros((0, 3), np.int64)
        self._joiner = Joiner(instance.problem)
        self._spared: dict[tuple[int, int, int, int], bool] = {}
        self._capacity = np.array([device.memory_capacity for device in platform.devices])
        self._routes = Routes(*platform.routes)
        self._kinds = [device.kind != "cpu" for device in platform.devices]

    def _around(self, operator: int) -> tuple[int, ...]:
        """The operators that an operator reads from, and those that read from it."""
        return (*{source for source, _ in self._edges[operator]}, *self.instance.readers[operator])

    def problem(self, entries: Sequence[int]) -> tuple[Problem, Places]:
        """The problem with each key operator split by an entry of the menu.

        Args:
            entries: [k] of the key operators; 0 leaves one whole.

        Returns:
            The problem, and where the operators of the graph went in it.
        """
        blocks = self._blocks_of(entries)
        places, sources, slots, targets = self._edges_of(blocks)
        offset = places.offset
        inner_size = np.concatenate([block.arrays.inner_bytes for block in blocks])
        outer_size = np.concatenate([block.arrays.outer_bytes for block in blocks])
        _, tensor = np.unique(sources * _SLOTS + slots, return_inverse=True)
        platform = self.instance.platform
        problem = Problem(
            cost=np.concatenate([block.arrays.cost for block in blocks]),
            edge_source=sources.astype(np.int32),
            edge_target=targets.astype(np.int32),
            edge_bytes=np.concatenate([inner_size, outer_size]),
            edge_tensor=tensor.reshape(-1).astype(np.int32),
            latency=platform.latency,
            bandwidth=platform.bandwidth,
            weight_bytes=self._weights(blocks, offset) if self.weights else np.zeros(int(offset[-1])),
            output_bytes=np.concatenate([block.output_bytes for block in blocks]),
            memory_capacity=self._capacity,
            operator_names=[name for block in blocks for name in block.names],
            operator_kinds=[kind for block in blocks for kind in block.kinds],
            device_names=[device.name for device in platform.devices],
            name=f"{self.instance.graph.name}@{platform.name}",
            routes=self._routes,
            asynchronous=self._kinds,
            occupancy=np.concatenate([block.occupancy for block in blocks]),
        )
        return problem, places

    def graph(self, entries: Sequence[int]) -> DataflowGraph:
        """The graph with each key operator split by an entry of the menu: that of :meth:`problem`."""
        blocks = self._blocks_of(entries)
        places, sources, slots, targets = self._edges_of(blocks)
        operators = [op for block in blocks for op in block.operators]
        edges = zip(sources.tolist(), slots.tolist(), targets.tolist(), strict=True)
        return DataflowGraph(operators, edges, self.instance.graph.name)

    @staticmethod
    def _edges_of(blocks: Sequence[Block]) -> tuple[Places, Ints, Ints, Ints]:
        """Where operators go; source, slot and target, [e] each, of edges within blocks, then of those between them."""
        offset = np.concatenate([[0], np.cumsum([len(block.operators) for block in blocks])])
        first, result = offset[:-1] + np.stack([block.arrays.ends for block in blocks], axis=1)
        inner = np.concatenate([block.arrays.inner for block in blocks], axis=1)
        at_inner = np.repeat(offset[:-1], [block.arrays.inner.shape[1] for block in blocks])
        at_outer = np.repeat(offset[:-1], [block.arrays.outer.shape[1] for block in blocks])
        operator, part, slot, target = np.concatenate([block.arrays.outer for block in blocks], axis=1)
        source = np.where(part == WHOLE, result[operator], first[operator] + part)
        return (
            Places(offset, first),
            np.concatenate([inner[0] + at_inner, source]),
            np.concatenate([inner[1], slot]),
            np.concatenate([inner[2] + at_inner, target + at_outer]),
        )

    def _weights(self, blocks: Sequence[Block], offset: Ints) -> FloatArray:
        """[n] see :attr:`hetgym.graph.DataflowGraph.resident_bytes`, summed up in the same order."""
        arrays = [block.arrays for block in blocks]
        constants = np.concatenate([a.constants for a in arrays])
        size = np.concatenate([a.constant_bytes for a in arrays])
        readers = np.concatenate([a.readers + at for a, at in zip(arrays, offset.tolist(), strict=False)])
        shared = np.bincount(readers, size / np.bincount(constants)[constants], int(offset[-1]))
        return np.asarray(shared + np.concatenate([a.unnamed for a in arrays]), np.float64)

    def price(self, entries: Sequence[int], near: Numbered | None = None) -> tuple[Numbered, float, Loads] | None:
        """HEFT's makespan of :meth:`problem` [s], and the loads of devices, without making the problem.

        Args:
            entries: [k] of the key operators; 0 leaves one whole.
            near: blocks of other entries, from an earlier price: only those that differ are looked for.

        Returns:
            The blocks, makespan and loads; None if there is an operator that no device can run.
        """
        numbers = self._numbers(entries, near)
        n, e, stuck = self._sizes[numbers].sum(axis=0).tolist()
        if stuck:
            return None
        makespan, loads = self._joiner.price(self._table, numbers, (n, e, len(self._names)))
        return Numbered(tuple(entries), numbers), makespan, loads

    def _numbers(self, entries: Sequence[int], near: Numbered | None) -> Ints:
        """[n] numbers of the blocks."""
        if near is None:
            return np.array([block.number for block in self._blocks_of(entries)], np.int64)
        keys, entry = self.instance.keys, self._entries(entries)
        changed = [keys[turn] for turn, (new, old) in enumerate(zip(entries, near.entries, strict=True)) if new != old]
        around = {i for key in changed for i in (key, *self._next[key])}
        numbers = near.numbers.copy()
        for i in around:
            numbers[i] = self._block_of(i, entry).number
        return numbers

    def _blocks_of(self, entries: Sequence[int]) -> list[Block]:
        entry = self._entries(entries)
        return [self._block_of(i, entry) for i in range(len(entry))]

    def _entries(self, entries: Sequence[int]) -> list[int]:
        """[n] entries of all operators, 0 for those that are no key operators."""
        entry = [0] * len(self.instance.graph)
        for operator, turn in self._turn.items():
            entry[operator] = entries[turn]
        return entry

    def _block_of(self, operator: int, entry: Sequence[int]) -> Block:
        """The block of an operator, which depends on its own entry and those of its neighbours."""
        form = self.form(operator, entry[operator])
        gathered = form.gather is None or self._needs_gather(operator, entry)
        return self._block(operator, entry[operator], form, self._spares(operator, entry), gathered)

    def _spares(self, operator: int, entry: Sequence[int]) -> tuple[bool, ...]:
        """For each scatter of an operator, whether it cancels with the gather of its source."""
        own = entry[operator]
        scatters = self.form(operator, own).scatters
        return tuple(self.spares(operator, own, k, entry[s.source[0]]) for k, s in enumerate(scatters))

    def form(self, operator: int, entry: int) -> Form:
        """An operator split by an entry of the menu."""
        key = operator, entry
        if key not in self._forms:
            self._forms[key] = self._split(operator, entry) if entry else self._whole(operator)
        return self._forms[key]

    def spares(self, operator: int, entry: int, scatter: int, other: int) -> bool:
        """True if a scatter of an operator cancels with the gather of its source, which is split by entry ``other``."""
        key = operator, entry, scatter, other
        if key not in self._spared:
            deal = self.form(operator, entry).scatters[scatter]
            source, how = self.form(deal.source[0], other), deal.operator.attributes
            alike = (source.result, source.lengths) == (how["axis"], how["sizes"])
            self._spared[key] = source.gather is not None and not how["overlap"] and alike
        return self._spared[key]

    def _needs_gather(self, operator: int, entry: Sequence[int]) -> bool:
        """True unless every reader takes the parts as they are."""
        cancelled = False
        for reader in self.instance.readers[operator]:
            form = self.form(reader, entry[reader])
            if any(source[0] == operator for source, _ in form.whole):
                return True
            for scatter, gone in zip(form.scatters, self._spares(reader, entry), strict=True):
                if scatter.source[0] == operator:
                    if not gone:
                        return True
                    cancelled = True
        return not cancelled

    def _whole(self, operator: int) -> Form:
        op = self.instance.graph.operators[operator]
        return Form((), (op,), None, None, (), tuple((source, 0) for source in dict.fromkeys(self._edges[operator])))

    def _split(self, operator: int, entry: int) -> Form:
        option = self.instance.options[self._turn[operator]][entry]
        assert option is not None
        op, choice = self.instance.graph.operators[operator], self.menu[entry]
        found, parts = cut(op, choice.axis), pieces(op, choice.axis, option.lengths)
        sources = self._sources[operator]
        views, gather = joints(op, found, sources, parts)
        readers: dict[tuple[Source, int], dict[int, None]] = {}
        whole: dict[tuple[Source, int], None] = {}
        for number in range(len(parts)):
            for at, source in enumerate(sources):
                if source is None or (at in found.once and number > 0):
                    continue
                where = found.operands[at]
                if where is None:
                    whole[source, number] = None
                else:
                    readers.setdefault((source, where), {})[number] = None
        matched = {source for source in sources if source is not None}
        for source in self._edges[operator]:
            if source not in matched:
                whole |= {(source, number): None for number in range(len(parts))}
        scatters = tuple(
            Scatter(source, view, tuple(readers[source, where])) for (source, where), view in views.items()
        )
        lengths = tuple(option.lengths) if found.result is not None else ()
        return Form(scatters, tuple(parts), gather, found.result, lengths, tuple(whole))

    def _block(self, operator: int, entry: int, form: Form, spared: tuple[bool, ...], gathered: bool) -> Block:
        key = operator, entry, spared, gathered
        if key not in self._blocks:
            self._blocks[key] = block = self._make(form, spared, gathered)
            self._note(block)
        return self._blocks[key]

    def _note(self, block: Block) -> None:
        """Write a new block into the tables of all blocks."""
        number, row = block.number, row_of(block.arrays).row
        if number == len(self._table):
            table, sizes = self._table, self._sizes
            self._table = np.zeros((max(64, 2 * number), len(row)), np.int64)
            self._sizes = np.zeros((len(self._table), 3), np.int64)
            if number:
                self._table[:number], self._sizes[:number] = table, sizes
        stuck = ~np.isfinite(block.arrays.cost).any(axis=1)
        edges = len(block.arrays.inner_bytes) + len(block.arrays.outer_bytes)
        self._table[number], self._sizes[number] = row, (len(block.operators), edges, stuck.sum())

    def _make(self, form: Form, spared: tuple[bool, ...], gathered: bool) -> Block:
        kept = [scatter for scatter, gone in zip(form.scatters, spared, strict=True) if not gone]
        joins = [form.gather] if form.gather is not None and gathered else []
        ops = [*(scatter.operator for scatter in kept), *form.parts, *joins]
        first, last = len(kept), len(ops) - 1
        graph = self.instance.graph
        inner: list[tuple[tuple[int, int, int], float]] = []
        outer: list[tuple[tuple[int, int, int, int], float]] = []
        for place, scatter in enumerate(kept):
            source, slot = scatter.source
            outer.append(((source, WHOLE, slot, place), graph.operators[source].outputs[slot].bytes))
            inner += [((place, k, first + k), scatter.operator.outputs[k].bytes) for k in scatter.readers]
        for scatter, gone in zip(form.scatters, spared, strict=True):
            if gone:
                source = scatter.source[0]
                outer += [((source, k, 0, first + k), scatter.operator.outputs[k].bytes) for k in scatter.readers]
        for (source, slot), k in form.whole:
            outer.append(((source, WHOLE, slot, first + k), graph.operators[source].outputs[slot].bytes))
        if joins:
            inner += [((first + k, 0, last), part.outputs[0].bytes) for k, part in enumerate(form.parts)]
        devices = self.instance.platform.devices
        times = [self.instance.prices.predict(ops, device) for device in devices]
        shares = [occupancy(ops, *priced) for priced in zip(devices, times, strict=True)]
        cost = np.stack(times, axis=1)
        able = np.isfinite(cost)
        with np.errstate(invalid="ignore"):  # of operators that no device can run
            mean = np.where(able, cost, 0.0).sum(axis=1) / able.sum(axis=1)
        arrays = BlockArrays(
            cost,
            mean,
            np.array([first, last], np.int64),
            *_columns(inner, 3),
            *_columns(outer, 4),
            *self._constants(ops),  # type: ignore[arg-type]
        )
        return Block(
            arrays,
            np.stack(shares, axis=1),
            np.array([op.output_bytes for op in ops], np.float64),
            tuple(ops),
            tuple(op.name for op in ops),
            tuple(op.kind for op in ops),
            len(self._blocks),
        )

    def _constants(self, ops: Sequence[Operator]) -> tuple[Ints, Ints, FloatArray, FloatArray]:
        """The constants that operators read, for :class:`Block`."""
        named = [
            (place, self._names.setdefault(t.name, len(self._names)), t.bytes)
            for place, op in enumerate(ops)
            for t in dict.fromkeys(t for t in op.inputs if t.constant and t.name)
        ]
        columns = np.array([(place, name) for place, name, _ in named], np.int64).reshape(-1, 2)
        unnamed = [sum(t.bytes for t in op.inputs if t.constant and not t.name) for op in ops]
        return (
            columns[:, 0].copy(),
            columns[:, 1].copy(),
            np.array([size for *_, size in named], np.float64),
            np.array(unnamed, np.float64),
        )


def _columns(edges: Sequence[tuple[tuple[int, ...], float]], rows: int) -> tuple[Ints, FloatArray]:
    """[rows, e] ends of edges, and [e] their bytes."""
    ends = np.array([edge for edge, _ in edges], np.int64).reshape(-1, rows)
    return np.ascontiguousarray(ends.T), np.array([size for _, size in edges], np.float64)
