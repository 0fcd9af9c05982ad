"""Steps of kernels, which only compiled functions can call, made callable for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def callable_step(step: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled function that does nothing but call the step."""

    @numba.njit(error_model="numpy")
    def call(*arguments: Any) -> Any:
        return step(*arguments)

    return call  # type: ignore[no-any-return]
