"""Waiting for another process: polling of a word of shared memory, with a time limit."""

import os
from time import perf_counter_ns

from hetgym.execution.slots import ABORT, WAITS, SharedMemory

_SPINS = 2000  # Polls before a worker on cores of its own begins to yield them

_LOOKS_A_CHECK = 64


class Stopped(Exception):  # noqa: N818 - control flow within a worker, never seen by users
    """The run was aborted while this worker waited."""


class Waiter:
    """Waits on words of shared memory for at most ``patience`` [s].

    A poll takes 0.05 us, so a wait ends within a microsecond of the word's change; futexes and pipes would take 30 to
    40 us. Where workers share cores (``crowded``) the core is yielded after each poll.
    """

    def __init__(self, memory: SharedMemory, worker: int, crowded: bool, patience: float) -> None:
        self._words = memory.words
        self._waits = memory.layout.worker_word(worker, WAITS)
        self._spins = 1 if crowded else _SPINS
        self._patience = int(patience * 1e9)
        self._parent = os.getppid()

    def until(self, word: int, value: int, tensor: int = -1) -> None:
        """Return when a word has a value; Stopped if the run was aborted or ``tensor`` (-1 = none) took too long."""
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
