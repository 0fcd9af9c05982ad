"""RegionPlanner: plans for any runtime by moving regions that a trained network proposes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hetgym.agents.artefact import PolicyFiles, Weights
from hetgym.agents.inference import proposal_network
from hetgym.agents.planner import SchedulePlanner, limits
from hetgym.baselines.region_search import NAME
from hetgym.baselines.spliced_annealing import SplicedAnnealing
from hetgym.baselines.surrogate_annealing import SurrogateAnnealing, pays
from hetgym.baselines.window_annealing import Resources
from hetgym.baselines.window_executors import WindowExecutor
from hetgym.errors import ConfigError, shown
from hetgym.planning.starts import WORK
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.search.proposals import FEATURES
from hetgym.search.search import beginning, run
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime
from hetgym.workloads import as_problem

EFFORT, SMALL_EFFORT = 40, 1_000
"""Least and most operators launched in trials without a budget, over the square of their number."""

ENOUGH, MOST = 4_000_000, 10_000_000
"""Operators launched without a budget as far as :data:`EFFORT` and :data:`SMALL_EFFORT` allow; most of all."""


START_OF_TIME, START_OF_LAUNCHES = 1.0, 2.5e-8
"""Work that is spent on the start of a large problem, for each second, and for each operator launched: about a quarter
of a short budget."""


class RegionPlanner(SchedulePlanner):
    """Plans by a trained region policy.

    The best of a few list schedules for the runtime is improved: the network reads the plan with its times, and
    proposes regions to move to other devices, which are priced by simulation; see :mod:`hetgym.search.proposals`. Large
    problems are searched in windows (:mod:`hetgym.search.windows`).

    Args:
        weights: weights of a :class:`~hetgym.agents.networks.proposal.ProposalNetwork`, by name.
        card: their origin, as JSON values.

    Attributes:
        network: the weights as the search takes them.

    Raises:
        ArtefactError: the weights are not those of such a network.
    """

    def __init__(self, weights: Weights, card: Mapping[str, Any] | None = None) -> None:
        self.card = dict(card or {})
        self.network = proposal_network(weights, len(FEATURES), "region")

    def __call__(self, problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
        """The plan after a fixed number of tries for each operator."""
        return self.plan(problem, runtime=runtime)

    def plan(
        self,
        problem: Problem,
        budget: str | float | None = None,
        *,
        runtime: str | Runtime = "classic",
        start: str | Schedule = "best",
        operators: int | None = None,
        seed: int = 0,
        executor: WindowExecutor | None = None,
    ) -> Schedule:
        """Plan within a budget.

        Args:
            budget: wall-clock time, in seconds or as in ``"50ms"``; with it, results depend on the machine.
            start: the schedule that is improved, or the name of its scheduler; see
                :func:`~hetgym.baselines.region_annealing.region_annealing`.
            operators: largest number of operators launched in trials, instead of a time: the result is the same on
                every machine. By default :data:`EFFORT` times the square of their number or :data:`ENOUGH`, whichever
                is more, but no more than :data:`SMALL_EFFORT` times that square, or :data:`MOST`.
            executor: anneals the windows of large problems; by default on the threads of this process.

        Returns:
            The best schedule found, never longer than the start's.

        Raises:
            ConfigError: not a problem, an invalid budget, an invalid start, or an invalid executor.
            UnknownName: no such scheduler.
            OutOfMemory: the runtime enforces capacities, and no plan that fits was found.
        """
        problem = as_problem(problem)
        seconds, began = limits(budget, operators)
        if not isinstance(start, str | Schedule):
            raise ConfigError(f"start is {shown(start)}; it must be a Schedule, or the name of a scheduler")
        if executor is not None and not hasattr(executor, "anneal"):
            raise ConfigError(f"executor is {shown(executor)}; hetgym.baselines.windows_on_ray makes one")
        if operators is None:
            square = problem.num_operators**2
            most = min(MOST, SMALL_EFFORT * square)
            operators = min(most, max(ENOUGH, EFFORT * square)) if seconds is None else 2**62
        kind = SurrogateAnnealing if pays(problem, as_runtime(runtime)) else SplicedAnnealing
        resources = Resources(self.network, start_work(operators, seconds), executor)
        with beginning(began, seconds):
            search = kind(problem, start, seed, runtime, resources)
        run(search, operators, seconds, began=began)
        found = search.schedule()
        return replace(found, scheduler=self.card.get("name", "region policy")) if found.scheduler == NAME else found


def start_work(operators: int, seconds: float | None) -> float:
    """Work that is spent on the start within a budget of launches, and of time [s]."""
    found = min(WORK, START_OF_LAUNCHES * operators)
    return found if seconds is None else min(found, START_OF_TIME * seconds)


FILES = PolicyFiles("hetgym-region-policy", RegionPlanner)  # The files of these policies
