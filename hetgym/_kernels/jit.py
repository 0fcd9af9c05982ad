"""Compilation by Numba, the same for every kernel: cached on disk, and with IEEE arithmetic as written."""

from __future__ import annotations

import gc
import hashlib
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from threading import Timer, current_thread, main_thread
from time import monotonic
from types import FrameType
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.core import event

from hetgym._input.parts import PACKAGE, part
from hetgym._kernels.compiler import QuickFlags, StepCompiler

F = TypeVar("F", bound=Callable[..., Any])

_IMPORT = re.compile(rb"^from (hetgym[\w.]*) import", re.MULTILINE)


_STEP = {"_nrt": False, "no_cpython_wrapper": True, "pipeline_class": StepCompiler}


def jit(function: F) -> F:
    """Compile a function of scalars and arrays, without fast-math: results do not vary by machine."""
    return cast(F, _dispatcher(function))


def lean(function: F) -> F:
    """As :func:`jit` but without reference counts, for functions that neither make nor return arrays.

    A kernel of small steps takes dozens of arrays. Counting references to all of them would take longer than
    the step itself.
    """
    return cast(F, _dispatcher(function, _nrt=False))


def step(function: F) -> F:
    """As :func:`lean`, for functions that only compiled functions call.

    Such functions get no entry point for Python, which takes longer to compile than most steps.
    """
    return cast(F, _within(_dispatcher(function, **_STEP)))


def inlined(function: F) -> F:
    """As :func:`step`, but inlined: for the steps that a simulation spends its time in."""
    return cast(F, _within(_dispatcher(function, forceinline=True, **_STEP)))


def variant(base: Callable[..., Any], applies: Callable[..., bool]) -> Callable[[F], F]:
    """Make a step that kernels call in place of another one, where the types of the arguments say so.

    Args:
        base: the step that kernels name.
        applies: takes the Numba types of all arguments; true if this step is called.
    """

    def enter(function: F) -> F:
        other, usual = cast(Any, step(function)), cast(Any, base)
        template, overload = usual.get_call_template, usual.get_overload

        def get_call_template(arguments: Any, keywords: dict[str, Any]) -> Any:
            return (other.get_call_template if applies(*arguments) else template)(arguments, keywords)

        def get_overload(signature: Any) -> Any:
            kinds = getattr(signature, "args", signature)
            return (other.get_overload if applies(*kinds) else overload)(signature)

        usual.get_call_template, usual.get_overload = get_call_template, get_overload
        return cast(F, other)

    return enter


def _dispatcher(function: Callable[..., Any], **options: Any) -> Any:
    options |= {"cache": True, "nogil": True, "no_cfunc_wrapper": True}
    dispatcher = numba.njit(error_model="numpy", **options)(function)
    dispatcher._compiler._customize_flags = QuickFlags
    _widen_numbers(dispatcher)
    _tie_to_all_sources(dispatcher)
    return dispatcher


def _widen_numbers(dispatcher: Any) -> None:
    """Compile a callee once for 64-bit numbers, instead of once more for each literal and narrower integer type."""
    template = dispatcher.get_call_template

    def widened(kind: Any) -> Any:
        kind = types.unliteral(kind)
        return types.int64 if isinstance(kind, types.Integer) and kind.signed else kind

    def get_call_template(arguments: Any, keywords: dict[str, Any]) -> Any:
        wide = tuple(widened(kind) for kind in arguments)
        return template(wide, {name: widened(kind) for name, kind in keywords.items()})

    dispatcher.get_call_template = get_call_template


def _within(dispatcher: Any) -> Any:
    """Refuse calls from Python: a function that is called within kernels only has no entry point for them."""

    def add_overload(result: Any) -> None:
        dispatcher.overloads[tuple(result.signature.args)] = result

    def refuse(*_: object, **__: object) -> None:
        raise TypeError(f"{dispatcher.py_func.__name__} is a step of kernels: only compiled functions can call it")

    dispatcher.add_overload = add_overload
    dispatcher._compile_for_args = refuse
    return dispatcher


