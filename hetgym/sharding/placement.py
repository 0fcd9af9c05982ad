"""Placements: for each axis of a mesh, how a tensor lies on the ranks along it."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from hetgym.errors import ConfigError
from hetgym.graph.ops import DTYPE_BYTES, Tensor


class Entry(NamedTuple):
    """Placement on one axis: :data:`R`, :data:`P`, or a shard made by :func:`S`."""

    kind: str  # "R", "S" or "P"
    dim: int = -1  # dimension that is cut, of a shard

    def __repr__(self) -> str:
        return f"S({self.dim})" if self.kind == "S" else self.kind


R = Entry("R")
"""Replicate: every rank holds the whole tensor."""

P = Entry("P")
"""Partial: every rank holds a tensor of the full size; their sum is the value."""


def S(dim: int) -> Entry:
    """Shard: every rank holds an equal part along a dimension, in the order of the ranks.

    >>> S(1)
    S(1)
    """
    return Entry("S", dim)


Placement = tuple[Entry, ...]
"""One entry for each axis of the mesh, outermost first, as in DTensor. Two axes that shard the same dimension cut it
outer-major: the outer axis into large parts, the inner axis each of these."""


def shards(placement: Placement, sizes: tuple[int, ...], rank: int) -> list[int] | None:
    """[rank] number of parts of each dimension of a tensor; None if the tensor lacks a dimension that is cut."""
    counts = [1] * rank
    for entry, size in zip(placement, sizes, strict=True):
        if entry.kind == "S":
            if not 0 <= entry.dim < rank:
                return None
            counts[entry.dim] *= size
    return counts


def divides(shape: tuple[int, ...], placement: Placement, sizes: tuple[int, ...]) -> bool:
    """Whether every dimension that is cut exists and falls into equal parts.

    Args:
        shape: of the whole tensor.
        placement: an entry for each axis.
        sizes: ranks along each axis.

    >>> divides((4, 6), (S(0), S(0)), (2, 2)), divides((4, 6), (S(1), S(1)), (2, 2))
    (True, False)
    """
    counts = shards(placement, sizes, len(shape))
    return counts is not None and all(size % count == 0 for size, count in zip(shape, counts, strict=True))


@lru_cache(maxsize=1 << 16)
def local_shape(shape: tuple[int, ...], placement: Placement, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of the part of a tensor that one rank holds; arguments as for :func:`divides`.

    Raises:
        ConfigError: a dimension that does not exist or does not fall into equal parts.

    >>> local_shape((8, 6), (S(0), R), (4, 2)), local_shape((8, 6), (S(0), S(0)), (4, 2))
    ((2, 6), (1, 6))
    """
    counts = shards(placement, sizes, len(shape))
    if counts is None or any(size % count for size, count in zip(shape, counts, strict=True)):
        raise ConfigError(f"{list(placement)} does not cut a tensor of shape {shape} evenly on axes of {list(sizes)}")
    return tuple(size // count for size, count in zip(shape, counts, strict=True))


def local_bytes(tensor: Tensor, placement: Placement, sizes: tuple[int, ...]) -> float:
    """Bytes of the part of a tensor that one rank holds [byte]; a partial sum takes the full size.

    >>> local_bytes(Tensor((8, 6)), (P, S(1)), (4, 2))
    96.0
    """
    shape = local_shape(tensor.shape, placement, sizes)
    return Tensor(shape).size * float(DTYPE_BYTES[tensor.dtype])
