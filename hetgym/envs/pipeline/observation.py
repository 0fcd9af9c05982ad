"""Observations of cutting pipelines, as fixed-shape padded arrays; every column is a member of an enum below.

Times are shares of the reference, clipped to ``[0, CLIP]``. A *pace* is the time for one request or micro-batch, times
the number of requests or micro-batches, divided by the reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from hetgym.envs.core.features import Column, features_of
from hetgym.envs.core.padding import BlockPadding
from hetgym.envs.core.scaling import CLIP, scale_of, shares
from hetgym.envs.core.spaces import blank, feature_box
from hetgym.pipeline.cuts import CutProblem


class BlockColumn(Column):
    """Columns of ``obs["blocks"]``."""

    MEAN_COST = "pace", "mean time over the devices that can run it, all passes"
    LEAST_COST = "pace", "time on the fastest device, all passes"
    REST = "pace", "least time of it and of all later blocks"
    CUT = "pace", "time to move once the tensors that cross a cut in front of it"
    NEXT_CUT = "pace", "time to move once the tensors that cross a cut behind it"
    SIZE = "largest memory", "bytes of weights, and for training of gradients and optimiser state"
    STASH = "largest memory", "bytes of activations kept of a micro-batch, for training"
    TURN = "episode", "position in the order of decisions, 0 first to 1 last"
    IS_DECIDED = "-", "1 if decided"
    IS_CURRENT = "-", "1 if to be decided now"
    STAGE = "1/d", "number of its stage, from 1; 0 while not decided"
    PIECE = "1/most", "number of its piece, from 1; 0 while not decided"


class StageColumn(Column):
    """Columns of ``obs["devices"]``."""

    LOAD = "pace", "time of its blocks so far, all passes; with transfers once its stage is closed"
    MEMORY_LEFT = "capacity", "memory left if no further stages followed; 1 if unlimited"
    IS_USED = "-", "1 if it holds a stage"
    IS_CURRENT = "-", "1 if it holds the current stage"
    STAGE = "1/d", "number of its stage, from 1; 0 if it holds none"
    TOTAL_COST = "pace / d", "time of all blocks on it, all passes"


class CutColumn(Column):
    """Columns of ``obs["candidates"]``; zeros where an action is not legal."""

    COST = "pace", "time of the current block there, all passes"
    ENDED = "pace", "load of the stage that the action ends, with transfers; 0 if it ends none"
    LOAD = "pace", "load of the block's stage if it ended behind the block, with transfers"
    BOUND = "reference", "proven lower bound on the value after the decision"
    REGRET = "reference", "completion minus the least completion of a legal action"
    MEMORY_LEFT = "capacity", "memory left there after the decision; 1 if unlimited"
    IS_USED = "-", "1 if the device holds blocks already"
    COMPLETION = "reference", "value if the rest were cut well; the bound where that is not known"


BLOCK_FEATURES = features_of(BlockColumn)
"""Columns of ``obs["blocks"]``."""

STAGE_FEATURES = features_of(StageColumn)
"""Columns of ``obs["devices"]``."""

CUT_FEATURES = features_of(CutColumn)
"""Columns of ``obs["candidates"]``; zeros where an action is not legal."""

NARROW = ("candidates", "devices", "action_mask")
"""Keys that the levels ``candidates`` and ``flat`` contain; ``flat`` concatenates them in this order, row by row."""


def pipeline_space(padding: BlockPadding) -> spaces.Dict:
    """The space of observations of all blocks."""
    n, d = padding.blocks, padding.devices
    return spaces.Dict(
        {
            "blocks": feature_box(n, len(BlockColumn)),
            "costs": feature_box(n, d),
            "assignment": spaces.Box(-1, d - 1, (n,), np.int64),
            "devices": feature_box(d, len(StageColumn)),
            "candidates": feature_box(1 + d, len(CutColumn)),
            "current": spaces.Box(0, n - 1, (1,), np.int64),
            "block_mask": spaces.MultiBinary(n),
            "device_mask": spaces.MultiBinary(d),
            "action_mask": spaces.MultiBinary(1 + d),
        }
    )


def fixed(instance: CutProblem, padding: BlockPadding) -> dict[str, npt.NDArray[Any]]:
    """The part of a problem's observations that stays the same from step to step, padding included.

    Args:
        instance: the problem, which must fit within the padding.
        padding: sizes of the observations.
    """
    t, turns = instance.tables, instance.objective.turns
    scale = turns / instance.reference if instance.reference > 0 else 0.0
    n, d = t.forward.shape
    seen = blank(pipeline_space(padding))
    cost = np.where(np.isfinite(t.forward), t.forward + t.backward + t.weight, np.inf)
    able = np.isfinite(cost)
    whole = np.where(able, cost, 0.0)
    unit = scale_of(float(t.capacity[np.isfinite(t.capacity)].max(initial=0.0)))
    table = seen["blocks"]
    table[:n, BlockColumn.MEAN_COST] = shares(whole.sum(axis=1) / np.maximum(1, able.sum(axis=1)), scale)
    table[:n, BlockColumn.LEAST_COST] = shares(cost.min(axis=1), scale)
    table[:n, BlockColumn.REST] = shares(t.rest[:n], scale)
    table[:n, BlockColumn.CUT] = shares(t.comm[np.arange(n), n], scale)
    table[:n, BlockColumn.NEXT_CUT] = shares(t.comm[0, 1:], scale)
    table[:n, BlockColumn.SIZE] = np.clip(np.diff(t.size) * unit, 0.0, CLIP)
    table[:n, BlockColumn.STASH] = np.clip(np.diff(t.stash) * unit, 0.0, CLIP)
    table[:n, BlockColumn.TURN] = np.arange(n) / max(1, n - 1)
    seen["costs"][:n, :d] = shares(cost, scale)
    seen["assignment"][:] = -1
    total = np.where(able.all(axis=0), whole.sum(axis=0), np.inf) / d
    seen["devices"][:d, StageColumn.TOTAL_COST] = shares(total, scale)
    seen["block_mask"][:n] = 1
    seen["device_mask"][:d] = 1
    return seen
