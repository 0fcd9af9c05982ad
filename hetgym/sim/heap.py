"""Binary heaps in arrays: smallest key first, then smallest code.

A list of tuples and ``heapq`` would do, but lists count references and grow; these do neither.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._jit import step
from hetgym._types import FloatArray, IntArray


class Heap(NamedTuple):
    """Several heaps of equal capacity, one a row.

    Attributes:
        key, code: [rows, capacity] items; a row's smallest stands first.
        size: [rows] items in each row.
    """

    key: FloatArray
    code: npt.NDArray[np.int64]
    size: IntArray


def new_heap(rows: int, capacity: int) -> Heap:
    """Allocate empty heaps."""
    return Heap(np.zeros((rows, capacity)), np.zeros((rows, capacity), np.int64), np.zeros(rows, np.int32))


@step
def push(h: Heap, row: int, key: float, code: int) -> None:
    """Add an item to a row."""
    k = h.size[row]
    h.size[row] += 1
    while k > 0:
        parent = (k - 1) >> 1
        above = h.key[row, parent]
        if above < key or (above == key and h.code[row, parent] <= code):
            break
        h.key[row, k] = above
        h.code[row, k] = h.code[row, parent]
        k = parent
    h.key[row, k] = key
    h.code[row, k] = code


@step
def pop(h: Heap, row: int) -> int:
    """Remove the smallest item of a row, which must not be empty, and return its code."""
    first = h.code[row, 0]
    h.size[row] -= 1
    size = h.size[row]
    key, code = h.key[row, size], h.code[row, size]
    k = 0
    while True:
        child = 2 * k + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            h.key[row, right] < h.key[row, child]
            or (h.key[row, right] == h.key[row, child] and h.code[row, right] < h.code[row, child])
        ):
            child = right
        if key < h.key[row, child] or (key == h.key[row, child] and code <= h.code[row, child]):
            break
        h.key[row, k] = h.key[row, child]
        h.code[row, k] = h.code[row, child]
        k = child
    h.key[row, k] = key
    h.code[row, k] = code
    return int(first)
