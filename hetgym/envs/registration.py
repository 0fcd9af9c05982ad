"""hetgym's own environments: rows of the table, and their entry into Gymnasium's registry."""

from __future__ import annotations

import gymnasium as gym

from hetgym.envs.core.registry import ENVIRONMENTS, Entry


def _entry(module: str, name: str) -> Entry:
    return Entry(f"{module}:{name}Env", f"{module}:{name}VectorEnv", f"{module}:{name}Arguments")


ENVIRONMENTS.update(
    {
        "HetSchedule-v0": _entry("hetgym.envs.place.env", "HetSchedule"),
        "HetDispatch-v0": _entry("hetgym.envs.dispatch.env", "HetDispatch"),
        "HetSplit-v0": _entry("hetgym.envs.split.env", "HetSplit"),
        "HetPipeline-v0": _entry("hetgym.envs.pipeline.env", "HetPipeline"),
        "HetCluster-v0": _entry("hetgym.envs.cluster.env", "HetCluster"),
        "HetImprove-v0": _entry("hetgym.envs.improve.env", "HetImprove"),
    }
)


def register() -> None:
    """Enter all environments into Gymnasium's registry; further calls change nothing."""
    for name, entry in ENVIRONMENTS.items():
        if name not in gym.registry:
            gym.register(id=name, entry_point=entry.env, vector_entry_point=entry.vector)
