"""Threads for kernels, which release the interpreter's lock while they run.

Threads share a list of items, such as lanes, and each takes the next item as soon as it is done with one. So a thread
that starts late, such as one that has to be woken, delays no other, and items may take any time.
"""

import os
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from hetgym._kernels.jit import lean, step
from hetgym._types import Int64Array

_LIMIT = "OMP_NUM_THREADS"

_PATIENCE = 20_000  # looks at a number, some 100 us, after which a thread that waits goes to sleep
_SLEEP = 2e-4  # s

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
        threads: number of threads, this one included.
    """
    shared = listed(items)
    if threads == 1:
        work(shared)
        return
    ended: list[BaseException | None] = []
    team = _team(threads - 1)
    for _ in range(threads - 1):
        team.put(_Task(work, shared, ended))
    try:
        work(shared)
    finally:
        _wait(shared, ended, threads - 1)
    for error in ended.copy():
        if error is not None:
            raise error


def _wait(shared: Int64Array, ended: list[BaseException | None], tasks: int) -> None:
    """Wait until all items of a list are done, or until all tasks have ended without that; then for an interrupt."""
    interrupt = None
    while True:
        try:
            while len(ended) < tasks and not _finished(shared, _PATIENCE):
                time.sleep(_SLEEP)
            break
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt


@intrinsic  # type: ignore[untyped-decorator]
def _add(typing: Any, numbers: Any, k: Any, value: Any) -> Any:
    """Add to an entry of an array of whole numbers atomically, and return its old value."""

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
    """True as soon as all items of a list are done, false if they are not after `patience` looks."""
    looks, items = 0, len(shared) - _FIRST
    while looks < patience and _add(shared, _DONE, 0) < items:
        looks += 1
    return looks < patience


class _Task(NamedTuple):
    """Work for another thread, which finds nothing left to do if it comes too late."""

    work: Callable[[Int64Array], object]  # see share
    shared: Int64Array  # the list of items
    ended: list[BaseException | None]  # gets the error with which the work ended, or None


class _Team:
    """Threads that wait for tasks; to hand one over takes a microsecond, a tenth of what executors of Python take."""

    def __init__(self) -> None:
        self.tasks: SimpleQueue[_Task] = SimpleQueue()
        self.size = 0

    def grow(self, size: int) -> None:
        """Ensure at least `size` worker threads."""
        while self.size < size:
            threading.Thread(target=self._work, name=f"hetgym-{self.size}", daemon=True).start()
            self.size += 1

    def put(self, task: _Task) -> None:
        """Give a task to the first thread that is free."""
        self.tasks.put(task)

    def _work(self) -> None:
        while True:
            work, shared, ended = self.tasks.get()
            error: BaseException | None = None
            try:
                work(shared)
            except BaseException as found:
                error = found
            ended.append(error)
            del work, shared, ended, error  # what they hold is not this thread's to keep


_teams: dict[int, _Team] = {}


def _team(size: int) -> _Team:
    """Threads of this process, which are started when they are needed; a forked child has none of its parent's."""
    process = os.getpid()
    if process not in _teams:
        _teams[process] = _Team()
    team = _teams[process]
    team.grow(size)
    return team
