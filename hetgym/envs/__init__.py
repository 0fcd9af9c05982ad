"""Gymnasium environments over the simulator; they load when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy

if TYPE_CHECKING:
    from hetgym.envs.core.replay import Replay, replay
    from hetgym.envs.pipeline.env import HetPipelineEnv
    from hetgym.envs.pipeline.observation import BLOCK_FEATURES, CUT_FEATURES, STAGE_FEATURES
    from hetgym.envs.pipeline.replay import replay_pipeline
    from hetgym.envs.place.observation import (
        CANDIDATE_FEATURES,
        DEVICE_FEATURES,
        DISPATCH_CANDIDATE_FEATURES,
        DISPATCH_DEVICE_FEATURES,
        OPERATOR_FEATURES,
        feature_table,
    )
    from hetgym.envs.registration import ENVIRONMENTS, register
    from hetgym.envs.schedule import HetScheduleEnv
    from hetgym.envs.split.env import HetSplitEnv
    from hetgym.envs.split.observation import (
        SPLIT_CANDIDATE_FEATURES,
        SPLIT_DEVICE_FEATURES,
        SPLIT_OPERATOR_FEATURES,
    )
    from hetgym.envs.split.replay import replay_split

_HOME = {
    "hetgym.envs.place.observation": (
        "CANDIDATE_FEATURES",
        "DEVICE_FEATURES",
        "DISPATCH_CANDIDATE_FEATURES",
        "DISPATCH_DEVICE_FEATURES",
        "OPERATOR_FEATURES",
        "feature_table",
    ),
    "hetgym.envs.pipeline.env": ("HetPipelineEnv",),
    "hetgym.envs.pipeline.observation": ("BLOCK_FEATURES", "CUT_FEATURES", "STAGE_FEATURES"),
    "hetgym.envs.pipeline.replay": ("replay_pipeline",),
    "hetgym.envs.registration": ("ENVIRONMENTS", "register"),
    "hetgym.envs.core.replay": ("Replay", "replay"),
    "hetgym.envs.schedule": ("HetScheduleEnv",),
    "hetgym.envs.split.env": ("HetSplitEnv",),
    "hetgym.envs.split.observation": (
        "SPLIT_CANDIDATE_FEATURES",
        "SPLIT_DEVICE_FEATURES",
        "SPLIT_OPERATOR_FEATURES",
    ),
    "hetgym.envs.split.replay": ("replay_split",),
}

__all__ = [
    "BLOCK_FEATURES", "CANDIDATE_FEATURES", "CUT_FEATURES", "DEVICE_FEATURES", "DISPATCH_CANDIDATE_FEATURES",
    "DISPATCH_DEVICE_FEATURES", "ENVIRONMENTS", "OPERATOR_FEATURES",
    "SPLIT_CANDIDATE_FEATURES", "SPLIT_DEVICE_FEATURES", "SPLIT_OPERATOR_FEATURES", "STAGE_FEATURES",
    "HetPipelineEnv", "HetScheduleEnv", "HetSplitEnv", "Replay", "feature_table", "register", "replay",
    "replay_pipeline", "replay_split",
]  # fmt: skip

__getattr__ = lazy(__name__, _HOME)
