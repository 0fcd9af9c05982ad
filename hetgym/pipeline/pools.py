"""Memories that several devices share, such as unified memory, and how they may be divided among these."""

import itertools
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._groups import gathered
from hetgym._sums import summed
from hetgym._types import FloatArray
from hetgym.errors import size

MAX_RATIONS = 400  # Most divisions of shared memories that are tried
GRID = 33  # Most even divisions among them
ROUNDING = 1.0 + 1e-12  # Factor by which sums of bytes may exceed a capacity


class Pool(NamedTuple):
    """A memory that several devices share."""

    devices: tuple[int, ...]
    capacity: float  # bytes that these devices hold together at most


def pools_of(memory_pool: Sequence[Hashable], memory: FloatArray) -> tuple[Pool, ...]:
    """The memories that several devices share; ``memory_pool`` and ``memory`` are [d].

    >>> pools_of(["unified", "unified", "card"], np.array([48e9, 64e9, 24e9]))
    (Pool(devices=(0, 1), capacity=64000000000.0),)
    """
    groups = gathered((pool, device) for device, pool in enumerate(memory_pool)).values()
    found = (Pool(tuple(group), float(memory[group].max())) for group in groups if len(group) > 1)
    return tuple(pool for pool in found if pool.capacity < np.inf)


def exceeded(pools: Sequence[Pool], held: FloatArray) -> Pool | None:
    """The first pool whose devices hold more than it has; ``held`` is [d] bytes."""
    return next((pool for pool in pools if held[list(pool.devices)].sum() > pool.capacity * ROUNDING), None)


def rations(pools: Sequence[Pool], memory: FloatArray, sizes: npt.ArrayLike, total: float) -> Iterator[FloatArray]:
    """[d] capacities under which no pool can be exceeded, one array for each way to divide the pools.

    The shares of all devices of a pool but the last are sizes of stages, so every cut that fits the pools fits some
    ration; where there are more than :data:`MAX_RATIONS`, evenly chosen ones are tried.

    Args:
        pools: memories that devices share.
        memory: [d] bytes that each device can hold.
        sizes: bytes that stages may take, in any shape.
        total: bytes of the whole; rations that have less are left out.
    """
    free = summed(len(pool.devices) - 1 for pool in pools)
    most = int(MAX_RATIONS ** (1 / max(1, free)) + 1e-9)
    distinct = np.unique(np.maximum(np.append(np.asarray(sizes, np.float64).ravel(), 0.0), 0.0))
    options = [list(_divided(len(pool.devices), pool.capacity, distinct, most)) for pool in pools]
    for shares in itertools.product(*options):
        capacity = np.array(memory, np.float64)
        for pool, share in zip(pools, shares, strict=True):
            capacity[list(pool.devices)] = np.minimum(capacity[list(pool.devices)], share)
        if capacity.sum() * ROUNDING >= total:
            yield capacity


def _divided(count: int, capacity: float, sizes: FloatArray, most: int) -> Iterator[tuple[float, ...]]:
    """Divisions of a memory among some devices."""
    if count == 1:
        yield (capacity,)
        return
    shares = sizes[sizes <= capacity]
    if len(shares) < most:
        shares = np.union1d(shares, np.linspace(0.0, capacity, min(GRID, most - len(shares))))
    elif len(shares) > most:
        shares = shares[np.unique(np.linspace(0, len(shares) - 1, most).astype(np.int64))]
    for share in shares.tolist():
        for rest in _divided(count - 1, capacity - share, sizes, most):
            yield (share, *rest)


def lacking(pools: Sequence[Pool], memory: FloatArray, sizes: FloatArray, total: float, stages: int) -> str:
    """Why no cut fits into memory, as the end of a sentence.

    Args:
        pools: memories that devices share.
        memory: [d] bytes that each device can hold.
        sizes: bytes of what is never cut, each with the weights that it shares.
        total: bytes of everything, shared weights once.
        stages: number of devices that may be used.
    """
    shared = {device for pool in pools for device in pool.devices}
    own = [float(memory[d]) for d in range(len(memory)) if d not in shared] + [pool.capacity for pool in pools]
    own += [np.inf] * (not np.isfinite(memory).all())
    # With fewer stages than devices, a pool may serve as many stages as it has devices: an upper bound.
    room = summed(sorted(own, reverse=True)[:stages])
    if total > room * ROUNDING:
        take, there, missing = (size(amount, digits=4) for amount in (total, room, total - room))
        return f"the layers take {take}, and there are {there}: {missing} are missing"
    largest, most = float(sizes.max()), float(memory.max())
    if largest > most * ROUNDING:
        return f"a layer takes {size(largest)}, and the largest device holds {size(most)}"
    held = f"the layers take {size(total)}, and there are {size(room)}" if np.isfinite(room) else "devices are missing"
    return f"{held}, but no cut of whole layers fits on devices that can run them"
