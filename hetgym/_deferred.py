"""Instances that are made when somebody reads them first.

The last ``info`` of an episode holds graphs and problems that a learning agent never reads, and that take longer to
make than all of its steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

_MAKE = "_make"


class Deferred:
    """Base of classes without class-level defaults, whose constructor sets all attributes.

    >>> class Point(Deferred):
    ...     def __init__(self, x): self.x = x
    >>> point = Point.deferred(lambda: print("made") or Point(3))
    >>> type(point) is Point
    True
    >>> point.x + point.x
    made
    6
    """

    @classmethod
    def deferred(cls, make: Callable[[], Self]) -> Self:
        """An instance of this class that ``make`` makes as soon as one of its attributes is read."""
        found = cls.__new__(cls)
        found.__dict__[_MAKE] = make
        return found

    if not TYPE_CHECKING:  # otherwise every attribute would count as known

        def __getattr__(self, name: str) -> Any:
            make = None if name.startswith("__") else self.__dict__.get(_MAKE)
            if make is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self.__dict__.update(make().__dict__)
            self.__dict__.pop(_MAKE, None)
            return getattr(self, name)
