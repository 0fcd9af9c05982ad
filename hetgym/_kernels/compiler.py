"""Numba's compiler, as hetgym uses it: steps without machine code, and flags that are compared quickly.

Numba optimises every function as soon as it is compiled, with all that it calls, and turns it into machine code. A
function that calls it then takes its intermediate code in and does all of that once more. For a step, which Python
cannot call, only the intermediate code is ever used. Here it is linked and kept, and the kernel that Python calls is
optimised as a whole. The same holds for a step from the cache on disk: machine code of it would not be optimised, and
kernels that have a step of the same name would call that code instead of their own.

Numba looks functions of the standard library up by the flags of the compilation, among others, thousands of times. Here
only the flags that are set are compared. It announces every use of LLVM's lock, and sets messages in bold type, most of
which are never read; here that is left out. It asks every statement for its variables some twenty times; here they are
collected quickly.

The kernels are the same, and compile sooner: see ``benchmarks/first_minute.py``.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite.binding import ffi  # type: ignore[import-untyped]
from numba import types
from numba.core import errors, ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags


class _WithoutEngine:
    """A code generator for functions that no engine holds, and which so have no environment to set there."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, *_: object) -> None:
        """There is no address to write to: steps raise nothing, and so never look their environment up."""


class StepLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a step, to be linked into what calls it."""

    @property
    def codegen(self) -> Any:
        """The code generator."""
        return _WithoutEngine(self._codegen)

    def _optimize_final_module(self) -> None:
        """Leave optimisation to the kernel."""

    def _finalize_final_module(self) -> None:
        """Be ready to be linked, without machine code."""
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """There is no machine code: 0."""
        self._ensure_finalized()
        return 0

    def serialize_using_object_code(self) -> Any:
        """The intermediate code, for the cache on disk."""
        return self.serialize_using_bitcode()


class StepCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler, which puts what it compiles into a :class:`StepLibrary`."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *others: Any) -> None:
        if library is None:
            library = StepLibrary(targetctx.codegen(), "step")
        super().__init__(typingctx, targetctx, library, *others)


class QuickFlags(Flags):  # type: ignore[misc]
    """Flags of a compilation, hashed and compared by those that are set."""

    __slots__ = ()

    def __hash__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return bool(self._values == other._values if isinstance(other, QuickFlags) else super().__eq__(other))


def step_options() -> dict[str, Any]:
    """Options of functions that only kernels call."""
    return {"_nrt": False, "no_cpython_wrapper": True, "pipeline_class": StepCompiler}


def quicken(dispatcher: Any) -> Any:
    """Let a function compile sooner: as a callee once for 64-bit numbers, not for each literal and narrower type."""
    dispatcher._compiler._customize_flags = QuickFlags
    template = dispatcher.get_call_template

    def widened(kind: Any) -> Any:
        kind = types.unliteral(kind)
        return types.int64 if isinstance(kind, types.Integer) and kind.signed else kind

    def get_call_template(arguments: Any, keywords: dict[str, Any]) -> Any:
        wide = tuple(widened(kind) for kind in arguments)
        return template(wide, {name: widened(kind) for name, kind in keywords.items()})

    dispatcher.get_call_template = get_call_template
    return dispatcher


def is_ours(dispatcher: Any) -> bool:
    """Whether a function was quickened."""
    return dispatcher._compiler._customize_flags is QuickFlags


class _Plain:
    """A scheme of type for messages, without bold type."""

    def __getattr__(self, name: str) -> Callable[[str], str]:
        return str


_EMPTY: set[type] = set()  # Types that hold no variables, as far as they were met


def _collect(value: object, found: list[Any]) -> None:
    """Append the variables in a value of Numba's intermediate representation, in order."""
    kind = type(value)
    if kind in _EMPTY:
        return
    if isinstance(value, ir.Var):
        found.append(value)
    elif isinstance(value, ir.Inst):
        found.extend(value.list_vars())
    elif isinstance(value, list | tuple | dict):
        for part in value.values() if isinstance(value, dict) else value:
            _collect(part, found)
    else:
        _EMPTY.add(kind)


def _list_vars(statement: Any) -> list[Any]:
    found: list[Any] = []
    for part in (statement._kws if isinstance(statement, ir.Expr) else statement.__dict__).values():
        _collect(part, found)
    return found


def unwatched() -> Callable[[], None]:
    """Leave out parts of a compilation whose results are never seen; return a function that restores them.

    These are an event for every time that LLVM's lock is taken and released, bold type in the message of every overload
    that does not fit, and a search for variables in the source location of every statement.
    """
    own = [(errors, "_termcolor_inst", _Plain()), (ffi.lib._lock, "_cblist", [])]
    own += [(kind, "list_vars", _list_vars) for kind in (ir.Stmt, ir.Expr)]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in own]
    _set(own)
    return lambda: _set(before)


def _set(values: list[tuple[Any, str, Any]]) -> None:
    for owner, name, value in values:
        setattr(owner, name, value)


def as_step(dispatcher: Any) -> Any:
    """Refuse calls from Python: a function that is called within kernels only has no entry point for them."""

    def add_overload(result: Any) -> None:
        dispatcher.overloads[tuple(result.signature.args)] = result

    def refuse(*_: object, **__: object) -> None:
        raise TypeError(f"{dispatcher.py_func.__name__} is a step of kernels: only compiled functions can call it")

    dispatcher.add_overload = add_overload
    dispatcher._compile_for_args = refuse
    load = getattr(dispatcher._cache, "_impl", None)  # none without a cache
    if load is not None:
        load.rebuild = partial(_rebuilt, load.rebuild)
    return dispatcher


def _rebuilt(rebuild: Callable[[Any, Any], Any], target: Any, data: Any) -> Any:
    """A step from the cache on disk, put into a :class:`StepLibrary`, too."""
    codegen = target.codegen()
    before = codegen._library_class
    codegen._library_class = StepLibrary
    try:
        return rebuild(target, data)
    finally:
        codegen._library_class = before
