"""The table of environments, and its entry into Gymnasium's registry."""

from __future__ import annotations

import gymnasium as gym

ENVIRONMENTS: dict[str, str] = {
    "HetSchedule-v0": "hetgym.envs.schedule:HetScheduleEnv",
}
"""Environment id -> entry point."""


def register() -> None:
    """Enter all environments into Gymnasium's registry; doing so again changes nothing."""
    for name, entry_point in ENVIRONMENTS.items():
        if name not in gym.registry:
            gym.register(id=name, entry_point=entry_point)
