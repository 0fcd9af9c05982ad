"""An attempt: one scheduler on one problem, its schedules validated and simulated under every runtime.

A scheduler that takes the runtime plans for each; the others make one schedule for all.
"""

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
from hetgym.sim import runtime as as_runtime

ENOUGH = 0.02
"""Total duration after which repeated timings end [s]."""


@dataclass(frozen=True)
class Attempt:
    """The outcome of an attempt.

    Attributes:
        traces: one for each runtime; empty if the scheduler failed.
        seconds: wall time that the scheduler took for each [s].
        bounds: runtime -> lower bound on all makespans, if the scheduler proved one [s].
        status: ``"ok"``, or the sentence that says what went wrong.
    """

    traces: list[Trace] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
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
    each = baseline.plans_for == "any"
    made: dict[str, tuple[Schedule, float]] = {}
    try:
        for runtime in runtimes if each else ("classic",):
            made[runtime] = _timed(baseline, problem, runtime, repeats)
            validate(problem, made[runtime][0])
        traces = [simulate(problem, made[name if each else "classic"][0], name) for name in runtimes]
    except Exception as error:  # a plug-in may raise anything; the run must survive it
        return Attempt(status=sentence(error))
    proved = {
        name: plan.lower_bound
        for plan, _ in made.values()
        for name in runtimes
        if plan.lower_bound is not None and (plan.model == name or (plan.model == "classic" and only_waits(name)))
    }
    return Attempt(traces, [made[name if each else "classic"][1] for name in runtimes], proved)


def only_waits(name: str) -> bool:
    """True if under a runtime everything takes at least as long as under ``classic``, whose bounds then hold."""
    switches = as_runtime(name)
    return switches.streams == 1 and switches.noise == 0.0


def _timed(baseline: Baseline, problem: Problem, runtime: str, repeats: int) -> tuple[Schedule, float]:
    """A schedule, and the median wall time of making it [s]."""
    times: list[float] = []
    while True:
        began = perf_counter()
        schedule = baseline(problem, runtime)
        times.append(perf_counter() - began)
        if len(times) >= repeats or sum(times) > ENOUGH:
            return schedule, median(times)


def sentence(error: BaseException) -> str:
    """One line that says what went wrong; the type is named unless hetgym raised it on purpose."""
    text = " ".join(str(error).split())
    return (
        text if isinstance(error, HetgymError) else f"{type(error).__name__}: {text}" if text else type(error).__name__
    )
