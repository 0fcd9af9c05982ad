"""Assembly: the graphs, problems and prices of one graph with some operators split, put together from forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._kernels.threads import listed
from hetgym._types import FloatArray
from hetgym.envs.split import joining
from hetgym.envs.split.forms import Forms
from hetgym.envs.split.instance import Loads, SplitInstance
from hetgym.envs.split.joining import Desk, DeskArrays, Room
from hetgym.envs.split.menu import Choice
from hetgym.graph import DataflowGraph, Operator
from hetgym.graph.dataflow import shared_constants
from hetgym.planning.timeline import Timeline, planned
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule

Ints = npt.NDArray[np.int64]
_SLOTS = 1 << 12  # more outputs than any operator has


class Places(NamedTuple):
    """Where the operators of a graph went in a problem."""

    offset: Ints  # [n + 1] what takes the place of operator i is `offset[i] .. offset[i + 1]`.
    first: Ints  # [n] its first part


class Assembly:
    """Makes graphs, problems and prices of one graph from its forms; entries are those of the menu, 0 for whole ones.

    No operator of the graph may be a part of an earlier split.
    """

    def __init__(self, instance: SplitInstance, menu: Sequence[Choice]) -> None:
        self.instance, self._menu, self.forms = instance, menu, Forms(instance, menu)
        self._desk = self._new_desk(self.room)

    def __reduce__(self) -> tuple[type[Assembly], tuple[SplitInstance, Sequence[Choice]]]:
        return Assembly, (self.instance, self._menu)  # tables of addresses mean nothing in a copy

    @property
    def room(self) -> Room:
        """Room that mostly is enough for the graph with splits."""
        graph, edges = len(self.instance.graph), len(self.instance.graph.edges)
        return Room(graph, 4 * graph, 8 * max(graph, edges), max(self.forms.constants, graph))

    def price(self, entries: Sequence[int]) -> tuple[float, Loads] | None:
        """HEFT's makespan of :meth:`problem` [s], and the loads of devices, without making the problem.

        Returns None if there is an operator that no device can run.
        """
        desk, found = self._measured(entries)
        if found[0] == joining.UNRUNNABLE:
            return None
        d, makespan = desk.devices, np.zeros(1)
        loads = Loads(np.zeros(d), np.zeros(d, np.int64), np.zeros(d))
        busy, operators, weights = loads.busy[None], loads.operators[None], loads.weights[None]
        only = listed(np.zeros(1, np.int64))
        joining.price(self.forms.row[None], desk.row[None], busy, operators, weights, makespan, found, only)
        return float(makespan[0]), loads

    def timeline(self, entries: Sequence[int]) -> tuple[ProblemArrays, Timeline, Places]:
        """HEFT's timeline of :meth:`problem` and where operators went, until the next call; it has a :meth:`price`."""
        priced = self.price(entries)
        assert priced is not None
        joined, places = self._on_desk()
        desk = joining.sized(self._desk.arrays, *joined.size[:2].tolist())
        return desk.problem, desk.placed, places

    def run(self, entries: Sequence[int]) -> tuple[Schedule, FloatArray]:
        """HEFT's schedule of :meth:`problem`, which has a :meth:`price`, and [d] the peak memory of devices [byte]."""
        priced = self.price(entries)
        assert priced is not None
        desk = self._desk
        peak = np.zeros(desk.devices)
        joining.peaks(desk.row, priced[1].weights, peak)
        n, placed = int(desk.arrays.joined.size[joining.OPERATORS]), desk.arrays.placed
        placed = Timeline(placed.assignment[:n], placed.start[:n], placed.finish[:n], placed.busy)
        return planned(self.instance.problem, placed, scheduler="heft"), peak

    def problem(self, entries: Sequence[int]) -> tuple[Problem, Places]:
        """The problem with [k] key operators split by entries, and where the operators of the graph went in it."""
        joined, places = self._joined(entries)
        rows, members, operators = self._operators(joined)
        n, e = joined.size[:2].tolist()
        source, slot = joined.source[:e].astype(np.int64), joined.slot[:e]
        _, tensor = np.unique(source * _SLOTS + slot, return_inverse=True)
        problem = self.instance.problem.replace(
            cost=joined.cost[:n],
            edge_source=joined.source[:e],
            edge_target=joined.target[:e],
            edge_bytes=joined.bytes[:e],
            edge_tensor=tensor.reshape(-1).astype(np.int32),
            weight_bytes=joined.weights[:n],
            output_bytes=joined.output[:n],
            operator_names=[op.name for op in operators],
            operator_kinds=[op.kind for op in operators],
            occupancy=np.stack([self.forms.occupancy(row)[k] for row, k in zip(rows, members, strict=True)]),
            shared_weights=shared_constants(operators),
        )
        return problem, places

    def graph(self, entries: Sequence[int]) -> DataflowGraph:
        """The graph with each key operator split by an entry of the menu: that of :meth:`problem`."""
        joined, _ = self._joined(entries)
        e = int(joined.size[1])
        ends = (array[:e].tolist() for array in (joined.source, joined.slot, joined.target))
        graph = self.instance.graph
        return DataflowGraph(self._operators(joined)[-1], zip(*ends, strict=True), graph.name, graph.notes)

    def _joined(self, entries: Sequence[int]) -> tuple[DeskArrays, Places]:
        """The problem as it lies on the desk, and where the operators went."""
        desk, _ = self._measured(entries)
        joining.join(self.forms.row, desk.row)
        return self._on_desk()

    def _on_desk(self) -> tuple[DeskArrays, Places]:
        """The problem that was joined last."""
        joined, graph = self._desk.arrays.joined, len(self.instance.graph)
        offset = np.append(joined.offset[:graph], joined.size[joining.OPERATORS])
        return joined, Places(offset, joined.first[:graph].copy())

    def _operators(self, joined: DeskArrays) -> tuple[list[int], list[int], list[Operator]]:
        """The operators of the problem on the desk: rows of forms, places in them, and the operators themselves."""
        graph, n = len(self.instance.graph), int(joined.size[joining.OPERATORS])
        rows = np.repeat(joined.form[:graph], np.diff(joined.offset[:graph], append=n)).tolist()
        places = joined.member[:n].tolist()
        return rows, places, [self.forms.members[row][k] for row, k in zip(rows, places, strict=True)]

    def _measured(self, entries: Sequence[int]) -> tuple[Desk, Ints]:
        """The desk, with the size of a problem, and what :func:`~hetgym.envs.split.joining.measure` found [1]."""
        forms, chosen, found = self.forms, np.array([entries], np.int64), np.zeros(1, np.int64)
        while True:
            desk, size = self._desk, self._desk.arrays.joined.size
            own = desk.row[None], desk.shapes[None], desk.limits[None]
            if joining.measure(forms.row[None], chosen, *own, np.ones(1, np.bool_), found):
                return desk, found
            if found[0] == joining.LACKS_FORM:
                forms.make(int(size[joining.OPERATORS]))
            else:
                self._desk = self._new_desk(joining.grown(desk.room, size))

    def _new_desk(self, room: Room) -> Desk:
        desk = Desk(self.instance.problem.num_devices, room)
        desk.take(self.instance.problem)
        return desk
