"""An attempt: one scheduler on one problem, its schedules validated and simulated under every runtime.

A scheduler that takes the runtime plans for each; the others make one schedule for all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter

from hetgym._sums import summed
from hetgym.errors import HetgymError, InvalidSchedule
from hetgym.planning import Baseline
from hetgym.problem import Problem
from hetgym.schedule import Schedule, validate
from hetgym.sim import Trace, simulate
from hetgym.sim import runtime as as_runtime
from hetgym.workloads.best_known import PROVED

ENOUGH = 0.02  # Total duration after which repeated timings end [s]


@dataclass(frozen=True)
class Attempt:
    """The outcome of an attempt."""

    traces: Mapping[str, Trace] = field(default_factory=dict)  # runtime -> the run of the schedule, where there is one
    seconds: Mapping[str, float] = field(default_factory=dict)  # runtime -> wall time that the scheduler took [s]
    # runtime -> lower bound on all makespans, if the scheduler proved one [s]
    bounds: Mapping[str, float] = field(default_factory=dict)
    # runtime -> the sentence that says what went wrong, where there is no trace
    failures: Mapping[str, str] = field(default_factory=dict)
    status: str = "ok"  # `"ok"`, or the sentence that says why nothing was attempted


def attempt(baseline: Baseline, problem: Problem, runtimes: Sequence[str], repeats: int = 1) -> Attempt:
    """Schedule, validate, and simulate under every runtime; whatever is raised under one becomes its failure.

    The time is the median of up to ``repeats`` calls; calls end after :data:`ENOUGH` seconds.
    """
    traces: dict[str, Trace] = {}
    seconds: dict[str, float] = {}
    bounds: dict[str, float] = {}
    failures: dict[str, str] = {}
    each = baseline.plans_for == "any"
    for planned, names in {name: [name] for name in runtimes}.items() if each else [("classic", runtimes)]:
        try:
            plan, took = _timed(baseline, problem, planned, repeats)
            validate(problem, plan, memory=False)
        except Exception as error:  # a plug-in may raise anything; the run must survive it
            failures |= dict.fromkeys(names, sentence(error))
            continue
        for name in names:
            try:
                trace = simulate(problem, plan, name)
                if claimed(plan, name) > trace.makespan * (1 + PROVED):
                    raise InvalidSchedule(
                        f"lower bound: the schedule claims that none takes less than {plan.lower_bound:g} s, and takes "
                        f"{trace.makespan:g} s itself under {name!r}"
                    )
                traces[name], seconds[name] = trace, took
            except Exception as error:
                failures[name] = sentence(error)
        for name in runtimes:
            if claimed(plan, name) > 0 and name not in failures:
                bounds[name] = max(claimed(plan, name), bounds.get(name, 0.0))
    return Attempt(traces, seconds, bounds, failures)


def claimed(plan: Schedule, name: str) -> float:
    """The lower bound of a schedule if it is claimed for a runtime, else 0 [s]."""
    holds = plan.model == name or (plan.model == "classic" and only_waits(name))
    return plan.lower_bound if holds and plan.lower_bound is not None else 0.0


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
        if len(times) >= repeats or summed(times) > ENOUGH:
            return schedule, median(times)


def sentence(error: BaseException) -> str:
    """One line that says what went wrong; the type is named unless hetgym raised it on purpose."""
    text = " ".join(str(error).split())
    return (
        text if isinstance(error, HetgymError) else f"{type(error).__name__}: {text}" if text else type(error).__name__
    )
