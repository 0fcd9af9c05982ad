"""Timing of operators within a run of their graph.

These are the run times that matter for planning a graph: weights were last read in the previous run, inputs have just
been written by the preceding operator, and other operators have evicted code from the caches.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetgym._types import FloatArray
from hetgym.errors import require
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.transforms.operands import operands
from hetgym.profiling.kernels import Weights, activations, make_kernel


@dataclass(frozen=True)
class GraphTiming:
    """Times of a graph that ran several times.

    Attributes:
        seconds: [n, rounds] time of each operator [s].
        wall: [rounds] time of the whole graph, including the passing of tensors [s].
    """

    seconds: FloatArray
    wall: FloatArray


class GraphRunner:
    """A graph whose operators run one after another, in topological order, in this process.

    Args:
        graph: the graph; all of its operators must have torch kernels.
        device: a torch device.
        seed: seed of weights and of the graph's inputs.

    Raises:
        UnsupportedOperator: an operator that torch cannot run.
    """

    def __init__(self, graph: DataflowGraph, device: str = "cpu", seed: int = 0) -> None:
        torch = require("torch", "torch", "running graphs")
        rng = torch.Generator().manual_seed(seed)
        self.graph = graph
        self._torch = torch
        self._cuda = device != "cpu"
        self._order: list[int] = graph.topological_order.tolist()
        weights = Weights(seed)
        kernels = [make_kernel(op, device, rng, weights) for op in graph.operators]
        sources = operands(graph)
        readers = [0] * len(graph)
        self._steps: list[tuple[Any, ...]] = []
        for i in self._order:
            op, given = graph.operators[i], iter(activations(graph.operators[i], device, rng))
            reads: list[tuple[int, int] | Any] = []
            for at, tensor in enumerate(op.inputs):
                if not tensor.constant:
                    value, source = next(given), sources[i][at]
                    reads.append(value if source is None else (int(source[0]), int(source[1])))
            before = sorted({read[0] for read in reads if isinstance(read, tuple)})
            for j in before:
                readers[j] += 1
            self._steps.append((i, kernels[i], reads, before))
        self._readers = readers

    def run(self) -> tuple[FloatArray, float]:
        """Run the graph once.

        Returns:
            [n] seconds of each operator, and seconds of the whole graph.
        """
        clock: Callable[[], Any] = self._event if self._cuda else time.perf_counter_ns
        left = self._readers.copy()
        values: dict[int, tuple[Any, ...]] = {}
        starts: list[Any] = [None] * len(self.graph)
        ends: list[Any] = [None] * len(self.graph)
        begin = clock()
        for i, kernel, reads, before in self._steps:
            given = [values[read[0]][read[1]] if isinstance(read, tuple) else read for read in reads]
            starts[i] = clock()
            result = kernel(*given)
            ends[i] = clock()
            values[i] = result
            del given, result
            for j in before:
                left[j] -= 1
                if not left[j]:
                    del values[j]
        last = clock()
        if self._cuda:
            last.synchronize()
            pairs = [*zip(starts, ends, strict=True), (begin, last)]
            spans = np.array([start.elapsed_time(end) for start, end in pairs]) * 1e-3
            return spans[:-1], float(spans[-1])
        return np.subtract(ends, starts) * 1e-9, (last - begin) * 1e-9

    def _event(self) -> Any:
        """An event in the device's stream; launches are asynchronous, so the host's clock cannot be used."""
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def time(self, rounds: int = 11, warm_up: int = 3) -> GraphTiming:
        """Run the graph several times.

        Args:
            rounds: number of timed rounds.
            warm_up: number of discarded rounds before these.
        """
        for _ in range(warm_up):
            self.run()
        found = [self.run() for _ in range(rounds)]
        return GraphTiming(np.array([times for times, _ in found]).T, np.array([wall for _, wall in found]))
