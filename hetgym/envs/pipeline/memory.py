"""Memory of stages: where blocks fit, and which actions leave a device for all of them.

A table gives, for any set of devices, the first block from which on all remaining blocks fit on the set. So no agent
ever reaches a block that fits nowhere.
"""

from __future__ import annotations

import numpy as np

from hetgym._kernels.jit import step
from hetgym.envs.pipeline.state import Game, PipelineState
from hetgym.pipeline.tables import CutTables


@step
def _fits(tables: CutTables, device: int, i: int, j: int, keep: float, held: float, stashed: float) -> bool:
    """True if blocks i to before j fit on a device.

    Args:
        i: first block.
        j: block after the last one.
        keep: number of micro-batches whose activations the stage keeps.
        held: weights and state that the device holds already [byte].
        stashed: activations of a micro-batch that it holds already [byte].
    """
    if tables.wall[i, device] < j:
        return False
    need = held + tables.size[i, j] + keep * (stashed + (tables.stash[j] - tables.stash[i]))
    return bool(need <= tables.capacity[device])


@step
def reach(tables: CutTables, device: int, i: int, keep: float, held: float, stashed: float) -> int:
    """The first block from i on that no longer fits on a device; arguments as of :func:`_fits`."""
    low, high = i, tables.wall[i, device]
    while low < high:
        middle = (low + high + 1) // 2
        if _fits(tables, device, i, middle, keep, held, stashed):
            low = middle
        else:
            high = middle - 1
    return int(low)


@step
def _open_end(tables: CutTables, stage: int, device: int, i: int, j: int, free: int, most: int) -> bool:
    """True if the rest can be placed when a stage of the first round holds at least blocks i to before j."""
    for row in range(len(tables.levels)):
        depth = tables.levels[row]
        if depth <= stage or depth > most:
            continue
        keep = tables.peak[1, depth, stage]
        if not _fits(tables, device, i, j, keep, 0.0, 0.0):
            continue
        if tables.room[row, depth - stage - 1, free] <= reach(tables, device, i, keep, 0.0, 0.0):
            return True
    return False


@step
def most_stages(tables: CutTables, stage: int, device: int, i: int, j: int, most: int) -> int:
    """Largest number of stages for which blocks i to before j fit on a device as one of them; 0 if there is none."""
    for row in range(len(tables.levels) - 1, -1, -1):
        depth = tables.levels[row]
        if stage < depth <= most and _fits(tables, device, i, j, tables.peak[1, depth, stage], 0.0, 0.0):
            return int(depth)
    return 0


# Stages are visited from the last to the current one. Before each of them, spare[e] is 1 if the blocks from e on fit on
# the stages behind it; afterwards, if they fit on it and those. A stage that begins at e needs to be tried with the
# nearest such end only, as a shorter piece never needs more memory. Cost: O(stages * n), and a bisection for the
# current stage.
@step
def _round_ends(
    tables: CutTables, board: PipelineState, lane: int, rounds: int, depth: int, stage: int, i: int, j: int, last: bool
) -> bool:
    """True if the round can be finished when the piece of a stage holds at least blocks i to before j.

    Args:
        rounds: number of rounds, this one included.
        depth: number of devices, which is that of the stages.
        stage: stage of the current piece.
        i: its first block.
        j: the first block that need not be in it.
        last: true if the piece that ends before block i is still to be closed.
    """
    n = len(tables.wall) - 1
    spare = board.spare[lane]  # 1 if the blocks from e on fit on the stages visited so far
    for e in range(n + 1):
        spare[e] = 1 if e == n else 0
    for other in range(depth - 1, stage - 1, -1):
        device = board.device[lane, other]
        held, stashed = board.held[lane, device], board.stashed[lane, device]
        if last and device == board.device[lane, board.pieces[lane] - 1]:
            first = board.begun[lane, board.pieces[lane] - 1]
            held += tables.size[first, i]
            stashed += tables.stash[i] - tables.stash[first]
        keep = tables.peak[rounds, depth, other]
        if other == stage:
            end = reach(tables, device, i, keep, held, stashed)
            while end >= j and spare[end] == 0:
                end -= 1
            return end >= j
        nearest = n + 1  # the nearest good end behind e
        for e in range(n, -1, -1):
            good = spare[e] == 1
            spare[e] = 0
            if nearest <= n and _fits(tables, device, e, nearest, keep, held, stashed):
                spare[e] = 1
            if good:
                nearest = e
    return False


@step
def is_legal(tables: CutTables, board: PipelineState, game: Game, lane: int, action: int) -> bool:
    """True if an action leaves a way to place all blocks.

    The cases, in order: staying in the current piece; the first piece; a new stage of the first round; the next
    piece of a later round, or of the second round if this action begins it, whose device is given.
    """
    j, pieces, depth = board.turn[lane], board.pieces[lane], board.members[lane]
    n, piece = len(tables.wall) - 1, board.pieces[lane] - 1
    if action == 0:
        if pieces == 0:
            return False
        device, i = board.device[lane, piece], board.begun[lane, piece]
        if depth == 0:
            return _open_end(tables, piece, device, i, j + 1, board.free[lane], board.most[lane])
        return _round_ends(tables, board, lane, piece // depth + 1, depth, piece % depth, i, j + 1, False)
    device = action - 1
    free = board.free[lane] - tables.stride[tables.kind[device]]
    if pieces == 0:
        return _open_end(tables, 0, device, 0, 1, free, board.most[lane])
    if depth == 0 and board.used[lane, device] == 0:
        most = most_stages(tables, piece, board.device[lane, piece], board.begun[lane, piece], j, board.most[lane])
        return _open_end(tables, pieces, device, j, j + 1, free, most)
    round_of = 1 if depth == 0 else pieces // depth
    if depth == 0:
        depth = pieces
    if round_of >= game.rounds or depth < 2 or device != board.device[lane, pieces % depth]:
        return False
    if n - j < depth - pieces % depth or tables.peak[round_of + 1, depth, 0] < 0:
        return False
    return _round_ends(tables, board, lane, round_of + 1, depth, pieces % depth, j, j + 1, True)


@step
def memory_left(tables: CutTables, device: int, need: float) -> float:
    """Share of a device's memory that is left when ``need`` bytes are in use; 1 if memory is unlimited."""
    capacity = tables.capacity[device]
    if capacity == np.inf:
        return 1.0
    return max(0.0, 1.0 - need / capacity) if capacity > 0 else 0.0
