"""Playing an episode of HetSplit-v0 again."""

from __future__ import annotations

from typing import Any

from hetgym.envs.core.replay import Replay
from hetgym.errors import ConfigError


def replay_split(graph: Any, platform: Any, episode: Replay, **arguments: Any) -> dict[str, Any]:
    """Play an episode of HetSplit-v0 again.

    Args:
        graph: what it was played on: an object, a name or a path.
        platform: likewise.
        episode: what ``info["replay"]`` held.
        arguments: of the environment, where they were not the defaults.

    Returns:
        The last ``info``.

    Raises:
        ConfigError: another graph or platform, or another number of actions than it has decisions.
    """
    from hetgym.envs.split.env import HetSplitEnv

    env = HetSplitEnv(graph, platform, **arguments)
    _, info = env.reset(seed=episode.seed)
    if env.problem.id != episode.problem:
        raise ConfigError(f"this episode was played on {episode.problem}, not on {env.problem.id}")
    taken, over = 0, False
    for action in episode.actions:
        if over:
            break
        _, _, over, _, info = env.step(action)
        taken += 1
    if not over or taken < len(episode.actions):
        what = f"{taken} actions were enough" if over else "they do not end it"
        raise ConfigError(f"the episode on {episode.problem} has {len(episode.actions)} actions, but {what}")
    return info
