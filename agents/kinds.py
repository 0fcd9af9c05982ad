"""The kinds of decisions that environments ask for, told by their observations."""

from __future__ import annotations

from typing import Any

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
    keys = set(space) if isinstance(space, spaces.Dict) else set()
    if not {"candidates", "devices", "action_mask"} <= keys:
        raise ConfigError("agents take the observations of hetgym's environments, observation='graph' or 'candidates'")
    level = "graph" if "device_mask" in keys else "candidates"
    if "now" in keys or "operator" in keys:
        return "dispatch" if "now" in keys else "split", level
    columns = space["candidates"].shape[-1]  # type: ignore[index]
    return "place" if columns == len(CANDIDATE_FEATURES) else "pipeline", level
