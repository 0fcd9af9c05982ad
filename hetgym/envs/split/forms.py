"""Forms: every operator of a graph in every way of splitting it, from which graphs with splits are put together.

A search or an episode tries hundreds of splits of one graph. To rewrite the graph
(:func:`hetgym.graph.transforms.split`) takes milliseconds for every operator that is split. Here each operator has
*forms*: one unsplit, and one for each entry of the menu, with all that may take its place: scatters of operands, the
parts, and a gather of the result. Which scatters and gathers cancel depends on how the neighbours are split; compiled
code finds that out (:mod:`hetgym.envs.split.joining`). A form is made once, when it is first needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._kernels.blanks import example
from hetgym._kernels.records import Rows, entry, reader, record
from hetgym._sums import summed
from hetgym._types import FloatArray, Int64Array
from hetgym.costs import occupancy
from hetgym.envs.split.instance import SplitInstance
from hetgym.envs.split.menu import Choice
from hetgym.graph import Operator
from hetgym.graph.transforms.operands import Source, operands
from hetgym.graph.transforms.pieces import cut, pieces
from hetgym.graph.transforms.splitting import joints

UNCUT, OVERLAPPING = -1, -2
"""Numbers of cuts that cancel with no other: results that are whole or summed, and operands whose parts overlap."""

SCATTERS, PARTS, GATHERS, RESULT = range(4)  # Fields of FormArrays.shape


@record
class FormArrays(NamedTuple):
    """An operator in one way of splitting it, as kernels see it: s scatters, p parts, and a gather if it is split."""

    cost: Annotated[FloatArray, "s + p + g, d"]  # run times of scatters, parts and gather [s]
    mean: Annotated[FloatArray, "s + p + g"]  # over the devices that can run each
    output: Annotated[FloatArray, "s + p + g"]  # bytes of outputs
    shape: Annotated[Int64Array, "4"]  # s, p, g, and the number of the cut of the result
    deals: Annotated[Int64Array, "3, s"]  # operator that is dealt out, its slot, and number of the cut
    deal_bytes: Annotated[FloatArray, "s"]  # of that output
    reads: Annotated[Int64Array, "2, r"]  # scatter, and part that reads from it
    read_bytes: Annotated[FloatArray, "r"]
    wholes: Annotated[Int64Array, "3, w"]  # operator and slot that are read as a whole, and part that reads them
    whole_bytes: Annotated[FloatArray, "w"]
    part_bytes: Annotated[FloatArray, "p"]  # of what the gather reads
    readers: Annotated[Int64Array, "c"]  # readers, constants: part, and number of a named constant that it reads
    constants: Annotated[Int64Array, "c"]
    constant_bytes: Annotated[FloatArray, "c"]
    unnamed: Annotated[FloatArray, "p"]  # bytes of constants without a name


@record
class GraphForms(NamedTuple):
    """The forms of a graph of b operators, as kernels see them."""

    table: Annotated[Int64Array, "f, row"]  # rows of FormArrays; a row of zeros is a form that has not been made
    first: Annotated[Int64Array, "b"]  # the form of operator i by entry a of the menu is row `first[i] + a`
    turn: Annotated[Int64Array, "b"]  # decision that sets the operator's entry; -1 if it stays whole


FORM, GRAPH = example(FormArrays), example(GraphForms)  # Examples of the records
read_form = reader(FORM)
read_graph = reader(GRAPH)


class Forms:
    """The forms of one graph on a platform; no operator may be a part of an earlier split.

    Attributes:
        arrays: arrays of all forms that have been made, for kernels; those of whole operators have been.
        row: row of that record.
        members: row of a form -> its scatters, parts and gather.
    """

    def __init__(self, instance: SplitInstance, menu: Sequence[Choice]) -> None:
        self._instance, self._menu = instance, menu
        self._cuts: dict[tuple[int, tuple[int, ...]], int] = {}
        self._names: dict[tuple[str, float], int] = {}
        graph = instance.graph
        self._sources = operands(graph)
        self._edges: list[list[Source]] = [[] for _ in graph.operators]
        for edge in graph.edges:
            self._edges[edge.target].append((edge.source, edge.slot))
        turn = np.full(len(graph), -1, np.int64)
        turn[list(instance.keys)] = np.arange(len(instance.keys))
        count = np.where(turn < 0, 1, len(menu))
        first = np.cumsum(count) - count
        self._operator = np.repeat(np.arange(len(graph)), count)
        self._rows = Rows(int(count.sum()), FORM)
        self._shares: dict[int, FloatArray] = {}
        self.members: dict[int, tuple[Operator, ...]] = {}
        self.arrays = GraphForms(self._rows.table, first, turn)
        self.row = entry(self.arrays).row
        for row in first.tolist():
            self.make(row)

    @property
    def constants(self) -> int:
        """Number of named constants that forms read."""
        return len(self._names)

    def cut(self, axis: int | None, lengths: Sequence[int]) -> int:
        """The number of a cut of a tensor into parts of these lengths along an axis: equal cuts have equal numbers."""
        return UNCUT if axis is None else self._cuts.setdefault((axis, tuple(lengths)), len(self._cuts))

    def dealt(self, axis: int, widths: Sequence[int], exact: bool) -> int:
        """The number of the cut that deals an operand out in parts of these widths."""
        return self.cut(axis, widths) if exact else OVERLAPPING

    def make(self, row: int) -> None:
        """Make the form of a row of the table."""
        operator = int(self._operator[row])
        which = row - int(self.arrays.first[operator])
        members, arrays = self._split(operator, which) if which else self._whole(operator)
        self.members[row] = members
        self._rows[row] = arrays

    def occupancy(self, row: int) -> FloatArray:
        """[s + p + g, d] shares of the devices that the operators of a form need, see :class:`~hetgym.Problem`."""
        if row not in self._shares:
            platform, cost = self._instance.platform, self._rows[row].cost
            shares = [occupancy(self.members[row], *priced) for priced in zip(platform, cost.T, strict=True)]
            self._shares[row] = np.stack(shares, axis=1)
        return self._shares[row]

    def _whole(self, operator: int) -> tuple[tuple[Operator, ...], FormArrays]:
        op = self._instance.graph.operators[operator]
        wholes = [(*source, 0) for source in dict.fromkeys(self._edges[operator])]
        problem, at = self._instance.problem, slice(operator, operator + 1)
        self._shares[int(self.arrays.first[operator])] = problem.occupancy[at]
        return (op,), self._arrays([], [op], [], UNCUT, [], [], wholes, problem.cost[at])

    def _split(self, operator: int, which: int) -> tuple[tuple[Operator, ...], FormArrays]:
        option = self._instance.options[int(self.arrays.turn[operator])][which]
        assert option is not None
        op, choice = self._instance.graph.operators[operator], self._menu[which]
        found = cut(op, choice.axis)
        parts = pieces(op, choice.axis, option.lengths, found)
        sources = self._sources[operator]
        views, gather = joints(op, found, sources, parts)
        place = {key: number for number, key in enumerate(views)}
        reads: dict[tuple[int, int], None] = {}
        wholes: dict[tuple[int, int, int], None] = {}
        for part in range(len(parts)):
            for at, source in enumerate(sources):
                if source is None or (at in found.once and part > 0):
                    continue
                where = found.operands[at]
                if where is None:
                    wholes[*source, part] = None
                else:
                    reads[place[source, where], part] = None
        matched = {source for source in sources if source is not None}
        for source in self._edges[operator]:
            if source not in matched:
                wholes |= {(*source, part): None for part in range(len(parts))}
        deals = []
        for (source, axis), view in views.items():
            how = view.attributes
            deals.append((*source, self.dealt(axis, how["sizes"], not how["overlap"])))  # type: ignore[arg-type]
        result = self.cut(found.result, option.lengths)
        scatters, joined = list(views.values()), (*views.values(), gather)
        members = (*scatters, *parts, gather)
        model = self._instance.prices.model
        ends = np.array([model.predict(joined, device) for device in self._instance.platform]).T
        cost = np.concatenate([ends[:-1], option.cost, ends[-1:]])
        return members, self._arrays(scatters, parts, [gather], result, deals, sorted(reads), list(wholes), cost)

    def _arrays(
        self,
        scatters: Sequence[Operator],
        parts: Sequence[Operator],
        gathers: Sequence[Operator],
        result: int,
        deals: Sequence[tuple[int, int, int]],
        reads: Sequence[tuple[int, int]],
        wholes: Sequence[tuple[int, int, int]],
        cost: FloatArray,
    ) -> FormArrays:
        operators, members = self._instance.graph.operators, [*scatters, *parts, *gathers]
        able = np.isfinite(cost)
        with np.errstate(invalid="ignore"):  # of operators that no device can run
            mean = np.where(able, cost, 0.0).sum(axis=1) / able.sum(axis=1)
        named = [
            (part, self._names.setdefault(constant, len(self._names)), constant[1])
            for part, op in enumerate(parts)
            for constant in dict.fromkeys((t.name, t.bytes) for t in op.inputs if t.constant and t.name)
        ]
        return FormArrays(
            cost=cost,
            mean=mean,
            output=_reals(op.output_bytes for op in members),
            shape=np.array([len(scatters), len(parts), len(gathers), result], np.int64),
            deals=_columns(deals, 3),
            deal_bytes=_reals(operators[source].outputs[slot].bytes for source, slot, _ in deals),
            reads=_columns(reads, 2),
            read_bytes=_reals(scatters[scatter].outputs[part].bytes for scatter, part in reads),
            wholes=_columns(wholes, 3),
            whole_bytes=_reals(operators[source].outputs[slot].bytes for source, slot, _ in wholes),
            part_bytes=_reals(op.outputs[0].bytes for op in parts if gathers),
            readers=np.array([part for part, *_ in named], np.int64),
            constants=np.array([constant for _, constant, _ in named], np.int64),
            constant_bytes=_reals(size for *_, size in named),
            unnamed=_reals(summed(t.bytes for t in op.inputs if t.constant and not t.name) for op in parts),
        )


def _columns(rows: Sequence[tuple[int, ...]], width: int) -> Int64Array:
    """[width, rows] of rows of numbers."""
    table: npt.NDArray[np.int64] = np.array(rows, np.int64).reshape(-1, width)
    return np.ascontiguousarray(table.T)


def _reals(values: object) -> FloatArray:
    return np.array(list(values), np.float64)  # type: ignore[call-overload]
