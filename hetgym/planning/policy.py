"""Schedulers as agents: every scheduler can play HetSchedule-v0, and gets there what it gets outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._types import IntArray
from hetgym.planning.registry import Baseline, get
from hetgym.problem import Problem
from hetgym.sim import simulate


class SchedulerPolicy:
    """A scheduler that answers with the device of the operator that is to be placed.

    Operators are decided in the order in which the scheduler's own plan starts them. In an environment
    with ``decode="append"`` the episode is then the scheduler's schedule, and ends with its makespan, whatever
    the runtime; with ``"insertion"`` operators may move into idle gaps.

    Args:
        scheduler: what decides.

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

    def __init__(self, scheduler: Baseline) -> None:
        self.scheduler = scheduler
        self._devices: IntArray = np.zeros(0, np.int32)
        self._turn = 0

    def plan(self, problem: Problem) -> IntArray:
        """Schedule a problem, to be played next.

        Returns:
            [n] operators in the order of their planned starts, for ``reset(options={"order": …})``.
        """
        schedule = self.scheduler(problem)
        trace = simulate(problem, schedule)
        order = np.lexsort((problem.arrays.position, trace.finish, trace.start)).astype(np.int32)
        self._devices, self._turn = trace.assignment[order], 0
        return order

    def reset(self, env: Any, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset an environment on a problem that it draws, with the scheduler's order of decisions.

        Args:
            env: a HetSchedule-v0 environment in ``mode="place"``.
            seed: of the draw.

        Returns:
            What the environment's own ``reset`` returns.
        """
        env.reset(seed=seed)
        problem = env.unwrapped.problem
        observation, info = env.reset(options={"problem": problem, "order": self.plan(problem)})
        return observation, info

    def __call__(self, observation: Any, info: Mapping[str, Any] | None = None) -> int:
        """The device of the operator that comes next; nothing of the arguments is looked at."""
        device = int(self._devices[self._turn])
        self._turn += 1
        return device

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[npt.NDArray[np.int64], Any]:
        """The same, asked as Stable-Baselines3 asks its models."""
        return np.array(self(observation)), state


def as_policy(scheduler: str | Baseline, **options: Any) -> SchedulerPolicy:
    """Let a scheduler play.

    Args:
        scheduler: its name, or itself.
        options: of a scheduler that is named.

    Raises:
        UnknownName: no scheduler of that name.
    """
    return SchedulerPolicy(get(scheduler, **options) if isinstance(scheduler, str) else scheduler)
