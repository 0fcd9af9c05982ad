"""Episodes as values; :func:`hetgym.envs.replay` plays them again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Replay:
    """An episode as a value: the same problem and actions give the same makespan again.

    Attributes:
        problem: :attr:`hetgym.Problem.id` of the problem that was scheduled.
        seed: seed of the reset that drew the problem, None if that reset had none.
        actions: the actions passed to ``step``.
        conditions: seed of noise, arrivals and changes, in HetDispatch-v0.
        order: the order of decisions, if the reset gave one.
        jobs: number of problems that were joined, in HetDispatch-v0.
        env_id: id of the environment.
    """

    problem: str
    seed: int | None
    actions: tuple[int, ...]
    conditions: int | None = None
    order: tuple[int, ...] | None = None
    jobs: int = 1
    env_id: str = "HetSchedule-v0"