class Compiling(event.Listener):  # type: ignore[misc]
    """Sums the time that this process spends on compiling, and prints one message when that becomes long.

    Kernels that are loaded from the cache on disk are not compiled and do not count.

    Args:
        patience: compile time after which the message is printed [s].
    """

    def __init__(self, patience: float = 2.0) -> None:
        self._patience = patience
        self._told = False
        self._finished, self._began, self._depth = 0.0, 0.0, 0
        self._timer: Timer | None = None
        self._collects = False
        self._handler: Callable[[int, FrameType | None], Any] | None = None
        self._interrupted = False

    @property
    def seconds(self) -> float:
        """Compile time so far [s]."""
        return self._finished + (monotonic() - self._began if self._depth else 0.0)

    def on_start(self, event: Any) -> None:
        """Note that the compilation of a function, or of one that it calls, begins."""
        self._depth += 1
        if self._depth > 1:
            return
        self._began = monotonic()
        self._hold_interrupts()
        self._collects = gc.isenabled()
        gc.disable()  # a compiler makes millions of objects, next to none of them in cycles
        if not self._told:
            self._timer = Timer(max(0.0, self._patience - self._finished), self._tell)
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, event: Any) -> None:
        """Note that the compilation ends."""
        self._depth -= 1
        if self._depth:
            return
        self._finished += monotonic() - self._began
        if self._collects:
            gc.enable()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._release_interrupts()

    # LLVM calls Python back while it compiles; an exception that a signal raises there leaves it in pieces.
    def _hold_interrupts(self) -> None:
        """Let Ctrl-C wait for the end of the compilation; a second one does not wait."""
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and current_thread() is main_thread():
            self._handler, self._interrupted = handler, False
            signal.signal(signal.SIGINT, self._hold)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal while something is compiled."""
        handler = self._handler
        if self._interrupted and handler is not None:
            handler(number, frame)
        self._interrupted = True

    def _release_interrupts(self) -> None:
        """Handle Ctrl-C as before, and one that waited now."""
        handler, self._handler = self._handler, None
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
            if self._interrupted:
                signal.raise_signal(signal.SIGINT)

    def _tell(self) -> None:
        self._told = True
        if sys.stderr is not None:
            print("hetgym: compiling kernels once …", file=sys.stderr, flush=True)


compiling = Compiling()
"""The listener of this process."""

event.register("numba:compile", compiling)


@cache
def sources_stamp() -> str:
    """Digest of every file of the package that holds a kernel, and of every file that such a file imports names from.

    The imported files hold constants, such as column numbers, that are compiled into kernels.
    """
    texts: dict[str, bytes] = {}
    inside = [PACKAGE, part("agents"), part("baselines")]
    for root in (root for root in inside if root == PACKAGE or not root.is_relative_to(PACKAGE)):
        for folder, _, names in os.walk(root, followlinks=True):
            for name in names:
                if name.endswith(".py"):
                    path = Path(folder) / name
                    texts[module_name(path.relative_to(root.parent))] = path.read_bytes()
    kernels = {module for module, text in texts.items() if b"hetgym._kernels.jit" in text}
    named = {found.decode() for module in kernels for found in _IMPORT.findall(texts[module])}
    digest = hashlib.sha256()
    for module in sorted(kernels | (named & texts.keys())):
        digest.update(texts[module])
    return digest.hexdigest()


def module_name(path: Path) -> str:
    """Dotted name of a module, from its path relative to the folder that holds the package."""
    parts = path.with_suffix("").parts
    parts = parts if parts[0] == PACKAGE.name else (PACKAGE.name, *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _tie_to_all_sources(dispatcher: Any) -> None:
    """Make a cached kernel stale as soon as any kernel changes, not only when its own file does.

    Kernels call each other across files, and Numba inlines the callees. By itself Numba checks only the caller's
    file, so after an update it would go on running old code. The digest is therefore part of the cache's version.
    The version is compared before anything else of a cache index is read: the rest of the index refers to classes
    that may have moved since it was written.
    """
    index = getattr(dispatcher._cache, "_cache_file", None)
    if index is not None:
        index._version = f"{index._version} {sources_stamp()}"
        index.save = partial(save_kernel, index)
        index._load_index = partial(known_kernels, index._load_index)
        save = dispatcher._cache.save_overload

        def save_if_possible(signature: Any, result: Any) -> None:
            with suppress(OSError):  # the folder cannot be written, or the disk is full: the kernel works all the same
                save(signature, result)

        dispatcher._cache.save_overload = save_if_possible


def known_kernels(load: Callable[[], dict[Any, str]]) -> dict[Any, str]:
    """The kernels of an index; none if one of them is for a type that this process cannot import.

    A program may have kernels compiled for records of its own. Numba reads an index as a whole, and others could not
    read it any more.

    Args:
        load: reads the index: types, processor and code of each kernel -> its file.
    """
    try:
        return load()
    except (ImportError, AttributeError):
        return {}


def save_kernel(index: Any, key: Any, data: Any) -> None:
    """Save a compiled kernel in a file that is named by what it was compiled from, and then in its index.

    Numba numbers the files. Two processes that compile the same function for different types at the same time give both
    the same number, and from then on the index of one names the code of the other.

    Args:
        index: Numba's ``IndexDataCacheFile`` of a function.
        key: types, processor and code of the kernel.
        data: the kernel.
    """
    made_from = hashlib.sha256(index._dump((index._version, index._source_stamp, key))).hexdigest()
    name = f"{index._index_name.removesuffix('.nbi')}.{made_from[:24]}.nbc"
    index._save_data(name, data)
    index._save_index(index._load_index() | {key: name})
