"""Record: a finished run as arrays, and the figures that follow directly from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.problem import Problem
from hetgym.sim.runtime import Runtime


class Transfer(NamedTuple):
    """One tensor on its way between two devices.

    Attributes:
        edge: number of the edge.
        source: device that sends.
        target: device that receives.
        start: start of the transfer [s].
        finish: its end [s].
    """

    edge: int
    source: int
    target: int
    start: float
    finish: float


@dataclass(frozen=True, eq=False)
class Record:
    """The operators and transfers of one run with their times.

    Attributes:
        problem: the problem that was run.
        assignment: [n] device of each operator.
        start: [n] start of each operator [s].
        finish: [n] finish of each operator [s].
        sent: [e] start of each edge's transfer [s].
        arrived: [e] its end [s]; equal to ``sent`` if it stayed on a device.
        runtime: name of the runtime.
        scheduler: name of the scheduler.
        switches: of the runtime.
        order: for each device its operators in the order of their launches; empty if it was not recorded.
            Times alone do not determine it where operators have zero duration.
        speed: [n] clock of the device during each operator, as a share of the full clock, which ``problem`` already
            contains in its run times; None = the full clock.
    """

    problem: Problem
    assignment: IntArray
    start: FloatArray
    finish: FloatArray
    sent: FloatArray
    arrived: FloatArray
    runtime: str
    scheduler: str = ""
    switches: Runtime = field(default_factory=Runtime)
    order: tuple[IntArray, ...] = ()
    speed: FloatArray | None = None

    @property
    def makespan(self) -> float:
        """Finish of the last operator [s]."""
        return float(self.finish.max())

    @property
    def remote(self) -> BoolArray:
        """[e] true for edges between two devices; false while an end has device -1."""
        a, b = self.assignment[self.problem.edge_source], self.assignment[self.problem.edge_target]
        return np.not_equal(a, b) & (a >= 0) & (b >= 0)

    @property
    def transfers(self) -> list[Transfer]:
        """All transfers between devices, by start."""
        p = self.problem
        edges = np.flatnonzero(self.remote)
        edges = edges[np.argsort(self.sent[edges], kind="stable")]
        source, target = self.assignment[p.edge_source[edges]], self.assignment[p.edge_target[edges]]
        columns = (edges, source, target, self.sent[edges], self.arrived[edges])
        return [Transfer(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    @property
    def utilisation(self) -> FloatArray:
        """[d] share of the makespan in which each device runs an operator; 0 if the makespan is 0."""
        alone = self.finish - self.start  # time from an operator's start in which no earlier one of the device runs
        if self.switches.streams > 1:
            for device in range(self.problem.num_devices):
                here = np.flatnonzero(self.assignment == device)
                here = here[np.argsort(self.start[here], kind="stable")]
                until = np.maximum.accumulate(np.append(0.0, self.finish[here]))
                alone[here] = np.diff(until) - np.maximum(0.0, self.start[here] - until[:-1])
        busy = np.bincount(self.assignment, alone, minlength=self.problem.num_devices)
        return busy / self.makespan if self.makespan > 0 else np.zeros(self.problem.num_devices)
