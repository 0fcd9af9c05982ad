"""Shared memory of worker processes: words for the progress of each worker, and a slot for every tensor.

The memory has no name in the file system; the processes inherit a descriptor. It is therefore released when all
processes have ended, even if they were killed.
"""

import mmap
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._memory import available
from hetgym.errors import ExecutionError
from hetgym.graph.ops import DTYPE_BYTES, Tensor

LINE = 8  # Words per cache line. Words that different processes write or poll are on separate lines.

ABORT, GO, ZERO = 0, LINE, 2 * LINE
"""Words that all workers share: number of the worker that failed, plus 1; number of the current run; its start [ns]."""

READY, ENDED, PLACE, WAITS = 0, 1, 2, 3
"""Words of each worker: run that it is ready for; run that it has ended; steps begun; tensor it waits for, plus 1."""

_HEAD = 3 * LINE
_PER_WORKER = 4 * LINE


class Slot(NamedTuple):
    """The place of a tensor in the shared memory."""

    tensor: Tensor  # type of the tensor
    offset: int  # distance from the start of the memory [byte]


@dataclass(frozen=True)
class Layout:
    """The layout of the shared memory."""

    operators: int  # number of operators
    workers: int  # number of workers
    tensors: tuple[Tensor, ...]  # types of the tensors that may move between devices

    def worker_word(self, worker: int, word: int) -> int:
        """Number of one worker's word."""
        return _HEAD + worker * _PER_WORKER + word * LINE

    def flag(self, tensor: int) -> int:
        """Number of the word that holds the last run in which a tensor was published."""
        return _HEAD + self.workers * _PER_WORKER + tensor * LINE

    @property
    def times(self) -> int:
        """Number of the first word of the time stamps."""
        return self.flag(len(self.tensors))

    @property
    def words(self) -> int:
        """Number of words."""
        return self.times + 2 * self.operators + 2 * len(self.tensors)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The slot of each tensor, on separate pages."""
        offset, slots = -(-8 * self.words // mmap.PAGESIZE) * mmap.PAGESIZE, []
        for tensor in self.tensors:
            slots.append(Slot(tensor, offset))
            size = int(tensor.size * DTYPE_BYTES[tensor.dtype])
            offset += -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        return tuple(slots)

    @property
    def size(self) -> int:
        """Bytes of the whole memory."""
        last = self.slots[-1] if self.tensors else None
        end = 8 * self.words if last is None else last.offset + int(last.tensor.size * DTYPE_BYTES[last.tensor.dtype])
        return max(1, -(-end // mmap.PAGESIZE)) * mmap.PAGESIZE


class Times(NamedTuple):
    """Time stamps of one run, from the clock that all processes share [ns]."""

    # start, finish: [n] start and finish of each operator
    start: npt.NDArray[np.int64]
    finish: npt.NDArray[np.int64]
    # sent, published: [t] begin and end of writing each tensor to its slot; for tensors that did not move these are of
    # an earlier run, or 0
    sent: npt.NDArray[np.int64]
    published: npt.NDArray[np.int64]


class SharedMemory:
    """One process's mapping of the shared memory.

    The descriptor is that of memory that another process made; None makes new memory, or raises ExecutionError if the
    machine does not have enough. ``words`` are read and written one by one; ``data`` are all bytes, writable.
    """

    def __init__(self, layout: Layout, descriptor: int | None = None) -> None:
        self.layout = layout
        self.descriptor = _new_memory(layout.size) if descriptor is None else descriptor
        self.data = mmap.mmap(self.descriptor, layout.size)
        self.words = memoryview(self.data)[: 8 * layout.words].cast("q")
        self._numbers = np.frombuffer(self.data, np.int64, layout.words)

    def times(self) -> Times:
        """The time stamps; views, not copies."""
        n, t = self.layout.operators, len(self.layout.tensors)
        return Times(*np.split(self._numbers[self.layout.times :], np.cumsum([n, n, t])))

    def touch(self) -> None:
        """Read every page once, so that this process has no page faults later."""
        np.frombuffer(self.data, np.uint8)[:: mmap.PAGESIZE].sum()

    def fill(self) -> None:
        """Write every page once, so that the system has allocated all of them."""
        np.frombuffer(self.data, np.uint8)[:: mmap.PAGESIZE] = 0

    def close(self) -> None:
        """Release the memory; it stays alive while views of it exist."""
        self.words.release()
        del self._numbers
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def tensors_of(tensors: Sequence[Tensor], operators: int, workers: int) -> Layout:
    """Lay out tensors; ExecutionError if elements of a dtype are not a whole number of bytes."""
    for tensor in tensors:
        if DTYPE_BYTES[tensor.dtype] != int(DTYPE_BYTES[tensor.dtype]):
            raise ExecutionError(f"tensors of {tensor.dtype} cannot move between devices")
    return Layout(operators, workers, tuple(tensors))


def _new_memory(size: int) -> int:
    """Make new memory without a name and return its descriptor."""
    free = available()
    if size > free:
        raise ExecutionError(f"the tensors take {size / 1e9:.3g} GB of shared memory; {free / 1e9:.3g} GB are free")
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("hetgym")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor
