"""Timing on CUDA devices: events, and graph replay for what is shorter than its own launch.

Its logic is tested on a simulated device; on a real GPU it has run only where one was at hand, which
was not the case for anything that this repository publishes. Read times from a new kind of GPU with that
in mind.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from hetgym.errors import ConfigError, MissingExtra, require
from hetgym.profiling.timing import Timing, repeat

GRAPH_BELOW = 200e-6
"""What takes less when launched eagerly is replayed from a CUDA graph [s].

A launch takes 5 to 10 us of the host. A kernel of some 50 us hides its own, but not a callable that
launches a dozen short ones.
"""

BATCH = 1e-3
"""Work that is timed at once, so that an event's resolution of 0.5 us does not matter [s]."""

MOST_CALLS = 256
"""Largest number of calls in one graph."""

_WARM_UP = 3
_LEAST = 1e-9
_FLUSH_SHARE = 2  # sizes of the second-level cache that a flush writes
_AHEAD = 100_000  # clock cycles, some 50 us

Method = Literal["graph", "events", "loop"]


@dataclass(frozen=True)
class CudaTiming:
    """A callable's time on a CUDA device.

    Args:
        timing: of one call.
        method: ``events`` around each call; ``graph``, the replay of several calls over their number;
            ``loop``, the same from eager launches, since the calls could not be captured.
        calls: how many were timed at once.
    """

    timing: Timing
    method: Method
    calls: int


def calls_at_once(seconds: float, batch: float = BATCH) -> int:
    """How many calls to time at once.

    Args:
        seconds: estimate of one.
        batch: work that should be timed at once [s].

    >>> [calls_at_once(seconds) for seconds in (0.0, 2e-6, 40e-6, 2e-3)]
    [256, 256, 25, 1]
    """
    if seconds <= batch / MOST_CALLS:
        return MOST_CALLS
    return max(1, min(MOST_CALLS, math.ceil(batch / seconds)))


class CudaTimer:
    """Times callables on one CUDA device.

    Launches are asynchronous, so the clock is the device's: two events in the stream, and the time
    between them. Calls that take less than :data:`GRAPH_BELOW` are captured several times into one CUDA
    graph, whose replay costs one launch. Where capture fails (an operator that synchronises, or
    allocates outside torch) they are launched one after another instead, and the method says so: such
    times contain launches.

    Args:
        device: number of the device.
        flush: whether the second-level cache is overwritten before each call, as the rest of a graph
            would do. With graphs the flushes are captured too, and their own time is taken off.
        budget: seconds of repetitions, see :func:`~hetgym.profiling.timing.repeat`.

    Raises:
        ConfigError: no such device.
        MissingExtra: torch is not installed, or sees no CUDA device.
    """

    def __init__(self, device: int = 0, *, flush: bool = False, budget: float = 0.6) -> None:
        torch = require("torch", "torch", "timing on CUDA")
        if not torch.cuda.is_available():
            raise MissingExtra("timing on CUDA needs a GPU and a torch that was built for CUDA")
        if not 0 <= device < torch.cuda.device_count():
            raise ConfigError(f"no CUDA device {device}; there are {torch.cuda.device_count()}, numbered from 0")
        self._torch: Any = torch
        self._device = device
        self._budget = budget
        cache = int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0)) or 64 << 20
        self._waste = torch.empty(_FLUSH_SHARE * cache, dtype=torch.uint8, device=f"cuda:{device}") if flush else None

    def time(self, run: Callable[[], object]) -> CudaTiming:
        """Time a callable that launches work on the current stream of the device.

        It is called several times before, so that libraries have chosen their kernels and memory is
        allocated; what it returns is dropped.
        """
        torch = self._torch
        with torch.cuda.device(self._device), torch.no_grad():
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):  # captures run on a stream of their own, so warm up there
                for _ in range(_WARM_UP):
                    run()
                estimate = min(self._between(run) for _ in range(_WARM_UP))
                if estimate >= GRAPH_BELOW:
                    return CudaTiming(self._repeat(lambda: self._between(run, self._flush)), "events", 1)
                calls = calls_at_once(estimate)
                return self._many(run, calls)

    def _many(self, run: Callable[[], object], calls: int) -> CudaTiming:
        def work() -> None:
            for _ in range(calls):
                self._flush()
                run()

        def overhead() -> None:
            for _ in range(calls):
                self._flush()

        method: Method = "graph"
        replay, idle = self._capture(work), None if self._waste is None else self._capture(overhead)
        if replay is None or (self._waste is not None and idle is None):
            method, replay, idle = "loop", work, None if self._waste is None else overhead

        def once() -> float:
            spent = 0.0 if idle is None else self._between(idle)
            return max(self._between(replay) - spent, _LEAST) / calls

        return CudaTiming(self._repeat(once), method, calls)

    def _capture(self, work: Callable[[], None]) -> Callable[[], object] | None:
        """The replay of some work as a CUDA graph; None if it cannot be captured."""
        torch = self._torch
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                work()
        except RuntimeError:
            torch.cuda.synchronize()
            return None
        graph.replay()
        torch.cuda.synchronize()
        replay: Callable[[], object] = graph.replay
        return replay

    def _between(self, work: Callable[[], object], before: Callable[[], None] | None = None) -> float:
        """Seconds between two events around some work."""
        torch = self._torch
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if before is not None:
            before()
        if hasattr(torch.cuda, "_sleep"):  # the host runs ahead, or its launch would be timed on an idle stream
            torch.cuda._sleep(_AHEAD)
        start.record()
        work()
        end.record()
        end.synchronize()
        return max(float(start.elapsed_time(end)) * 1e-3, _LEAST)

    def _flush(self) -> None:
        if self._waste is not None:
            self._waste.zero_()

    def _repeat(self, run: Callable[[], float]) -> Timing:
        return repeat(run, budget=self._budget)
