"""Prices of strategies and of the reshardings between them, in whole nanoseconds."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hetgym.costs import CostModel
from hetgym.graph.ops import Operator, Tensor
from hetgym.sharding.mesh import Mesh
from hetgym.sharding.placement import Placement
from hetgym.sharding.problem import INFINITE
from hetgym.sharding.resharding import resharding_seconds
from hetgym.sharding.rules.gradients import Adjoint
from hetgym.sharding.rules.table import is_loss, is_update
from hetgym.sharding.strategies import Strategy, local_operator, own_seconds, strategies

Table = npt.NDArray[np.int64]


def nanoseconds(seconds: float) -> int:
    """Whole nanoseconds; INFINITE for inf."""
    return INFINITE if math.isinf(seconds) else min(INFINITE - 1, round(1e9 * seconds))


class Prices:
    """Strategies and prices on a mesh; operators of the same kind, shapes and attributes are priced once."""

    def __init__(self, mesh: Mesh, costs: CostModel) -> None:
        self.mesh, self.costs = mesh, costs
        self._known: dict[Hashable, tuple[list[Strategy], list[int]]] = {}
        self._tables: dict[Hashable, Table] = {}
        self._steps: dict[Hashable, int] = {}

    def operator(self, op: Operator, adjoint: Adjoint | None) -> tuple[list[Strategy], list[int]]:
        """Strategies of an operator and their costs: the time of the local operator and of the strategy's collectives.

        Costs are in nanoseconds [ns].
        """
        key = (_signature(op), is_update(op), is_loss(op), _adjoint_signature(adjoint))
        if key not in self._known:
            found = strategies(op, self.mesh, adjoint)
            local = [local_operator(op, strategy, self.mesh) for strategy in found]
            seconds = self.costs.predict(local, self.mesh.processor).tolist()
            own = [own_seconds(strategy, self.mesh) for strategy in found]
            self._known[key] = found, [nanoseconds(a + b) for a, b in zip(seconds, own, strict=True)]
        return self._known[key]

    def table(
        self, tensor: Tensor, sources: Sequence[Placement], targets: Sequence[Placement], back: bool = False
    ) -> Table:
        """[p, q] times of the reshardings from each placement to each other [ns].

        Args:
            tensor: the tensor.
            sources, targets: the placements.
            back: whether the tensor returns to its first placement, as it was written.
        """
        key = (tensor.shape, tensor.dtype, tuple(sources), tuple(targets), back)
        if key not in self._tables:
            rows, row = _distinct(sources)
            columns, column = _distinct(targets)
            small = np.array([[self._between(tensor, a, b, back) for b in columns] for a in rows], np.int64)
            self._tables[key] = small[np.ix_(row, column)]
        return self._tables[key]

    def _between(self, tensor: Tensor, source: Placement, target: Placement, back: bool) -> int:
        key = (tensor.shape, tensor.dtype, source, target)
        if key not in self._steps:
            least = int(source != target)  # breaks ties in favour of tensors that stay where they are
            self._steps[key] = max(least, nanoseconds(resharding_seconds(tensor, source, target, self.mesh)))
        there = self._steps[key]
        return there if not back else min(INFINITE, there + self._between(tensor, target, source, False))


def _distinct(placements: Sequence[Placement]) -> tuple[list[Placement], npt.NDArray[np.int64]]:
    """The distinct placements, and the number of each one among them."""
    found = list(dict.fromkeys(placements))
    number = {placement: at for at, placement in enumerate(found)}
    return found, np.array([number[placement] for placement in placements], np.int64)


def _signature(op: Operator) -> Hashable:
    """Equal for operators with equal strategies and prices."""
    tensors = (tuple(replace(t, name="") for t in row) for row in (op.inputs, op.outputs))
    return (op.kind, *tensors, tuple(sorted((name, str(value)) for name, value in op.attributes.items())))


def _adjoint_signature(adjoint: Adjoint | None) -> Hashable:
    if adjoint is None:
        return None
    return _signature(adjoint.forward), adjoint.gradients, adjoint.kept, adjoint.wanted
