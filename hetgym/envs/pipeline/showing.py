"""The rows of the observation that a decision changes: the block's, and those of devices."""

from __future__ import annotations

from hetgym._kernels.jit import step
from hetgym.envs.core.scaling import share
from hetgym.envs.pipeline.memory import memory_left
from hetgym.envs.pipeline.observation import BlockColumn, StageColumn
from hetgym.envs.pipeline.state import PipelineObservation, PipelineState
from hetgym.pipeline.tables import CutTables


@step
def show_decided(
    tables: CutTables, board: PipelineState, seen: PipelineObservation, lane: int, block: int, device: int
) -> None:
    """Write what a decision changed into the observation."""
    if seen.blocks.shape[1] > 0:
        seen.blocks[lane, block, BlockColumn.IS_DECIDED] = 1.0
        seen.blocks[lane, block, BlockColumn.IS_CURRENT] = 0.0
        seen.blocks[lane, block, BlockColumn.STAGE] = board.used[lane, device] / len(tables.capacity)
        rounds = board.device.shape[1] // board.used.shape[1]
        seen.blocks[lane, block, BlockColumn.PIECE] = board.pieces[lane] / (rounds * len(tables.capacity))
        seen.assignment[lane, block] = device
    for other in range(len(tables.capacity)):
        show_device(tables, board, seen, lane, other)


@step
def show_device(tables: CutTables, board: PipelineState, seen: PipelineObservation, lane: int, device: int) -> None:
    """Write a device's row."""
    piece = board.pieces[lane] - 1
    busy, held, stashed = board.busy[lane, device], board.held[lane, device], board.stashed[lane, device]
    current = piece >= 0 and board.device[lane, piece] == device
    if current and board.turn[lane] < len(tables.wall) - 1:
        i, j = board.begun[lane, piece], board.turn[lane]
        busy += board.forward[lane, piece] + board.backward[lane, piece] + board.weight[lane, piece]
        held += tables.size[i, j]
        stashed += tables.stash[j] - tables.stash[i]
    stage = board.used[lane, device]
    keep = 0.0
    if stage > 0:
        keep = tables.peak[1, max(stage, board.members[lane]), stage - 1]
    row = seen.devices[lane, device]
    row[StageColumn.LOAD] = share(busy, board.pace[lane])
    row[StageColumn.MEMORY_LEFT] = memory_left(tables, device, held + keep * stashed)
    row[StageColumn.IS_USED] = 1.0 if stage > 0 else 0.0
    row[StageColumn.IS_CURRENT] = 1.0 if current else 0.0
    row[StageColumn.STAGE] = stage / len(tables.capacity)
