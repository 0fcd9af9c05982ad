"""Schedulers as agents: any scheduler can act in HetSchedule-v0, with the makespan that it has when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._types import IntArray
from hetgym.planning.decode import by_start
from hetgym.planning.protocols import Scheduler
from hetgym.planning.registry import get
from hetgym.problem import Problem
from hetgym.sim import simulate


class SchedulerPolicy:
    """An agent whose actions are the devices of a scheduler's plan.

    Operators are decided in the order in which that plan starts them. In an environment with ``decode="append"`` the
    episode is then the scheduler's schedule, and ends with its makespan under any runtime; with ``"insertion"``
    operators may move into idle gaps.

    Args:
        scheduler: the scheduler that makes the plan.

    >>> import gymnasium as gym, hetgym
    >>> env = gym.make("HetSchedule-v0", problem=hetgym.workloads.textbook("topcuoglu"), decode="append")
    >>> policy = as_policy("peft")
    >>> obs, info = policy.reset(env)
    >>> done = False
    >>> while not done:
    ...     obs, reward, done, truncated, info = env.step(policy(obs, info))
    >>> info["makespan"] == hetgym.baselines.get("peft")(env.unwrapped.problem).makespan
    True
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self._devices: IntArray = np.zeros(0, np.int32)
        self._turn = 0

    def prepare(self, problem: Problem) -> IntArray:
        """Schedule the problem of the next episode.

        Returns:
            [n] operators in the order of their planned starts, for ``reset(options={"order": …})``.
        """
        schedule = self.scheduler(problem)
        trace = simulate(problem, schedule)
        order = by_start(problem, trace.start, trace.finish)
        self._devices, self._turn = trace.assignment[order], 0
        return order

    def reset(
        self, env: Any, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset an environment on a problem that it draws, with the scheduler's order of decisions.

        Args:
            env: a HetSchedule-v0 environment in ``mode="place"``.
            seed: of the draw.
            options: of the environment's reset; its ``problem`` takes the place of the drawn one.

        Returns:
            The environment's first observation and info.
        """
        env.reset(seed=seed, options=options)
        problem = env.unwrapped.problem
        observation, info = env.reset(options={"problem": problem, "order": self.prepare(problem)})
        return observation, info

    def __call__(self, observation: Any, info: Mapping[str, Any] | None = None) -> int:
        """The device of the next operator; the arguments are ignored."""
        device = int(self._devices[self._turn])
        self._turn += 1
        return device

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[npt.NDArray[np.int64], Any]:
        """The same action, with the interface of Stable-Baselines3's models."""
        return np.array(self(observation)), state


def as_policy(scheduler: str | Scheduler, **options: Any) -> SchedulerPolicy:
    """Make an agent of a scheduler.

    Args:
        scheduler: the scheduler, or its name.
        options: of a scheduler that is given by name.

    Raises:
        UnknownName: no scheduler of that name.
    """
    return SchedulerPolicy(get(scheduler, **options) if isinstance(scheduler, str) else scheduler)
