"""Observations of cutting pipelines, as fixed-shape padded arrays; every column is a member of an enum below.

Times are shares of the reference, clipped to ``[0, CLIP]``. A *pace* is the time for one request or micro-batch, times
the number of requests or micro-batches, divided by the reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from hetgym._kernels.jit import lean
from hetgym._types import Float32Array, FloatArray
from hetgym.envs.core.features import Column, features_of
from hetgym.envs.core.padding import BlockPadding
from hetgym.envs.core.scaling import scale_of, share, shares
from hetgym.envs.core.spaces import feature_box, number_box, table_space
from hetgym.pipeline.cuts import CutProblem
from hetgym.pipeline.tables import CutTables


class BlockColumn(Column):
    """Columns of ``obs["blocks"]``."""

    MEAN_COST = "pace", "mean time over the devices that can run it, all passes"
    LEAST_COST = "pace", "time on the fastest device, all passes"
    REST = "pace", "least time of it and of all later blocks"
    CUT = "pace", "time to move, once, the tensors that cross a cut in front of it"
    NEXT_CUT = "pace", "time to move, once, the tensors that cross a cut behind it"
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


BLOCK_FEATURES = features_of(BlockColumn)  # Columns of `obs["blocks"]`
STAGE_FEATURES = features_of(StageColumn)  # Columns of `obs["devices"]`
CUT_FEATURES = features_of(CutColumn)  # Columns of `obs["candidates"]`; zeros where an action is not legal


def pipeline_space(padding: BlockPadding) -> spaces.Dict:
    """The space of observations of all blocks."""
    n, d = padding.blocks, padding.devices
    more = {"costs": feature_box(n, d), "assignment": number_box(-1, d - 1, n), "current": number_box(0, n - 1, 1)}
    return table_space("block", n, d, 1 + d, (BlockColumn, StageColumn, CutColumn), **more)


def fixed(instance: CutProblem, padding: BlockPadding, blocks: bool) -> dict[str, npt.NDArray[Any]]:
    """The part of a problem's observations that the kernels of episodes do not write, padding included.

    Args:
        instance: the problem, which must fit within the padding.
        blocks: false to leave out the tables of blocks.
    """
    tables, turns = instance.tables, instance.objective.turns
    scale = turns / instance.reference if instance.reference > 0 else 0.0
    n, d = tables.forward.shape
    cost = tables.forward + tables.backward + tables.weight
    able = np.isfinite(cost)
    whole = np.where(able, cost, 0.0)
    total = np.where(able.all(axis=0), whole.sum(axis=0), np.inf) / d
    seen: dict[str, npt.NDArray[Any]] = {"devices": np.zeros((padding.devices, len(StageColumn)), np.float32)}
    seen["devices"][:d, StageColumn.TOTAL_COST] = shares(total, scale)
    if blocks:
        unit = scale_of(float(tables.capacity[np.isfinite(tables.capacity)].max(initial=0.0)))
        seen["blocks"] = np.zeros((padding.blocks, len(BlockColumn)), np.float32)
        seen["costs"] = np.zeros((padding.blocks, padding.devices), np.float32)
        _write_blocks(tables, whole.sum(axis=1), scale, unit, seen["blocks"], seen["costs"])
        for key, size, count in (("block_mask", padding.blocks, n), ("device_mask", padding.devices, d)):
            seen[key] = np.zeros(size, np.int8)
            seen[key][:count] = 1
    return seen


@lean
def _write_blocks(
    tables: CutTables, total: FloatArray, scale: float, unit: float, table: Float32Array, costs: Float32Array
) -> None:
    """Write what blocks take.

    Args:
        total: [n] seconds of each block, all passes, summed over the devices that can run it.
        scale: turns / reference [1/s].
        unit: 1 / largest memory [1/byte].
        table: [N, 12] rows of blocks.
        costs: [N, D] pace of each block on each device.
    """
    n, d = tables.forward.shape
    for i in range(n):
        least, able = np.inf, 0
        for device in range(d):
            seconds = tables.forward[i, device] + tables.backward[i, device] + tables.weight[i, device]
            costs[i, device] = share(seconds, scale)
            least = min(least, seconds)
            able += 1 if seconds < np.inf else 0
        row = table[i]
        row[BlockColumn.MEAN_COST] = share(total[i] / max(1, able), scale)
        row[BlockColumn.LEAST_COST] = share(least, scale)
        row[BlockColumn.REST] = share(tables.rest[i], scale)
        row[BlockColumn.CUT] = share(tables.comm[i, n], scale)
        row[BlockColumn.NEXT_CUT] = share(tables.comm[0, i + 1], scale)
        row[BlockColumn.SIZE] = share(tables.size[i, i + 1], unit)
        row[BlockColumn.STASH] = share(tables.stash[i + 1] - tables.stash[i], unit)
        row[BlockColumn.TURN] = i / max(1, n - 1)
