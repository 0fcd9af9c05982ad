"""The table of environments, and its entry into Gymnasium's registry."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import gymnasium as gym

from hetgym.errors import unknown_name


class Entry(NamedTuple):
    """An environment in the table, by entry points.

    Attributes:
        env: class of one episode at a time.
        vector: class of many episodes side by side.
        arguments: dataclass of the arguments that both take; its ``lanes`` makes episodes.
    """

    env: str
    vector: str
    arguments: str


def _entry(module: str, name: str) -> Entry:
    return Entry(f"{module}:{name}Env", f"{module}:{name}VectorEnv", f"{module}:{name}Arguments")


ENVIRONMENTS: dict[str, Entry] = {
    "HetSchedule-v0": _entry("hetgym.envs.schedule", "HetSchedule"),
    "HetSplit-v0": _entry("hetgym.envs.split.env", "HetSplit"),
    "HetPipeline-v0": _entry("hetgym.envs.pipeline.env", "HetPipeline"),
}
"""Environment id -> its entry points."""


def register() -> None:
    """Enter all environments into Gymnasium's registry; further calls change nothing."""
    for name, entry in ENVIRONMENTS.items():
        if name not in gym.registry:
            gym.register(id=name, entry_point=entry.env, vector_entry_point=entry.vector)


def entry_of(env_id: str) -> Entry:
    """The entry of an id, which may begin with ``hetgym:``.

    Raises:
        UnknownName: no such environment.
    """
    name = env_id.removeprefix("hetgym:") if isinstance(env_id, str) else env_id
    if not isinstance(name, str) or name not in ENVIRONMENTS:
        raise unknown_name("environment", env_id, ENVIRONMENTS)
    return ENVIRONMENTS[name]


def environment_of(env_id: str) -> Any:
    """The class of an environment of one episode at a time.

    Raises:
        UnknownName: no such environment.
    """
    return _load(entry_of(env_id).env)


def arguments_of(env_id: str) -> Any:
    """The dataclass of an environment's arguments.

    Raises:
        UnknownName: no such environment.
    """
    return _load(entry_of(env_id).arguments)


def _load(entry_point: str) -> Any:
    module, _, name = entry_point.partition(":")
    return getattr(import_module(module), name)
