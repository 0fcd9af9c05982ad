"""The dynamics of cutting pipelines: blocks come one by one, an action stays in the stage or begins the next one.

One call of :func:`cut` takes a decision in every lane and writes the agents' next observations. The mask is exact: an
action is legal if and only if all remaining blocks can then be placed (:mod:`hetgym.envs.pipeline.memory`).
"""

from __future__ import annotations

import numpy as np

from hetgym._kernels.jit import lean, step
from hetgym._types import BoolArray, Int64Array
from hetgym.envs.core.scaling import scale_of, share
from hetgym.envs.pipeline.bounds import bound_after, proved_by_stage
from hetgym.envs.pipeline.completion import completion_after, show_completion
from hetgym.envs.pipeline.memory import is_legal, memory_left, most_stages
from hetgym.envs.pipeline.observation import BlockColumn, CutColumn
from hetgym.envs.pipeline.showing import show_decided, show_device
from hetgym.envs.pipeline.state import Game, PipelineObservation, PipelineState, read_lanes, read_tables
from hetgym.pipeline.objective import TRAINING
from hetgym.pipeline.tables import CutTables


# Between two calls the following holds in every lane whose episode is running: blocks before turn[lane] lie on pieces
# that follow each other without a gap; all but the last piece are closed, and closed, work, high, busy, held and
# stashed sum up the closed ones; all remaining blocks can be placed; ahead, and with it the candidates and the mask,
# are those of each action for the block at turn[lane]; potential is the reference before the first decision, then the
# bound.
#
# A step looks ahead to O(D) actions. Each costs a bound, a completion (:mod:`hetgym.envs.pipeline.completion`), and for
# the memory O(levels * log n), or O(stages * n) in a later round.
@lean
def cut(lanes: Int64Array, game: Game, actions: Int64Array, active: BoolArray) -> None:
    """Take a decision in every active lane, or open the episode there if it is fresh.

    A fresh lane's rows, reference and fixed observations must be in place. A lane ends with its last block; the caller,
    which prices the cut, sets the last reward.

    Args:
        actions: [L] legal ones: 0 to stay, 1 + d to begin the next stage on device d.
    """
    r = read_lanes(lanes)
    board, seen = r.state, r.observation
    for lane in range(len(active)):
        if not active[lane]:
            continue
        tables = read_tables(r.tables[lane])
        if r.fresh[lane]:
            r.fresh[lane] = False
            _clear(tables, board, seen, game, lane)
            for device in range(len(tables.capacity)):
                show_device(tables, board, seen, lane, device)
        else:
            action = actions[lane]
            board.log[lane, board.turn[lane]] = action
            bound = board.ahead[lane, action]
            _decide(tables, board, game, lane, action)
            r.over[lane] = board.turn[lane] == len(tables.wall) - 1
            r.reward[lane] = 0.0
            if not r.over[lane]:
                gain = board.potential[lane] - bound
                board.potential[lane] = bound
                r.reward[lane] = 0.0 if game.sparse else gain * board.scale[lane]
            show_decided(tables, board, seen, lane, board.turn[lane] - 1, board.device[lane, board.pieces[lane] - 1])
        _look_ahead(tables, board, seen, game, lane)


@step
def _clear(tables: CutTables, board: PipelineState, seen: PipelineObservation, game: Game, lane: int) -> None:
    """Set a lane to the beginning of an episode; the reference must be in place."""
    board.turn[lane] = board.pieces[lane] = board.members[lane] = 0
    board.free[lane] = tables.free[0]
    board.unused[lane] = board.most[lane] = len(tables.capacity)
    board.closed[lane] = board.work[lane] = board.high[lane] = 0.0
    board.potential[lane] = board.reference[lane]
    board.scale[lane] = scale_of(board.reference[lane])
    board.pace[lane] = board.scale[lane] * game.turns
    board.before[lane, 0] = board.ramp[lane, 0] = 0.0
    for device in range(board.used.shape[1]):
        board.used[lane, device] = 0
        board.busy[lane, device] = board.held[lane, device] = board.stashed[lane, device] = 0.0
    for block in range(board.assignment.shape[1]):
        board.assignment[lane, block] = -1
    for block in range(seen.assignment.shape[1]):
        seen.assignment[lane, block] = -1


@step
def _decide(tables: CutTables, board: PipelineState, game: Game, lane: int, action: int) -> None:
    """Put the current block into the current piece or a new one; the last block closes the last piece."""
    j = board.turn[lane]
    if action > 0:
        if board.pieces[lane] > 0:
            _close(tables, board, game, lane, j)
        _begin(tables, board, lane, action - 1, j)
    piece = board.pieces[lane] - 1
    device = board.device[lane, piece]
    board.forward[lane, piece] += tables.forward[j, device]
    board.backward[lane, piece] += tables.backward[j, device]
    board.weight[lane, piece] += tables.weight[j, device]
    board.assignment[lane, j] = device
    board.turn[lane] = j + 1
    if j + 1 == len(tables.wall) - 1:
        _close(tables, board, game, lane, j + 1)
        _hold(tables, board, lane)


