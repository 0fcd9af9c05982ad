"""The ways in which the operators of a graph may be split, independent of each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hetgym._sums import summed
from hetgym._types import FloatArray
from hetgym.costs import CostModel
from hetgym.envs.split.menu import Choice, lengths
from hetgym.errors import GraphError
from hetgym.graph import DataflowGraph, Operator
from hetgym.graph.transforms import pieces
from hetgym.graph.transforms.operands import Source, operands
from hetgym.graph.transforms.pieces import Cut, cut
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
    parts: tuple[Operator, ...]  # the parts, and [p, d] `cost`, their run times on the devices [s]
    cost: FloatArray
    result: int | None  # dimension of the output that is cut; None if the parts' outputs are summed
    deals: tuple[Deal, ...]  # operands that are scattered
    # least, largest: shares of the axis that the smallest and the largest part get
    least: float
    largest: float
    slowest: float  # run time of the longest part on its fastest device [s]
    total: float  # summed run time of the parts on their fastest devices [s]
    together: float  # longest run time if the parts run on different devices, the fastest first [s]
    scattered: float  # bytes that all parts read, without constants
    gathered: float  # bytes of all parts' outputs
    working: float  # weights, operands and result of the largest part [byte]


class Splitter:
    """Determines the ways in which the operators of a graph may be split.

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

    def keys(self, problem: Problem, most: int) -> tuple[tuple[int, ...], tuple[tuple[Option | None, ...], ...]]:
        """The longest operators that can be split, and their options.

        Args:
            most: largest number of operators to return.

        Returns:
            Operators in descending order of their time on the fastest device, and the options of each. If no
            operator can be split, the longest one without any option.
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
        """The results of splitting an operator by each entry of the menu.

        Args:
            seconds: [d] its run time on each device.

        Returns:
            [a] options; None where a split is impossible or not allowed, and for the entry that does not split.
        """
        op = self.graph.operators[operator]
        cuts = [None, *self._cuts(op)]
        parts = [
            None if found is None else lengths(op, choice, seconds, self.multiple, self.divisible, found)
            for choice, found in zip(self.menu, cuts, strict=True)
        ]
        made = [
            [] if part is None else pieces(op, choice.axis, part, found)
            for choice, part, found in zip(self.menu, parts, cuts, strict=True)
        ]
        flat = [piece for row in made for piece in row]
        joints = [f"{op.name}/gather", *(f"{op.name}/scatter{k}" for k in range(len(op.inputs)))]
        if not flat or not self._taken.isdisjoint(joints):
            return (None,) * len(parts)
        cost = self._priced(flat)
        result: list[Option | None] = []
        start = 0
        for found, part, row in zip(cuts, parts, made, strict=True):
            prices = cost[start : start + len(row)]
            start += len(row)
            if found is None or part is None or not self._may(row, prices):
                result.append(None)
            else:
                result.append(_option(op, found, part, row, prices, self._sources[operator]))
        return tuple(result)

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

    def _may(self, made: Sequence[Operator], cost: FloatArray) -> bool:
        """True if every part can run on some device, is not too small, and has a unique name."""
        quickest = cost.min(axis=1)
        fits = bool(np.isfinite(quickest).all() and quickest.min() >= self.least)
        return fits and self._taken.isdisjoint(piece.name for piece in made)

    def _priced(self, flat: Sequence[Operator]) -> FloatArray:
        """[m, d] run times of pieces of one operator [s]; pieces of the same shapes are priced once."""
        shapes = [tuple(t.shape for t in (*piece.inputs, *piece.outputs)) for piece in flat]
        first = {shape: k for k, shape in reversed(list(enumerate(shapes)))}
        row = {shape: k for k, shape in enumerate(first)}
        distinct = [flat[k] for k in first.values()]
        cost = np.stack([self.model.predict(distinct, device) for device in self.platform], axis=1)
        return np.asarray(cost[[row[shape] for shape in shapes]])


def _option(
    op: Operator,
    found: Cut,
    part: tuple[int, ...],
    made: Sequence[Operator],
    cost: FloatArray,
    sources: Sequence[Source | None],
) -> Option:
    deals = []
    for at, (source, where) in enumerate(zip(sources, found.operands, strict=True)):
        if source is not None and where is not None:
            widths = tuple(piece.inputs[at].shape[where] for piece in made)
            deals.append(Deal(source, where, widths, summed(widths) == op.inputs[at].shape[where]))
    quickest = cost.min(axis=1)
    devices = np.argsort(cost.min(axis=0), kind="stable")[: len(made)]
    side_by_side = [cost[k, devices[k]] for k in range(len(made))]
    together = float(max(side_by_side)) if np.isfinite(side_by_side).all() else float(quickest.sum())
    read = [summed(t.bytes for t in piece.inputs if not t.constant) for piece in made]
    held = [summed(t.bytes for t in (*piece.inputs, *piece.outputs)) for piece in made]
    return Option(
        part,
        tuple(made),
        cost,
        found.result,
        tuple(deals),
        min(part) / summed(part),
        max(part) / summed(part),
        float(quickest.max()),
        float(quickest.sum()),
        together,
        float(summed(read)),
        float(summed(piece.output_bytes for piece in made)),
        float(max(held)),
    )
