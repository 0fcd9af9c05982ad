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

from hetgym._types import FloatArray
from hetgym.costs import occupancy
from hetgym.envs.split.instance import SplitInstance
from hetgym.envs.split.menu import Choice
from hetgym.graph import DataflowGraph, Operator
from hetgym.graph.transforms import pieces
from hetgym.graph.transforms.operands import Source, operands
from hetgym.graph.transforms.pieces import cut
from hetgym.graph.transforms.splitting import joints
from hetgym.problem import Problem, Routes

Ints = npt.NDArray[np.int64]

WHOLE = -1
"""Stands for the result of an operator, not for one of its parts."""

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
        cost, occupancy: [m, d] of its operators.
        output_bytes: [m].
        operators: [m]; names, kinds: [m] of them.
        first, result: place of the first part, and of the operator that gives the whole result, in the block.
        inner: [3, e] source, slot and target of edges within the block; ``inner_bytes``: [e].
        readers, constants: [c] operator in the block, and number of a named constant that it reads; ``constant_bytes``:
            [c].
        unnamed: [m] bytes of constants without a name.
        outer: [4, e] operator of the graph, its part or :data:`WHOLE`, slot, and target in the block of the other
            edges that end in it; ``outer_bytes``: [e].
    """

    cost: FloatArray
    occupancy: FloatArray
    output_bytes: FloatArray
    operators: tuple[Operator, ...]
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    first: int
    result: int
    inner: Ints
    inner_bytes: FloatArray
    outer: Ints
    outer_bytes: FloatArray
    readers: Ints
    constants: Ints
    constant_bytes: FloatArray
    unnamed: FloatArray


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
        self._spared: dict[tuple[int, int, int, int], bool] = {}
        self._capacity = np.array([device.memory_capacity for device in platform.devices])
        self._routes = Routes(*platform.routes)
        self._kinds = [device.kind != "cpu" for device in platform.devices]

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
        inner_size = np.concatenate([block.inner_bytes for block in blocks])
        outer_size = np.concatenate([block.outer_bytes for block in blocks])
        _, tensor = np.unique(sources * _SLOTS + slots, return_inverse=True)
        platform = self.instance.platform
        problem = Problem(
            cost=np.concatenate([block.cost for block in blocks]),
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
        first = offset[:-1] + np.array([block.first for block in blocks])
        result = offset[:-1] + np.array([block.result for block in blocks])
        inner = np.concatenate([block.inner for block in blocks], axis=1)
        at_inner = np.repeat(offset[:-1], [block.inner.shape[1] for block in blocks])
        at_outer = np.repeat(offset[:-1], [block.outer.shape[1] for block in blocks])
        operator, part, slot, target = np.concatenate([block.outer for block in blocks], axis=1)
        source = np.where(part == WHOLE, result[operator], first[operator] + part)
        return (
            Places(offset, first),
            np.concatenate([inner[0] + at_inner, source]),
            np.concatenate([inner[1], slot]),
            np.concatenate([inner[2] + at_inner, target + at_outer]),
        )

    def _weights(self, blocks: Sequence[Block], offset: Ints) -> FloatArray:
        """[n] see :attr:`hetgym.graph.DataflowGraph.resident_bytes`, summed up in the same order."""
        constants = np.concatenate([block.constants for block in blocks])
        size = np.concatenate([block.constant_bytes for block in blocks])
        readers = np.concatenate([block.readers + at for block, at in zip(blocks, offset.tolist(), strict=False)])
        shared = np.bincount(readers, size / np.bincount(constants)[constants], int(offset[-1]))
        return np.asarray(shared + np.concatenate([block.unnamed for block in blocks]), np.float64)

    def _blocks_of(self, entries: Sequence[int]) -> list[Block]:
        n = len(self.instance.graph)
        entry = [0] * n
        for operator, turn in self._turn.items():
            entry[operator] = entries[turn]
        forms = [self.form(i, entry[i]) for i in range(n)]
        spared = [
            tuple(self.spares(i, entry[i], k, entry[scatter.source[0]]) for k, scatter in enumerate(form.scatters))
            for i, form in enumerate(forms)
        ]
        needed = [True] * n
        for i in range(n):
            if forms[i].gather is not None:
                needed[i] = self._needs_gather(i, forms, spared)
        return [self._block(i, entry[i], forms[i], spared[i], needed[i]) for i in range(n)]

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

    def _needs_gather(self, operator: int, forms: Sequence[Form], spared: Sequence[tuple[bool, ...]]) -> bool:
        """True unless every reader takes the parts as they are."""
        cancelled = False
        for reader in self.instance.readers[operator]:
            form = forms[reader]
            if any(source[0] == operator for source, _ in form.whole):
                return True
            for scatter, gone in zip(form.scatters, spared[reader], strict=True):
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
            self._blocks[key] = self._make(form, spared, gathered)
        return self._blocks[key]

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
        cost = [self.instance.prices.predict(ops, device) for device in devices]
        shares = [occupancy(ops, *priced) for priced in zip(devices, cost, strict=True)]
        return Block(
            np.stack(cost, axis=1),
            np.stack(shares, axis=1),
            np.array([op.output_bytes for op in ops], np.float64),
            tuple(ops),
            tuple(op.name for op in ops),
            tuple(op.kind for op in ops),
            first,
            last,
            np.array([edge for edge, _ in inner], np.int64).reshape(-1, 3).T,
            np.array([size for _, size in inner], np.float64),
            np.array([edge for edge, _ in outer], np.int64).reshape(-1, 4).T,
            np.array([size for _, size in outer], np.float64),
            *self._constants(ops),
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
            columns[:, 0],
            columns[:, 1],
            np.array([size for *_, size in named], np.float64),
            np.array(unnamed, np.float64),
        )
