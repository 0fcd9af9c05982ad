"""The table of environments: entry points by id, loaded when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from hetgym.errors import unknown_name


class Entry(NamedTuple):
    """An environment in the table, by entry points."""

    env: str  # class of one episode at a time
    vector: str  # class of many episodes side by side
    arguments: str  # dataclass of the arguments that both take; its `lanes` makes episodes


ENVIRONMENTS: dict[
    str, Entry
] = {}  # Environment id -> its entry points; `hetgym.envs.registration` enters hetgym's own


def entry_of(env_id: str) -> Entry:
    """The entry of an id, which may begin with ``hetgym:``. Raises UnknownName: no such environment."""
    name = env_id.removeprefix("hetgym:") if isinstance(env_id, str) else env_id
    if not isinstance(name, str) or name not in ENVIRONMENTS:
        raise unknown_name("environment", env_id, ENVIRONMENTS)
    return ENVIRONMENTS[name]


def environment_of(env_id: str) -> Any:
    """The class of an environment of one episode at a time. Raises UnknownName: no such environment."""
    return _load(entry_of(env_id).env)


def arguments_of(env_id: str) -> Any:
    """The dataclass of an environment's arguments. Raises UnknownName: no such environment."""
    return _load(entry_of(env_id).arguments)


def _load(entry_point: str) -> Any:
    module, _, name = entry_point.partition(":")
    return getattr(import_module(module), name)
