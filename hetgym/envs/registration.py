"""The table of environments, and its entry into Gymnasium's registry."""

from __future__ import annotations

import gymnasium as gym

ENVIRONMENTS: dict[str, tuple[str, str]] = {
    "HetSchedule-v0": ("hetgym.envs.schedule:HetScheduleEnv", "hetgym.envs.schedule:HetScheduleVectorEnv"),
    "HetSplit-v0": ("hetgym.envs.split.env:HetSplitEnv", "hetgym.envs.split.env:HetSplitVectorEnv"),
    "HetPipeline-v0": ("hetgym.envs.pipeline.env:HetPipelineEnv", "hetgym.envs.pipeline.env:HetPipelineVectorEnv"),
}
"""Environment id -> entry points of one episode at a time, and of many."""


def register() -> None:
    """Enter all environments into Gymnasium's registry; doing so again changes nothing."""
    for name, (entry_point, vector_entry_point) in ENVIRONMENTS.items():
        if name not in gym.registry:
            gym.register(id=name, entry_point=entry_point, vector_entry_point=vector_entry_point)
