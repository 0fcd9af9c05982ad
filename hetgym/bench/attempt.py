"""An attempt: one scheduler on one problem, its schedule validated and simulated under every runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter

from hetgym.baselines import Baseline
from hetgym.errors import HetgymError
from hetgym.problem import Problem
from hetgym.schedule import Schedule, validate
from hetgym.sim import Trace, simulate

ENOUGH = 0.02
"""Total duration after which repeated timings end [s]."""


@dataclass(frozen=True)
class Attempt:
    """The outcome of an attempt.

    Attributes:
        traces: one for each runtime; empty if the scheduler failed.
        seconds: wall time of the scheduler [s].
        bounds: runtime -> lower bound on all makespans, if the scheduler proved one [s].
        status: ``"ok"``, or the sentence that says what went wrong.
    """

    traces: list[Trace] = field(default_factory=list)
    seconds: float = 0.0
    bounds: Mapping[str, float] = field(default_factory=dict)
    status: str = "ok"


def attempt(baseline: Baseline, problem: Problem, runtimes: Sequence[str], repeats: int = 1) -> Attempt:
    """Schedule, validate, and simulate under every runtime; whatever the scheduler raises becomes a status.

    Args:
        baseline: the scheduler.
        problem: the problem.
        runtimes: names of runtime presets.
        repeats: most calls that are timed; the median counts, and calls end after :data:`ENOUGH` seconds.
    """
    try:
        schedule, seconds = _timed(baseline, problem, repeats)
        validate(problem, schedule)
        traces = [simulate(problem, schedule, runtime) for runtime in runtimes]
    except Exception as error:  # a plug-in may raise anything; the run must survive it
        return Attempt(status=sentence(error))
    proved = {} if schedule.lower_bound is None else {schedule.model: schedule.lower_bound}
    return Attempt(traces, seconds, proved)


def _timed(baseline: Baseline, problem: Problem, repeats: int) -> tuple[Schedule, float]:
    """A schedule, and the median wall time of making it [s]."""
    times: list[float] = []
    while True:
        began = perf_counter()
        schedule = baseline(problem)
        times.append(perf_counter() - began)
        if len(times) >= repeats or sum(times) > ENOUGH:
            return schedule, median(times)


def sentence(error: BaseException) -> str:
    """One line that says what went wrong; the type is named unless hetgym raised it on purpose."""
    text = " ".join(str(error).split())
    return (
        text if isinstance(error, HetgymError) else f"{type(error).__name__}: {text}" if text else type(error).__name__
    )
