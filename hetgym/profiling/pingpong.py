"""One end of a link between two processes: sends tensors through shared memory, or receives them.

:mod:`hetgym.profiling.links` runs it as a program. Both ends poll words of shared memory; the clock is the system's
monotonic one, which all cores share.
"""

import json
import mmap
import os
from time import perf_counter_ns
from typing import Any

import numpy as np

from hetgym._types import FloatArray
from hetgym.errors import ProfilingError
from hetgym.profiling.child import request

SENT, SEEN, STAMP, WORDS = 0, 16, 32, 48
"""Words of shared memory, each in a separate cache line: last message, last answer, and the time of the answer."""

DATA = mmap.PAGESIZE  # Offset of the messages [byte]

PASSES = 3

_LOOKS = 4096


def memory_size(area: int) -> int:
    """Size of the shared memory for messages of up to ``area`` bytes in all [byte]."""
    return DATA + area


class End:
    """One end of the link; base of both directions.

    Args:
        descriptor: descriptor of the shared memory.
        area: bytes of the memory that hold messages.
        crowded: True if both ends share a core; the core is then yielded after each poll.
        patience: longest wait [s].
    """

    def __init__(self, descriptor: int, area: int, crowded: bool, patience: float) -> None:
        self.memory = mmap.mmap(descriptor, memory_size(area))
        self.words = memoryview(self.memory)[: 8 * WORDS].cast("q")
        self.data = np.frombuffer(self.memory, np.uint8, area, DATA)
        self.area = area
        self._crowded = crowded
        self._give_up = perf_counter_ns() + int(patience * 1e9)
        self._parent = os.getppid()
        self.data[:: mmap.PAGESIZE].sum()  # no page fault later

    def wait(self, word: int, value: int) -> None:
        """Return when a word has reached a value; ProfilingError without an answer, or when the parent is gone."""
        words = self.words
        while True:
            for _ in range(1 if self._crowded else _LOOKS):
                if words[word] >= value:
                    return
            if self._crowded:
                os.sched_yield()
            if perf_counter_ns() > self._give_up or os.getppid() != self._parent:
                raise ProfilingError("the other end of the link does not answer")

    def slot(self, message: int, size: int) -> Any:
        """The place of a message; messages rotate through the area, as a graph's tensors have separate places."""
        start = message % (self.area // size) * size
        return self.data[start : start + size]


def send(end: End, sizes: list[int], rounds: int) -> tuple[FloatArray, FloatArray]:
    """Run the sending end, with ``rounds`` messages of each size [byte] in each of three passes through the sizes.

    Returns:
        [20 rounds] half round trips of a flag without a message [s]; [sizes, 3 rounds] times from the start of writing
        a tensor to shared memory until the other end sees that it is complete [s].
    """
    words, clock, message = end.words, perf_counter_ns, 0
    flags = np.empty(20 * rounds)
    for i in range(len(flags)):
        message += 1
        start = clock()
        words[SENT] = message
        end.wait(SEEN, message)
        flags[i] = clock() - start
    times = np.empty((len(sizes), PASSES * rounds))
    for repetition in range(PASSES):  # each size meets different moments of the machine
        for number, size in enumerate(sizes):
            source = np.zeros(size, np.uint8)
            for i in range(rounds):
                message += 1
                source += 1  # as an operator would have written its result just now
                slot = end.slot(message, size)
                start = clock()
                np.copyto(slot, source)
                words[SENT] = message
                end.wait(SEEN, message)
                times[number, repetition * rounds + i] = words[STAMP] - start
    return flags * 0.5e-9, times * 1e-9


def receive(end: End, sizes: list[int], rounds: int) -> None:
    """Run the receiving end, which reads each tensor after it has recorded its arrival."""
    words, message = end.words, 0
    for _ in range(20 * rounds):
        message += 1
        end.wait(SENT, message)
        words[SEEN] = message
    for _ in range(PASSES):
        for size in sizes:
            for _ in range(rounds):
                message += 1
                end.wait(SENT, message)
                words[STAMP] = perf_counter_ns()
                end.slot(message, size).max()  # so that its lines lie in this core's caches when written again
                words[SEEN] = message


def main() -> None:
    """Run the end that the request names."""
    asked, host = request()
    os.sched_setaffinity(0, host.cores)
    end = End(asked["descriptor"], asked["area"], asked["crowded"], asked["patience"])
    answer: dict[str, Any] = {}
    if asked["sends"]:
        flags, times = send(end, asked["sizes"], asked["rounds"])
        answer = {"flag": float(np.median(flags)), "seconds": np.median(times, axis=1).tolist()}
        answer["spread"] = np.quantile(times, (0.1, 0.9), axis=1).tolist()
    else:
        receive(end, asked["sizes"], asked["rounds"])
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
