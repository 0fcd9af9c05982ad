"""Layers of a model as a planner sees them: times of their passes and bytes, by pool, tensor degree and micro-batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from hetgym._types import FloatArray, frozen
from hetgym.errors import ProblemError


class Passes(NamedTuple):
    """Times of one micro-batch on a group of GPUs, all-reduces of tensor parallelism included.

    Attributes:
        forward: [l] seconds of the forward pass of each layer.
        backward: [l] seconds of the backward pass, recomputation included.
        update: [l] seconds of the optimizer, once a step.
    """

    forward: FloatArray
    backward: FloatArray
    update: FloatArray


class Sizes(NamedTuple):
    """Sizes of the layers on one GPU of a group.

    Attributes:
        parameters: [l] number of parameters.
        stash: [l] bytes that a sample leaves in memory between the passes.
        boundary: [l] bytes of a sample that the layer hands to the next one, of the whole group.
        work: [l] bytes of a sample that the layer needs while its activations are recomputed; empty if not known.
    """

    parameters: FloatArray
    stash: FloatArray
    boundary: FloatArray
    work: FloatArray = frozen(np.zeros(0))


class LayerCosts(Protocol):
    """Source of the times and sizes of a model's layers."""

    @property
    def layers(self) -> int:
        """Number of layers."""
        ...

    def passes(self, pool: str, tensor: int, micro_batch: int) -> Passes | None:
        """Times on ``tensor`` GPUs of a pool; None if they are not known, or the model does not divide so."""
        ...

    def sizes(self, tensor: int) -> Sizes | None:
        """Sizes under a tensor degree; None if the model does not divide so."""
        ...


class ProfiledLayers:
    """Layers that were measured.

    Args:
        times: (pool, tensor degree, micro-batch) -> [l, 3] seconds of forward pass, backward pass and update.
        sizes: tensor degree -> [l, 3] parameters, bytes of stash and bytes of boundary of a sample.

    Raises:
        ProblemError: no times, tables of different lengths, or a value that is negative or no number.

    >>> costs = ProfiledLayers({("a100", 1, 1): [[1.0, 2.0, 0.1]] * 4}, {1: [[10.0, 8.0, 2.0]] * 4})
    >>> costs.layers, costs.passes("a100", 1, 2) is None
    (4, True)
    """

    def __init__(self, times: Mapping[tuple[str, int, int], npt.ArrayLike], sizes: Mapping[int, npt.ArrayLike]) -> None:
        tables = {key: _table(value, f"times of {key}") for key, value in times.items()}
        others = {key: _table(value, f"sizes under tensor degree {key}") for key, value in sizes.items()}
        lengths = {len(table) for table in (*tables.values(), *others.values())}
        if not tables or len(lengths) != 1:
            raise ProblemError(f"profiled layers: tables of {sorted(lengths)} layers; one or more, of equal length")
        self.layers = lengths.pop()
        self._passes = {key: Passes(*frozen(np.ascontiguousarray(table.T))) for key, table in tables.items()}
        self._sizes = {key: Sizes(*frozen(np.ascontiguousarray(table.T))) for key, table in others.items()}

    def passes(self, pool: str, tensor: int, micro_batch: int) -> Passes | None:
        """Times on ``tensor`` GPUs of a pool; None if they were not measured."""
        return self._passes.get((pool, tensor, micro_batch))

    def sizes(self, tensor: int) -> Sizes | None:
        """Sizes under a tensor degree; None if they were not measured."""
        return self._sizes.get(tensor)

    @property
    def measured(self) -> list[tuple[str, int, int]]:
        """Pools, tensor degrees and micro-batches of the measurements, in order."""
        return sorted(self._passes)


def _table(values: npt.ArrayLike, what: str) -> FloatArray:
    try:
        table = np.array(values, np.float64)
    except (TypeError, ValueError) as cause:
        raise ProblemError(f"profiled layers: {what} are no table of numbers ({cause})") from cause
    if table.ndim != 2 or table.shape[1] != 3 or not len(table):
        raise ProblemError(f"profiled layers: {what} have shape {table.shape}, expected [layers, 3]")
    if not ((table >= 0) & np.isfinite(table)).all():
        raise ProblemError(f"profiled layers: {what} have a value that is negative or no number")
    return table
