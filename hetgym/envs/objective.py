"""ObjectiveReward: an environment whose return measures energy, rent, or a weighted sum."""

from __future__ import annotations

from typing import Any, cast

import gymnasium as gym

from hetgym.envs.place.scheduling import ScheduleEnv
from hetgym.errors import ConfigError
from hetgym.planning import get
from hetgym.problem import Problem
from hetgym.sim import Objective, Runtime, Trace, simulate
from hetgym.sim import objective as as_objective


class ObjectiveReward(gym.Wrapper[Any, Any, Any, Any]):
    """HetSchedule-v0 or HetDispatch-v0 with an objective other than the makespan.

    The reward is 0 until the episode ends. Then it is one minus the objective's value relative to HEFT's plan under the
    runtime of the environment: 0.05 means 5 % better. ``info`` gets ``objective``, that value, and ``energy`` [J] and
    ``cost`` [currency] if the problem states powers and prices.

    Args:
        env: a scalar HetSchedule-v0 or HetDispatch-v0.
        objective: see :func:`hetgym.sim.objective`.

    Raises:
        ConfigError: another environment, or an impossible objective.
        UnknownName: an unknown objective.
    """

    def __init__(self, env: gym.Env[Any, Any], objective: str | Objective = "energy") -> None:
        if not isinstance(env.unwrapped, ScheduleEnv):
            raise ConfigError(
                f"an objective needs HetSchedule-v0 or HetDispatch-v0, not {type(env.unwrapped).__name__}"
            )
        super().__init__(env)
        self.objective = as_objective(objective)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a decision."""
        seen, _, over, cut, info = self.env.step(action)
        reward = 0.0
        if over:
            inner = cast(ScheduleEnv, self.env.unwrapped)
            problem: Problem = inner.problem
            runtime: Runtime = inner.lanes.rules.simulated  # type: ignore[attr-defined]
            trace: Trace = info["trace"] if "trace" in info else simulate(problem, info["schedule"], runtime)
            reference = simulate(problem, get("heft")(problem, runtime), runtime)
            value = self.objective.value(trace, reference)
            reward = 1.0 - value
            info["objective"] = value
            if problem.power_busy.any():
                info["energy"] = trace.energy.total
            if problem.price.any():
                info["cost"] = trace.cost
        return seen, reward, over, cut, info
