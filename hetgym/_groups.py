"""Groups of things that share a key."""

from collections.abc import Iterable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def gathered(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Keys in the order in which they come -> their values, in order.

    >>> gathered([("b", 1), ("a", 2), ("b", 3)])
    {'b': [1, 3], 'a': [2]}
    """
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found
