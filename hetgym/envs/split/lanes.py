"""SplitLanes: the episodes of HetSplit-v0 side by side."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym import metrics
from hetgym._kernels import records as records
from hetgym._kernels.blanks import blank
from hetgym._types import BoolArray, FloatArray
from hetgym.envs.core.lanes import RecordLanes, begun, only_options
from hetgym.envs.core.memory import Remembered
from hetgym.envs.core.padding import GraphPadding
from hetgym.envs.core.rendering import gantt_pixels
from hetgym.envs.core.scaling import scale_of, shares
from hetgym.envs.core.sources import Source, as_graph, as_platform
from hetgym.envs.split.assembly import Assembly
from hetgym.envs.split.decisions import choose, settle
from hetgym.envs.split.dynamics import GRAPHS, Splits
from hetgym.envs.split.forms import GRAPH
from hetgym.envs.split.instance import Loads, SplitInstance
from hetgym.envs.split.joining import DESK, LACKS_FORM, LACKS_ROOM, OPERATORS, Desk, Room, grown, measure, price
from hetgym.envs.split.observation import SplitCandidateColumn, choices_table, fixed, menu_table, split_space
from hetgym.envs.split.problems import Pair
from hetgym.envs.split.rendering import split_text
from hetgym.envs.split.rules import SplitRules
from hetgym.envs.split.state import RECORD, TABLES, LaneState, SplitNode, SplitState, tables_of
from hetgym.graph import DataflowGraph
from hetgym.platform import Platform
from hetgym.problem import Problem


class Prepared(NamedTuple):
    """What an episode needs of its graph."""

    instance: SplitInstance  # the graph on a platform
    assembly: Assembly  # puts together the graph with splits
    joined: bool  # true if compiled code prices these
    tables: records.Entry  # of the instance, for kernels
    blank: dict[str, npt.NDArray[Any]]  # the observation at the beginning of an episode, by key


class SplitLanes(RecordLanes):
    """Episodes side by side in which operators of graphs are split.

    Args:
        batch: batch size of graphs that a reset gives by name.

    Attributes:
        menu: the choices; the first leaves the operator whole.
        splits: caches of instances and of split graphs.
    """

    kind = "split"
    narrow = ("candidates", "operator", "devices", "makespan", "action_mask")
    options = ("graph", "platform")
    sizes = ("devices",)  # of them the menu is made

    def __init__(
        self,
        count: int,
        source: Source[Pair, GraphPadding],
        rules: SplitRules,
        padding: GraphPadding,
        level: str,
        sparse: bool,
        batch: int | None,
    ) -> None:
        self.menu = rules.menu(padding.devices)
        super().__init__(count, split_space(padding, len(self.menu)), level, len(self.menu), hidden=True)
        self.source, self.rules, self.padding, self.sparse, self.batch = source, rules, padding, sparse, batch
        kept = source.kept(count, max(GRAPHS, 2 * count))
        self.splits = Splits(rules, self.menu, kept)
        decisions = min(rules.key_operators, padding.operators)
        self._state = blank(LaneState, L=count, K=decisions, D=padding.devices)
        self._joined = np.zeros(count, np.bool_)
        self._held: list[Prepared | None] = [None] * count  # rows of lanes point to what these own
        self._entries = menu_table(self.menu)
        self._known: Remembered[int, Prepared] = Remembered(kept)
        self._named: dict[tuple[str, str], Any] = {}
        self._make_rows()

    def _make_rows(self) -> None:
        """Make rows for all lanes, and desks for none."""
        count = self.count
        self._graphs, self._tables = records.Rows(count, GRAPH), records.Rows(count, TABLES)
        self._desks: list[dict[int, Desk]] = [{} for _ in range(count)]
        self._tops = records.Rows(count, DESK)
        self._shapes = np.zeros((count, 3, self._tops.table.shape[1]), np.int64)
        self._limits = np.zeros((count, 3), np.int64)
        self._lanes = self._all_lanes()

    def _all_lanes(self) -> records.Rows:
        """The arrays that the kernels need of all lanes, as a row of one record."""
        return self._record(RECORD, self._tables.table, self._state)

    def __getstate__(self) -> dict[str, Any]:
        dropped = ("_graphs", "_tables", "_desks", "_tops", "_shapes", "_limits")  # tables of addresses
        state = {key: value for key, value in super().__getstate__().items() if key not in dropped}
        instances = [held and held.instance for held in self._held]
        known = Remembered[int, Prepared](self._known.limit)  # keys are object ids
        return {**state, "_held": instances, "_known": known, "_named": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._held = [None] * self.count
        self._make_rows()
        for lane, instance in enumerate(state["_held"]):
            if instance is not None:
                self._take(lane, self._prepared(instance))

    def begin_episode(self, lane: int, rng: np.random.Generator, options: dict[str, Any], seed: int | None) -> None:
        """Prepare an episode on a graph and a platform drawn from the source, or on those of the options."""
        graph, platform = only_options(options, *self.options)
        if graph is None or platform is None:
            drawn = self.source.draw(rng, lane, seed)
            graph = drawn[0] if graph is None else graph
            platform = drawn[1] if platform is None else platform
        prepared = self._prepared(self.splits.instance((self._load("graph", graph), self._load("platform", platform))))
        instance, state = prepared.instance, self._state
        if prepared is not self._held[lane]:
            self._take(lane, prepared)
        for key, array in self.arrays.items():
            array[lane] = prepared.blank[key]
        self._price(lane, instance.reference, instance.loads)
        state.reference[lane] = instance.reference
        self.names[lane] = instance.problem.name

    def estimates(self, lane: int) -> FloatArray:
        """[A] see :meth:`~hetgym.envs.core.lanes.Lanes.estimates`."""
        instance, chosen, turn = self.state(lane)
        after = [(*chosen, (turn, entry)) if entry else chosen for entry in range(len(self.menu))]
        legal = self.mask[lane] == 1
        return np.array([self.splits.seconds(instance, then) if legal[k] else np.inf for k, then in enumerate(after)])

    def take(self, actions: npt.NDArray[np.int64], active: BoolArray) -> None:
        """Open each active lane that is fresh, and decide on the current operator of the others."""
        row, state, deciding = self._lanes.table[0], self._state, active & ~self.fresh
        choose(row, actions, deciding)
        joined, graphs, desks = deciding & self._joined & (state.action > 0), self._graphs.table, self._tops.table
        while not measure(graphs, state.entries, desks, self._shapes, self._limits, joined, state.found):
            for lane in np.flatnonzero(state.found).tolist():
                self._provide(lane)
        written = state.busy, state.operators, state.weights, state.makespan
        self._spread(lambda shared: price(graphs, desks, *written, state.found, shared), joined)
        for lane in np.flatnonzero(deciding & ~self._joined & (state.action > 0)).tolist():
            instance, chosen, turn = self.state(lane)
            node = self.splits.attempt(instance, (*chosen, (turn, int(state.action[lane]))))
            if node is None:
                state.action[lane] = 0
            else:
                self._price(lane, node.makespan, node.loads)
        settle(row, active, self.sparse)
        if self.rules.lookahead or self.rules.completion or self.splits.looks_ahead:
            for lane in np.flatnonzero(active & ~self.over).tolist():
                self._look_ahead(lane)

    def _price(self, lane: int, makespan: float, loads: Loads) -> None:
        """Write down what a lane's graph takes."""
        state, d = self._state, len(loads.busy)
        state.makespan[lane] = makespan
        state.busy[lane, :d], state.operators[lane, :d], state.weights[lane, :d] = loads

    def _look_ahead(self, lane: int) -> None:
        """Write the results of each choice, and mask those that do not fit the memory."""
        instance, chosen, turn = self.state(lane)
        node, table, splits = self.node(lane), self.arrays["candidates"][lane], self.splits
        makespans = np.full(len(table), node.makespan)
        completions = makespans.copy()
        if self.rules.completion:
            completions[:] = splits.completion(instance, chosen, turn + 1)
        for entry in np.flatnonzero(self.mask[lane, 1:]) + 1:
            after = (*chosen, (turn, int(entry)))
            if self.rules.lookahead or splits.looks_ahead:
                found = splits.attempt(instance, after)
                if found is None or found.excess > max(0.0, node.excess):
                    self.mask[lane, entry] = 0
                    continue
                makespans[entry] = found.makespan if self.rules.lookahead else node.makespan
            if self.rules.completion:
                completions[entry] = splits.completion(instance, after, turn + 1)
        scale = scale_of(instance.reference)
        table[:, SplitCandidateColumn.LEGAL] = self.mask[lane]
        table[:, SplitCandidateColumn.MAKESPAN] = shares(makespans, scale)
        table[:, SplitCandidateColumn.COMPLETION] = shares(completions, scale)

    def _prepared(self, instance: SplitInstance) -> Prepared:
        """Tables of an instance that episodes share."""
        return self._known.get(id(instance), lambda: self._prepare(instance))

    def _prepared_in(self, lane: int) -> Prepared:
        """The data of the graph of the lane's episode, which must have begun."""
        return begun(self._held[lane])

    def _prepare(self, instance: SplitInstance) -> Prepared:
        problem, splits = instance.problem, self.splits
        self.padding.check(problem.name, (problem.num_operators, problem.num_edges, problem.num_devices))
        assembly = splits.assembly(instance)
        choices = [choices_table(instance, turn, self._entries) for turn in range(len(instance.keys))]
        tables = records.entry(tables_of(instance, assembly.forms, choices))
        blank = fixed(instance, self.padding, len(self.menu))
        return Prepared(instance, assembly, splits.joins(instance), tables, blank)

    def _take(self, lane: int, prepared: Prepared) -> None:
        """Point a lane's rows at an instance and at a desk on which its problems fit."""
        forms = prepared.assembly.forms
        self._held[lane], self._joined[lane] = prepared, prepared.joined
        self._graphs.put(lane, records.Entry(forms.arrays, forms.row))
        self._tables.put(lane, prepared.tables)
        if prepared.joined:
            self._clear_desk(lane, prepared.instance.problem, prepared.assembly.room)

    def _clear_desk(self, lane: int, problem: Problem, room: Room) -> None:
        """Give a lane a desk in which `room` fits, and put the platform of a problem on it."""
        kept, d = self._desks[lane], problem.num_devices
        if d not in kept or not kept[d].holds(room):
            kept[d] = Desk(d, Room(*map(max, room, kept[d].room)) if d in kept else room)
        desk = kept[d]
        desk.take(problem)
        self._tops.put(lane, records.Entry(desk.arrays, desk.row))
        self._shapes[lane], self._limits[lane] = desk.shapes, desk.limits

    def _provide(self, lane: int) -> None:
        """Make the form that a lane's problem lacks, or give it a larger desk."""
        instance, assembly, *_ = self._prepared_in(lane)
        size = self._tops[lane].joined.size
        found = self._state.found[lane]
        if found == LACKS_FORM:
            assembly.forms.make(int(size[OPERATORS]))
        elif found == LACKS_ROOM:
            self._clear_desk(lane, instance.problem, grown(assembly.room, size))

    def _load(self, what: str, source: Any) -> Any:
        """A graph or a platform of the reset's options; those given by name are loaded once."""
        named = isinstance(source, str | os.PathLike)
        key = (what, os.fspath(source) if named else "")
        if key in self._named:
            return self._named[key]
        found = as_graph(source, self.batch) if what == "graph" else as_platform(source)
        if named:
            self._named[key] = found
        return found

    def state(self, lane: int) -> SplitState:
        """The state of a lane's episode, which must have begun."""
        instance, turn = self._prepared_in(lane).instance, int(self._state.turn[lane])
        entries = self._state.entries[lane, :turn].tolist()
        return SplitState(instance, tuple((k, entry) for k, entry in enumerate(entries) if entry), turn)

    def node(self, lane: int) -> SplitNode:
        """The graph as split so far."""
        state = self.state(lane)
        return self.splits.at(state.instance, state.chosen)

    def problem(self, lane: int) -> Problem:
        """The graph as split so far, on the platform."""
        return self.node(lane).problem

    def replayable(self, lane: int) -> tuple[DataflowGraph, Platform]:
        """The graph before any split, and the platform."""
        instance = self.state(lane).instance
        return instance.graph, instance.platform

    def identity(self, lane: int) -> str:
        """Name and content of the graph on the platform, before any split, in one word."""
        return self.state(lane).instance.problem.id

    def choices(self, lane: int) -> dict[str, str]:
        """Operator -> its choice, for those that are decided."""
        instance, _, turn = self.state(lane)
        entries, operators = self._state.entries[lane, :turn].tolist(), instance.graph.operators
        return {
            operators[operator].name: str(self.menu[entry])
            for operator, entry in zip(instance.keys[:turn], entries, strict=True)
        }

    def outcome(self, lane: int) -> dict[str, Any]:
        """Makespan, reference [s], the splits, the split graph and its schedule, memory, and the episode as a value."""
        instance, chosen, turn = self.state(lane)
        node = self.splits.at(instance, chosen)
        reference, peak = instance.reference, node.peak
        total = (reference - node.makespan) / reference if reference > 0 else 0.0
        return {
            "makespan": node.makespan,
            "reference": reference,
            "speedup": metrics.speedup(node.makespan, instance.alone),
            "schedule": node.schedule,
            "split_graph": node.graph,
            "split_problem": node.problem,
            "choices": self.choices(lane),
            "peak_memory": tuple(peak.tolist()),
            "memory_excess": max(0.0, float((peak - instance.problem.memory_capacity).max())),
            "reward_terms": {"reference": 1.0, "makespan": total - 1.0},
            "replay": self.replay(lane, self._state.log[lane, :turn].tolist(), node.makespan),
        }

    def frame(self, lane: int, mode: str) -> Any:
        """A text, or a Gantt chart of the current schedule."""
        state, trace = self.state(lane), self.splits.trace(self.node(lane))
        if mode == "rgb_array":
            return gantt_pixels(trace)
        current = None if self.over[lane] else state.instance.graph.operators[state.operator]
        legal = [str(self.menu[entry]) for entry in np.flatnonzero(self.mask[lane])]
        return split_text(trace, state.instance, list(self.choices(lane).items()), current, legal)
