"""Steps of kernels, which only compiled functions can call, made callable for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class _Unoptimised(JITCodeLibrary):
    """Code as it was written, which does the same as after optimisation and compiles in a tenth of the time."""

    def _optimize_final_module(self) -> None:
        """Leave it as it is."""


class _QuickCompiler(Compiler):
    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *others: Any) -> None:
        super().__init__(typingctx, targetctx, library or _Unoptimised(targetctx.codegen(), "call"), *others)


def callable_step(step: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled function that does nothing but call the step."""

    @numba.njit(error_model="numpy", no_cfunc_wrapper=True, pipeline_class=_QuickCompiler)
    def call(*arguments: Any) -> Any:
        return step(*arguments)

    return call  # type: ignore[no-any-return]
