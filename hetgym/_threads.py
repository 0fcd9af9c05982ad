"""Threads for kernels, which release the interpreter's lock while they run.

Threads share a list of items, such as lanes, and each takes the next item as soon as it is done with one. So a thread
that starts late, as one that has to be woken does, holds nobody up, and items may take as long as they like.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from hetgym._jit import lean, step
from hetgym._types import Int64Array

_LIMIT = "OMP_NUM_THREADS"

_PATIENCE = 20_000  # looks at a number, some 100 us, after which a thread that waits goes to sleep

_TAKEN, _DONE, _FIRST = 0, 1, 2  # in a list: how many items are taken, how many are done, and the first item


def cores() -> int:
    """Cores that this process may use: those that it is bound to, at most as many as ``OMP_NUM_THREADS`` says."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get(_LIMIT, "")
    return min(found, int(limit)) if limit.isdecimal() and int(limit) > 0 else found


def listed(items: Int64Array) -> Int64Array:
    """A list of items, none of them negative, for a kernel that takes them by :func:`take`."""
    shared = np.zeros(_FIRST + len(items), np.int64)
    shared[_FIRST:] = items
    return shared


def share(work: Callable[[Int64Array], object], items: Int64Array, threads: int) -> None:
    """Let a kernel work on items, on several threads at the same time; return when all are done.

    Args:
        work: calls the kernel with a list, from which it takes items by :func:`take` until none is left, and says
            :func:`done` of each. What it does with one item must not depend on the others.
        items: none of them negative.
        threads: how many, this one included.
    """
    shared = listed(items)
    others = [_team().submit(work, shared) for _ in range(threads - 1)]
    try:
        work(shared)
    finally:
        if others and not _finished(shared, _PATIENCE):
            for other in others:
                other.cancel()  # if it has not begun, it comes too late
            wait(others)
    for other in others:
        if other.done() and not other.cancelled():
            other.result()  # an error


@intrinsic  # type: ignore[untyped-decorator]
def _add(typing: Any, numbers: Any, k: Any, value: Any) -> Any:
    """Add to an entry of an array of whole numbers in one piece, and return what it was before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", builder.gep(array.data, [arguments[1]]), arguments[2], "seq_cst")

    return types.int64(numbers, types.int64, types.int64), generate


@step
def take(shared: Int64Array) -> int:
    """The next item of a list; -1 if none is left."""
    k = _FIRST + _add(shared, _TAKEN, 1)
    return int(shared[k]) if k < len(shared) else -1


@step
def done(shared: Int64Array) -> None:
    """Say that an item that was taken from a list is done."""
    _add(shared, _DONE, 1)


@lean
def _finished(shared: Int64Array, patience: int) -> bool:
    """True as soon as all items of a list are done, false if they are not after so many looks."""
    looks, items = 0, len(shared) - _FIRST
    while looks < patience and _add(shared, _DONE, 0) < items:
        looks += 1
    return looks < patience


_teams: dict[int, ThreadPoolExecutor] = {}


def _team() -> ThreadPoolExecutor:
    """Threads of this process, which are started when they are needed; a forked child has none of its parent's."""
    process = os.getpid()
    if process not in _teams:
        _teams[process] = ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1), thread_name_prefix="hetgym")
    return _teams[process]
