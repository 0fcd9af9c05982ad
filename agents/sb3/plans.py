"""Shipped policies as models of Stable-Baselines3, for its tools such as ``evaluate_policy``."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, IntArray
from hetgym.agents.play import Decider, Policy
from hetgym.envs.core.autoreset import AutoresetLanes
from hetgym.envs.place.lanes import PlaceLanes
from hetgym.envs.sb3 import LaneVecEnv
from hetgym.errors import ConfigError
from hetgym.planning.policy import SchedulerPolicy
from hetgym.problem import Problem


class LanePlans:
    """Follows a scheduler's plans in lanes: each operator goes to its device in the plan of the lane's problem.

    The lanes decide in their own order, so an episode may end with a makespan other than the plan's;
    :func:`hetgym.agents.play` gives the environment the plan's order, too.
    """

    def __init__(self, agent: SchedulerPolicy, lanes: PlaceLanes) -> None:
        self._agent, self._lanes = agent, lanes
        self._plans: list[tuple[Problem | None, IntArray]] = [(None, np.zeros(0, np.int32))] * lanes.count

    def predict(
        self, observation: Any, state: Any = None, episode_start: BoolArray | None = None, deterministic: bool = True
    ) -> tuple[npt.NDArray[np.int64], Any]:
        """[L] the planned devices of the operators that the lanes decide next, and the state unchanged.

        ``episode_start``: [L] true for lanes whose episodes have just begun, by default all. Plans of problems that are
        still the same are kept.
        """
        lanes = self._lanes
        begun = np.ones(lanes.count, np.bool_) if episode_start is None else np.asarray(episode_start)
        for lane in np.flatnonzero(begun).tolist():
            problem = lanes.problem(lane)  # lanes of which evaluate_policy needs no more count as begun for ever
            if problem is not self._plans[lane][0]:
                self._plans[lane] = problem, self._agent.schedule(problem, lanes.rules.simulated).assignment
        chosen = [devices[lanes.current(lane)] for lane, (_, devices) in enumerate(self._plans)]
        return np.array(chosen, np.int64), state


def as_model(policy: Policy, envs: LaneVecEnv) -> Decider | LanePlans:
    """A policy as a model of Stable-Baselines3.

    Args:
        policy: any policy of :func:`hetgym.agents.load`.
        envs: the lanes in which it will act.

    Returns:
        A value with ``predict``. Policies that decide by observations do so; those that plan whole problems for
        HetSchedule-v0 follow their plans, for which the lanes must be in this process.

    Raises:
        ConfigError: the policy cannot act in these lanes.

    ``evaluate_policy(as_model(hetgym.agents.load("place-v2"), envs), envs)``
    """
    agent: Any = policy.agent()
    lanes = envs.episodes.lanes if isinstance(envs.episodes, AutoresetLanes) else None
    if isinstance(agent, Decider):
        if lanes is not None and hasattr(agent, "check"):
            agent.check(lanes)
        return agent
    if isinstance(agent, SchedulerPolicy) and isinstance(lanes, PlaceLanes):
        return LanePlans(agent, lanes)
    raise ConfigError(
        f"this {policy.kind} policy plans before the episode begins, for which lanes are of HetSchedule-v0 "
        "in this process; let it play in one environment by hetgym.agents.play"
    )
