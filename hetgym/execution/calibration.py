"""Calibration: costs of operators, publishing, remote reading and dispatch within a running graph.

Isolated timings mispredict whole runs by 12 to 30 %: in a graph caches are colder and memory is busier. All costs are
therefore measured in runs of the graph itself: with all operators on each single device, and with the operators
assigned to the devices in turn, so that nearly every tensor crosses between devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hetgym._types import BoolArray, FloatArray, IntArray, frozen
from hetgym.execution.running import Execution
from hetgym.graph.dataflow import DataflowGraph
from hetgym.problem import Problem
from hetgym.schedule import Schedule

_CLEARLY = 20e-6  # an operator has waited if its input arrived this long after the previous operator ended [s]


def calibration_schedules(graph: DataflowGraph, devices: int) -> list[Schedule]:
    """All operators on each single device, then assigned to the devices in turn with every offset.

    Device orders are topological.

    >>> from hetgym.graph import Operator, Tensor
    >>> x = Tensor((2,))
    >>> two = DataflowGraph([Operator("a", "Relu", (x,), (x,)), Operator("b", "Relu", (x,), (x,))], [(0, 0, 1)])
    >>> [schedule.assignment.tolist() for schedule in calibration_schedules(two, 2)]
    [[0, 0], [1, 1], [0, 1], [1, 0]]
    """
    position = np.empty(len(graph), np.int64)
    position[graph.topological_order] = np.arange(len(graph))
    alone = [in_topological_order(graph, np.full(len(graph), d), devices, f"all-{d}") for d in range(devices)]
    if devices == 1:
        return alone
    return alone + [
        in_topological_order(graph, (position + shift) % devices, devices, f"alternating-{shift}")
        for shift in range(devices)
    ]


def in_topological_order(graph: DataflowGraph, assignment: Any, devices: int, name: str) -> Schedule:
    """A schedule of an assignment whose device orders follow one topological order, so that it cannot deadlock."""
    where = np.asarray(assignment)[graph.topological_order]
    order = [graph.topological_order[where == d] for d in range(devices)]
    return Schedule(assignment, order, scheduler=name)


@dataclass(frozen=True, eq=False)
class Line:
    """Time as a function of bytes: ``seconds + bytes * per_byte``, with non-negative coefficients."""

    seconds: float
    per_byte: float

    def __call__(self, size: FloatArray) -> FloatArray:
        """[k] times for [k] sizes [s]."""
        return self.seconds + np.asarray(size) * self.per_byte


@dataclass(frozen=True, eq=False)
class Calibration:
    """Costs of one graph on the worker processes of one :class:`Cluster`."""

    graph: DataflowGraph  # the graph that ran
    devices: tuple[str, ...]  # names of the devices
    local: FloatArray  # [n, d] run time of each operator if all operators are on its device [s]
    extra: FloatArray  # [n, d] additional run time if its inputs come from other devices [s]; NaN if not measured
    extra_bytes: FloatArray  # [n, d] bytes from other devices in the measurement of `extra` [byte]
    dispatch: FloatArray  # [d] time from one operator to the next [s]
    publish: FloatArray  # [t, d] time to write a tensor to shared memory [s]; NaN if not measured
    # publishing, reading: for each device a line through the measured times of writing a tensor, and through the
    # additional times of operators with remote inputs
    publishing: tuple[Line, ...]
    reading: tuple[Line, ...]
    lag: float  # time from a tensor's publication to the start of the operator that waits for it, beyond `dispatch` [s]

    def with_costs(self, local: FloatArray) -> Calibration:
        """A calibration with other operator costs ([n, d] seconds) and the fitted lines for all communication."""
        nothing, publish = np.full_like(self.extra, np.nan), np.full_like(self.publish, np.nan)
        return replace(self, local=frozen(np.array(local)), extra=nothing, publish=publish)

    def summary(self) -> dict[str, Any]:
        """The main figures, for reports."""
        return {
            "single_device_s": (self.local + self.dispatch).sum(axis=0).tolist(),
            "dispatch_s": self.dispatch.tolist(),
            "lag_s": self.lag,
            "publish_latency_s": [line.seconds for line in self.publishing],
            "publish_bandwidth": [1 / line.per_byte if line.per_byte > 0 else None for line in self.publishing],
            "remote_read_s": [line.seconds for line in self.reading],
            "remote_read_s_per_byte": [line.per_byte for line in self.reading],
        }


def calibrate(graph: DataflowGraph, runs: Sequence[Execution]) -> Calibration:
    """Compute the costs of a graph from runs of :func:`calibration_schedules`, in the order of these."""
    problem = runs[0].problem
    n, d = len(graph), problem.num_devices
    alone, dealt = runs[:d], runs[d:]
    local = np.stack([run.duration for run in alone], axis=1)
    dispatch = np.array([max(0.0, run.makespan - float(run.duration.sum())) / n for run in alone])
    extra, extra_bytes = np.full((n, d), np.nan), np.zeros((n, d))
    tensors = int(problem.edge_tensor.max()) + 1 if problem.num_edges else 0
    publish = np.full((tensors, d), np.nan)
    lags: list[float] = []
    for run in dealt:
        where = run.schedule.assignment
        size = remote_bytes(problem, where, run.loaded.order)
        reads = np.flatnonzero(size > 0)
        extra[reads, where[reads]] = run.duration[reads] - local[reads, where[reads]]
        extra_bytes[reads, where[reads]] = size[reads]
        edges = np.flatnonzero(run.trace().remote).astype(np.int32)
        took = np.median(run.arrived[:, edges] - run.sent[:, edges], axis=0)
        publish[problem.edge_tensor[edges], where[problem.edge_source[edges]]] = took
        lags += _lags(run, edges).tolist()
    sizes = tensor_bytes(problem)
    publishing = tuple(fit_line(sizes, publish[:, a]) for a in range(d))
    reading = tuple(fit_line(extra_bytes[:, a], extra[:, a]) for a in range(d))
    lag = max(0.0, float(np.median(lags)) - float(dispatch.mean())) if lags else 0.0
    figures = frozen(local), frozen(extra), frozen(extra_bytes), frozen(dispatch), frozen(publish)
    return Calibration(graph, problem.device_names, *figures, publishing, reading, lag)


def _lags(run: Execution, edges: IntArray) -> FloatArray:
    """Times from the arrival of a tensor to the start of the operator that waited for it, over all rounds [s]."""
    problem = run.problem
    target = problem.edge_target[edges]
    found = []
    for start, finish, arrived in zip(run.start, run.finish, run.arrived, strict=True):
        before = np.zeros(problem.num_operators)
        for row in run.loaded.order:
            before[row[1:]] = finish[row[:-1]]
        last = np.zeros(problem.num_operators)
        np.maximum.at(last, target, arrived[edges])
        waited = np.unique(target[last[target] > before[target] + _CLEARLY])
        found.append(start[waited] - last[waited])
    return np.concatenate(found)


def tensor_bytes(problem: Problem) -> FloatArray:
    """[t] size of each tensor that an edge carries [byte]."""
    size = np.zeros(int(problem.edge_tensor.max()) + 1 if problem.num_edges else 0)
    np.maximum.at(size, problem.edge_tensor, problem.edge_bytes)
    return size


def first_remote_reads(problem: Problem, assignment: IntArray, order: Sequence[IntArray]) -> BoolArray:
    """[e] True for edges that are the first to bring their tensor to another device.

    Later readers there find the tensor in the caches of their core.
    """
    turn = np.zeros(problem.num_operators, np.int64)
    for row in order:
        turn[row] = np.arange(len(row))
    source, target = problem.edge_source, problem.edge_target
    edges = np.flatnonzero(assignment[source] != assignment[target])
    edges = edges[np.argsort(turn[target[edges]], kind="stable")]
    pairs = np.stack([problem.edge_tensor[edges], assignment[target[edges]]], axis=1)
    _, first = np.unique(pairs, axis=0, return_index=True)
    found = np.zeros(problem.num_edges, np.bool_)
    found[edges[first]] = True
    return found


def remote_bytes(problem: Problem, assignment: IntArray, order: Sequence[IntArray]) -> FloatArray:
    """[n] bytes that each operator reads from other devices as the first reader on its device [byte]."""
    first = first_remote_reads(problem, assignment, order)
    return np.bincount(problem.edge_target[first], problem.edge_bytes[first], minlength=problem.num_operators).astype(
        np.float64
    )


def fit_line(size: FloatArray, seconds: FloatArray) -> Line:
    """Fit a robust line with non-negative coefficients to [k] bytes and times [s], by the median slope of pairs.

    NaN are left out. Source: Theil, Proc. Kon. Ned. Akad. Wet. 53, 1950; here pairs are weighted by their distance,
    and the intercept is the median one.

    >>> line = fit_line(1e6 * np.arange(6), np.array([1e-5, 2.1e-4, 9.0, 6.1e-4, 8.1e-4, 1.01e-3]))
    >>> f"{line.seconds:.0e} {line.per_byte:.0e}"
    '1e-05 2e-10'
    """
    seen = np.isfinite(seconds)
    x, y = np.asarray(size)[seen], np.asarray(seconds)[seen]
    if len(x) == 0:
        return Line(0.0, 0.0)
    a, b = np.triu_indices(len(x), 1)
    slope = max(0.0, _weighted_median(y[b] - y[a], x[b] - x[a]))
    start = float(np.median(y - slope * x))
    if start >= 0:
        return Line(start, slope)
    return Line(0.0, max(0.0, _weighted_median(y, x)))


def _weighted_median(y: FloatArray, x: FloatArray) -> float:
    """The median of ``y / x``, weighted by the size of x: the slope of least absolute error through zero."""
    y, x = y[x != 0], x[x != 0]
    if len(x) == 0:
        return 0.0
    rank = np.argsort(y / x, kind="stable")
    weight = np.cumsum(np.abs(x[rank]))
    middle = rank[np.searchsorted(weight, weight[-1] / 2)]
    return float(y[middle] / x[middle])