@step
def _close(tables: CutTables, board: PipelineState, game: Game, lane: int, end: int) -> None:
    """Close the current piece, which ends before block ``end``."""
    piece = board.pieces[lane] - 1
    device, i = board.device[lane, piece], board.begun[lane, piece]
    paid = tables.comm[i, end] if tables.pays[device] > 0 else 0.0
    board.begun[lane, piece + 1] = end
    board.forward[lane, piece] += paid
    if game.objective == TRAINING:
        board.backward[lane, piece] += paid
    forward, backward, weight = board.forward[lane, piece], board.backward[lane, piece], board.weight[lane, piece]
    stage = board.used[lane, device] - 1
    before, ramp, busy = board.before[lane, stage], board.ramp[lane, stage], board.busy[lane, device]
    proved = proved_by_stage(game, before, ramp, forward, backward, weight, busy)
    board.high[lane] = max(board.high[lane], proved)
    board.closed[lane] += forward + backward
    board.work[lane] += forward + backward + weight
    board.busy[lane, device] += forward + backward + weight
    board.held[lane, device] += tables.size[i, end]
    board.stashed[lane, device] += tables.stash[end] - tables.stash[i]
    if board.members[lane] == 0:
        board.most[lane] = most_stages(tables, stage, device, i, end, board.most[lane])
        if piece + 1 < board.device.shape[1]:
            board.before[lane, piece + 1] = board.before[lane, piece] + (forward + backward)
            board.ramp[lane, piece + 1] = board.ramp[lane, piece] + forward


@step
def _hold(tables: CutTables, board: PipelineState, lane: int) -> None:
    """Write the peak memory of each device under the finished cut; sums as in :meth:`CutProblem.memory`."""
    depth = board.pieces[lane] if board.members[lane] == 0 else board.members[lane]
    for device in range(len(tables.capacity)):
        board.memory[lane, device] = 0.0
    for piece in range(board.pieces[lane]):
        device, i, end = board.device[lane, piece], board.begun[lane, piece], board.begun[lane, piece + 1]
        keep = tables.peak[board.pieces[lane] // depth, depth, piece % depth]
        board.memory[lane, device] += tables.size[i, end] + keep * (tables.stash[end] - tables.stash[i])


@step
def _begin(tables: CutTables, board: PipelineState, lane: int, device: int, block: int) -> None:
    """Begin a piece at a block."""
    piece = board.pieces[lane]
    if board.used[lane, device] == 0:
        board.used[lane, device] = piece + 1
        board.free[lane] -= tables.stride[tables.kind[device]]
        board.unused[lane] -= 1
    elif board.members[lane] == 0:
        board.members[lane] = piece
    board.begun[lane, piece] = block
    board.device[lane, piece] = device
    board.forward[lane, piece] = board.backward[lane, piece] = board.weight[lane, piece] = 0.0
    board.pieces[lane] = piece + 1


@step
def _look_ahead(tables: CutTables, board: PipelineState, seen: PipelineObservation, game: Game, lane: int) -> None:
    """Compute and write the results of each action for the current block.

    After the last decision there are no candidates; the mask stays, so that it is never empty.
    """
    j = board.turn[lane]
    for action in range(seen.candidates.shape[1]):
        for column in range(seen.candidates.shape[2]):
            seen.candidates[lane, action, column] = 0.0
    if j == len(tables.wall) - 1:
        return
    seen.current[lane, 0] = j
    if seen.blocks.shape[1] > 0:
        seen.blocks[lane, j, BlockColumn.IS_CURRENT] = 1.0
    for action in range(seen.mask.shape[1]):
        board.ahead[lane, action] = board.completion[lane, action] = np.inf
        legal = action <= len(tables.capacity) and is_legal(tables, board, game, lane, action)
        seen.mask[lane, action] = 1 if legal else 0
        if legal:
            board.ahead[lane, action] = bound_after(tables, board, game, lane, action)
            board.completion[lane, action] = completion_after(tables, board, game, lane, action)
            _show_action(tables, board, seen, game, lane, action)
    show_completion(board, seen, lane)


# first is the first block of the piece that the action puts block j into, and j + 1 its end if it ended there. Times
# are those of one request, in units of 1 / pace; a piece pays for the tensors that cross its two ends. Cost: O(1).
@step
def _show_action(
    tables: CutTables, board: PipelineState, seen: PipelineObservation, game: Game, lane: int, action: int
) -> None:
    """Write the row of a legal action, apart from its completion."""
    j, piece, pace = board.turn[lane], board.pieces[lane] - 1, board.pace[lane]
    row, passes = seen.candidates[lane, action], 2.0 if game.objective == TRAINING else 1.0
    device = board.device[lane, piece] if action == 0 else action - 1
    first = board.begun[lane, piece] if action == 0 else j
    load = tables.forward[j, device] + tables.backward[j, device] + tables.weight[j, device]
    row[CutColumn.COST] = share(load, pace)
    if piece >= 0:
        current = board.forward[lane, piece] + board.backward[lane, piece] + board.weight[lane, piece]
        if action == 0:
            load += current
        else:
            old, start = board.device[lane, piece], board.begun[lane, piece]
            ended = current + (passes * tables.comm[start, j] if tables.pays[old] > 0 else 0.0)
            row[CutColumn.ENDED] = share(ended, pace)
    if tables.pays[device] > 0:
        load += passes * tables.comm[first, j + 1]
    row[CutColumn.LOAD] = share(load, pace)
    row[CutColumn.BOUND] = share(board.ahead[lane, action], board.scale[lane])
    stage = board.used[lane, device] - 1 if board.used[lane, device] > 0 else board.pieces[lane]
    keep = tables.peak[1, max(stage + 1, board.members[lane]), stage]
    need = board.held[lane, device] + tables.size[first, j + 1]
    need += keep * (board.stashed[lane, device] + tables.stash[j + 1] - tables.stash[first])
    row[CutColumn.MEMORY_LEFT] = memory_left(tables, device, need)
    row[CutColumn.IS_USED] = 1.0 if action == 0 or board.used[lane, device] > 0 else 0.0
