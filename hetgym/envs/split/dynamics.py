"""The dynamics of HetSplit-v0: what a graph takes as it is split.

What an operator may be split into depends on itself alone (:mod:`hetgym.envs.split.options`), so it is worked
out once a graph. What a split is worth depends on all others: the graph is rewritten, priced, scheduled
and simulated, and kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetgym import metrics
from hetgym._types import FloatArray
from hetgym.baselines import get
from hetgym.costs import CostModel, cost_model
from hetgym.device import Device
from hetgym.envs.split.menu import Choice
from hetgym.envs.split.options import Option, Splitter
from hetgym.envs.split.sources import Draw
from hetgym.errors import ConfigError, OutOfMemory, ProblemError, unknown_name
from hetgym.graph import DataflowGraph, Operator
from hetgym.graph.transforms import fuse, split
from hetgym.platform import Platform
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Runtime, simulate
from hetgym.sim.trace import Trace

MEMORY = ("ignore", "mask")
"""Whether choices whose schedule exceeds a memory are masked."""

_GRAPHS, _NODES, _PRICES = 64, 512, 20_000  # how many are remembered


@dataclass(frozen=True)
class Rules:
    """What an episode is played by.

    Attributes:
        menu: the choices; the first leaves the operator whole.
        scheduler: name of the inner scheduler.
        runtime: the simulated runtime that prices its schedules.
        costs: cost model, or the name of one.
        key_operators: most decisions of an episode.
        granularity: least share of the unsplit makespan that a part takes on its fastest device.
        multiple: parts are multiples of this along their axis, the last one aside.
        divisible: whether equal parts must be equal to the last row.
        memory: one of :data:`MEMORY`.
        fused: whether graphs are fused first.
    """

    menu: tuple[Choice, ...]
    scheduler: str
    runtime: Runtime
    costs: str | CostModel = "auto"
    key_operators: int = 12
    granularity: float = 0.002
    multiple: int = 1
    divisible: bool = True
    memory: str = "ignore"
    fused: bool = False

    def __post_init__(self) -> None:
        if self.memory not in MEMORY:
            raise unknown_name("memory", self.memory, MEMORY)
        if self.runtime.memory == "enforce":
            raise ConfigError("a runtime that enforces memory ends episodes: use memory='mask' of the environment")
        for name, least in (("key_operators", 1), ("multiple", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ConfigError(f"{name} is {value!r}; it must be a positive whole number")
        share = self.granularity
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
            raise ConfigError(f"granularity is {share!r}; expected a share of the unsplit makespan, 0 to 1")
        get(self.scheduler)


class PriceList:
    """A cost model that remembers the operators it has priced, so that those a split leaves alone cost nothing.

    Args:
        model: what prices them.
    """

    def __init__(self, model: CostModel) -> None:
        self.model = model
        self._known: dict[str, dict[int, tuple[Operator, float]]] = {}

    def predict(self, operators: Sequence[Operator], device: Device) -> FloatArray:
        """[n] run times on a device [s]."""
        known = self._known.setdefault(device.name, {})
        if len(known) > _PRICES:
            known.clear()
        new = [op for op in operators if id(op) not in known]
        if new:
            priced = self.model.predict(new, device).tolist()
            known.update((id(op), (op, seconds)) for op, seconds in zip(new, priced, strict=True))
        return np.array([known[id(op)][1] for op in operators], np.float64)

    def spread(self, operators: Sequence[Operator], device: Device) -> tuple[FloatArray, FloatArray]:
        """Tenth and ninetieth percentile, the model's own."""
        return self.model.spread(operators, device)

    def __reduce__(self) -> tuple[type[PriceList], tuple[CostModel]]:
        return PriceList, (self.model,)  # identities of operators mean nothing elsewhere


@dataclass(frozen=True, eq=False)
class Node:
    """A graph as split so far.

    Attributes:
        graph: it.
        problem: the graph on the platform.
        schedule: the inner scheduler's.
        makespan: of that schedule under the runtime [s].
        excess: bytes by which the fullest device exceeds its memory, at most 0 if all fit; -inf unless looked at.
    """

    graph: DataflowGraph
    problem: Problem
    schedule: Schedule
    makespan: float
    excess: float


@dataclass(frozen=True, eq=False)
class Context:
    """What episodes need to know of a graph on a platform; computed once.

    Attributes:
        graph: not split.
        platform: the devices.
        prices: of operators.
        problem: the graph on the platform.
        keys: [k] operators to decide on, in order.
        options: [k][a] how each may be split; None where it may not. The first, to leave it, is None.
        reference: makespan of the graph as it is under the inner scheduler [s].
        alone: makespan of everything on the one best device [s].
        readers: [n] operators that read an operator's output.
    """

    graph: DataflowGraph
    platform: Platform
    prices: PriceList
    problem: Problem
    keys: tuple[int, ...]
    options: tuple[tuple[Option | None, ...], ...]
    reference: float
    alone: float
    readers: tuple[tuple[int, ...], ...]


Chosen = tuple[tuple[int, int], ...]
"""What was split: (turn, entry of the menu) of each, in that order; operators that are left do not appear."""


