"""Layers of a model as a planner sees them: times of their passes and bytes, by pool, tensor degree and micro-batch."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from hetgym._types import FloatArray, as_numbers, frozen
from hetgym.errors import ConfigError, ProblemError
from hetgym.parallel.framework import Framework


class Passes(NamedTuple):
    """Times of one micro-batch on a group of GPUs, all-reduces of tensor parallelism included."""

    forward: FloatArray  # [l] seconds of the forward pass of each layer
    backward: FloatArray  # [l] seconds of the backward pass, recomputation included
    update: FloatArray  # [l] seconds of the optimizer, once a step


class Sizes(NamedTuple):
    """Sizes of the layers on one GPU of a group."""

    parameters: FloatArray  # [l] number of parameters
    stash: FloatArray  # [l] bytes that a sample leaves in memory between the passes
    boundary: FloatArray  # [l] bytes of a sample that the layer hands to the next one, of the whole group
    # [l] bytes of a sample that the layer needs while its activations are recomputed; empty if not known
    work: FloatArray = frozen(np.zeros(0))
    # parameters that the first and the last layer share, counted for both; a stage with both holds them once, and
    # otherwise the stages of both hold a copy each and sum up its gradient
    tied: float = 0.0

    def held(self, layers: slice) -> float:
        """Parameters of consecutive layers on one stage."""
        everything = layers.start == 0 and layers.stop == len(self.parameters)
        return float(self.parameters[layers].sum()) - (self.tied if everything else 0.0)


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


@runtime_checkable
class SwitchedCosts(LayerCosts, Protocol):
    """Costs that can be asked about another framework."""

    def under(self, framework: Framework) -> LayerCosts:
        """The costs of the same model under a framework."""
        ...


def switched(
    costs: LayerCosts, framework: Framework, zero: int | None, sequence: bool | None
) -> tuple[LayerCosts, Framework]:
    """Costs and framework with ZeRO and sequence parallelism as a plan has them; None leaves the framework's.

    Raises:
        ConfigError: the costs were measured with the framework's sequence parallelism, and the plan has another.
    """
    shared = framework.zero if zero is None else zero
    tokens = framework.sequence if sequence is None else sequence
    if (shared, tokens) == (framework.zero, framework.sequence):
        return costs, framework
    changed = replace(framework, zero=shared, sequence=tokens)
    if tokens == framework.sequence:
        return costs, changed
    if not isinstance(costs, SwitchedCosts):
        raise ConfigError(f"a plan has sequence={tokens}, but the costs of its layers are known only for {not tokens}")
    return costs.under(changed), changed


class ProfiledLayers:
    """Layers that were measured.

    Args:
        times: (pool, tensor degree, micro-batch) -> [l, 3] seconds of forward pass, backward pass and update.
        sizes: tensor degree -> [l, 3] parameters, bytes of stash and bytes of boundary of a sample.

    Raises:
        ProblemError: no times, tables of different lengths, or a value that is negative or not a number.

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
    table = as_numbers(values, f"profiled layers: {what} are not a table of numbers", ProblemError)
    if table.ndim != 2 or table.shape[1] != 3 or not len(table):
        raise ProblemError(f"profiled layers: {what} have shape {table.shape}, expected [layers, 3]")
    if not ((table >= 0) & np.isfinite(table)).all():
        raise ProblemError(f"profiled layers: {what} have a value that is negative or not a number")
    return table
