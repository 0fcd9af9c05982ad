"""Playing episodes that cut pipelines again."""

from __future__ import annotations

from typing import Any

from hetgym.envs.core.replay import Replay
from hetgym.envs.pipeline.env import HetPipelineEnv
from hetgym.envs.pipeline.sources import Pipeline
from hetgym.errors import ConfigError


def replay_pipeline(problem: Pipeline, episode: Replay, **arguments: Any) -> dict[str, Any]:
    """Play an episode of :class:`HetPipelineEnv` again.

    Args:
        problem: the pipeline that it was played on.
        episode: what ``info["replay"]`` held.
        arguments: of the environment, where they were not the defaults.

    Returns:
        The last ``info``.

    Raises:
        ConfigError: another pipeline, or another number of actions than it has blocks.
    """
    env = HetPipelineEnv(problem, **arguments)
    _, info = env.reset(seed=episode.seed)
    identity, blocks = env.lanes.identity(0), len(env.lanes.context(0).names)
    if identity != episode.problem:
        raise ConfigError(f"this episode was played on {episode.problem}, not on {identity}")
    if len(episode.actions) != blocks:
        raise ConfigError(f"an episode on {identity} has {blocks} actions, not {len(episode.actions)}")
    for action in episode.actions:
        _, _, _, _, info = env.step(action)
    return info
