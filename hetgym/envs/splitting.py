"""The dynamics of HetSplit-v0: key operators of a graph, how each may be split, and what a split graph takes.

What an operator may be split into depends on itself alone, so it is worked out once a graph. What a split
is worth depends on all others: the graph is rewritten, priced, scheduled and simulated, and kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hetgym import metrics
from hetgym._types import FloatArray
from hetgym.baselines import get
from hetgym.costs import CostModel, cost_model
from hetgym.device import Device
from hetgym.envs.graph_sources import Draw
from hetgym.envs.menu import Choice, lengths
from hetgym.errors import ConfigError, OutOfMemory, ProblemError, unknown_name
from hetgym.graph import DataflowGraph, Operator
from hetgym.graph.transforms import fuse, pieces, split
from hetgym.graph.transforms.operands import Source, operands
from hetgym.graph.transforms.pieces import cut
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


class Deal(NamedTuple):
    """An operand that is dealt out to the parts.

    Attributes:
        source: where it comes from.
        axis: the dimension that is cut.
        widths: what each part gets of it.
        exact: whether the parts do not overlap.
    """

    source: Source
    axis: int
    widths: tuple[int, ...]
    exact: bool


class Option(NamedTuple):
    """An operator split in one way.

    Attributes:
        lengths: of the parts.
        result: dimension of the output that is cut; None if the parts are summands.
        deals: operands that are dealt out.
        least, largest: shares of the axis that the smallest and the largest part get.
        slowest: run time of the longest part on its fastest device [s].
        total: summed run time of the parts on their fastest devices [s].
        together: longest run time if the parts run on different devices, the fastest first [s].
        scattered: bytes that all parts read, constants aside.
        gathered: bytes that all parts return.
        working: weights, operands and result of the largest part [byte].
    """

    lengths: tuple[int, ...]
    result: int | None
    deals: tuple[Deal, ...]
    least: float
    largest: float
    slowest: float
    total: float
    together: float
    scattered: float
    gathered: float
    working: float


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
"""What was split: (turn, entry of the menu) of each, by turn; operators that are left do not appear."""


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
            if chosen:
                turn, entry = chosen[-1]
                option = context.options[turn][entry]
                assert option is not None
                name = context.graph.operators[context.keys[turn]].name
                before = self.at(context, chosen[:-1]).graph
                graph = split(before, name, self.rules.menu[entry].axis, option.lengths)
                problem = Problem.build(graph, context.platform, context.prices)
            else:
                graph, problem = context.graph, context.problem
            try:
                self._nodes[key] = context, self._evaluated(graph, problem)
            except (ProblemError, OutOfMemory):
                self._nodes[key] = context, None
            if len(self._nodes) > _NODES:
                self._nodes.popitem(last=False)
        self._nodes.move_to_end(key)
        return self._nodes[key][1]

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
        keys, options = self._keys(graph, draw.platform, problem, reference)
        readers: list[set[int]] = [set() for _ in graph.operators]
        for edge in graph.edges:
            readers[edge.source].add(edge.target)
        return Context(
            graph, draw.platform, prices, problem, keys, options, reference,
            metrics.single_device_makespan(problem, self.rules.runtime), tuple(tuple(sorted(r)) for r in readers),
        )  # fmt: skip

    def _keys(
        self, graph: DataflowGraph, platform: Platform, problem: Problem, reference: float
    ) -> tuple[tuple[int, ...], tuple[tuple[Option | None, ...], ...]]:
        """The longest operators that can be split at all, and how."""
        fastest = problem.cost.min(axis=1)
        order = np.lexsort((problem.arrays.position, -fastest)).tolist()
        sources, taken = operands(graph), {op.name for op in graph.operators}
        keys: list[int] = []
        options: list[tuple[Option | None, ...]] = []
        for i in order:
            if len(keys) == self.rules.key_operators or fastest[i] <= 0:
                break
            op, seconds = graph.operators[i], problem.cost[i].tolist()
            parts = [None if k == 0 else lengths(op, choice, seconds, self.rules.multiple, self.rules.divisible)
                     for k, choice in enumerate(self.rules.menu)]  # fmt: skip
            found = self._options(op, parts, sources[i], taken, platform, reference)
            if any(found):
                keys.append(i)
                options.append(found)
        if not keys:  # nothing can be split; an episode still has a decision
            return (order[0],), ((None,) * len(self.rules.menu),)
        return tuple(keys), tuple(options)

    def _options(
        self, op: Operator, parts: Sequence[tuple[int, ...] | None], sources: Sequence[Source | None],
        taken: set[str], platform: Platform, reference: float,
    ) -> tuple[Option | None, ...]:  # fmt: skip
        """What an operator becomes by each entry of the menu; None where it cannot or may not."""
        made = [[] if part is None else pieces(op, choice.axis, part)
                for choice, part in zip(self.rules.menu, parts, strict=True)]  # fmt: skip
        flat = [piece for row in made for piece in row]
        if not flat or not taken.isdisjoint([f"{op.name}/gather", *(f"{op.name}/scatter{k}" for k in range(9))]):
            return (None,) * len(parts)
        cost = self._priced(flat, platform)
        result: list[Option | None] = []
        start = 0
        for choice, part, row in zip(self.rules.menu, parts, made, strict=True):
            seconds = cost[start : start + len(row)]
            start += len(row)
            fine = part is not None and np.isfinite(seconds).any(axis=1).all()
            if fine and seconds.min(axis=1).min() >= self.rules.granularity * reference and taken.isdisjoint(
                piece.name for piece in row
            ):  # fmt: skip
                assert part is not None
                result.append(_option(op, choice, part, row, seconds, sources))
            else:
                result.append(None)
        return tuple(result)

    def _priced(self, flat: Sequence[Operator], platform: Platform) -> FloatArray:
        """[m, d] run times of pieces of one operator [s]; those of the same shapes are priced once."""
        shapes = [tuple(t.shape for t in (*piece.inputs, *piece.outputs)) for piece in flat]
        first = {shape: k for k, shape in reversed(list(enumerate(shapes)))}
        row = {shape: k for k, shape in enumerate(first)}
        distinct = [flat[k] for k in first.values()]
        cost = np.stack([self.model.predict(distinct, device) for device in platform], axis=1)
        return np.asarray(cost[[row[shape] for shape in shapes]])


def _option(
    op: Operator, choice: Choice, part: tuple[int, ...], made: Sequence[Operator], cost: FloatArray,
    sources: Sequence[Source | None],
) -> Option:  # fmt: skip
    found = cut(op, choice.axis)
    deals = []
    for at, (source, where) in enumerate(zip(sources, found.operands, strict=True)):
        if source is not None and where is not None:
            widths = tuple(piece.inputs[at].shape[where] for piece in made)
            deals.append(Deal(source, where, widths, sum(widths) == op.inputs[at].shape[where]))
    quickest = cost.min(axis=1)
    devices = np.argsort(cost.min(axis=0), kind="stable")[: len(made)]
    side_by_side = [cost[k, devices[k]] for k in range(len(made))]
    together = float(max(side_by_side)) if np.isfinite(side_by_side).all() else float(quickest.sum())
    read = [sum(t.bytes for t in piece.inputs if not t.constant) for piece in made]
    held = [sum(t.bytes for t in (*piece.inputs, *piece.outputs)) for piece in made]
    return Option(
        part, found.result, tuple(deals), min(part) / sum(part), max(part) / sum(part), float(quickest.max()),
        float(quickest.sum()), together, float(sum(read)), float(sum(piece.output_bytes for piece in made)),
        float(max(held)),
    )  # fmt: skip


def cancelled(option: Option, operator: int, context: Context, split_so_far: dict[int, Option]) -> tuple[float, bool]:
    """What splitting an operator spares, its neighbours being split as they are.

    Args:
        option: how it would be split.
        operator: its number.
        context: of the graph.
        split_so_far: operator -> how it is split.

    Returns:
        Share of the operands that lie in the very parts that are needed, and whether a reader needs the
        result in the very parts that come out.
    """
    there = 0
    for deal in option.deals:
        producer = split_so_far.get(deal.source[0])
        there += producer is not None and deal.exact and (producer.result, producer.lengths) == (deal.axis, deal.widths)
    taken_over = any(
        deal.source[0] == operator and deal.exact and (deal.axis, deal.widths) == (option.result, option.lengths)
        for reader in context.readers[operator]
        if reader in split_so_far
        for deal in split_so_far[reader].deals
    )
    return (there / len(option.deals) if option.deals else 0.0), taken_over
