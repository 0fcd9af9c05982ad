"""Gymnasium environments over the simulator; they load when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy

if TYPE_CHECKING:
    from hetgym.envs.cluster.env import HetClusterArguments as HetClusterArguments
    from hetgym.envs.cluster.env import HetClusterEnv as HetClusterEnv
    from hetgym.envs.cluster.observation import LAYER_FEATURES as LAYER_FEATURES
    from hetgym.envs.cluster.observation import POOL_FEATURES as POOL_FEATURES
    from hetgym.envs.cluster.observation import STEP_FEATURES as STEP_FEATURES
    from hetgym.envs.core.features import feature_table as feature_table
    from hetgym.envs.core.registry import ENVIRONMENTS as ENVIRONMENTS
    from hetgym.envs.core.replay import Replay as Replay
    from hetgym.envs.dispatch.env import HetDispatchArguments as HetDispatchArguments
    from hetgym.envs.dispatch.env import HetDispatchEnv as HetDispatchEnv
    from hetgym.envs.dispatch.observation import DISPATCH_CANDIDATE_FEATURES as DISPATCH_CANDIDATE_FEATURES
    from hetgym.envs.dispatch.observation import DISPATCH_DEVICE_FEATURES as DISPATCH_DEVICE_FEATURES
    from hetgym.envs.improve.env import HetImproveArguments as HetImproveArguments
    from hetgym.envs.improve.env import HetImproveEnv as HetImproveEnv
    from hetgym.envs.improve.observation import MOVE_FEATURES as MOVE_FEATURES
    from hetgym.envs.improve.observation import PLAN_FEATURES as PLAN_FEATURES
    from hetgym.envs.pipeline.env import HetPipelineArguments as HetPipelineArguments
    from hetgym.envs.pipeline.env import HetPipelineEnv as HetPipelineEnv
    from hetgym.envs.pipeline.observation import BLOCK_FEATURES as BLOCK_FEATURES
    from hetgym.envs.pipeline.observation import CUT_FEATURES as CUT_FEATURES
    from hetgym.envs.pipeline.observation import STAGE_FEATURES as STAGE_FEATURES
    from hetgym.envs.place.env import HetScheduleArguments as HetScheduleArguments
    from hetgym.envs.place.env import HetScheduleEnv as HetScheduleEnv
    from hetgym.envs.place.observation import CANDIDATE_FEATURES as CANDIDATE_FEATURES
    from hetgym.envs.place.observation import DEVICE_FEATURES as DEVICE_FEATURES
    from hetgym.envs.place.observation import OPERATOR_FEATURES as OPERATOR_FEATURES
    from hetgym.envs.registration import register as register
    from hetgym.envs.replaying import replay as replay
    from hetgym.envs.split.env import HetSplitArguments as HetSplitArguments
    from hetgym.envs.split.env import HetSplitEnv as HetSplitEnv
    from hetgym.envs.split.observation import SPLIT_CANDIDATE_FEATURES as SPLIT_CANDIDATE_FEATURES
    from hetgym.envs.split.observation import SPLIT_DEVICE_FEATURES as SPLIT_DEVICE_FEATURES
    from hetgym.envs.split.observation import SPLIT_OPERATOR_FEATURES as SPLIT_OPERATOR_FEATURES

lazy(__name__)
