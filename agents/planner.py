"""The common part of planners: budgets, acting in HetSchedule-v0, and agents that follow a plan."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

from hetgym._input.times import as_seconds
from hetgym.agents.play import Agent
from hetgym.envs.core.kinds import require_kind
from hetgym.envs.core.lanes import Lanes, Observation
from hetgym.planning.policy import SchedulerPolicy
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.search.search import check_limits

Start = tuple[Observation, dict[str, Any]]  # What a reset returns: the first observation and info


def limits(budget: str | float | None, operators: int | None = None) -> tuple[float | None, float]:
    """The time of a budget [s], None without one, and the time on the search's clock from which it counts [s].

    Raises:
        ConfigError: an invalid budget, or a negative number of operators.
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


class ActionPlanner(abc.ABC):
    """A planner that knows all actions of an episode when it begins."""

    kind: str  # of decision

    @abc.abstractmethod
    def begin(self, env: Any, lanes: Any, start: Start) -> tuple[Sequence[int], Start]:
        """The actions of an episode that has just begun; and ``start``, or that of another reset."""

    def agent(self) -> Agent:
        """An agent that plans when an episode begins, and follows the plan."""
        return Follower(self)


class Follower:
    """An agent that plans all actions when an episode begins, and then takes one after the other."""

    def __init__(self, planner: ActionPlanner) -> None:
        self._planner = planner
        self._actions: Sequence[int] = ()
        self._turn = 0

    def check(self, lanes: Lanes) -> None:
        """Refuse lanes of other environments; see :func:`~hetgym.envs.core.kinds.require_kind`."""
        require_kind(self._planner.kind, lanes)

    def reset(self, env: Any, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Start:
        """Reset an environment, and plan for what it draws; its first observation and info."""
        lanes: Any = getattr(env.unwrapped, "lanes", None)
        self.check(lanes)
        self._actions, start = self._planner.begin(env, lanes, env.reset(seed=seed, options=options))
        self._turn = 0
        return start

    def __call__(self, observation: Observation, info: Mapping[str, Any] | None = None) -> int:
        """The next action; the arguments are ignored."""
        self._turn += 1
        return self._actions[self._turn - 1]


class UntrainedPlanner(ActionPlanner):
    """A :class:`~hetgym.agents.Policy` without trained parameters; its card is empty."""

    def __init__(self) -> None:
        self.card: dict[str, Any] = {}

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the environment that an episode of :meth:`agent` needs: none."""
        return {}
