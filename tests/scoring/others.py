"""Other users and other processes, in whose place a test looks at what a measure keeps from them."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

NOBODY = 65534


def in_child(function: Callable[[], bool]) -> bool:
    """Call a function in a fork; False if it raises."""
    with warnings.catch_warnings(action="ignore"):  # of threads, which it does not use
        child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if function() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def as_other_user(function: Callable[[], bool]) -> bool:
    """As :func:`in_child`, without a root user's privileges."""

    def call() -> bool:
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        return function()

    return in_child(call)


def descendants(process: int) -> list[int]:
    """Children of a process, their children and so on."""
    try:
        words = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []
    return [number for word in words for number in (int(word), *descendants(int(word)))]


def all_gone(processes: Iterable[int], within: float) -> bool:
    """True if all processes end within a time [s]."""
    until = time.monotonic() + within
    while any(os.path.exists(f"/proc/{number}") for number in processes):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
