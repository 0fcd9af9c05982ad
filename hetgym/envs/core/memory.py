"""Remembered: a cache of recent results, so that a small set of problems is prepared only once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Remembered(Generic[Key, Value]):
    """A cache of ``limit`` values; the least recently used one is dropped first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key, make: Callable[[], Value], passing: bool = False) -> Value:
        """The value of a key; made and stored if it is not in the cache, or only made if nobody will ask again."""
        if passing:
            return make()
        if key not in self._values:
            self._values[key] = make()
            if len(self._values) > self.limit:
                self._values.popitem(last=False)
        self._values.move_to_end(key)
        return self._values[key]

    def __len__(self) -> int:
        return len(self._values)

    def clear(self) -> None:
        """Drop all values."""
        self._values.clear()
