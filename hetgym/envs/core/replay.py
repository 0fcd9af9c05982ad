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
        order: the operators in the order in which they were decided, where the reset gave one.
    """

    problem: str
    seed: int | None
    actions: tuple[int, ...]
    conditions: int | None = None
    order: tuple[int, ...] | None = None


def replay(problem: Problem, episode: Replay, **arguments: Any) -> dict[str, Any]:
    """Play an episode again.

    Args:
        problem: the problem that it was played on; of several jobs, see ``options["problem"]`` of the environment.
        episode: what ``info["replay"]`` held.
        arguments: of the environment, where they were not the defaults.

    Returns:
        The last ``info``.

    Raises:
        ConfigError: another problem, or another number of actions than it has operators.
    """
    if problem.id != episode.problem:
        raise ConfigError(f"this episode was played on {episode.problem}, not on {problem.id}")
    if episode.conditions is None and len(episode.actions) != problem.num_operators:
        raise ConfigError(f"an episode on {problem.id} has {problem.num_operators} actions, not {len(episode.actions)}")
    from hetgym.envs.schedule import HetScheduleEnv

    env = HetScheduleEnv(problem, **arguments)
    options: dict[str, Any] = {}
    if episode.conditions is not None:
        options = {"conditions": episode.conditions}
    if episode.order is not None:
        options = {"order": list(episode.order)}
    _, info = env.reset(seed=episode.seed, options=options)
    for action in episode.actions:
        _, _, _, _, info = env.step(action)
    return info
