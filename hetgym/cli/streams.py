"""The standard streams of the command when they cannot be written, and the signals that end it.

Results are on the disk before they are printed. A reader that goes away (``| head``) or a full device is
therefore no reason to stop: output is dropped from then on, and the exit code reports it at the end.
"""

import codecs
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ERRORS = "hetgym-plain"  # Name of the handler of characters that an encoding does not have

_PLAIN = {"–": "-", "…": "...", "×": "x", "µ": "u", "±": "+-", "·": ".", "τ": "tau"}


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Similar characters of ASCII; a question mark where there are none."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(c, "?") for c in error.object[error.start : error.end]), error.end


codecs.register_error(ERRORS, _plain)


class _Forgiving(io.RawIOBase):
    """A file descriptor that drops output from the first error on; ``descriptor`` stays open when it is closed.

    ``error`` says why it cannot be written; None as long as it can.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: Any) -> int:
        if self.error is None:
            try:
                return os.write(self._descriptor, data)
            except OSError as error:
                self.error = error
        return len(data)


@contextmanager
def forgiving() -> Iterator[list[OSError]]:
    """Keep printing from raising errors while the context is open.

    Yields:
        A list that holds, once the context is closed, the error of stdout if there was one. A reader that
        went away is not an error.
    """
    errors: list[OSError] = []
    raws: dict[str, _Forgiving] = {}
    before = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    closed = _occupy_standard_descriptors()
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = before[name]
        if number in closed or _writes_to(stream, number):
            raws[name] = _Forgiving(number)
            buffered = io.BufferedWriter(raws[name])
            encoding = getattr(stream, "encoding", None) or "utf-8"
            setattr(
                sys,
                name,
                io.TextIOWrapper(buffered, encoding, ERRORS, line_buffering=raws[name].isatty() or number == 2),
            )
    if 1 in closed:
        raws["stdout"].error = OSError(9, os.strerror(9))
    try:
        yield errors
    finally:
        for name in raws:
            getattr(sys, name).flush()
            setattr(sys, name, before[name])
        error = raws["stdout"].error if "stdout" in raws else None
        if error is not None and not isinstance(error, BrokenPipeError):
            errors.append(error)


def _writes_to(stream: Any, descriptor: int) -> bool:
    """True if a stream is that of a descriptor; a replacement, such as that of a test, is left alone."""
    try:
        stream.flush()
        return bool(stream.fileno() == descriptor)
    except (AttributeError, OSError, ValueError):
        return False


def _occupy_standard_descriptors() -> set[int]:
    """Open the null device in place of standard streams that are closed, or the next file would take their number."""
    closed = set()
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            closed.add(number)
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free, which is this one
    return closed


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP interrupt as Ctrl-C does; what is ignored, as under ``nohup``, stays so."""
    before = {}
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            before[number] = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
