"""Strategies of an operator: how all of its tensors lie on a mesh."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from hetgym._sums import summed
from hetgym.graph.ops import Attribute, Operator, Tensor
from hetgym.sharding.mesh import Mesh
from hetgym.sharding.placement import Placement, R, S, divides, local_shape
from hetgym.sharding.rules.gradients import Adjoint
from hetgym.sharding.rules.indices import REPLICATED, Option
from hetgym.sharding.rules.table import axis_options

MOST = 256
"""Most strategies of an operator. Beyond it, those that divide the work least are left out, later ones first; full
replication stays."""


@dataclass(frozen=True)
class Strategy:
    """How the tensors of an operator lie on a mesh.

    Attributes:
        label: label of the option of each axis, such as ``batch, k``; for people.
        operands: placement of each operand.
        outputs: placement of each result.
        options: the option of each axis.
    """

    operands: tuple[Placement, ...]
    outputs: tuple[Placement, ...]
    options: tuple[Option, ...] = ()

    @property
    def label(self) -> str:
        """Labels of the options, outermost axis first."""
        return ", ".join(option.label for option in self.options)

    def share(self, mesh: Mesh) -> float:
        """Part of the work that every rank does, in (0, 1]."""
        used = zip(self.options, mesh.shape, strict=True)
        return 1.0 / math.prod(size for option, size in used if option.divides)

    def __repr__(self) -> str:
        def written(placements: tuple[Placement, ...]) -> str:
            return ", ".join("".join(map(str, placement)) for placement in placements)

        return f"Strategy({self.label!r}: {written(self.operands)} -> {written(self.outputs)})"


def strategies(operator: Operator, mesh: Mesh, adjoint: Adjoint | None = None) -> list[Strategy]:
    """All strategies of an operator on a mesh, at most :data:`MOST`; the first one is full replication.

    The options of one axis come from the rules of the operator's kind (:data:`~hetgym.sharding.rules.table.RULES`);
    a kind without a rule is replicated. Strategies are the product of the options over the axes, without those whose
    parts would not be equal.

    Args:
        operator: the operator.
        mesh: the mesh.
        adjoint: of a backward operator, how it belongs to its forward operator.

    >>> from hetgym.graph import Operator, Tensor
    >>> x, w, y = Tensor((8, 4)), Tensor((4, 6), constant=True), Tensor((8, 6))
    >>> for strategy in strategies(Operator("fc", "MatMul", (x, w), (y,)), Mesh((2,))):
    ...     print(strategy)
    Strategy('replicated': R, R -> R)
    Strategy('m': S(0), R -> S(0))
    Strategy('n': R, S(1) -> S(1))
    Strategy('k': S(1), S(0) -> P)
    """
    found = axis_options(operator, adjoint)
    replicated, tensors = found[0], (*operator.inputs, *operator.outputs)
    axes = [_usable(tensors, found, size) if size > 1 else [replicated] for size in mesh.shape]
    made: dict[tuple[tuple[Placement, ...], tuple[Placement, ...]], Strategy] = {}
    for options in _products(axes):
        strategy = _combined(operator, options)
        if _even(tensors, strategy, mesh):
            made.setdefault((strategy.operands, strategy.outputs), strategy)
    rows = list(made.values())
    if len(rows) <= MOST:
        return rows
    order = sorted(range(1, len(rows)), key=lambda at: (rows[at].share(mesh), at))[: MOST - 1]
    return [rows[at] for at in [0, *sorted(order)]]


def _usable(tensors: tuple[Tensor, ...], found: list[Option], size: int) -> list[Option]:
    """The options that divide on an axis of some ranks alone; the others do not divide on more axes either."""
    return [option for option in found if _divide(tensors, option, size)]


def _divide(tensors: tuple[Tensor, ...], option: Option, size: int) -> bool:
    rows = zip(tensors, (*option.operands, *option.outputs), strict=True)
    return option.units % size == 0 and all(divides(tensor.shape, (entry,), (size,)) for tensor, entry in rows)


def _products(axes: list[list[Option]]) -> Iterator[tuple[Option, ...]]:
    """Combinations of options; the last axis runs fastest."""
    yield from product(*axes)


def _combined(operator: Operator, options: tuple[Option, ...]) -> Strategy:
    operands = tuple(tuple(option.operands[at] for option in options) for at in range(len(operator.inputs)))
    outputs = tuple(tuple(option.outputs[at] for option in options) for at in range(len(operator.outputs)))
    return Strategy(operands, outputs, options)


def _even(tensors: tuple[Tensor, ...], strategy: Strategy, mesh: Mesh) -> bool:
    """Whether all dimensions and units fall into equal parts on all axes together."""
    units: dict[str, int] = {}
    for option, size in zip(strategy.options, mesh.shape, strict=True):
        if option.units:
            units[option.label] = units.get(option.label, 1) * size
            if option.units % units[option.label]:
                return False
    rows = zip(tensors, (*strategy.operands, *strategy.outputs), strict=True)
    if not all(divides(tensor.shape, placement, mesh.shape) for tensor, placement in rows):
        return False
    halo = max((option.halo[0] for option in strategy.options), default=0)  # no more than the neighbour has
    return not halo or local_shape(tensors[0].shape, strategy.operands[0], mesh.shape)[2] >= halo


def local_operator(operator: Operator, strategy: Strategy, mesh: Mesh) -> Operator:
    """The operator that one rank runs: shapes of its parts, and attributes that count them.

    FLOPs that the operator states are multiplied by the share of the work, and the bytes that it states to read lose
    those of the operands that the rank does not hold.

    >>> from hetgym.graph import Operator, Tensor
    >>> x, w, y = Tensor((8, 4)), Tensor((4, 6), constant=True), Tensor((8, 6))
    >>> product, mesh = Operator("fc", "MatMul", (x, w), (y,)), Mesh((2,))
    >>> local = local_operator(product, strategies(product, mesh)[3], mesh)
    >>> [tensor.shape for tensor in local.inputs], local.flops / product.flops
    ([(8, 2), (2, 6)], 0.5)
    """
    inputs, outputs = (
        tuple(
            Tensor(local_shape(tensor.shape, placement, mesh.shape), tensor.dtype, tensor.constant)
            for tensor, placement in zip(tensors, placements, strict=True)
        )
        for tensors, placements in ((operator.inputs, strategy.operands), (operator.outputs, strategy.outputs))
    )
    attributes: dict[str, Attribute] = dict(operator.attributes)
    for option, size in zip(strategy.options, mesh.shape, strict=True):
        for name in option.scaled:
            value = attributes.get(name, 1)
            attributes[name] = int(value) // size if not isinstance(value, str | tuple) else value
    if strategy.share(mesh) < 1 or any(placement != (R,) * len(mesh.shape) for placement in strategy.operands):
        for name in ("shapes", "anchor_output", "anchor_inner"):  # of the whole operator
            attributes.pop(name, None)
    if "flops" in attributes:
        attributes["flops"] = float(operator.flops) * strategy.share(mesh)
    if "reads" in attributes:
        saved = summed(t.bytes for t in operator.inputs) - summed(t.bytes for t in inputs)
        attributes["reads"] = max(0.0, float(operator.bytes_read) - saved)
    return Operator(operator.name, operator.kind, inputs, outputs, attributes)


def own_seconds(strategy: Strategy, mesh: Mesh) -> float:
    """Time of the communication that belongs to a strategy itself [s].

    These are the all-reduces of a loss over sharded classes, and the halos of images whose rows are sharded.
    """
    seconds = 0.0
    for axis, option in enumerate(strategy.options):
        others = _others(strategy, axis, mesh)
        seconds += summed(mesh.seconds("all-reduce", size / others, axis) for size in option.reduced)
        seconds += mesh.neighbour_seconds(option.halo[1] / others, axis)
    return seconds


def _others(strategy: Strategy, axis: int, mesh: Mesh) -> int:
    """Ranks of the other axes that share what is communicated along an axis: those with another dimension."""
    own = strategy.operands[0][axis] if strategy.operands else R
    entries = enumerate(strategy.operands[0] if strategy.operands else ())
    return math.prod(mesh.shape[at] for at, entry in entries if entry.kind == "S" and entry != own)


def leaf_strategies(tensor: Tensor, mesh: Mesh) -> list[Strategy]:
    """Strategies of a parameter or of an input of the graph: R or S(d) on each axis, replication first.

    >>> leaf_strategies(Tensor((4, 3)), Mesh((2, 1)))
    [Strategy('replicated, replicated':  -> RR), Strategy('d0, replicated':  -> S(0)R)]
    """
    found = [Option(REPLICATED, (), (R,), divides=False)]
    found += [Option(f"d{at}", (), (S(at),)) for at in range(len(tensor.shape))]
    axes = [_usable((tensor,), found, size) if size > 1 else found[:1] for size in mesh.shape]
    rows = [Strategy((), (tuple(o.outputs[0] for o in options),), options) for options in _products(axes)]
    return [row for row in rows if _even((tensor,), row, mesh)][:MOST]


def layout_strategy(placement: Placement) -> Strategy:
    """The strategy of a value that is resharded into a placement; its label is that of a leaf."""
    options = (
        Option(REPLICATED if entry == R else f"d{entry.dim}" if entry.kind == "S" else "partial", (), (entry,))
        for entry in placement
    )
    return Strategy((), (placement,), tuple(options))
