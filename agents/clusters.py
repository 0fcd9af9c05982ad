"""ClusterPlanner: plans training steps on clusters by search, and follows its plans as an agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hetgym.baselines.parallel import search
from hetgym.envs.cluster.problems import as_step
from hetgym.envs.core.kinds import require_kind
from hetgym.parallel import ParallelPlan, TrainingProblem


class ClusterPlanner:
    """Plans training steps; it is a :class:`~hetgym.agents.Policy` without trained parameters.

    Attributes:
        card: empty: nothing was trained.

    >>> import gymnasium as gym, hetgym
    >>> info = hetgym.agents.play(gym.make("HetCluster-v0"), ClusterPlanner(), seed=0).info
    >>> info["value"] <= info["reference"]
    True
    """

    kind = "cluster"

    def __init__(self) -> None:
        self.card: dict[str, Any] = {}

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of HetCluster-v0 that an episode of :meth:`agent` needs: none."""
        return {}

    def agent(self) -> ClusterAgent:
        """An agent for HetCluster-v0 that follows the plan."""
        return ClusterAgent()

    def plan(self, problem: TrainingProblem) -> ParallelPlan:
        """Plan a training step by :func:`~hetgym.baselines.parallel.search`.

        Raises:
            ConfigError: not a training problem.
            ProblemError: no plan fits in memory.
        """
        return search(as_step(problem))


class ClusterAgent:
    """An agent for HetCluster-v0 that plans when an episode begins, and follows the plan."""

    def __init__(self) -> None:
        self._actions: list[int] = []
        self._turn = 0

    def reset(
        self, env: Any, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset an environment, and plan the problem that it draws.

        Returns:
            The environment's first observation and info.

        Raises:
            ConfigError: another environment.
        """
        lanes: Any = getattr(env.unwrapped, "lanes", None)
        require_kind(ClusterPlanner.kind, lanes)
        observation, info = env.reset(seed=seed, options=options)
        self._turn, self._actions = 0, lanes.actions(0, search(lanes.problem(0)))
        return observation, info

    def __call__(self, observation: Any, info: Mapping[str, Any] | None = None) -> int:
        """The next action; the arguments are ignored."""
        self._turn += 1
        return self._actions[self._turn - 1]
