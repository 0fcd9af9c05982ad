"""Blank records: arrays of zeros, of the types and shapes that the fields of a record state.

A field states both in its annotation, as in ``start: Annotated[FloatArray, "L, D + 1"]``: a dimension is a sum of
products of whole numbers and of names, whose values the caller gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np

R = TypeVar("R", bound=tuple[Any, ...])


def blank(kind: type[R], **sizes: int) -> R:
    """A record of zeros; ``sizes`` by their names. Fields that are records are blank, too.

    >>> from typing import NamedTuple
    >>> from hetgym._types import IntArray
    >>> class Tally(NamedTuple):
    ...     count: Annotated[IntArray, "L, 2 D + 1"]
    >>> blank(Tally, L=2, D=1).count
    array([[0, 0, 0],
           [0, 0, 0]], dtype=int32)
    """
    return _made(kind, sizes.__getitem__)


def example(kind: type[R]) -> R:
    """A record of the array types of a kind, of whatever sizes."""
    return _made(kind, lambda _: 1)


def _made(kind: type[R], size: Callable[[str], int]) -> R:
    return cast(R, cast(Any, kind)._make(_field(*field, size) for field in _fields(kind)))


def _field(of: Any, shape: tuple[Any, ...] | None, size: Callable[[str], int]) -> Any:
    return _made(of, size) if shape is None else np.zeros([_length(terms, size) for terms in shape], of)


def _length(terms: Any, size: Callable[[str], int]) -> int:
    found = 0
    for term in terms:
        found += math.prod(int(word) if word.isdigit() else size(word) for word in term)
    return found


@cache
def _fields(kind: Any) -> list[tuple[Any, tuple[Any, ...] | None]]:
    """Of each field its dtype, and of each dimension the terms, as lists of factors; of records the kind, and None."""
    return [_parsed(hint) for hint in get_type_hints(kind, include_extras=True).values()]


def _parsed(hint: Any) -> tuple[Any, tuple[Any, ...] | None]:
    if get_origin(hint) is not Annotated:
        return hint, None
    array, shape = get_args(hint)
    dtype = get_args(get_args(array)[1])[0]
    return dtype, tuple([term.split() for term in length.split("+")] for length in shape.split(","))
