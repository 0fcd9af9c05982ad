"""Shared weights: a device that runs any reader of a weight holds all of it, once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import index
from typing import Annotated, NamedTuple

import numpy as np

from hetgym import _tables as tables
from hetgym._groups import gathered
from hetgym._kernels.jit import step
from hetgym._kernels.records import record
from hetgym._text import brief
from hetgym._types import FloatArray, IntArray, frozen
from hetgym.errors import ProblemError


@record
class SharedWeights(NamedTuple):
    """The weights that several of n operators read, such as tied embeddings or those of an unrolled recurrence."""

    # the readers of weight k are `reader[pointer[k] .. pointer[k + 1]]`, ascending.
    pointer: Annotated[IntArray, "w + 1"]
    reader: Annotated[IntArray, "r"]  # operators
    size: Annotated[FloatArray, "w"]  # byte
    # the shared weights of operator i are `weight[operator_pointer[i] .. operator_pointer[i + 1]]`.
    operator_pointer: Annotated[IntArray, "n + 1"]
    weight: Annotated[IntArray, "r"]  # numbers of weights

    def __repr__(self) -> str:
        return brief(self)

    @classmethod
    def of(cls, n: int, readers: Iterable[tuple[Sequence[int], float]]) -> SharedWeights:
        """Shared weights of n operators from the readers of each and its bytes; those with one reader are left out.

        >>> SharedWeights.of(3, [((0, 2), 8.0)]).weight
        array([0, 0], dtype=int32)
        """
        kept = [(sorted(set(ids)), float(size)) for ids, size in readers]
        kept = [(ids, size) for ids, size in kept if len(ids) > 1 and size > 0]
        if not kept:
            return unshared(n)
        pointer = np.cumsum([0, *(len(ids) for ids, _ in kept)])
        return cls.from_rows(n, pointer, np.array([i for ids, _ in kept for i in ids]), np.array([s for _, s in kept]))

    @classmethod
    def from_rows(cls, n: int, pointer: IntArray, reader: IntArray, size: FloatArray) -> SharedWeights:
        """Shared weights of n operators from the first three arrays, which are right."""
        weight = np.repeat(np.arange(len(size)), np.diff(pointer))
        order = np.argsort(reader, kind="stable")
        ends = np.cumsum(np.bincount(reader, minlength=n))
        whole = pointer, reader, np.concatenate([[0], ends]), weight[order]
        first, readers, operators, weights = (frozen(np.ascontiguousarray(a, np.int32)) for a in whole)
        return cls(first, readers, frozen(np.array(size, np.float64)), operators, weights)

    def pairs(self) -> list[tuple[list[int], float]]:
        """The readers of each weight, and its bytes, as :meth:`of` takes them."""
        rows = np.split(self.reader, self.pointer[1:-1])
        return [(row.tolist(), size) for row, size in zip(rows, self.size.tolist(), strict=False)]

    def each(self) -> FloatArray:
        """[n] bytes of the shared weights that each operator reads."""
        n = len(self.operator_pointer) - 1
        return np.bincount(self.reader, np.repeat(self.size, np.diff(self.pointer)), minlength=n).astype(np.float64)

    def spared(self, part: IntArray, parts: int) -> FloatArray:
        """[parts] bytes by which the sum of what operators read exceeds what a part of them holds; ``part`` is [n]."""
        spared = np.zeros(parts)
        if len(self.size):
            weight, where = np.repeat(np.arange(len(self.size)), np.diff(self.pointer)), part[self.reader]
            key, count = np.unique(weight * parts + where, return_counts=True)
            np.add.at(spared, key % parts, self.size[key // parts] * (count - 1))
        return spared

    @property
    def repeated(self) -> float:
        """Bytes by which the sum of what operators read exceeds the size of the model."""
        return float(self.spared(np.zeros(len(self.operator_pointer), np.int32), 1)[0])

    def grouped(self, group: IntArray, groups: int) -> SharedWeights:
        """The weights that several groups of operators share; ``group`` is [n]."""
        return SharedWeights.of(groups, [(group[ids].tolist(), size) for ids, size in self.pairs()])

    def present(self, assignment: IntArray, operator: int, device: int) -> float:
        """Bytes of an operator's shared weights that other operators of a device read, too; -1 = not placed."""
        found = 0.0
        for k in self.weight[self.operator_pointer[operator] : self.operator_pointer[operator + 1]].tolist():
            readers = self.reader[self.pointer[k] : self.pointer[k + 1]]
            found += float(self.size[k]) * bool((assignment[readers[readers != operator]] == device).any())
        return found


@lru_cache(maxsize=128)
def unshared(n: int) -> SharedWeights:
    """Of n operators none shares a weight."""
    nothing = frozen(np.zeros(0, np.int32))
    return SharedWeights(
        frozen(np.zeros(1, np.int32)), nothing, frozen(np.zeros(0)), frozen(np.zeros(n + 1, np.int32)), nothing
    )


def read_shared(n: int, readers: Iterable[tuple[Sequence[int], float]], name: str) -> SharedWeights:
    """Read pairs of operators and bytes; ProblemError for anything else."""
    try:
        pairs = [([index(i) for i in ids], float(size)) for ids, size in readers]
    except (OverflowError, TypeError, ValueError) as cause:
        raise ProblemError(f"problem {name!r}: shared_weights are not (operators, bytes) pairs ({cause})") from cause
    if not all(0 <= size <= tables.LARGEST and all(0 <= i < n for i in ids) for ids, size in pairs):
        raise ProblemError(
            f"problem {name!r}: shared_weights must be pairs of operators, 0 to {n - 1}, and non-negative bytes"
        )
    return SharedWeights.of(n, pairs)


def by_name(constants: Iterable[tuple[int, str, float]], n: int) -> SharedWeights:
    """Shared weights of n operators from constants, an operator, name and bytes each: one weight a name and size."""
    readers = gathered(((name, size), operator) for operator, name, size in constants)
    return SharedWeights.of(n, [(ids, size) for (_, size), ids in readers.items()])


@step
def present(shared: SharedWeights, assignment: IntArray, operator: int, device: int, before: int) -> float:
    """Bytes of an operator's shared weights that a device holds for other operators, for kernels.

    Args:
        assignment: [n] devices; that of the operator itself does not matter.
        before: only readers below this number are considered.
    """
    found = 0.0
    for m in range(shared.operator_pointer[operator], shared.operator_pointer[operator + 1]):
        k = shared.weight[m]
        for r in range(shared.pointer[k], shared.pointer[k + 1]):
            i = shared.reader[r]
            if i >= before:
                break
            if i != operator and assignment[i] == device:
                found += shared.size[k]
                break
    return found
