"""ClusterPlanner: plans training steps on clusters by search, and follows its plans as an agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hetgym.agents.planner import Start, UntrainedPlanner
from hetgym.baselines.parallel import search
from hetgym.envs.cluster.problems import as_step
from hetgym.parallel import ParallelPlan, TrainingProblem


class ClusterPlanner(UntrainedPlanner):
    """Plans training steps; it is a :class:`~hetgym.agents.Policy` without trained parameters.

    >>> import gymnasium as gym, hetgym
    >>> info = hetgym.agents.play(gym.make("HetCluster-v0"), ClusterPlanner(), seed=0).info
    >>> info["value"] <= info["reference"]
    True
    """

    kind = "cluster"

    def begin(self, env: Any, lanes: Any, start: Start) -> tuple[Sequence[int], Start]:
        """The actions of the plan for an episode of HetCluster-v0."""
        return lanes.actions(0, search(lanes.problem(0))), start

    def plan(self, problem: TrainingProblem) -> ParallelPlan:
        """Plan a training step by :func:`~hetgym.baselines.parallel.search`.

        Raises:
            ConfigError: not a training problem.
            ProblemError: no plan fits in memory.
        """
        return search(as_step(problem))
