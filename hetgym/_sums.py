"""Sums that are the same under every version of Python."""

from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import Any, overload


@overload
def summed(values: Iterable[int]) -> int: ...
@overload
def summed(values: Iterable[float]) -> float: ...
def summed(values: Iterable[Any]) -> Any:
    """Add numbers from left to right; 0 if there are none.

    The builtin ``sum`` compensates rounding errors from Python 3.12 on, so results would differ between versions in the
    last bit, and with them ties and plans.

    >>> summed([0.1] * 10), summed([])
    (0.9999999999999999, 0)
    """
    return reduce(add, values, 0)
