"""Record: a finished run as arrays, and the figures that follow directly from them."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.problem import Problem
from hetgym.sim.runtime import Runtime


class Transfer(NamedTuple):
    """One tensor on its way between two devices."""

    edge: int  # number of the edge
    source: int  # device that sends
    target: int  # device that receives
    start: float  # start of the transfer [s]
    finish: float  # its end [s]


@dataclass(frozen=True, eq=False)
class Record:
    """The operators and transfers of one run with their times."""

    problem: Problem  # the problem that was run
    assignment: IntArray  # [n] device of each operator
    start: FloatArray  # [n] start of each operator [s]
    finish: FloatArray  # [n] finish of each operator [s]
    sent: FloatArray  # [e] start of each edge's transfer [s]
    arrived: FloatArray  # [e] its end [s]; equal to `sent` if it stayed on a device
    runtime: str  # name of the runtime
    scheduler: str = ""  # name of the scheduler
    switches: Runtime = field(default_factory=Runtime)  # of the runtime
    # for each device its operators in the order of their launches; empty if it was not recorded. Times alone do not
    # determine it where operators have zero duration.
    order: tuple[IntArray, ...] = ()
    # [n] clock of the device during each operator, as a share of the full clock, which `problem` already contains in
    # its run times; None = the full clock
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
