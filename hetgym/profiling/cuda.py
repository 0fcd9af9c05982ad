"""Timing on CUDA devices: by events, or by the replay of CUDA graphs for work that is shorter than its launch."""

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from hetgym.errors import ConfigError, MissingExtra, require, shown
from hetgym.profiling.timing import Timing, repeat

GRAPH_BELOW = 200e-6
"""Callables whose eager time is less are replayed from a CUDA graph [s].

A launch takes 5 to 10 us on the host. A kernel of some 50 us hides its own launch, but a callable that launches a dozen
short kernels does not.
"""

BATCH = 1e-3  # Duration of work that is timed together, so that the resolution of events, 0.5 us, does not matter [s]
MOST_CALLS = 256  # Largest number of calls in one graph

_WARM_UP = 3
_LEAST = 1e-9
_FLUSH_SHARE = 2  # bytes that a flush reads, as a multiple of the second-level cache
_FLUSH_ROW = 8192  # floats that one block of threads adds in a flush
_AHEAD = 100_000  # clock cycles by which the host runs ahead, some 50 us

Method = Literal["graph", "events", "loop"]


@dataclass(frozen=True)
class CudaTiming:
    """A callable's time on a CUDA device."""

    timing: Timing  # time of one call
    # `events`: events around each call; `graph`: the replay of several captured calls, divided by their number; `loop`:
    # several eager calls, divided by their number, since they could not be captured
    method: Method
    calls: int  # number of calls that were timed together


def calls_at_once(seconds: float, batch: float = BATCH) -> int:
    """Number of calls of an estimated time [s] to time together, so that work takes ``batch`` [s].

    >>> [calls_at_once(seconds) for seconds in (0.0, 2e-6, 40e-6, 2e-3)]
    [256, 256, 25, 1]
    """
    if seconds <= batch / MOST_CALLS:
        return MOST_CALLS
    return max(1, min(MOST_CALLS, math.ceil(batch / seconds)))


def device_number(device: str) -> int:
    """Number of a CUDA device that torch sees, by its name such as ``cuda:0``; ``cuda`` is the first.

    Raises:
        ConfigError: not the name of a CUDA device, or no such device.
        MissingExtra: torch is not installed, or sees no CUDA device.
    """
    found = re.fullmatch(r"cuda(?::(\d{1,4}))?", device)
    if found is None:
        raise ConfigError(f"device {shown(device)}: expected cpu, or a CUDA device such as cuda:0")
    number = int(found[1] or 0)
    _torch_that_sees(number)
    return number


def _torch_that_sees(device: int) -> Any:
    """Torch, if it sees the CUDA device of a number."""
    torch = require("torch", "torch", "timing on CUDA")
    if not torch.cuda.is_available():
        raise MissingExtra("timing on CUDA needs a GPU and a torch that was built for CUDA")
    if not 0 <= device < torch.cuda.device_count():
        raise ConfigError(f"no CUDA device {device}; there are {torch.cuda.device_count()}, numbered from 0")
    return torch


def between(torch: Any, work: Callable[[], object], before: Callable[[], None] | None = None) -> float:
    """Seconds between two events around some work on the current stream."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    if before is not None:
        before()
    if hasattr(torch.cuda, "_sleep"):  # lets the host run ahead; otherwise its launch would be timed as well
        torch.cuda._sleep(_AHEAD)
    start.record()
    work()
    end.record()
    end.synchronize()
    return max(float(start.elapsed_time(end)) * 1e-3, _LEAST)


class CudaTimer:
    """Times callables on one CUDA device.

    Launches are asynchronous, so times are measured on the device, between two events in the stream. Calls that take
    less than :data:`GRAPH_BELOW` are captured several times into one CUDA graph, whose replay costs one launch. If
    capture fails (because an operator synchronises, or allocates outside torch) the calls are launched one after
    another instead; the reported method is then ``loop``, and the times include launches.

    Args:
        device: number of the device.
        flush: True to fill the second-level cache with other data before each call, as the rest of a graph
            would do. It is read, not written: lines that must be written back would lengthen the call. In CUDA
            graphs the flushes are captured as well, and their time is subtracted.
        budget: time for repetitions [s], see :func:`~hetgym.profiling.timing.repeat`.

    Raises:
        ConfigError: no such device.
        MissingExtra: torch is not installed, or sees no CUDA device.
    """

    def __init__(self, device: int = 0, *, flush: bool = False, budget: float = 0.6) -> None:
        torch = _torch_that_sees(device)
        self._torch: Any = torch
        self._device = device
        with torch.cuda.device(device):
            self._stream = torch.cuda.Stream()
        self._budget = budget
        cache = int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0)) or 64 << 20
        self._flushes = flush
        if flush:
            rows, where = _FLUSH_SHARE * cache // (4 * _FLUSH_ROW), f"cuda:{device}"
            self._waste, self._sums = torch.zeros((rows, _FLUSH_ROW), device=where), torch.zeros(rows, device=where)

    @contextmanager
    def stream(self) -> Iterator[None]:
        """A context in which work is launched on the stream of the measurements.

        A forward pass belongs in it if gradients are to be timed: torch launches them on the stream of the forward
        pass, and only work on the stream of the measurement can be captured.
        """
        torch = self._torch
        with torch.cuda.device(self._device):
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                yield

    def time(self, run: Callable[[], object]) -> CudaTiming:
        """Time a callable that launches work on the current stream of the device; its results are discarded.

        It is called several times beforehand, so that libraries choose their kernels and memory is allocated.
        """
        with self.stream(), self._torch.no_grad():
            for _ in range(_WARM_UP):
                run()
            estimate = min(between(self._torch, run) for _ in range(_WARM_UP))
            if estimate >= GRAPH_BELOW:
                return CudaTiming(
                    repeat(lambda: between(self._torch, run, self._flush), budget=self._budget), "events", 1
                )
            if self._flushes:
                estimate += min(between(self._torch, self._flush) for _ in range(_WARM_UP))
            return self._many(run, calls_at_once(estimate))

    def _many(self, run: Callable[[], object], calls: int) -> CudaTiming:
        def work() -> None:
            for _ in range(calls):
                self._flush()
                run()

        def overhead() -> None:
            for _ in range(calls):
                self._flush()

        method: Method = "graph"
        replay, idle = self._capture(work), self._capture(overhead) if self._flushes else None
        if replay is None or (self._flushes and idle is None):
            method, replay, idle = "loop", work, overhead if self._flushes else None

        def once() -> float:
            spent = 0.0 if idle is None else between(self._torch, idle)
            return max(between(self._torch, replay) - spent, _LEAST) / calls

        return CudaTiming(repeat(once, budget=self._budget), method, calls)

    def _capture(self, work: Callable[[], None]) -> Callable[[], object] | None:
        """Capture some work as a CUDA graph and return its replay; None if it cannot be captured."""
        torch = self._torch
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=self._stream):
                work()
        except RuntimeError:
            torch.cuda.synchronize()
            return None
        graph.replay()
        torch.cuda.synchronize()
        replay: Callable[[], object] = graph.replay
        return replay

    def _flush(self) -> None:
        if self._flushes:
            self._torch.sum(self._waste, dim=1, out=self._sums)
