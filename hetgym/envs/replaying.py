"""Playing episodes again."""

from __future__ import annotations

from typing import Any

from hetgym.envs.core.registry import environment_of
from hetgym.envs.core.replay import Replay
from hetgym.errors import ConfigError


def replay(problem: Any, episode: Replay, **arguments: Any) -> dict[str, Any]:
    """Play an episode again.

    Args:
        problem: what it was played on, as ``env.unwrapped.replayable`` gives it while it lasts: a problem, a list of
            jobs, a pipeline, or a graph and a platform. Else where the environment drew it from, such as a list of
            problems, or None for the generators; these are drawn with the episode's seed.
        episode: the value of ``info["replay"]``.
        arguments: of the environment apart from its problems, if they were not the defaults.

    Returns:
        The last ``info``.

    Raises:
        UnknownName: no such environment.
        ConfigError: another problem, or another number of actions than the episode takes.
    """
    given = problem if isinstance(problem, tuple) else (problem,)
    env = environment_of(episode.env_id)(*given, **({"jobs": episode.jobs} if episode.jobs > 1 else {}) | arguments)
    options = {"conditions": episode.conditions, "order": episode.order}
    chosen = {key: value for key, value in options.items() if value is not None}
    are_jobs = isinstance(problem, list) and len(problem) == episode.jobs > 1
    info: dict[str, Any]
    _, info = env.reset(seed=episode.seed, options=chosen | ({"problem": problem} if are_jobs else {}))
    if are_jobs and env.lanes.identity(0) != episode.problem:  # the jobs were drawn from the list
        _, info = env.reset(seed=episode.seed, options=chosen)
    identity = env.lanes.identity(0)
    if identity != episode.problem:
        raise ConfigError(f"this episode was played on {episode.problem}, not on {identity}")
    taken, over = 0, bool(env.lanes.over[0])
    for action in episode.actions:
        if over:
            break
        _, _, over, _, info = env.step(action)
        taken += 1
    if not over or taken < len(episode.actions):
        wrong = f"{taken} actions were enough" if over else "they do not end it"
        raise ConfigError(f"the episode on {identity} has {len(episode.actions)} actions, but {wrong}")
    return info
