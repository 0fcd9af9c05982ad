"""Sinks: receivers of the findings of a run, as they come."""

from collections.abc import Callable, Sequence
from functools import partial

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
        for name in ("problem", "rows", "trace", "complete"):
            setattr(self, name, partial(_hand_on, [getattr(sink, name) for sink in sinks]))


def _hand_on(methods: Sequence[Callable[..., None]], *findings: object) -> None:
    for method in methods:
        method(*findings)
