"""Timing of operators within a run of their graph.

These are the run times that matter for planning a graph: weights were last read in the previous run, inputs have just
been written by the preceding operator, and other operators have evicted code from the caches.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any

import numpy as np

from hetgym._types import FloatArray
from hetgym.errors import require
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.transforms.operands import operands
from hetgym.profiling.kernels import Weights, make_kernel, values_of

_AHEAD = 3.0  # head start of the host, as a multiple of the time that it needs to launch the operators
_QUEUED = 128  # operators with a head start of their own: a stream's queue holds about a thousand launches and events
_CLOCK = 2e9  # cycles of a GPU in a second, about
_IDLE = 33  # events one after another, whose distance is subtracted from each operator's
_LEAST = 1e-8  # of an operator that launches nothing [s]


@dataclass(frozen=True)
class GraphTiming:
    """Times of a graph that ran several times."""

    seconds: FloatArray  # [n, rounds] time of each operator [s]
    # [rounds] time of the whole graph, including the passing of tensors and, on CUDA, all launches [s]
    wall: FloatArray


class GraphRunner:
    """A graph whose operators run one after another, in topological order, in this process.

    ``seed`` is that of weights and of the graph's inputs.

    Raises:
        UnsupportedOperator: an operator that torch cannot run.
    """

    def __init__(self, graph: DataflowGraph, device: str = "cpu", seed: int = 0) -> None:
        torch = require("torch", "torch", "running graphs")
        rng = torch.Generator(device).manual_seed(seed)
        self.graph = graph
        self._torch = torch
        self._device, self._cuda = device, device != "cpu"
        self._order: list[int] = graph.topological_order.tolist()
        weights = Weights(seed, device)
        kernels = [make_kernel(op, device, rng, weights) for op in graph.operators]
        sources = operands(graph)
        readers = [0] * len(graph)
        self._steps: list[tuple[Any, ...]] = []
        for i in self._order:
            op = graph.operators[i]
            free = [at for at, tensor in enumerate(op.inputs) if not tensor.constant]
            reads = [sources[i][at] or values_of(op, at, device, rng) for at in free]
            before = sorted({read[0] for read in reads if isinstance(read, tuple)})
            for j in before:
                readers[j] += 1
            self._steps.append((i, kernels[i], reads, before))
        self._readers = readers

    def run(self) -> tuple[FloatArray, float]:
        """[n] seconds of each operator and seconds of the whole graph in one run; on CUDA in two, one for each.

        Events around each operator keep the host busy and would lengthen the graph, so the graph's time is taken
        without them. In the other run the host is given a head start, so that an operator's time is that of the
        device and not of its launch, and the time between two events with nothing in between is subtracted.
        """
        if self._cuda:
            return self._run_on_cuda()
        clock = time.perf_counter_ns
        begin = clock()
        starts, ends = self._walk(clock)
        last = clock()
        return np.subtract(ends, starts) * 1e-9, (last - begin) * 1e-9

    def _walk(self, mark: Callable[[], Any]) -> tuple[list[Any], list[Any]]:
        """Run all operators; returns what ``mark`` gave before and after each."""
        left = self._readers.copy()
        values: dict[int, tuple[Any, ...]] = {}
        starts: list[Any] = [None] * len(self.graph)
        ends: list[Any] = [None] * len(self.graph)
        for i, kernel, reads, before in self._steps:
            given = [values[read[0]][read[1]] if isinstance(read, tuple) else read for read in reads]
            starts[i] = mark()
            result = kernel(*given)
            ends[i] = mark()
            values[i] = result
            del given, result
            for j in before:
                left[j] -= 1
                if not left[j]:
                    del values[j]
        return starts, ends

    def _run_on_cuda(self) -> tuple[FloatArray, float]:
        torch = self._torch
        torch.cuda.synchronize(self._device)
        begin, issued = self._event(), time.perf_counter()
        self._walk(lambda: None)
        last, issued = self._event(), time.perf_counter() - issued
        last.synchronize()
        marks, wait = count(), _AHEAD * issued * min(1.0, _QUEUED / len(self.graph))

        def mark() -> Any:
            if next(marks) % (2 * _QUEUED) == 0:
                self._occupy(wait)
            return self._event()

        self._occupy(wait)
        idle = [self._event() for _ in range(_IDLE)]
        starts, ends = self._walk(mark)
        torch.cuda.synchronize(self._device)
        nothing = float(np.median([start.elapsed_time(end) for start, end in pairwise(idle)]))
        spans = np.array([start.elapsed_time(end) for start, end in zip(starts, ends, strict=True)]) - nothing
        return np.maximum(spans * 1e-3, _LEAST), float(begin.elapsed_time(last)) * 1e-3

    def _occupy(self, seconds: float) -> None:
        """Occupy the device's stream for about some time, so that the host runs ahead."""
        if hasattr(self._torch.cuda, "_sleep"):
            self._torch.cuda._sleep(int(seconds * _CLOCK))

    def _event(self) -> Any:
        """An event in the device's stream; launches are asynchronous, so the host's clock cannot be used."""
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def time(self, rounds: int = 11, warm_up: int = 3) -> GraphTiming:
        """Run the graph several times: ``rounds`` timed rounds after ``warm_up`` discarded ones."""
        for _ in range(warm_up):
            self.run()
        found = [self.run() for _ in range(rounds)]
        return GraphTiming(np.array([times for times, _ in found]).T, np.array([wall for _, wall in found]))
