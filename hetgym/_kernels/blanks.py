"""Blank records: arrays of zeros, of the types and shapes that the fields of a record state.

A field states both in its annotation, as in ``start: Annotated[FloatArray, "L, D + 1"]``: a dimension is a sum of
products of whole numbers and of names, whose values the caller gives. Where a field is a record, such a text states the
dimensions that come before those of its arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np

R = TypeVar("R", bound=tuple[Any, ...])
_NOTHING: Mapping[str, Any] = MappingProxyType({})
Term = tuple[int, list[str]]  # A number and names, of which a term is the product


def blank(kind: type[R], given: Mapping[str, Any] = _NOTHING, /, **sizes: int) -> R:
    """A record of zeros, apart from the fields that are ``given``; ``sizes`` by their names."""
    return _made(kind, given, sizes.__getitem__)


def example(kind: type[R]) -> R:
    """A record of the array types of a kind, of whatever sizes."""
    return _made(kind, _NOTHING, lambda _: 1)


def _made(kind: type[R], given: Mapping[str, Any], size: Callable[[str], int], *first: int) -> R:
    found = []
    for name, (of, shape) in _fields(kind).items():
        if name in given:
            found.append(given[name])
            continue
        lengths = *first, *(_length(terms, size) for terms in shape)
        record = hasattr(of, "_fields")
        found.append(_made(of, _NOTHING, size, *lengths) if record else np.zeros(lengths, of))
    return cast(R, cast(Any, kind)._make(found))


def _length(terms: list[Term], size: Callable[[str], int]) -> int:
    found = 0
    for product, names in terms:
        for name in names:
            product *= size(name)
        found += product
    return found


@cache
def _fields(kind: Any) -> dict[str, tuple[Any, list[list[Term]]]]:
    """Name -> the dtype of an array, or the kind of a record; and for each dimension its terms."""
    return {name: _parsed(hint) for name, hint in get_type_hints(kind, include_extras=True).items()}


def _parsed(hint: Any) -> tuple[Any, list[list[Term]]]:
    of, shape = get_args(hint) if get_origin(hint) is Annotated else (hint, "")
    lengths = [length for length in shape.split(",") if length]
    return _dtype(of) or of, [[_term(text.split()) for text in length.split("+")] for length in lengths]


def _term(words: list[str]) -> Term:
    return math.prod(int(word) for word in words if word.isdigit()), [word for word in words if not word.isdigit()]


def _dtype(hint: Any) -> Any:
    """The dtype of the arrays of a type, whatever alias names it; None for others."""
    if isinstance(hint, type) and issubclass(hint, np.generic):
        return hint
    return next((found for part in get_args(hint) if (found := _dtype(part)) is not None), None)
