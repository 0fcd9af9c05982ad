"""Prediction of an execution: simulation of a schedule on calibrated costs.

A worker is its own host: it copies tensors that others read into shared memory before it continues, and waits for
tensors that it reads itself. Publishing therefore takes time of the producer, not of a link beside it, and is added to
the cost of the operator that publishes. Likewise, slower remote reading is added to the operator that reads, and
dispatch to both. The remaining part of a transfer is the delay until the reader notices the tensor: a latency without
a bandwidth. With these costs the ``classic`` runtime, in which transfers do not contend, has the executor's semantics.
"""

from dataclasses import dataclass, replace

import numpy as np

from hetgym._types import FloatArray
from hetgym.execution.calibration import Calibration, remote_bytes, tensor_bytes
from hetgym.execution.work import bare_problem
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Trace, simulate

RUNTIME = "classic"  # The runtime under which predictions are simulated


@dataclass(frozen=True, eq=False)
class Prices:
    """The costs of operators under one schedule."""

    compute: FloatArray  # [n] run time of each operator on its device [s]
    publish: FloatArray  # [n] time to write tensors that other devices read [s]
    dispatch: FloatArray  # [n] time before the operator starts [s]


def prices(calibration: Calibration, schedule: Schedule) -> Prices:
    """Price the operators of one schedule.

    The additional time for remote inputs was measured with as many remote inputs as possible. It is scaled to the
    bytes that are remote under this schedule by the device's fitted line, which alone is used without a measurement.
    """
    graph = calibration.graph
    problem = bare_problem(graph, calibration.devices)
    where, order = schedule.assignment, schedule.device_order(problem)
    own = np.arange(len(graph))
    size = remote_bytes(problem, where, order)
    seen, seen_bytes = calibration.extra[own, where], calibration.extra_bytes[own, where]
    start, slope = np.array([(line.seconds, line.per_byte) for line in calibration.reading])[where].T
    by_line = np.where(size > 0, start + slope * size, 0.0)
    measured = np.isfinite(seen) & (seen_bytes > 0)
    as_line = measured & (start + slope * seen_bytes > 0)
    share = np.divide(size, seen_bytes, out=np.zeros(len(graph)), where=measured)
    share = np.divide(by_line, start + slope * seen_bytes, out=share, where=as_line)
    extra = np.where(measured, np.nan_to_num(seen) * np.minimum(share, 2.0), by_line)
    local = calibration.local[own, where]
    compute = np.maximum(local + extra, 0.1 * local)
    return Prices(compute, publishing(calibration, problem, schedule), calibration.dispatch[where])


def publishing(calibration: Calibration, problem: Problem, schedule: Schedule) -> FloatArray:
    """[n] time for each operator to write the tensors that other devices read [s]."""
    where = schedule.assignment
    source, target = problem.edge_source, problem.edge_target
    edges = np.flatnonzero(where[source] != where[target])
    tensors, first = np.unique(problem.edge_tensor[edges], return_index=True)
    maker = source[edges[first]]
    seen = calibration.publish[tensors, where[maker]]
    sizes = tensor_bytes(problem)[tensors]
    lines = np.array([(line.seconds, line.per_byte) for line in calibration.publishing])[where[maker]].reshape(-1, 2)
    took = np.where(np.isfinite(seen), seen, lines[:, 0] + lines[:, 1] * sizes)
    return np.bincount(maker, took, minlength=problem.num_operators).astype(np.float64)


def predict(calibration: Calibration, schedule: Schedule) -> Trace:
    """Simulate a schedule: a trace in the form of executed ones.

    Operators end before they publish, and a transfer is the time of publishing.
    """
    priced = prices(calibration, schedule)
    plain = planning_problem(calibration)
    n, d = plain.cost.shape
    where = schedule.assignment
    cost = plain.cost.copy()
    cost[np.arange(n), where] = priced.dispatch + priced.compute + priced.publish
    bare = bare_problem(calibration.graph, calibration.devices)
    placed = bare.replace(cost=cost, latency=np.full((d, d), calibration.lag))
    order = schedule.device_order(bare)
    trace = simulate(placed, Schedule(where, order, scheduler=schedule.scheduler), RUNTIME)
    finish = trace.finish - priced.publish
    remote = trace.remote
    sent = np.where(remote, finish[bare.edge_source], trace.sent)
    return replace(trace, problem=plain, start=trace.start + priced.dispatch, finish=finish, sent=sent)


def planning_problem(calibration: Calibration) -> Problem:
    """The calibrated problem for schedulers; operator costs include dispatch.

    Latency and bandwidth of links are derived from the times of publishing and remote reading.
    """
    bare = bare_problem(calibration.graph, calibration.devices)
    d = len(calibration.devices)
    latency, bandwidth = np.zeros((d, d)), np.full((d, d), np.inf)
    for a in range(d):
        for b in range(d):
            if a != b:
                per_byte = calibration.publishing[a].per_byte + calibration.reading[b].per_byte
                latency[a, b] = calibration.publishing[a].seconds + calibration.lag + calibration.reading[b].seconds
                bandwidth[a, b] = 1 / per_byte if per_byte > 0 else np.inf
    return bare.replace(cost=calibration.local + calibration.dispatch, latency=latency, bandwidth=bandwidth)