class Splits:
    """Contexts of graphs, and graphs as split so far, remembered.

    Args:
        rules: of the episodes.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.scheduler = get(rules.scheduler)
        self.model = cost_model(rules.costs) if isinstance(rules.costs, str) else rules.costs
        self._forget()

    def _forget(self) -> None:
        self._contexts: OrderedDict[tuple[int, int], tuple[Draw, Context]] = OrderedDict()
        self._nodes: OrderedDict[tuple[int, Chosen], tuple[Context, Node | None]] = OrderedDict()
        self._split: OrderedDict[tuple[int, Chosen], tuple[Context, DataflowGraph]] = OrderedDict()
        self._patterns: OrderedDict[int, tuple[Context, int]] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {"rules": self.rules}  # what is remembered goes by identities, which mean nothing elsewhere

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["rules"])  # type: ignore[misc]

    def context(self, draw: Draw) -> Context:
        """Of a graph and a platform."""
        key = (id(draw.graph), id(draw.platform))
        if key not in self._contexts:
            self._contexts[key] = draw, self._prepare(draw)
            if len(self._contexts) > _GRAPHS:
                self._contexts.popitem(last=False)
        self._contexts.move_to_end(key)
        return self._contexts[key][1]

    @property
    def looks_ahead(self) -> bool:
        """Whether masks depend on the schedule after each choice."""
        return self.rules.memory == "mask" or self.scheduler.kind == "memory"

    def at(self, context: Context, chosen: Chosen) -> Node:
        """The graph with what is chosen split, its schedule and makespan; the scheduler must have placed it."""
        node = self.attempt(context, chosen)
        assert node is not None
        return node

    def attempt(self, context: Context, chosen: Chosen) -> Node | None:
        """The same; None if the inner scheduler finds no place for the last choice."""
        key = (id(context), chosen)
        if key not in self._nodes:
            graph = self._graph(context, chosen)
            problem = Problem.build(graph, context.platform, context.prices) if chosen else context.problem
            try:
                self._nodes[key] = context, self._evaluated(graph, problem)
            except (ProblemError, OutOfMemory):
                self._nodes[key] = context, None
            if len(self._nodes) > _NODES:
                self._nodes.popitem(last=False)
        self._nodes.move_to_end(key)
        return self._nodes[key][1]

    def _graph(self, context: Context, chosen: Chosen) -> DataflowGraph:
        """The graph with what is chosen split."""
        if not chosen:
            return context.graph
        key = (id(context), chosen)
        if key not in self._split:
            turn, entry = chosen[-1]
            option = context.options[turn][entry]
            assert option is not None
            name = context.graph.operators[context.keys[turn]].name
            before = self._graph(context, chosen[:-1])
            self._split[key] = context, split(before, name, self.rules.menu[entry].axis, option.lengths)
            if len(self._split) > _NODES:
                self._split.popitem(last=False)
        self._split.move_to_end(key)
        return self._split[key][1]

    def pattern(self, context: Context) -> int:
        """The entry of the menu with which the graph takes least if all key operators are split so that can be."""
        key = id(context)
        if key not in self._patterns:
            entries = [e for e in range(len(self.rules.menu)) if any(row[e] is not None for row in context.options)]
            makespans = [self.seconds(context, self._alike(context, (), 0, entry)) for entry in (0, *entries)]
            self._patterns[key] = context, (0, *entries)[int(np.argmin(makespans))]
            if len(self._patterns) > _GRAPHS:
                self._patterns.popitem(last=False)
        self._patterns.move_to_end(key)
        return self._patterns[key][1]

    def completion(self, context: Context, chosen: Chosen, turn: int) -> float:
        """Makespan if from a turn on all operators that can be were split by the pattern; inf without a place [s].

        Args:
            context: of the graph.
            chosen: what is split so far, before that turn.
            turn: the first that is not decided.
        """
        return self.seconds(context, self._alike(context, chosen, turn, self.pattern(context)))

    def seconds(self, context: Context, chosen: Chosen) -> float:
        """Makespan with what is chosen split; inf if the inner scheduler finds no place [s]."""
        node = self.attempt(context, chosen)
        return np.inf if node is None else node.makespan

    @staticmethod
    def _alike(context: Context, chosen: Chosen, turn: int, entry: int) -> Chosen:
        """What is chosen, and from a turn on one entry for all, the last turn first.

        So graphs are split anew only from what is chosen on: those that follow were split like that before.
        """
        turns = range(len(context.keys) - 1, turn - 1, -1) if entry else ()
        return (*((k, entry) for k in turns if context.options[k][entry] is not None), *chosen)

    def trace(self, node: Node) -> Trace:
        """The run of a node's schedule."""
        return simulate(node.problem, node.schedule, self.rules.runtime)

    def _evaluated(self, graph: DataflowGraph, problem: Problem) -> Node:
        schedule = self.scheduler(problem)
        trace = simulate(problem, schedule, self.rules.runtime)
        looked = self.rules.memory == "mask"
        excess = float((trace.memory.peak - problem.memory_capacity).max()) if looked else -np.inf
        return Node(graph, problem, schedule, trace.makespan, excess)

    def _prepare(self, draw: Draw) -> Context:
        graph = fuse(draw.graph).graph if self.rules.fused else draw.graph
        prices = PriceList(self.model)
        problem = Problem.build(graph, draw.platform, prices)
        reference = self._evaluated(graph, problem).makespan
        found = Splitter(
            graph,
            draw.platform,
            self.model,
            self.rules.menu,
            self.rules.granularity * reference,
            self.rules.multiple,
            self.rules.divisible,
        )
        keys, options = found.keys(problem, self.rules.key_operators)
        readers: list[set[int]] = [set() for _ in graph.operators]
        for edge in graph.edges:
            readers[edge.source].add(edge.target)
        return Context(
            graph, draw.platform, prices, problem, keys, options, reference,
            metrics.single_device_makespan(problem, self.rules.runtime), tuple(tuple(sorted(r)) for r in readers),
        )  # fmt: skip
