"""The portfolio: the best plan that hetgym knows for a runtime within a budget."""

from dataclasses import replace
from functools import partial

import numpy as np

from hetgym._input.times import as_seconds
from hetgym.agents.schedulers import place_v2_search
from hetgym.baselines.energy import best_for
from hetgym.baselines.region_search import STARTS
from hetgym.baselines.tabu import Tabu
from hetgym.baselines.window_annealing import check_windows
from hetgym.baselines.window_executors import WindowExecutor
from hetgym.errors import OutOfMemory, ProblemError
from hetgym.parallel import TrainingProblem
from hetgym.planning.capacity import those_that_fit
from hetgym.planning.registry import get
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.search.device_orders import is_shop
from hetgym.search.search import check_limits, clock, run
from hetgym.sim import Objective, Runtime
from hetgym.sim import objective as as_objective
from hetgym.sim import runtime as as_runtime
from hetgym.sim.runtime import charged, runtime_name


def plan(
    problem: Problem,
    runtime: str | Runtime = "links",
    budget: str | float = "1s",
    *,
    seed: int = 0,
    objective: str | Objective = "makespan",
    executor: WindowExecutor | None = None,
) -> Schedule:
    """Find the best plan for a runtime within a time, see :func:`portfolio`.

    Args:
        budget: wall-clock time, in seconds or as in ``"50ms"``, compilation of kernels aside; results depend on the
            machine.
        objective: ``makespan``, ``energy``, ``cost``, or weights of them as in ``makespan=1,energy=2``, each relative
            to the plan of HEFT. Other objectives than the makespan choose among the shortest plan found and those of
            :func:`hetgym.baselines.trade_offs`.
        executor: anneals the windows of large problems elsewhere, see
            :func:`~hetgym.baselines.window_cluster.windows_on_ray`; by default threads of this process do.

    Returns:
        A schedule whose times are those of the runtime's simulation; ``scheduler`` names the method that found it.

    Raises:
        ProblemError: not a problem, or one that does not state what the objective needs.
        UnknownName: no preset or objective of that name.
        ConfigError: an invalid budget or objective, or an executor for a problem that is not searched in windows.
        OutOfMemory: no plan that fits was found; the message says what is missing.
        ClusterError: the cluster of the executor cannot be worked on.
    """
    if not isinstance(problem, Problem):
        training = "; hetgym.plan_training plans training steps" if isinstance(problem, TrainingProblem) else ""
        raise ProblemError(f"hetgym.plan takes a hetgym.Problem, not {type(problem).__name__}{training}")
    if executor is not None:
        check_windows(problem, runtime)
    return portfolio(problem, seed, 2**62, as_seconds(budget), runtime, objective, executor)


def portfolio(
    problem: Problem,
    seed: int = 0,
    budget: int = 1_000_000,
    seconds: float | None = None,
    runtime: str | Runtime = "classic",
    objective: str | Objective = "makespan",
    executor: WindowExecutor | None = None,
) -> Schedule:
    """The best of a single device and list schedulers for the runtime, improved by a trained policy with its search.

    Where every operator has one device only, or nothing takes time between devices, tabu search has all of the budget,
    and half of it under other runtimes. The capacities of devices are respected whatever the runtime says about memory.

    Args:
        budget: largest number of operators launched in trials.
        objective: see :func:`plan`.
        executor: the same; where nothing is searched in windows it is not used.

    Returns:
        A schedule that is never longer than those of the best single device, HEFT and PEFT for the runtime; for another
        objective than the makespan, one of no higher value.

    Raises:
        ProblemError: the problem does not state what the objective needs.
        UnknownName: no such objective.
        ConfigError: a negative budget, a time that is not positive, or an invalid objective.
        OutOfMemory: no plan that fits was found; the message says what is missing.

    >>> from hetgym.workloads import textbook
    >>> portfolio(textbook("topcuoglu"), runtime="links").makespan
    75.0
    """
    goal = as_objective(objective)
    if goal.makespan < 1:
        found = portfolio(problem, seed, budget, seconds, runtime, executor=executor)
        return best_for(problem, goal, runtime, [found]).schedule
    began = check_limits("portfolio", budget, seconds)
    asked = switches = charged(as_runtime(runtime), problem)
    if np.isfinite(problem.memory_capacity).any():
        switches = replace(switches, memory="enforce")
    start: str | Schedule = "best"
    if is_shop(problem) and (first := _start(problem, switches)):
        share = 1 if switches.is_classic else 2
        tabu = Tabu(problem, first, seed, switches)
        run(tabu, budget // share, None if seconds is None else seconds / share, began=began)
        start = tabu.schedule()
        if share == 1:
            return start
    left = None if seconds is None else max(1e-9, seconds - (clock() - began))
    plan = place_v2_search(problem, start, seed, budget, left, switches, executor)
    return replace(plan, model=runtime_name(asked))


def _start(problem: Problem, switches: Runtime) -> Schedule | None:
    """The shortest plan of simple schedulers; None if none of them finds one that fits."""
    try:
        plans = those_that_fit(partial(get(name), problem, switches) for name in STARTS)
    except OutOfMemory:
        return None
    return min(plans, key=lambda plan: plan.makespan)
