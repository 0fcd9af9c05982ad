"""Agents and policies: their protocols, playing an episode, and using an agent as a scheduler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym

from hetgym.envs.core.lanes import Observation
from hetgym.envs.schedule import HetScheduleEnv
from hetgym.problem import Problem
from hetgym.schedule import Schedule

Agent = Callable[[Observation, dict[str, Any]], Any]
"""``agent(observation, info) -> action``. An agent that must know the problem before the episode begins also has a
method ``reset(env, seed, options)``, which resets the environment and returns its first observation and info."""


@runtime_checkable
class Policy(Protocol):
    """A trained decision maker: it acts in an environment, and it plans.

    Attributes:
        card: its origin, training and known results, as JSON values.
    """

    card: dict[str, Any]

    @property
    def kind(self) -> str:
        """The decision that it takes, one of :data:`~hetgym.agents.kinds.KINDS`."""

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the environment that the policy expects, apart from problems, sizes and conditions."""

    @property
    def plan(self) -> Callable[..., Any]:
        """Takes all decisions at once.

        ``plan(problem)`` gives a :class:`~hetgym.Schedule`. A policy for splits plans a graph on a platform and gives a
        :class:`~hetgym.baselines.GraphPlan`; one for pipelines plans a pipeline and gives its stages.
        """

    def agent(self) -> Agent:
        """The policy as an agent in its environment."""


@dataclass(frozen=True)
class Result:
    """One episode.

    Attributes:
        total_reward: the return, ``1 - makespan / reference`` in hetgym's environments.
        info: of the last step.
    """

    total_reward: float
    info: dict[str, Any]


def play(
    env: gym.Env[Any, Any], agent: Agent | Policy, seed: int | None = None, options: dict[str, Any] | None = None
) -> Result:
    """Play one episode.

    Args:
        env: an environment; it is reset.
        agent: takes the decisions; a policy is asked for its agent. An agent with a method ``check`` may refuse the
            environment's lanes.
        seed: of the reset.
        options: of the reset.

    Raises:
        ConfigError: the environment's candidate features do not tell what they told the policy in training.

    >>> import gymnasium as gym, hetgym
    >>> from hetgym.workloads import textbook
    >>> env = gym.make("HetSchedule-v0", problem=textbook("arabnejad-barbosa"))
    >>> play(env, hetgym.agents.greedy("completion"), seed=0).info["makespan"] <= 133
    True
    >>> play(env, hetgym.agents.load("place-v1"), seed=0).info["makespan"] <= 133
    True
    """
    acting: Any = agent.agent() if isinstance(agent, Policy) else agent
    if hasattr(acting, "check") and hasattr(env.unwrapped, "lanes"):
        acting.check(env.unwrapped.lanes)
    reset = getattr(acting, "reset", None)
    start = env.reset(seed=seed, options=options) if reset is None else reset(env, seed, options)
    observation, info = start
    total, over = 0.0, False
    while not over:
        observation, reward, terminated, truncated, info = env.step(acting(observation, info))
        total += float(reward)
        over = terminated or truncated
    return Result(total, info)


def as_scheduler(agent: Agent | Policy, **arguments: Any) -> Callable[[Problem], Schedule]:
    """Turn an agent for ``HetSchedule-v0`` into a scheduler.

    Args:
        agent: takes the decisions; of a policy, the agent.
        arguments: of the environment, such as ``runtime`` or ``decode``; a policy brings its own.

    Returns:
        A function from a problem to the schedule of one episode on it, as the baselines are.
    """
    if isinstance(agent, Policy):
        arguments = agent.arguments | arguments

    def schedule(problem: Problem) -> Schedule:
        result: Schedule = play(HetScheduleEnv(problem, **arguments), agent).info["schedule"]
        return result

    return schedule
