"""The dynamics of HetSplit-v0: the makespan of a graph after every split.

The ways in which an operator may be split depend on the operator alone (:mod:`hetgym.envs.split.options`), so they are
computed once for each graph. The value of a split depends on all others: the problem of the split graph is put together
from forms (:mod:`hetgym.envs.split.assembly`), scheduled and simulated, and the result is cached. The graph itself is
made only when somebody asks for it. Graphs that hold splits already are rewritten split by split.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hetgym import metrics
from hetgym._types import FloatArray
from hetgym.baselines import get
from hetgym.costs import cost_model
from hetgym.envs.core.kinds import refuse_partitions
from hetgym.envs.core.memory import Remembered
from hetgym.envs.split.assembly import Assembly
from hetgym.envs.split.instance import SplitInstance, loads_of
from hetgym.envs.split.menu import Choice
from hetgym.envs.split.options import Splitter
from hetgym.envs.split.pricing import PriceList
from hetgym.envs.split.problems import Pair
from hetgym.envs.split.rules import SplitRules
from hetgym.envs.split.state import Chosen, SplitNode
from hetgym.errors import OutOfMemory, ProblemError
from hetgym.graph import DataflowGraph
from hetgym.graph.transforms import fuse, split
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import simulate
from hetgym.sim.trace import Trace

GRAPHS = 64  # Graphs whose instances are kept, unless a source has more
_NODES = 512  # splits that are kept


class Splits:
    """Caches of the instances of ``graphs`` graphs, and of graphs with some operators split."""

    def __init__(self, rules: SplitRules, menu: tuple[Choice, ...], graphs: int = GRAPHS) -> None:
        self.rules, self.menu, self._graphs = rules, menu, graphs
        self.scheduler, self.model, self.runtime = get(rules.scheduler), cost_model(rules.costs), rules.simulated
        # What HEFT plans for the classic runtime is what comes out, bit for bit, so it need not be simulated.
        self._exact = rules.scheduler == "heft" and self.runtime.is_classic and rules.memory == "ignore"
        # Keys are object ids. Every cached value holds its object, so that no id is reused while it is a key.
        self._instances: Remembered[tuple[int, int], tuple[Pair, SplitInstance]] = Remembered(graphs)
        self._nodes: Remembered[tuple[int, Chosen], tuple[SplitInstance, SplitNode | None]] = Remembered(_NODES)
        self._split: Remembered[tuple[int, Chosen], tuple[SplitInstance, DataflowGraph]] = Remembered(_NODES)
        self._assemblies: Remembered[int, tuple[SplitInstance, Assembly]] = Remembered(graphs)
        self._patterns: Remembered[int, tuple[SplitInstance, int]] = Remembered(graphs)

    def __reduce__(self) -> tuple[type[Splits], tuple[SplitRules, tuple[Choice, ...], int]]:
        return Splits, (self.rules, self.menu, self._graphs)  # ids have no meaning in another process

    def instance(self, pair: Pair) -> SplitInstance:
        """The instance of a graph and a platform."""
        graph, platform = pair
        return self._instances.get((id(graph), id(platform)), lambda: (pair, self._prepare(pair)))[1]

    def assembly(self, instance: SplitInstance) -> Assembly:
        """The assembly of graphs of an instance with splits."""
        return self._assemblies.get(id(instance), lambda: (instance, Assembly(instance, self.menu)))[1]

    @property
    def looks_ahead(self) -> bool:
        """True if masks depend on the schedule after each choice."""
        return self.rules.memory == "mask" or self.scheduler.kind == "memory"

    def joins(self, instance: SplitInstance) -> bool:
        """True if graphs with splits are priced by compiled code, without a problem being made."""
        return self._exact and not instance.splits

    def at(self, instance: SplitInstance, chosen: Chosen) -> SplitNode:
        """The graph after the chosen splits, with its schedule and makespan; the inner scheduler must find one."""
        node = self.attempt(instance, chosen)
        assert node is not None
        return node

    def attempt(self, instance: SplitInstance, chosen: Chosen) -> SplitNode | None:
        """As :meth:`at`; None if the inner scheduler finds no schedule within memory."""
        return self._nodes.get((id(instance), chosen), lambda: (instance, self._attempt(instance, chosen)))[1]

    def _attempt(self, instance: SplitInstance, chosen: Chosen) -> SplitNode | None:
        if not chosen:
            return self._made(lambda: instance.problem, instance.graph)
        if instance.splits:  # they may cancel with new ones
            graph = self._graph(instance, chosen)
            return self._made(lambda: Problem.build(graph, instance.platform, instance.prices), graph)
        entries, made = self._entries(instance, chosen), self.assembly(instance)
        graph = DataflowGraph.deferred(lambda: made.graph(entries))
        priced = made.price(entries) if self._exact else None
        if priced is None:
            return self._made(lambda: made.problem(entries)[0], graph)
        problem = Problem.deferred(lambda: made.problem(entries)[0])
        return SplitNode(*priced, -np.inf, graph, problem, lambda: made.run(entries))

    @staticmethod
    def _entries(instance: SplitInstance, chosen: Chosen) -> list[int]:
        """[k] entries of the key operators."""
        taken = dict(chosen)
        return [taken.get(turn, 0) for turn in range(len(instance.keys))]

    def _made(self, build: Callable[[], Problem], graph: DataflowGraph) -> SplitNode | None:
        """The node of a problem that is made; None if the inner scheduler finds no schedule within memory."""
        try:
            return self._evaluated(build(), graph)
        except (ProblemError, OutOfMemory):
            return None

    def _graph(self, instance: SplitInstance, chosen: Chosen) -> DataflowGraph:
        """The graph after the chosen splits."""
        if not chosen:
            return instance.graph
        return self._split.get((id(instance), chosen), lambda: (instance, self._split_last(instance, chosen)))[1]

    def _split_last(self, instance: SplitInstance, chosen: Chosen) -> DataflowGraph:
        turn, entry = chosen[-1]
        option = instance.options[turn][entry]
        assert option is not None
        name = instance.graph.operators[instance.keys[turn]].name
        return split(self._graph(instance, chosen[:-1]), name, self.menu[entry].axis, option.lengths)

    def pattern(self, instance: SplitInstance) -> int:
        """The pattern: the entry that gives the least makespan if all key operators that allow it are split by it."""
        return self._patterns.get(id(instance), lambda: (instance, self._pattern(instance)))[1]

    def _pattern(self, instance: SplitInstance) -> int:
        entries = [e for e in range(len(self.menu)) if any(row[e] is not None for row in instance.options)]
        makespans = [self.seconds(instance, self._alike(instance, (), 0, entry)) for entry in (0, *entries)]
        return (0, *entries)[int(np.argmin(makespans))]

    def completion(self, instance: SplitInstance, chosen: Chosen, turn: int) -> float:
        """Makespan if, from a turn on, all operators that allow it were split by the pattern [s].

        ``chosen`` are the splits before that turn. It is inf if the inner scheduler finds no schedule within memory.
        """
        return self.seconds(instance, self._alike(instance, chosen, turn, self.pattern(instance)))

    def seconds(self, instance: SplitInstance, chosen: Chosen) -> float:
        """Makespan after the chosen splits; inf if the inner scheduler finds no schedule within memory [s]."""
        node = self.attempt(instance, chosen)
        return np.inf if node is None else node.makespan

    @staticmethod
    def _alike(instance: SplitInstance, chosen: Chosen, turn: int, entry: int) -> Chosen:
        """The chosen splits, preceded by splits by one entry from a turn on, the last turn first.

        In this order the splits of later turns form a common prefix, whose graphs come from the cache.
        """
        turns = range(len(instance.keys) - 1, turn - 1, -1) if entry else ()
        return (*((k, entry) for k in turns if instance.options[k][entry] is not None), *chosen)

    def trace(self, node: SplitNode) -> Trace:
        """The run of a node's schedule."""
        return simulate(node.problem, node.schedule, self.runtime)

    def _evaluated(self, problem: Problem, graph: DataflowGraph) -> SplitNode:
        schedule = self.scheduler(problem)
        loads = loads_of(problem, schedule.assignment)

        def end() -> tuple[Schedule, FloatArray]:
            return schedule, simulate(problem, schedule, self.runtime).memory.peak

        if self._exact and schedule.finish is not None:
            return SplitNode(schedule.makespan, loads, -np.inf, graph, problem, end)
        trace = simulate(problem, schedule, self.runtime)
        looked = self.rules.memory == "mask"
        excess = float((trace.memory.peak - problem.memory_capacity).max()) if looked else -np.inf
        return SplitNode(trace.makespan, loads, excess, graph, problem, end)

    def _prepare(self, pair: Pair) -> SplitInstance:
        graph, platform = pair
        graph = fuse(graph).graph if self.rules.fused else graph
        prices = PriceList(self.model)
        problem = Problem.build(graph, platform, prices)
        refuse_partitions(problem)
        whole = self._evaluated(problem, graph)
        least, multiple, divisible = self.rules.granularity * whole.makespan, self.rules.multiple, self.rules.divisible
        found = Splitter(graph, platform, self.model, self.menu, least, multiple, divisible)
        found_keys = found.keys(problem, self.rules.key_operators)
        readers: list[set[int]] = [set() for _ in graph.operators]
        for edge in graph.edges:
            readers[edge.source].add(edge.target)
        rows = tuple(tuple(sorted(row)) for row in readers)
        alone = metrics.single_device_makespan(problem, self.runtime)
        splits = any(op.kind == "SplitView" for op in graph.operators)
        known = graph, platform, prices, problem, *found_keys
        return SplitInstance(*known, whole.makespan, whole.loads, alone, rows, splits)
