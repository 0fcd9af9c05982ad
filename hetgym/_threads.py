"""Threads for kernels, which release the interpreter's lock while they run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Part = TypeVar("Part")

_LIMIT = "OMP_NUM_THREADS"

_MOST = 256  # threads


def cores() -> int:
    """Cores that this process may use: those that it is bound to, at most as many as ``OMP_NUM_THREADS`` says."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get(_LIMIT, "")
    return min(found, int(limit)) if limit.isdecimal() and int(limit) > 0 else found


def each(work: Callable[[Part], object], parts: Sequence[Part]) -> None:
    """Work on all parts at the same time: on the first one in this thread, on the others in threads that are kept.

    Args:
        work: the function, which must release the lock for this to gain anything. Parts must not share what it writes.
        parts: its arguments.
    """
    others = [_team().submit(work, part) for part in parts[1:]]
    try:
        work(parts[0])
    finally:
        for other in others:
            other.exception()  # no thread may go on when this function returns
    for other in others:
        other.result()


_teams: dict[int, ThreadPoolExecutor] = {}


def _team() -> ThreadPoolExecutor:
    """Threads of this process, which are started when they are needed; a forked child has none of its parent's."""
    process = os.getpid()
    if process not in _teams:
        _teams[process] = ThreadPoolExecutor(_MOST, thread_name_prefix="hetgym")
    return _teams[process]
