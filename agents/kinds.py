"""Kinds of decisions, recognised by the observations that ask for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from hetgym.envs.pipeline.observation import CUT_FEATURES
from hetgym.envs.place.observation import CANDIDATE_FEATURES, DISPATCH_CANDIDATE_FEATURES
from hetgym.envs.split.observation import SPLIT_CANDIDATE_FEATURES
from hetgym.errors import ConfigError
from hetgym.graph.dataflow import Feature

KINDS: dict[str, tuple[Feature, ...]] = {
    "place": CANDIDATE_FEATURES,
    "dispatch": DISPATCH_CANDIDATE_FEATURES,
    "split": SPLIT_CANDIDATE_FEATURES,
    "pipeline": CUT_FEATURES,
}
"""Kind of decision -> columns of ``obs["candidates"]``."""

LEVELS = ("graph", "candidates")
"""How much agents with networks see: the graph and the candidates, or the candidates alone."""


def kind_of(space: spaces.Space[Any]) -> tuple[str, str]:
    """The kind of decision and the level, one of :data:`LEVELS`, that a space of observations belongs to.

    Raises:
        ConfigError: the space is none of an environment of hetgym, or that of flat observations.

    >>> import gymnasium as gym, hetgym
    >>> kind_of(gym.make("HetPipeline-v0", observation="candidates").observation_space)
    ('pipeline', 'candidates')
    """
    shapes = {key: part.shape or () for key, part in space.items()} if isinstance(space, spaces.Dict) else {}
    return _kind_of(shapes)


def kind_of_observation(observation: Any) -> tuple[str, str]:
    """As :func:`kind_of`, for one observation of an environment.

    Raises:
        ConfigError: it is not an observation of an environment of hetgym, or a flat one.
    """
    found = observation if isinstance(observation, Mapping) else {}
    return _kind_of({key: np.shape(values) for key, values in found.items()})


def _kind_of(shapes: Mapping[str, tuple[int, ...]]) -> tuple[str, str]:
    if not {"candidates", "devices", "action_mask"} <= set(shapes):
        raise ConfigError("agents take the observations of hetgym's environments, observation='graph' or 'candidates'")
    level = "graph" if "device_mask" in shapes else "candidates"
    if "now" in shapes or "operator" in shapes:
        return "dispatch" if "now" in shapes else "split", level
    return "place" if shapes["candidates"][-1] == len(CANDIDATE_FEATURES) else "pipeline", level
