"""The one way in which hetgym compiles: Numba, cached on disk, IEEE arithmetic as written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    """Compile a function of scalars and arrays; no fast-math, so results do not vary by machine."""
    return cast(F, numba.njit(cache=True, error_model="numpy", nogil=True)(function))


def inline(function: F) -> F:
    """As :func:`jit`, for small helpers that are to be inlined into the kernels that call them."""
    return cast(F, numba.njit(cache=True, error_model="numpy", nogil=True, inline="always")(function))
