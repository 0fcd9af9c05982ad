"""Pipeline schedules over micro-batches: the order in which each stage runs its forward and backward passes."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._types import FloatArray, as_numbers
from hetgym.errors import ConfigError, check_name


class Pass(NamedTuple):
    """One pass of one micro-batch through one chunk of a stage."""

    # `"F"` forward; `"B"` backward; `"W"` the part of the backward pass that computes the gradients of the weights, if
    # it is a separate pass
    kind: str
    micro_batch: int  # number of the micro-batch, from 0 on
    chunk: int = 0  # number of the chunk on the stage, from 0 on; always 0 if a stage is one piece of the model


Orders = tuple[tuple[Pass, ...], ...]  # For each stage, its passes in the order in which they run


def gpipe(stages: int, micro_batches: int) -> Orders:
    """All forward passes, then all backward passes.

    Source: Huang et al., "GPipe", NeurIPS 2019.

    >>> gpipe(1, 2)[0]
    (Pass(kind='F', micro_batch=0, chunk=0), Pass(kind='F', micro_batch=1, chunk=0),
     Pass(kind='B', micro_batch=0, chunk=0), Pass(kind='B', micro_batch=1, chunk=0))
    """
    _check(stages, micro_batches)
    return (tuple(Pass(kind, k) for kind in "FB" for k in range(micro_batches)),) * stages


def one_f_one_b(stages: int, micro_batches: int) -> Orders:
    """As many forward passes as there are later stages, then forward and backward passes alternately.

    The makespan is that of GPipe, but a stage keeps the activations of fewer micro-batches.

    Source: Narayanan et al., "PipeDream", SOSP 2019 (1F1B); with a flush as in "Efficient Large-Scale
    Language Model Training on GPU Clusters Using Megatron-LM", SC 2021.
    """
    return interleaved(stages, micro_batches, 1)


def interleaved(stages: int, micro_batches: int, chunks: int = 2) -> Orders:
    """1F1B where each stage holds several chunks of the model, which divides the bubbles by the number of chunks.

    Chunk c of stage s is piece ``c * stages + s`` of the model. Micro-batches are processed in groups of ``stages``;
    each group passes through all chunks before the next group.

    Source: Narayanan et al., SC 2021, section 2.2.

    Raises:
        ConfigError: several chunks, and a number of micro-batches that is not a multiple of the number of stages.
    """
    _check(stages, micro_batches)
    if not (isinstance(chunks, int) and chunks >= 1):
        raise ConfigError(f"pipeline schedule: chunks is {chunks!r}; it must be 1 or more")
    if chunks > 1 and micro_batches % stages:
        raise ConfigError(
            f"pipeline schedule: {micro_batches} micro-batches are not a multiple of {stages} stages, "
            "which an interleaved schedule needs"
        )
    total, group = micro_batches * chunks, stages * chunks if chunks > 1 else 1

    def passes(kind: str) -> list[Pass]:
        order = []
        for k in range(total):
            chunk = k % group // stages
            batch = k // group * stages + k % stages if chunks > 1 else k
            order.append(Pass(kind, batch, chunks - 1 - chunk if kind == "B" else chunk))
        return order

    forward, backward = passes("F"), passes("B")
    orders = []
    for stage in range(stages):
        behind = stages - stage - 1
        warm_up = min(total, behind * 2 + (chunks - 1) * stages if chunks > 1 else behind)
        order = forward[:warm_up]
        for k in range(total - warm_up):
            order += [forward[warm_up + k], backward[k]]
        orders.append(tuple(order + backward[total - warm_up :]))
    return tuple(orders)


def zb_h1(stages: int, micro_batches: int) -> Orders:
    """1F1B whose weight passes are postponed to fill bubbles, which leaves about a third of them.

    No stage keeps the activations of more micro-batches than the first stage of 1F1B.

    Source: Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, schedule ZB-H1.
    """
    _check(stages, micro_batches)
    orders = []
    for stage in range(stages):
        warm_up = min(micro_batches, stages - stage)
        order = [Pass("F", k) for k in range(warm_up)]
        weights = 0
        for k in range(micro_batches):
            order.append(Pass("B", k))
            if k >= stage:
                order.append(Pass("W", weights))
                weights += 1
            if warm_up + k < micro_batches:
                order.append(Pass("F", warm_up + k))
        order += [Pass("W", k) for k in range(weights, micro_batches)]
        orders.append(tuple(order))
    return tuple(orders)


SCHEDULES: dict[str, Callable[..., Orders]] = {
    "gpipe": gpipe,
    "1f1b": one_f_one_b,
    "interleaved": interleaved,
    "zb-h1": zb_h1,
}
"""Pipeline schedules by name."""


def orders(name: str, stages: int, micro_batches: int, chunks: int | None = None) -> Orders:
    """Orders of a schedule by name; ``chunks`` are pieces of the model on each stage, for ``"interleaved"`` only.

    Raises:
        UnknownName: no such schedule.
        ConfigError: a number that the schedule does not support.
    """
    check_name("pipeline schedule", name, SCHEDULES)
    if chunks is None:
        return SCHEDULES[name](stages, micro_batches)
    if name != "interleaved":
        raise ConfigError(f"pipeline schedule {name!r} has one chunk a stage; chunks is for 'interleaved'")
    return interleaved(stages, micro_batches, chunks)


def peak_activations(passes: Orders) -> list[float]:
    """[p] most micro-batches whose activations a stage keeps at once; one of v chunks counts as 1 / v.

    Activations are kept from the forward pass until the last pass of the micro-batch through the chunk.
    """
    peaks = []
    for order in passes:
        last = "W" if any(item.kind == "W" for item in order) else "B"
        chunks = 1 + max(item.chunk for item in order)
        kept = np.cumsum([(item.kind == "F") - (item.kind == last) for item in order])
        peaks.append(float(kept.max()) / chunks)
    return peaks


@lru_cache(maxsize=8192)
def peaks_of(schedule: str, stages: int, micro_batches: int, chunks: int) -> tuple[float, ...]:
    """:func:`peak_activations` of a named schedule; ``chunks`` counts under ``"interleaved"``."""
    return tuple(
        peak_activations(orders(schedule, stages, micro_batches, chunks if schedule == "interleaved" else None))
    )


def pass_seconds(
    passes: Orders, forward: npt.ArrayLike, backward: npt.ArrayLike, weight: npt.ArrayLike | None = None
) -> FloatArray:
    """Check the times of passes and put them in one table.

    Args:
        passes, forward, backward, weight: see :func:`~hetgym.pipeline.makespan`.

    Returns:
        [2 or 3, v, p] seconds of forward, backward and, if there are any, weight passes.

    Raises:
        ConfigError: times of the wrong shape; weight passes without times, or times without passes.
    """
    chunks = 1 + max(item.chunk for order in passes for item in order)
    split = any(item.kind == "W" for order in passes for item in order)
    if split != (weight is not None):
        raise ConfigError(f"pipeline schedule: weight times {'are missing' if split else 'without weight passes'}")
    given = {"forward": forward, "backward": backward} | ({} if weight is None else {"weight": weight})
    return np.stack([_chunk_seconds(what, values, len(passes), chunks) for what, values in given.items()])


def _chunk_seconds(what: str, values: npt.ArrayLike | Sequence[float], stages: int, chunks: int) -> FloatArray:
    """[v, p] seconds of each chunk."""
    array = as_numbers(values, f"pipeline schedule: {what} is not one number or one for each stage", ConfigError)
    if array.shape not in ((), (stages,), (chunks, stages)) or not ((array >= 0) & np.isfinite(array)).all():
        raise ConfigError(f"pipeline schedule: {what} must be one time or {stages}, none negative")
    each = array if array.ndim == 2 else array / chunks
    return np.asarray(np.broadcast_to(each, (chunks, stages)), np.float64)


def _check(stages: int, micro_batches: int) -> None:
    for what, value in (("stages", stages), ("micro_batches", micro_batches)):
        if not (isinstance(value, int) and value >= 1):
            raise ConfigError(f"pipeline schedule: {what} is {value!r}; it must be 1 or more")
