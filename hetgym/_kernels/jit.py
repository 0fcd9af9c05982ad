"""Compilation by Numba, the same for every kernel: cached on disk, and with IEEE arithmetic as written."""

import gc
import signal
import sys
from collections.abc import Callable
from threading import Timer, current_thread, main_thread
from time import monotonic
from types import FrameType
from typing import Any, TypeVar, cast

from hetgym._kernels.cache import compiled
from hetgym._kernels.internals import fit

try:
    from numba.core.event import Listener, register
except ImportError:  # a Numba that tells nobody when it compiles
    Listener, register = object, None

F = TypeVar("F", bound=Callable[..., Any])


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
    return cast(F, _step(function))


def inlined(function: F) -> F:
    """As :func:`step`, but inlined: for the steps that a simulation spends its time in."""
    return cast(F, _step(function, forceinline=True))


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


def _step(function: Callable[..., Any], **patches: Any) -> Any:
    if not fit():
        return _dispatcher(function)
    from hetgym._kernels.compiler import as_step, step_options

    return as_step(_dispatcher(function, **step_options(), **patches))


def _dispatcher(function: Callable[..., Any], **patches: Any) -> Any:
    """Numba's dispatcher of a function; ``patches`` are options that are no part of Numba's interface."""
    options: dict[str, Any] = {"error_model": "numpy", "nogil": True}
    if not fit():
        return compiled(function, options)
    from hetgym._kernels.compiler import quicken

    return quicken(compiled(function, options | {"no_cfunc_wrapper": True} | patches))


class Compiling(Listener):  # type: ignore[misc]
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
        self._restore: Callable[[], None] = _nothing
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
        self._restore = _unwatched(event.data["dispatcher"])
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
        self._restore()
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


def _unwatched(dispatcher: Any) -> Callable[[], None]:
    """See :func:`hetgym._kernels.compiler.unwatched`; nothing for functions that are not hetgym's."""
    if not fit():
        return _nothing
    from hetgym._kernels.compiler import is_ours, unwatched

    return unwatched() if is_ours(dispatcher) else _nothing


def _nothing() -> None:
    pass


compiling = Compiling()  # The listener of this process

if register is not None:
    register("numba:compile", compiling)
