"""Waiting for another process: a look at a word of shared memory, over and over, but never for ever."""

from __future__ import annotations

import os
from time import perf_counter_ns

from hetgym.execution.slots import ABORT, WAITS, SharedMemory

_SPINS = 2000
"""Looks before the core is offered to others; on cores of its own a worker meets nobody there."""

_LOOKS_A_CHECK = 64


class Stopped(Exception):  # noqa: N818 - a worker's way out, seen by nobody else
    """The run was called off while this worker waited."""


class Waiter:
    """Waits on words of shared memory.

    A look costs 0.05 us, so a wait ends within a microsecond of the word's change; futexes and pipes
    take 30 to 40 us.

    Args:
        memory: shared by the worker processes.
        worker: number of the worker that waits.
        crowded: whether workers share cores: then each look lets the others run.
        patience: longest wait [s].
    """

    def __init__(self, memory: SharedMemory, worker: int, crowded: bool, patience: float) -> None:
        self._words = memory.words
        self._waits = memory.layout.worker_word(worker, WAITS)
        self._spins = 1 if crowded else _SPINS
        self._patience = int(patience * 1e9)
        self._parent = os.getppid()

    def until(self, word: int, value: int, tensor: int = -1) -> None:
        """Return when a word has a value.

        Args:
            word: its number.
            value: what it must become.
            tensor: what is waited for, for messages.

        Raises:
            Stopped: the parent gave the run up, its parent died, or the wait took too long.
        """
        words = self._words
        for _ in range(self._spins):
            if words[word] == value:
                return
        words[self._waits] = tensor + 2
        give_up = perf_counter_ns() + self._patience
        while words[word] != value:
            for _ in range(_LOOKS_A_CHECK):
                os.sched_yield()
                if words[word] == value:
                    break
            else:
                if words[ABORT] or os.getppid() != self._parent or perf_counter_ns() > give_up:
                    raise Stopped
        words[self._waits] = 0
