"""Records of zeros, allocated as their declarations say."""

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

R = TypeVar("R")


def blank(kind: Callable[..., R], given: dict[str, Any], *rows: int, **sizes: int) -> R:
    """A named tuple whose fields are the given ones, and else arrays of zeros.

    Args:
        kind: its class, whose fields say their shapes by names of sizes or numbers: ``Annotated[FloatArray, "n d"]``.
        given: fields by name.
        rows: axes of the arrays before those that the fields say.
        sizes: sizes by name.

    >>> from typing import Annotated, NamedTuple
    >>> from hetgym._types import FloatArray, IntArray
    >>> class Plan(NamedTuple):
    ...     device: Annotated[IntArray, "n"]
    ...     channel: Annotated[FloatArray, "2 d"]
    >>> blank(Plan, {"device": np.ones(2, np.int32)}, d=3)
    Plan(device=array([1, 1], dtype=int32), channel=array([[0., 0., 0.], [0., 0., 0.]]))
    """
    made, shapes = dict(given), dict[str, tuple[int, ...]]()
    for name, number, said in _declared(kind):
        if name not in given:
            if said not in shapes:
                shapes[said] = (*rows, *(sizes[axis] if axis in sizes else int(axis) for axis in said.split()))
            made[name] = np.zeros(shapes[said], number)
    return kind(**made)


@cache
def _declared(kind: Callable[..., Any]) -> list[tuple[str, Any, str]]:
    """Name, type of numbers and shape of the fields that say their shapes."""
    hints = get_type_hints(kind, include_extras=True)
    told = [(name, get_args(hint)) for name, hint in hints.items() if get_origin(hint) is Annotated]
    return [(name, get_args(get_args(array)[1])[0], said) for name, (array, said) in told]
