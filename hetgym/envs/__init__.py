"""Gymnasium environments over the simulator; they load when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy

if TYPE_CHECKING:
    from hetgym.envs.observation import CANDIDATE_FEATURES, DEVICE_FEATURES, OPERATOR_FEATURES, feature_table
    from hetgym.envs.registration import ENVIRONMENTS, register
    from hetgym.envs.replays import Replay, replay
    from hetgym.envs.schedule import HetScheduleEnv

_HOME = {
    "hetgym.envs.observation": ("CANDIDATE_FEATURES", "DEVICE_FEATURES", "OPERATOR_FEATURES", "feature_table"),
    "hetgym.envs.registration": ("ENVIRONMENTS", "register"),
    "hetgym.envs.replays": ("Replay", "replay"),
    "hetgym.envs.schedule": ("HetScheduleEnv",),
}

__all__ = [
    "CANDIDATE_FEATURES", "DEVICE_FEATURES", "ENVIRONMENTS", "OPERATOR_FEATURES", "HetScheduleEnv", "Replay",
    "feature_table", "register", "replay",
]  # fmt: skip

__getattr__ = lazy(__name__, _HOME)
