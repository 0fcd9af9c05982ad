"""The common part of planners of trained policies: budgets, and acting in HetSchedule-v0."""

from __future__ import annotations

import abc
from typing import Any

from hetgym._input.times import as_seconds
from hetgym.agents.play import Agent
from hetgym.planning.policy import SchedulerPolicy
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.search.search import check_limits


def limits(budget: str | float | None, operators: int | None = None) -> tuple[float | None, float]:
    """The time of a budget [s], None without one, and the time on the search's clock from which it counts [s].

    Args:
        budget: seconds, or a number with its unit.
        operators: the limit of work, which must not be negative.

    Raises:
        ConfigError: an invalid budget.
    """
    seconds = as_seconds(budget)
    return seconds, check_limits("plan", operators or 0, seconds)


class SchedulePlanner(abc.ABC):
    """A planner that schedules problems: a scheduler, and a policy for HetSchedule-v0."""

    kind = "place"

    @abc.abstractmethod
    def __call__(self, problem: Problem) -> Schedule:
        """The plan without a budget."""

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of HetSchedule-v0 under which an episode of :meth:`agent` has the makespan of the plan."""
        return {"decode": "append"}

    def agent(self) -> Agent:
        """An agent for HetSchedule-v0 that follows the plan, which is for the environment's runtime if it can be."""
        return SchedulerPolicy(self)
