"""The portfolio: the best plan that hetgym knows for a runtime within a budget."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hetgym._times import as_seconds
from hetgym.baselines.region_annealing import RegionAnnealing
from hetgym.planning.registry import get
from hetgym.planning.search import check_limits, run
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import PRESETS, Runtime
from hetgym.sim import runtime as as_runtime

POLICY = "place-v1-search"
"""The trained policy with its search; it plans for the classic model."""

LARGEST = 2_000
"""Operators up to which the policy has half of the time under the classic model."""


def plan(
    problem: Problem,
    runtime: str | Runtime = "links",
    budget: str | float = "1s",
    *,
    operators: int | None = None,
    seed: int = 0,
) -> Schedule:
    """Find the best plan for a runtime within a budget.

    List schedulers that plan for the runtime and the best single device give a start, which region annealing improves;
    under the classic model the trained policy has its turn first. The capacities of the devices are respected whatever
    the runtime says about memory.

    Args:
        problem: the problem to schedule.
        runtime: the runtime that will run the plan.
        budget: wall-clock time, in seconds or as in ``"50ms"``: results depend on the machine. A single device, HEFT
            and PEFT are tried however short it is.
        operators: largest number of operators that the search launches in trials, instead of a time: the result is the
            same on every machine.
        seed: of the search's draws.

    Returns:
        A schedule whose times are those of the runtime's simulation, never longer than those of the best single device
        and of HEFT; ``scheduler`` names the method that found it.

    Raises:
        UnknownName: no preset of that name.
        ConfigError: an invalid budget.
        OutOfMemory: no plan that fits was found; the message says what is missing.

    >>> from hetgym.workloads import textbook
    >>> plan(textbook("topcuoglu"), "classic", operators=20_000).makespan
    73.0
    """
    seconds = None if operators is not None else as_seconds(budget)
    began = check_limits("plan", operators or 0, seconds)
    switches = as_runtime(runtime)
    if np.isfinite(problem.memory_capacity).any():
        switches = replace(switches, memory="enforce")
    start: str | Schedule = "best"
    if seconds is not None and switches == PRESETS["classic"] and problem.num_operators <= LARGEST:
        start = get(POLICY, seconds=seconds / 2)(problem)
    search = RegionAnnealing(problem, start, seed, runtime=switches)
    run(search, 2**62 if operators is None else operators, seconds, began=began)
    return search.schedule()
