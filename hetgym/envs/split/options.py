"""The ways in which the operators of a graph may be split, independent of each other."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import accumulate, count, pairwise
from typing import NamedTuple

import numpy as np

from hetgym._sums import summed
from hetgym._types import FloatArray
from hetgym.costs import CostModel
from hetgym.envs.split.menu import Choice, lengths
from hetgym.errors import GraphError
from hetgym.graph import DataflowGraph, Operator
from hetgym.graph.transforms.operands import Source, operands
from hetgym.graph.transforms.pieces import Cut, cut, piece, shapes
from hetgym.platform import Platform
from hetgym.problem import Problem


class Deal(NamedTuple):
    """An operand that is scattered over the parts."""

    source: Source  # operator that produces it
    axis: int  # the dimension that is cut
    widths: tuple[int, ...]  # length along that dimension that each part gets
    exact: bool  # true if the parts do not overlap


class Option(NamedTuple):
    """An operator split in one way."""

    lengths: tuple[int, ...]  # lengths of the parts along the split axis
    # [p, d] run times of the parts on the devices [s]
    cost: FloatArray
    result: int | None  # dimension of the output that is cut; None if the parts' outputs are summed
    deals: tuple[Deal, ...]  # operands that are scattered
    least: float  # share of the axis that the smallest part gets
    largest: float  # share that the largest part gets
    slowest: float  # run time of the longest part on its fastest device [s]
    total: float  # summed run time of the parts on their fastest devices [s]
    together: float  # longest run time if the parts run on different devices, the fastest first [s]
    scattered: float  # bytes that all parts read, without constants
    gathered: float  # bytes of all parts' outputs
    working: float  # weights, operands and result of the largest part [byte]


class _Way(NamedTuple):
    """An entry of the menu for all operators of a graph that are alike."""

    option: Option  # without deals
    # number of an operand, and how it is dealt out if it has a source: axis, widths, and true if they do not overlap
    cuts: tuple[tuple[int, tuple[int, tuple[int, ...], bool]], ...]


class Splitter:
    """Determines the ways in which the operators of a graph may be split by the entries of a menu.

    Args:
        least: least time that a part may take on its fastest device [s].
        multiple, divisible: see :func:`hetgym.envs.split.menu.lengths`.
    """

    def __init__(
        self,
        graph: DataflowGraph,
        platform: Platform,
        model: CostModel,
        menu: Sequence[Choice],
        least: float,
        multiple: int,
        divisible: bool,
    ) -> None:
        self.graph, self.platform, self.model, self.menu = graph, platform, model, menu
        self.least, self.multiple, self.divisible = least, multiple, divisible
        self._sources, self._taken = operands(graph), {op.name for op in graph.operators}
        self._known: dict[Hashable, tuple[_Way | None, ...]] = {}

    def keys(self, problem: Problem, most: int) -> tuple[tuple[int, ...], tuple[tuple[Option | None, ...], ...]]:
        """At most ``most`` of the longest operators that can be split, and their options.

        They are in descending order of their time on the fastest device. If no operator can be split, the longest one
        without any option.
        """
        fastest = problem.cost.min(axis=1)
        order = np.lexsort((problem.arrays.position, -fastest)).tolist()
        keys: list[int] = []
        found: list[tuple[Option | None, ...]] = []
        for i in order:
            if len(keys) == most or fastest[i] <= 0:
                break
            options = self.options(i, problem.cost[i].tolist())
            if any(options):
                keys.append(i)
                found.append(options)
        if not keys:
            return (order[0],), ((None,) * len(self.menu),)
        return tuple(keys), tuple(found)

    def options(self, operator: int, seconds: Sequence[float]) -> tuple[Option | None, ...]:
        """[a] the results of splitting an operator, which takes [d] ``seconds``, by each entry of the menu.

        None where a split is impossible or not allowed, and for the entry that does not split.
        """
        op, sources, taken = self.graph.operators[operator], self._sources[operator], self._taken
        joints = [f"{op.name}/gather", *(f"{op.name}/scatter{k}" for k in range(len(op.inputs)))]
        if not taken.isdisjoint(joints):
            return (None,) * len(self.menu)
        key = (_likeness(op), *seconds)
        if key not in self._known:
            self._known[key] = self._ways(op, seconds)
        free = next(k for k in count() if f"{op.name}/{k}" in taken or k == len(self.platform))
        return tuple(
            None
            if way is None or len(way.option.lengths) > free
            else way.option._replace(
                deals=tuple(Deal(source, *dealt) for at, dealt in way.cuts if (source := sources[at]) is not None)
            )
            for way in self._known[key]
        )

    def _ways(self, op: Operator, seconds: Sequence[float]) -> tuple[_Way | None, ...]:
        """[a] ways to split an operator, for all that are alike: names and sources do not matter."""
        ways: list[_Way | None] = []
        made: dict[tuple[tuple[int, ...], ...], tuple[int, Operator]] = {}  # parts of the same shapes cost the same
        found: list[tuple[Cut, tuple[int, ...], list[tuple[tuple[int, ...], ...]]] | None] = [None]
        for choice, axis in zip(self.menu[1:], self._cuts(op), strict=True):
            part = None if axis is None else lengths(op, choice, seconds, self.multiple, self.divisible, axis)
            if axis is None or part is None:
                found.append(None)
                continue
            spans = list(enumerate(pairwise(accumulate(part, initial=0))))
            parts = [shapes(op, axis, number, *span) for number, span in spans]
            for each, (number, span) in zip(parts, spans, strict=True):
                if each not in made:
                    made[each] = len(made), piece(op, choice.axis, axis, number, *span)
            found.append((axis, part, parts))
        if not made:
            return (None,) * len(found)
        distinct = [each for _, each in made.values()]
        cost = np.stack([self.model.predict(distinct, device) for device in self.platform], axis=1)
        for entry in found:
            way = None
            if entry is not None:
                axis, part, parts = entry
                rows = [made[each][0] for each in parts]
                prices = cost[rows]
                quickest = prices.min(axis=1)
                if np.isfinite(quickest).all() and quickest.min() >= self.least:
                    option = _option(axis, part, [distinct[row] for row in rows], prices, quickest)
                    way = _Way(option, tuple(_dealt(op, axis, parts)))
            ways.append(way)
        return tuple(ways)

    def _cuts(self, op: Operator) -> list[Cut | None]:
        """The cut of an operator for each entry of the menu but the first; None if it cannot be cut along the axis."""
        known: dict[str, Cut | None] = {}
        for choice in self.menu[1:]:
            if choice.axis not in known:
                try:
                    known[choice.axis] = cut(op, choice.axis)
                except GraphError:
                    known[choice.axis] = None
        return [known[choice.axis] for choice in self.menu[1:]]


def _likeness(op: Operator) -> tuple[Hashable, ...]:
    """Key of operators that can be split alike at equal costs: all but names."""
    tensors = tuple((t.shape, t.dtype, t.constant) for t in (*op.inputs, *op.outputs))
    return op.kind, len(op.inputs), tensors, tuple(sorted(op.attributes.items()))


def _dealt(
    op: Operator, found: Cut, parts: Sequence[tuple[tuple[int, ...], ...]]
) -> Iterator[tuple[int, tuple[int, tuple[int, ...], bool]]]:
    """See :class:`_Way`."""
    for at, where in enumerate(found.operands):
        if where is not None:
            widths = tuple(part[at][where] for part in parts)
            yield at, (where, widths, summed(widths) == op.inputs[at].shape[where])


def _option(
    found: Cut, part: tuple[int, ...], made: Sequence[Operator], cost: FloatArray, quickest: FloatArray
) -> Option:
    """An option without deals."""
    devices = np.argsort(cost.min(axis=0), kind="stable")[: len(made)].tolist()
    side_by_side = [cost[k, device] for k, device in enumerate(devices)]
    together = float(max(side_by_side)) if np.isfinite(side_by_side).all() else float(quickest.sum())
    read = [summed(t.bytes for t in each.inputs if not t.constant) for each in made]
    held = [summed(t.bytes for t in (*each.inputs, *each.outputs)) for each in made]
    least, largest, returned = min(part) / summed(part), max(part) / summed(part), (p.output_bytes for p in made)
    figures = quickest.max(), quickest.sum(), together, summed(read), summed(returned), max(held)
    return Option(part, cost, found.result, (), least, largest, *map(float, figures))
