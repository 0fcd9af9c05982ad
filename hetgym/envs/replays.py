"""Episodes as values, and playing them again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hetgym.errors import ConfigError
from hetgym.problem import Problem


@dataclass(frozen=True)
class Replay:
    """An episode as a value: the same problem and actions give the same makespan again.

    Attributes:
        problem: :attr:`hetgym.Problem.id` of what was scheduled.
        seed: seed of the reset that drew the problem, None if that reset had none.
        actions: what was passed to ``step``.
        conditions: seed of what else was drawn, in ``mode="dispatch"``.
    """

    problem: str
    seed: int | None
    actions: tuple[int, ...]
    conditions: int | None = None


def replay(problem: Problem, episode: Replay, **arguments: Any) -> dict[str, Any]:
    """Play an episode again.

    Args:
        problem: the problem that it was played on.
        episode: what ``info["replay"]`` held.
        arguments: of the environment, where they were not the defaults.

    Returns:
        The last ``info``.

    Raises:
        ConfigError: another problem, or another number of actions than it has operators.
    """
    if problem.id != episode.problem:
        raise ConfigError(f"this episode was played on {episode.problem}, not on {problem.id}")
    if len(episode.actions) != problem.num_operators:
        raise ConfigError(f"an episode on {problem.id} has {problem.num_operators} actions, not {len(episode.actions)}")
    from hetgym.envs.schedule import HetScheduleEnv

    env = HetScheduleEnv(problem, **arguments)
    _, info = env.reset(seed=episode.seed)
    for action in episode.actions:
        _, _, _, _, info = env.step(action)
    return info
