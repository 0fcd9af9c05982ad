"""Kinds of decisions: each environment has one, as a constant of its lanes."""

from __future__ import annotations

from typing import Any

from hetgym.errors import ConfigError
from hetgym.problem import Problem

IDS = {
    "place": "HetSchedule-v0",
    "dispatch": "HetDispatch-v0",
    "split": "HetSplit-v0",
    "pipeline": "HetPipeline-v0",
    "cluster": "HetCluster-v0",
    "improve": "HetImprove-v0",
}
"""Kind of decision -> id of its environment."""


def refuse_partitions(problem: Problem) -> None:
    """Refuse (ConfigError) a problem in which entering partitions takes time: environments do not charge it."""
    if problem.has_partitions:
        raise ConfigError(
            f"problem {problem.name!r} has partition_overhead or synchronous devices, which environments do not "
            "simulate; plan it with hetgym.plan, or set them to 0 and false"
        )


def require_kind(kind: str, of: Any) -> None:
    """Refuse an environment of another kind than a policy plays.

    Raises:
        ConfigError: the lanes or the space of observations are those of an environment of another kind, or of flat
            observations.
    """
    found = getattr(of, "kind", None)
    if found is None:
        raise ConfigError(
            f"this policy plays {IDS[kind]} with observation='graph' or 'candidates'; this environment is not one of "
            "hetgym's, or its observations are flat"
        )
    if found != kind:
        raise ConfigError(f"this policy plays {IDS[kind]}, the environment is {IDS[found]}")
