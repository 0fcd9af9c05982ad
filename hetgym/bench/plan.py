"""A plan: the best schedule that was found for one model on one platform, ready to be used."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from hetgym._types import FloatArray
from hetgym.bench.sink import Sink
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Objective, Trace
from hetgym.sim.energy import has_power, has_price
from hetgym.sim.memory import excess, resident_weights
from hetgym.workloads import ProblemSpec

FORMAT_VERSION = 1

MAKESPAN = Objective(makespan=1.0)


class BestTrace(Sink):
    """Keeps the best run that fits the devices; of equal ones that with the fewest transfers, then the first.

    Energy and cost are relative to a reference; for the makespan alone it does not matter.
    """

    def __init__(self, objective: Objective = MAKESPAN, reference: Trace | None = None) -> None:
        self.objective, self.reference = objective, reference
        self.best: Trace | None = None
        self.lacks: dict[str, float] = {}  # scheduler -> bytes that its run lacks on some device

    def trace(self, spec: ProblemSpec, trace: Trace) -> None:
        """Compare, and keep the better one."""
        excess = float(lacking(trace).max())
        if excess > 0:
            self.lacks[trace.scheduler] = excess
        elif self.best is None or self._rank(trace) < self._rank(self.best):
            self.best = trace

    def _rank(self, trace: Trace) -> tuple[float, int]:
        value = trace.makespan if self.reference is None else self.objective.value(trace, self.reference)
        return value, int(trace.remote.sum())


def lacking(trace: Trace) -> FloatArray:
    """[d] bytes by which a run exceeds the capacity of each device, 0 where it fits."""
    return excess(trace, trace.memory)


@dataclass(frozen=True)
class DeviceShare:
    """Load of one device under a plan."""

    name: str  # name of the device
    operators: int  # number of operators that it runs
    busy_seconds: float  # sum of their run times [s]
    utilisation: float  # share of the makespan in which it runs an operator
    weight_bytes: float  # weights that its operators read, each once, which are resident on it [byte]
    peak_bytes: float  # the most that it holds at any time, weights, outputs and copies [byte]
    capacity_bytes: float | None  # its memory [byte]; None if it has no limit
    # sent_bytes, received_bytes: summed over the edges to and from other devices [byte]
    sent_bytes: float
    received_bytes: float


def device_shares(trace: Trace) -> list[DeviceShare]:
    """Load of each device in a run."""
    p, d = trace.problem, trace.problem.num_devices
    busy = np.bincount(trace.assignment, trace.finish - trace.start, minlength=d)
    weights = resident_weights(p, trace.assignment)
    remote = np.flatnonzero(trace.remote)
    payload = p.edge_bytes[remote]
    sent = np.bincount(trace.assignment[p.edge_source[remote]], payload, minlength=d)
    received = np.bincount(trace.assignment[p.edge_target[remote]], payload, minlength=d)
    operators = np.bincount(trace.assignment, minlength=d)
    capacity = [size if np.isfinite(size) else None for size in p.memory_capacity.tolist()]
    figures = (operators, busy, trace.utilisation, weights, trace.memory.peak)
    columns = (*(figure.tolist() for figure in figures), capacity, sent.tolist(), received.tolist())
    return [DeviceShare(*row) for row in zip(p.device_names, *columns, strict=True)]


@dataclass(frozen=True)
class Block:
    """Consecutive operators of a model that run on the same device."""

    device: str  # name of the device
    operators: int  # number of operators
    # first, last: names of the first and the last one
    first: str
    last: str
    seconds: float  # sum of their run times [s]


def blocks(trace: Trace) -> list[Block]:
    """The model from its first operator to its last, in topological order, cut where the device changes."""
    p, order = trace.problem, trace.problem.topological_order
    device, spent = trace.assignment[order], (trace.finish - trace.start)[order]
    cuts = np.flatnonzero(np.diff(device)) + 1
    names = [p.operator_names[i] for i in order]
    return [
        Block(p.device_names[device[a]], int(b - a), names[a], names[b - 1], float(spent[a:b].sum()))
        for a, b in pairwise([0, *cuts.tolist(), len(order)])
    ]


def kind_seconds(trace: Trace) -> dict[str, float]:
    """Kind of operator -> sum of run times under a plan [s], the longest first."""
    kinds, index = np.unique(np.array(trace.problem.operator_kinds), return_inverse=True)
    spent = np.bincount(index, trace.finish - trace.start)
    return {str(kinds[k]): float(spent[k]) for k in np.argsort(-spent, kind="stable")}


def transfers(trace: Trace) -> tuple[int, float]:
    """Number of edges that cross devices, and their bytes."""
    return int(trace.remote.sum()), float(trace.problem.edge_bytes[trace.remote].sum())


def schedule_of(trace: Trace) -> Schedule:
    """The schedule that a run followed, with the times that it then had; under the same runtime it gives them again."""
    return Schedule(
        trace.assignment,
        order=trace.order,
        start=trace.start,
        finish=trace.finish,
        model=trace.runtime,
        scheduler=trace.scheduler,
        streams=trace.switches.streams,
        speed=trace.speed,
    )


def plan_document(
    trace: Trace,
    model: str,
    platform: str,
    batch: int | None,
    objective: Objective = MAKESPAN,
    problem: Problem | None = None,
) -> dict[str, Any]:
    """The content of ``plan.json``: a device and times for every operator, and the schedule as hetgym reads it.

    Args:
        trace: the run that was chosen.
        model: name or file of the model, as the user gave it.
        platform: name or file of the platform, likewise.
        batch: batch size that the user gave; None for the model's own.
        objective: what the plan is for.
        problem: the problem at full clock; by default that of the run.
    """
    p = trace.problem
    return {
        "format": "hetgym-plan",
        "version": FORMAT_VERSION,
        "model": model,
        "platform": platform,
        "batch": batch,
        "problem": (problem or p).id,
        "runtime": trace.runtime,
        "scheduler": trace.scheduler,
        "objective": vars(objective),
        "makespan_s": trace.makespan,
        "energy_j": trace.energy.total if has_power(p) else None,
        "cost": trace.cost if has_price(p) else None,
        "devices": [vars(share) for share in device_shares(trace)],
        "blocks": [vars(block) for block in blocks(trace)],
        "kinds_s": kind_seconds(trace),
        "blame": trace.blame.shares,
        "operators": [
            {
                "name": p.operator_names[i],
                "kind": p.operator_kinds[i],
                "device": p.device_names[trace.assignment[i]],
                "start_s": float(trace.start[i]),
                "finish_s": float(trace.finish[i]),
            }
            for i in np.lexsort((p.arrays.position, trace.start)).tolist()
        ],
        "schedule": schedule_of(trace).to_dict(),
    }
