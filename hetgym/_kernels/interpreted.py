"""Kernels that Python itself runs at first.

A kernel that is called once for each problem may take a second to compile, and a millisecond in the interpreter. Until
its calls add up to that second, Python runs it, unless its machine code is in the cache on disk. Results are the same.
"""

from collections.abc import Callable
from contextlib import suppress
from types import FunctionType, ModuleType
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core.dispatcher import Dispatcher

from hetgym._kernels.internals import fit

F = TypeVar("F", bound=Callable[..., Any])

BUDGET = 50_000
"""Numbers in the arguments of calls that Python runs for one kernel; some take a microsecond each, some three."""

_budgets = [BUDGET]  # of kernels that are called for the first time


def compile_at_once() -> None:
    """From now on kernels of this process are compiled at their first calls: its times must not contain compiling."""
    _budgets[0] = 0


def interpreted(kernel: F, by: Callable[..., Any] | None = None) -> F:
    """Let Python run a kernel at first.

    Args:
        kernel: the kernels that it calls must be globals of its module or of modules that it names, without variants;
            it may read records, but not rows of them.
        by: a function that does the same, by default the kernel's own.
    """
    return cast(F, _interpret(kernel, by)) if fit() else kernel


def plain(kernel: Any) -> Callable[..., Any]:
    """The function of a kernel, which calls the functions of other kernels and not their machine code.

    As in machine code, invalid operations on floats give NaN or infinity.
    """
    function = _plain(kernel, {})

    def run(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            result = function(*arguments)
        return result.item() if isinstance(result, np.generic) else result

    return run


class _Plain:
    """A module whose kernels are functions."""

    def __init__(self, module: ModuleType, known: dict[Any, Callable[..., Any]]) -> None:
        self._module, self._known = module, known

    def __getattr__(self, name: str) -> Any:
        return _translated(getattr(self._module, name), self._known)


def _plain(kernel: Any, known: dict[Any, Callable[..., Any]]) -> Callable[..., Any]:
    if kernel not in known:
        function = kernel.py_func
        names = dict(function.__globals__)
        known[kernel] = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
        names.update((name, _translated(names[name], known)) for name in function.__code__.co_names if name in names)
    return known[kernel]


def _translated(value: Any, known: dict[Any, Callable[..., Any]]) -> Any:
    if isinstance(value, Dispatcher):
        return _plain(value, known)
    ours = isinstance(value, ModuleType) and value.__name__.startswith("hetgym.")
    return _Plain(value, known) if ours else value


def _interpret(kernel: Any, by: Callable[..., Any] | None) -> Any:
    compile_for_args, left, functions = kernel._compile_for_args, dict[tuple[Any, ...], int](), [by] if by else []

    def function_for_args(*arguments: Any, **keywords: Any) -> Any:
        """What Numba calls with the arguments: machine code of these types or, within the budget, the function."""
        if _budgets[0] == 0 or keywords:
            return compile_for_args(*arguments, **keywords)
        types = tuple(map(numba.typeof, arguments))
        if types not in left:
            left[types] = 0 if _on_disk(kernel, types) else _budgets[0]
        left[types] -= 1 + _numbers(arguments)
        if left[types] < 0:
            return compile_for_args(*arguments)
        if not functions:
            functions.append(plain(kernel))
        return functions[0]

    kernel._compile_for_args = function_for_args
    return kernel


def _numbers(arguments: tuple[Any, ...]) -> int:
    """Numbers in arrays, also in those of records."""
    count = 0
    for value in arguments:
        if isinstance(value, np.ndarray):
            count += value.size
        elif isinstance(value, tuple):
            count += _numbers(value)
    return count


def _on_disk(kernel: Any, types: tuple[Any, ...]) -> bool:
    """Whether a kernel that was compiled for such arguments is in the cache."""
    with suppress(Exception):  # whatever is wrong with the cache, Numba meets it again
        key = kernel._cache._index_key(types, kernel.targetctx.codegen())
        return key in kernel._cache._cache_file._load_index()
    return False
