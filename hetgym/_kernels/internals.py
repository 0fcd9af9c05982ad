"""Whether Numba's internals are those that :mod:`~hetgym._kernels.compiler` and :mod:`~hetgym._kernels.cache` change.

The changes make kernels compile sooner and keep cached kernels from outliving the code that they call. Results do not
depend on them: with a Numba whose internals differ, kernels are compiled as Numba itself does it.
"""

import sys
from functools import cache
from importlib import import_module

import numba
from llvmlite.binding import ffi  # type: ignore[import-untyped]

KNOWN = tuple(f"0.{minor}." for minor in range(61, 69))
"""Releases of Numba whose internals were looked at; with others, a trial kernel is compiled at import."""

_MODULES = {
    "numba.core.codegen:JITCodeLibrary": (
        "_optimize_final_module _finalize_final_module _finalize_dynamic_globals _ensure_finalized "
        "get_pointer_to_function serialize_using_object_code serialize_using_bitcode _unserialize"
    ),
    "numba.core.codegen:JITCPUCodegen": "_library_class unserialize_library",
    "numba.core.caching:CompileResultCacheImpl": "rebuild",
    "numba.core.compiler:Compiler": "compile_extra",
    "numba.core.compiler:Flags": "copy",
    "numba.core.caching:IndexDataCacheFile": "save _load_index _save_index _save_data _dump",
    "numba.core.event:Listener": "",
    "numba.core.ir:Stmt": "list_vars",
    "numba.core.ir:Expr": "list_vars",
    "numba.core.errors:termcolor": "__globals__",
}
"""Class -> attributes that must exist."""

_DISPATCHER = "_compiler _cache overloads add_overload _compile_for_args get_call_template get_overload"


@cache
def difference() -> str:
    """What of Numba's internals is missing or does not work, in a few words; empty if all is as expected."""
    try:
        for name, attributes in _MODULES.items():
            module, _, kind = name.partition(":")
            found = getattr(import_module(module), kind)
            for attribute in attributes.split():
                getattr(found, attribute)
        dispatcher = numba.njit(_nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)(_nothing)
        for attribute in _DISPATCHER.split():
            getattr(dispatcher, attribute)
        dispatcher._compiler._customize_flags  # noqa: B018
        ffi.lib._lock._cblist  # noqa: B018
        if not numba.__version__.startswith(KNOWN):
            _try()
    except Exception as error:  # whatever a release of the future raises
        return str(error) or type(error).__name__
    return ""


def fit() -> bool:
    """True if Numba's internals are as expected; otherwise this is said once, on stderr."""
    return _said(difference()) == ""


@cache
def _said(what: str) -> str:
    if what and sys.stderr is not None:
        print(
            f"hetgym: Numba {numba.__version__} differs from the releases that hetgym knows ({what}); kernels work, "
            "but take longer to compile",
            file=sys.stderr,
            flush=True,
        )
    return what


def _try() -> None:
    """Compile a step, and a kernel that calls it, with all changes."""
    from hetgym._kernels.compiler import as_step, quicken, step_options

    shared = {"error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}
    inner = as_step(quicken(numba.njit(**shared, **step_options())(_twice)))
    if quicken(numba.njit(**shared)(lambda x: inner(x) + 1))(3) != 7:
        raise ValueError("a trial kernel computes something else")


def _twice(x: int) -> int:
    return 2 * x


def _nothing() -> None:
    pass
