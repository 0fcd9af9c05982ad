"""Levels of observation: the whole graph, the candidates alone, or the candidates as one vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from hetgym._sums import summed
from hetgym.envs.core.features import Column
from hetgym.envs.core.padding import GraphPadding
from hetgym.envs.core.scaling import CLIP

Level = Literal["graph", "candidates", "flat"]
"""Levels of observation: the whole graph; the results of each action; these results as one vector."""

LEVELS: tuple[str, ...] = get_args(Level)
Reward = Literal["dense", "sparse"]  # Times of rewards: at each step, or the whole return with the last step
Columns = tuple[type[Column], type[Column], type[Column]]  # of operators or blocks, devices, candidates


def feature_box(*shape: int) -> spaces.Box:
    """The space of feature arrays of a shape."""
    return spaces.Box(0.0, CLIP, shape, np.float32)


def number_box(least: int, most: int, *shape: int) -> spaces.Box:
    """The space of arrays of whole numbers from ``least`` to ``most``."""
    return spaces.Box(least, most, shape, np.int64)


def table_space(
    what: str, count: int, devices: int, actions: int, columns: Columns, **more: spaces.Space[Any]
) -> spaces.Dict:
    """The space of tables of operators or blocks, of devices and of candidates, their masks, and ``more`` by key."""
    counts = {f"{what}s": count, "devices": devices, "candidates": actions}
    masks = {f"{what}_mask": count, "device_mask": devices, "action_mask": actions}
    tables = {key: feature_box(size, len(of)) for (key, size), of in zip(counts.items(), columns, strict=True)}
    return spaces.Dict(tables | {key: spaces.MultiBinary(size) for key, size in masks.items()} | more)


def graph_space(padding: GraphPadding, actions: int, columns: Columns, **more: spaces.Space[Any]) -> spaces.Dict:
    """The space of observations of a graph on devices, and of ``more`` by key."""
    n, e, d = padding.operators, max(1, padding.edges), padding.devices
    more |= {"costs": feature_box(n, d), "links": feature_box(d, d), "edge_transfer": feature_box(e)}
    more |= {"edges": number_box(0, n - 1, 2, e), "edge_mask": spaces.MultiBinary(e)}
    return table_space("operator", n, d, actions, columns, **more)


class KindSpace(spaces.Dict):
    """A space of observations that tells policies which environment they are of.

    Args:
        parts: space of each key.
        kind: kind of the decisions, one of :data:`~hetgym.envs.core.kinds.IDS`.
        level: ``graph`` or ``candidates``.
    """

    def __init__(self, parts: dict[str, spaces.Space[Any]], kind: str, level: str) -> None:
        super().__init__(parts)
        self.kind, self.level = kind, level


class Actions(spaces.Discrete):
    """Numbers of actions, as :class:`gymnasium.spaces.Discrete`; masks of a sample may be bool or int8.

    >>> Actions(3, seed=0).sample(np.array([False, True, False]))
    np.int64(1)
    """

    def sample(self, mask: Any = None, probability: Any = None) -> np.int64:
        """An action, drawn from all, from those of a mask [A] such as ``info["action_mask"]``, or by probabilities."""
        return super().sample(_int8(mask), probability)


class LaneActions(spaces.MultiDiscrete):
    """An action for each lane; masks of a sample may be bool or int8, in a tuple or as rows of one array."""

    def sample(self, mask: Any = None, probability: Any = None) -> npt.NDArray[Any]:
        """[L] actions, drawn as by :class:`Actions`; masks are [L, A]."""
        rows = tuple(mask) if isinstance(mask, np.ndarray) else mask
        return super().sample(tuple(map(_int8, rows)) if isinstance(rows, tuple) else rows, probability)


def _int8(mask: Any) -> Any:
    return mask.astype(np.int8) if isinstance(mask, np.ndarray) and mask.dtype == np.bool_ else mask


@batch_space.register(Actions)
def _lane_actions(space: Actions, n: int = 1) -> LaneActions:
    alike: Any = batch_space.dispatch(spaces.Discrete)(space, n)
    return LaneActions(alike.nvec, alike.dtype, alike.np_random, start=alike.start)


def level_space(space: spaces.Dict, narrow: Sequence[str], level: str, kind: str) -> spaces.Space[Any]:
    """The space of a level of observation.

    Args:
        space: the space of the level ``graph``.
        narrow: keys that the other levels contain; ``flat`` concatenates them in this order, row by row.
        kind: kind of the decisions, one of :data:`~hetgym.envs.core.kinds.IDS`.
    """
    if level != "flat":
        return KindSpace(space.spaces if level == "graph" else {key: space[key] for key in narrow}, kind, level)
    return feature_box(sum(int(np.prod(shape_of(space, key))) for key in narrow))


def shape_of(space: spaces.Dict, key: str) -> tuple[int, ...]:
    """The shape of a key's arrays."""
    return space[key].shape or ()


def bytes_of(space: spaces.Dict, count: int) -> float:
    """Size of the arrays of :func:`blank` [byte]."""
    each = (
        float(np.prod(shape_of(space, key), dtype=np.float64)) * np.dtype(space[key].dtype).itemsize for key in space
    )
    return count * summed(each)


def blank(space: spaces.Dict, *count: int) -> dict[str, npt.NDArray[Any]]:
    """Zeros for every key, with ``count`` as leading dimensions."""
    return {key: np.zeros((*count, *shape_of(space, key)), space[key].dtype) for key in space}
