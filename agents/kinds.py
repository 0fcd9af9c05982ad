"""Kinds of decisions, recognised by their observations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from hetgym.envs.core.features import Column, features_of
from hetgym.envs.core.lanes import Lanes
from hetgym.envs.core.registry import arguments_of
from hetgym.envs.dispatch.observation import DispatchCandidateColumn
from hetgym.envs.pipeline.observation import CutColumn
from hetgym.envs.place.observation import CandidateColumn
from hetgym.envs.split.observation import SplitCandidateColumn
from hetgym.errors import ConfigError
from hetgym.graph.dataflow import Feature

CANDIDATES: dict[str, type[Column]] = {
    "place": CandidateColumn,
    "dispatch": DispatchCandidateColumn,
    "split": SplitCandidateColumn,
    "pipeline": CutColumn,
}
"""Kind of decision -> columns of ``obs["candidates"]``, as an enum."""

KINDS: dict[str, tuple[Feature, ...]] = {kind: features_of(columns) for kind, columns in CANDIDATES.items()}
"""Kind of decision -> columns of ``obs["candidates"]``, as a table."""

ENVIRONMENT = {
    "place": "HetSchedule-v0",
    "dispatch": "HetSchedule-v0",
    "split": "HetSplit-v0",
    "pipeline": "HetPipeline-v0",
}
"""Kind of decision -> id of its environment."""

SHAPING = {
    "place": ("completion",),
    "dispatch": ("completion", "tries"),
    "split": ("completion", "lookahead"),
    "pipeline": ("completion",),
}
"""Kind of decision -> arguments of the environment that change the meaning of candidate features."""

LEVELS = ("graph", "candidates")
"""Levels of observation of agents with networks: the graph and the candidates, or the candidates alone."""


def kind_of(space: spaces.Space[Any]) -> tuple[str, str]:
    """The kind of decision and the level, one of :data:`LEVELS`, that a space of observations belongs to.

    Raises:
        ConfigError: the space belongs to no environment of hetgym, or to flat observations.

    >>> import gymnasium as gym, hetgym
    >>> kind_of(gym.make("HetPipeline-v0", observation="candidates").observation_space)
    ('pipeline', 'candidates')
    """
    shapes = {key: part.shape or () for key, part in space.items()} if isinstance(space, spaces.Dict) else {}
    return _kind_of(shapes)


def kind_of_observation(observation: Any) -> tuple[str, str]:
    """As :func:`kind_of`, for one observation of an environment.

    Raises:
        ConfigError: the observation is not of an environment of hetgym, or is flat.
    """
    found = observation if isinstance(observation, Mapping) else {}
    return _kind_of({key: np.shape(values) for key, values in found.items()})


def _kind_of(shapes: Mapping[str, tuple[int, ...]]) -> tuple[str, str]:
    if not {"candidates", "devices", "action_mask"} <= set(shapes):
        raise ConfigError("agents take the observations of hetgym's environments, observation='graph' or 'candidates'")
    level = "graph" if "device_mask" in shapes else "candidates"
    if "now" in shapes or "operator" in shapes:
        return "dispatch" if "now" in shapes else "split", level
    return "place" if shapes["candidates"][-1] == len(CandidateColumn) else "pipeline", level


def check_features(kind: str, trained: Mapping[str, Any], lanes: Lanes) -> None:
    """Refuse an environment whose candidate features have another meaning than in a policy's training.

    Args:
        kind: kind of the policy's decisions.
        trained: arguments of the training environment that were not the defaults.
        lanes: lanes of the environment to check.

    Raises:
        ConfigError: an argument of :data:`SHAPING` has another value.
    """
    rules, defaults = getattr(lanes, "rules", None), arguments_of(ENVIRONMENT[kind])
    for name in SHAPING[kind]:
        expected = trained.get(name, getattr(defaults, name))
        found = getattr(rules, name, expected)
        if found != expected:
            raise ConfigError(
                f"this policy was trained with {name}={expected!r}, the environment has {name}={found!r}, with which "
                f"candidate features tell something else; make it with {name}={expected!r}"
            )
