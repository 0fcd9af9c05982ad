"""An attempt: one scheduler on one problem, its schedule validated and simulated under every runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from hetgym.baselines import Baseline
from hetgym.errors import HetgymError
from hetgym.problem import Problem
from hetgym.schedule import validate
from hetgym.sim import Trace, simulate


@dataclass(frozen=True)
class Attempt:
    """What came of it.

    Attributes:
        traces: one for each runtime; none if it failed.
        seconds: wall time that the scheduler took [s].
        status: ``"ok"``, or the sentence that says what went wrong.
    """

    traces: list[Trace] = field(default_factory=list)
    seconds: float = 0.0
    status: str = "ok"


def attempt(baseline: Baseline, problem: Problem, runtimes: Sequence[str]) -> Attempt:
    """Schedule once, validate, simulate under every runtime; whatever the scheduler raises becomes a status."""
    try:
        began = perf_counter()
        schedule = baseline(problem)
        seconds = perf_counter() - began
        validate(problem, schedule)
        return Attempt([simulate(problem, schedule, runtime) for runtime in runtimes], seconds)
    except Exception as error:  # a plug-in may raise anything; the run must survive it
        return Attempt(status=sentence(error))


def sentence(error: BaseException) -> str:
    """One line that says what went wrong; the type is named unless hetgym raised it on purpose."""
    text = " ".join(str(error).split())
    return (
        text if isinstance(error, HetgymError) else f"{type(error).__name__}: {text}" if text else type(error).__name__
    )
