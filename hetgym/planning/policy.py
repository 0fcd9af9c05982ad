"""Schedulers as agents: any scheduler can act in HetSchedule-v0, with the makespan that it has when it is called."""

import inspect
from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any

import numpy as np

from hetgym._types import Int64Array, IntArray
from hetgym.errors import ConfigError
from hetgym.planning.protocols import Scheduler
from hetgym.planning.registry import get
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Runtime, Trace, simulate


class SchedulerPolicy:
    """An agent whose actions are the devices of a scheduler's plan.

    A scheduler that takes a runtime plans for the environment's. Operators are decided in the order in which that plan
    starts them. In an environment with ``decode="append"`` the episode is then the scheduler's schedule, and ends with
    its makespan under any runtime; with ``"insertion"`` operators may move into idle gaps.

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

    def schedule(self, problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
        """The scheduler's plan, for the runtime if it takes one."""
        options = {"runtime": runtime} if takes_runtime(self.scheduler) else {}
        return self.scheduler(problem, **options)

    def prepare(self, problem: Problem, runtime: str | Runtime = "classic") -> IntArray:
        """Schedule the problem of the next episode.

        Returns:
            [n] operators in the order of their planned starts, for ``reset(options={"order": …})``.
        """
        schedule = self.schedule(problem, runtime)
        order = launch_order(problem, simulate(problem, schedule, runtime))
        self._devices, self._turn = schedule.assignment[order], 0
        return order

    def check(self, lanes: Any) -> None:
        """ConfigError for lanes of environments other than HetSchedule-v0, in which a plan cannot be followed."""
        if lanes.kind != "place":
            raise ConfigError(f"this policy plays HetSchedule-v0, the environment is {lanes.env_id}")

    def reset(
        self, env: Any, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset an environment on a problem that it draws, with the scheduler's order of decisions.

        Args:
            options: options of the environment's reset; its ``problem`` takes the place of the drawn one.

        Raises:
            ConfigError: another environment.
        """
        self.check(env.unwrapped.lanes)
        env.reset(seed=seed, options=options)
        problem, runtime = env.unwrapped.problem, env.unwrapped.lanes.rules.simulated
        observation, info = env.reset(options={"problem": problem, "order": self.prepare(problem, runtime)})
        return observation, info

    def __call__(self, observation: Any, info: Mapping[str, Any] | None = None) -> int:
        """The device of the next operator; the arguments are ignored."""
        device = int(self._devices[self._turn])
        self._turn += 1
        return device

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Int64Array, Any]:
        """The same action, with the interface of Stable-Baselines3's models."""
        return np.array(self(observation)), state


def launch_order(problem: Problem, trace: Trace) -> IntArray:
    """[n] operators by start, but none before an input, or before what its device has launched earlier.

    Operators of one device that run at the same time may start in an order other than that of their launches.
    """
    pairs = [*zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True)]
    for row in trace.order:
        pairs += pairwise(row.tolist())
    after: list[list[int]] = [[] for _ in range(problem.num_operators)]
    missing = np.zeros(problem.num_operators, np.int64)
    for first, then in pairs:
        after[first].append(then)
        missing[then] += 1
    numbers = problem.arrays.position.tolist(), range(problem.num_operators)
    keys = list(zip(trace.start.tolist(), trace.finish.tolist(), *numbers, strict=True))
    ready = [keys[i] for i in np.flatnonzero(missing == 0)]
    heapify(ready)
    order: list[int] = []
    while ready:
        operator = heappop(ready)[-1]
        order.append(operator)
        for then in after[operator]:
            missing[then] -= 1
            if missing[then] == 0:
                heappush(ready, keys[then])
    return np.array(order, np.int32)


def takes_runtime(scheduler: Scheduler) -> bool:
    """True if a scheduler takes the runtime that will run the schedule."""
    try:
        return "runtime" in inspect.signature(scheduler).parameters
    except (TypeError, ValueError):
        return False


def as_policy(scheduler: str | Scheduler, **options: Any) -> SchedulerPolicy:
    """Make an agent of a scheduler, or of its name and options; UnknownName without one of that name."""
    return SchedulerPolicy(get(scheduler, **options) if isinstance(scheduler, str) else scheduler)
