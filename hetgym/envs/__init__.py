"""Gymnasium environments over the simulator; they load when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy

if TYPE_CHECKING:
    from hetgym.envs.cluster.env import HetClusterArguments, HetClusterEnv
    from hetgym.envs.cluster.observation import LAYER_FEATURES, POOL_FEATURES, STEP_FEATURES
    from hetgym.envs.core.features import feature_table
    from hetgym.envs.core.registry import ENVIRONMENTS
    from hetgym.envs.core.replay import Replay
    from hetgym.envs.dispatch.env import HetDispatchArguments, HetDispatchEnv
    from hetgym.envs.dispatch.observation import DISPATCH_CANDIDATE_FEATURES, DISPATCH_DEVICE_FEATURES
    from hetgym.envs.objective import ObjectiveReward
    from hetgym.envs.pipeline.env import HetPipelineArguments, HetPipelineEnv
    from hetgym.envs.pipeline.observation import BLOCK_FEATURES, CUT_FEATURES, STAGE_FEATURES
    from hetgym.envs.place.env import HetScheduleArguments, HetScheduleEnv
    from hetgym.envs.place.observation import CANDIDATE_FEATURES, DEVICE_FEATURES, OPERATOR_FEATURES
    from hetgym.envs.registration import register
    from hetgym.envs.replaying import replay
    from hetgym.envs.split.env import HetSplitArguments, HetSplitEnv
    from hetgym.envs.split.observation import (
        SPLIT_CANDIDATE_FEATURES,
        SPLIT_DEVICE_FEATURES,
        SPLIT_OPERATOR_FEATURES,
    )

_HOME = {
    "hetgym.envs.core.features": ("feature_table",),
    "hetgym.envs.cluster.env": ("HetClusterArguments", "HetClusterEnv"),
    "hetgym.envs.core.registry": ("ENVIRONMENTS",),
    "hetgym.envs.core.replay": ("Replay",),
    "hetgym.envs.dispatch.env": ("HetDispatchArguments", "HetDispatchEnv"),
    "hetgym.envs.dispatch.observation": ("DISPATCH_CANDIDATE_FEATURES", "DISPATCH_DEVICE_FEATURES"),
    "hetgym.envs.pipeline.env": ("HetPipelineArguments", "HetPipelineEnv"),
    "hetgym.envs.objective": ("ObjectiveReward",),
    "hetgym.envs.pipeline.observation": ("BLOCK_FEATURES", "CUT_FEATURES", "STAGE_FEATURES"),
    "hetgym.envs.place.observation": ("CANDIDATE_FEATURES", "DEVICE_FEATURES", "OPERATOR_FEATURES"),
    "hetgym.envs.registration": ("register",),
    "hetgym.envs.place.env": ("HetScheduleArguments", "HetScheduleEnv"),
    "hetgym.envs.replaying": ("replay",),
    "hetgym.envs.split.env": ("HetSplitArguments", "HetSplitEnv"),
    "hetgym.envs.split.observation": (
        "SPLIT_CANDIDATE_FEATURES",
        "SPLIT_DEVICE_FEATURES",
        "SPLIT_OPERATOR_FEATURES",
    ),
    "hetgym.envs.cluster.observation": ("LAYER_FEATURES", "POOL_FEATURES", "STEP_FEATURES"),
}

__all__ = [
    "BLOCK_FEATURES",
    "CANDIDATE_FEATURES",
    "CUT_FEATURES",
    "DEVICE_FEATURES",
    "DISPATCH_CANDIDATE_FEATURES",
    "DISPATCH_DEVICE_FEATURES",
    "ENVIRONMENTS",
    "LAYER_FEATURES",
    "OPERATOR_FEATURES",
    "POOL_FEATURES",
    "SPLIT_CANDIDATE_FEATURES",
    "SPLIT_DEVICE_FEATURES",
    "SPLIT_OPERATOR_FEATURES",
    "STAGE_FEATURES",
    "STEP_FEATURES",
    "HetClusterArguments",
    "HetClusterEnv",
    "HetDispatchArguments",
    "HetDispatchEnv",
    "HetPipelineArguments",
    "HetPipelineEnv",
    "HetScheduleArguments",
    "HetScheduleEnv",
    "HetSplitArguments",
    "HetSplitEnv",
    "ObjectiveReward",
    "Replay",
    "feature_table",
    "register",
    "replay",
]

__getattr__ = lazy(__name__, _HOME)
