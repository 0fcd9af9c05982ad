"""Running an agent through an environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from hetgym.envs.core.lanes import Observation
from hetgym.envs.schedule import HetScheduleEnv
from hetgym.problem import Problem
from hetgym.schedule import Schedule

Agent = Callable[[Observation, dict[str, Any]], Any]
"""``agent(observation, info) -> action``."""


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
    env: gym.Env[Any, Any], agent: Agent, seed: int | None = None, options: dict[str, Any] | None = None
) -> Result:
    """Play one episode.

    Args:
        env: an environment; it is reset.
        agent: what decides; a policy that has a method ``check`` may refuse the environment.
        seed: of the reset.
        options: of the reset.

    Raises:
        ConfigError: the environment's candidate features do not tell what they told the policy in training.

    >>> import gymnasium as gym, hetgym
    >>> from hetgym.workloads import textbook
    >>> env = gym.make("HetSchedule-v0", problem=textbook("arabnejad-barbosa"))
    >>> play(env, hetgym.agents.greedy("completion"), seed=0).info["makespan"] <= 133
    True
    """
    if hasattr(agent, "check") and hasattr(env.unwrapped, "lanes"):
        agent.check(env.unwrapped.lanes)
    observation, info = env.reset(seed=seed, options=options)
    total, over = 0.0, False
    while not over:
        observation, reward, terminated, truncated, info = env.step(agent(observation, info))
        total += float(reward)
        over = terminated or truncated
    return Result(total, info)


def as_scheduler(agent: Agent, **arguments: Any) -> Callable[[Problem], Schedule]:
    """Turn an agent for ``HetSchedule-v0`` into a scheduler.

    Args:
        agent: what decides.
        arguments: of the environment, such as ``runtime`` or ``decode``.

    Returns:
        A function from a problem to the schedule of one episode on it, as the baselines are.
    """

    def schedule(problem: Problem) -> Schedule:
        result: Schedule = play(HetScheduleEnv(problem, **arguments), agent).info["schedule"]
        return result

    return schedule
