"""The rows of the observation that a decision changes: the block's, and those of devices."""

from __future__ import annotations

from hetgym._kernels.jit import step
from hetgym.envs.core.scaling import share
from hetgym.envs.pipeline.memory import memory_left
from hetgym.envs.pipeline.observation import BlockColumn, StageColumn
from hetgym.envs.pipeline.state import PipelineObservation, PipelineState
from hetgym.pipeline.tables import CutTables


@step
def show_decided(t: CutTables, b: PipelineState, seen: PipelineObservation, lane: int, block: int, device: int) -> None:
    """Write what a decision changed into the observation."""
    if seen.blocks.shape[1] > 0:
        seen.blocks[lane, block, BlockColumn.IS_DECIDED] = 1.0
        seen.blocks[lane, block, BlockColumn.IS_CURRENT] = 0.0
        seen.blocks[lane, block, BlockColumn.STAGE] = b.used[lane, device] / len(t.capacity)
        rounds = b.device.shape[1] // b.used.shape[1]
        seen.blocks[lane, block, BlockColumn.PIECE] = b.pieces[lane] / (rounds * len(t.capacity))
        seen.assignment[lane, block] = device
    for other in range(len(t.capacity)):
        show_device(t, b, seen, lane, other)


@step
def show_device(t: CutTables, b: PipelineState, seen: PipelineObservation, lane: int, device: int) -> None:
    """Write a device's row."""
    piece = b.pieces[lane] - 1
    busy, held, stashed = b.busy[lane, device], b.held[lane, device], b.stashed[lane, device]
    current = piece >= 0 and b.device[lane, piece] == device
    if current and b.turn[lane] < len(t.wall) - 1:
        i, j = b.begun[lane, piece], b.turn[lane]
        busy += b.forward[lane, piece] + b.backward[lane, piece] + b.weight[lane, piece]
        held += t.size[i, j]
        stashed += t.stash[j] - t.stash[i]
    stage = b.used[lane, device]
    keep = 0.0
    if stage > 0:
        keep = t.peak[1, max(stage, b.members[lane]), stage - 1]
    row = seen.devices[lane, device]
    row[StageColumn.LOAD] = share(busy, b.pace[lane])
    row[StageColumn.MEMORY_LEFT] = memory_left(t, device, held + keep * stashed)
    row[StageColumn.IS_USED] = 1.0 if stage > 0 else 0.0
    row[StageColumn.IS_CURRENT] = 1.0 if current else 0.0
    row[StageColumn.STAGE] = stage / len(t.capacity)
