"""Sinks: receivers of the findings of a run, as they come."""

from collections.abc import Sequence

from hetgym.bench.rows import Row
from hetgym.problem import Problem
from hetgym.sim import Trace
from hetgym.workloads import ProblemSpec


class Sink:
    """Base of receivers of a run's findings; this one ignores them."""

    def problem(self, spec: ProblemSpec, problem: Problem, lower_bound: float) -> None:
        """A problem begins; no schedule of it can be shorter than the bound [s]."""

    def rows(self, rows: Sequence[Row]) -> None:
        """One scheduler is done with the current problem: a row for each runtime."""

    def trace(self, spec: ProblemSpec, trace: Trace) -> None:
        """One schedule was simulated under one runtime."""

    def complete(self, rows: Sequence[Row]) -> None:
        """The current problem is done; these are all its rows, gaps included."""


class Tee(Sink):
    """Hands everything on to several sinks."""

    def __init__(self, *sinks: Sink) -> None:
        self.sinks = sinks

    def problem(self, spec: ProblemSpec, problem: Problem, lower_bound: float) -> None:
        """Hand on."""
        for sink in self.sinks:
            sink.problem(spec, problem, lower_bound)

    def rows(self, rows: Sequence[Row]) -> None:
        """Hand on."""
        for sink in self.sinks:
            sink.rows(rows)

    def trace(self, spec: ProblemSpec, trace: Trace) -> None:
        """Hand on."""
        for sink in self.sinks:
            sink.trace(spec, trace)

    def complete(self, rows: Sequence[Row]) -> None:
        """Hand on."""
        for sink in self.sinks:
            sink.complete(rows)
