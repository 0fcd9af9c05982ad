"""Binary heaps in arrays: smallest key first, then smallest code.

Unlike lists of tuples with ``heapq``, these neither count references nor grow.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from hetgym._kernels.jit import inlined, step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, Int64Array, IntArray


@record
class Heaps(NamedTuple):
    """Several heaps, one after the other."""

    key: FloatArray  # [total capacity] keys of the items; the smallest of each heap comes first
    code: Int64Array  # [total capacity] their codes
    first: Int64Array  # [heaps] index at which each heap begins
    size: IntArray  # [heaps] items in each heap


def new_heaps(capacities: Sequence[int]) -> Heaps:
    """Allocate empty heaps of these capacities."""
    *first, total = accumulate(capacities, initial=0)
    return Heaps(np.zeros(total), np.zeros(total, np.int64), np.array(first, np.int64), np.zeros(len(first), np.int32))


# The item moves up from the end towards the root, past every parent that is larger. Invariant: the place
# ``k`` is free, and the heap without it is in order. O(log n).
@inlined
def push(h: Heaps, heap: int, key: float, code: int) -> None:
    """Add an item to a heap."""
    first = h.first[heap] if heap > 0 else 0  # 0 is known when it is compiled, for calls that name the heap
    k = h.size[heap]
    h.size[heap] += 1
    while k > 0:
        parent = (k - 1) >> 1
        above = h.key[first + parent]
        if above < key or (above == key and h.code[first + parent] <= code):
            break
        h.key[first + k] = above
        h.code[first + k] = h.code[first + parent]
        k = parent
    h.key[first + k] = key
    h.code[first + k] = code


@step
def first_key(h: Heaps, heap: int) -> float:
    """The smallest key of a heap, which must not be empty."""
    return float(h.key[h.first[heap]])


# The last item takes the place of the first and moves down past every smaller child. Invariant: the place
# ``k`` is free, and every item above it is smaller than all items below it. O(log n).
@inlined
def pop(h: Heaps, heap: int) -> int:
    """Remove the smallest item of a heap, which must not be empty, and return its code."""
    first = h.first[heap] if heap > 0 else 0
    smallest = h.code[first]
    h.size[heap] -= 1
    size = h.size[heap]
    key, code = h.key[first + size], h.code[first + size]
    k = 0
    while True:
        child = 2 * k + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            h.key[first + right] < h.key[first + child]
            or (h.key[first + right] == h.key[first + child] and h.code[first + right] < h.code[first + child])
        ):
            child = right
        if key < h.key[first + child] or (key == h.key[first + child] and code <= h.code[first + child]):
            break
        h.key[first + k] = h.key[first + child]
        h.code[first + k] = h.code[first + child]
        k = child
    h.key[first + k] = key
    h.code[first + k] = code
    return int(smallest)
