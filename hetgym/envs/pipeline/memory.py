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
def _fits(t: CutTables, device: int, i: int, j: int, keep: float, held: float, stashed: float) -> bool:
    """True if blocks i to before j fit on a device.

    Args:
        t: tables.
        device: the device.
        i: first block.
        j: block after the last one.
        keep: number of micro-batches whose activations the stage keeps.
        held: weights and state that the device holds already [byte].
        stashed: activations of a micro-batch that it holds already [byte].
    """
    if t.wall[i, device] < j:
        return False
    need = held + t.size[i, j] + keep * (stashed + (t.stash[j] - t.stash[i]))
    return bool(need <= t.capacity[device])


@step
def reach(t: CutTables, device: int, i: int, keep: float, held: float, stashed: float) -> int:
    """The first block from i on that no longer fits on a device; arguments as of :func:`_fits`."""
    low, high = i, t.wall[i, device]
    while low < high:
        middle = (low + high + 1) // 2
        if _fits(t, device, i, middle, keep, held, stashed):
            low = middle
        else:
            high = middle - 1
    return int(low)


@step
def _open_end(t: CutTables, stage: int, device: int, i: int, j: int, free: int, most: int) -> bool:
    """True if the rest can be placed when a stage of the first round holds at least blocks i to before j."""
    for row in range(len(t.levels)):
        p = t.levels[row]
        if p <= stage or p > most:
            continue
        keep = t.peak[1, p, stage]
        if not _fits(t, device, i, j, keep, 0.0, 0.0):
            continue
        if t.room[row, p - stage - 1, free] <= reach(t, device, i, keep, 0.0, 0.0):
            return True
    return False


@step
def most_stages(t: CutTables, stage: int, device: int, i: int, j: int, most: int) -> int:
    """Largest number of stages for which blocks i to before j fit on a device as one of them; 0 if there is none."""
    for row in range(len(t.levels) - 1, -1, -1):
        p = t.levels[row]
        if stage < p <= most and _fits(t, device, i, j, t.peak[1, p, stage], 0.0, 0.0):
            return int(p)
    return 0


# Stages are visited from the last to the current one. Before each of them, spare[e] is 1 if the blocks from e on fit on
# the stages behind it; afterwards, if they fit on it and those. A stage that begins at e needs to be tried with the
# nearest such end only, as a shorter piece never needs more memory. Cost: O(stages * n), and a bisection for the
# current stage.
@step
def _round_ends(
    t: CutTables, b: PipelineState, lane: int, rounds: int, p: int, stage: int, i: int, j: int, last: bool
) -> bool:
    """True if the round can be finished when the piece of a stage holds at least blocks i to before j.

    Args:
        t: tables.
        b: state of all lanes.
        lane: number of the lane.
        rounds: number of rounds, this one included.
        p: number of devices, which is that of the stages.
        stage: stage of the current piece.
        i: its first block.
        j: the first block that need not be in it.
        last: true if the piece that ends before block i is still to be closed.
    """
    n = len(t.wall) - 1
    spare = b.spare[lane]  # 1 if the blocks from e on fit on the stages visited so far
    for e in range(n + 1):
        spare[e] = 1 if e == n else 0
    for s in range(p - 1, stage - 1, -1):
        device = b.device[lane, s]
        held, stashed = b.held[lane, device], b.stashed[lane, device]
        if last and device == b.device[lane, b.pieces[lane] - 1]:
            first = b.begun[lane, b.pieces[lane] - 1]
            held += t.size[first, i]
            stashed += t.stash[i] - t.stash[first]
        keep = t.peak[rounds, p, s]
        if s == stage:
            end = reach(t, device, i, keep, held, stashed)
            while end >= j and spare[end] == 0:
                end -= 1
            return end >= j
        nearest = n + 1  # the nearest good end behind e
        for e in range(n, -1, -1):
            good = spare[e] == 1
            spare[e] = 0
            if nearest <= n and _fits(t, device, e, nearest, keep, held, stashed):
                spare[e] = 1
            if good:
                nearest = e
    return False


@step
def is_legal(t: CutTables, b: PipelineState, g: Game, lane: int, action: int) -> bool:
    """True if an action leaves a way to place all blocks.

    The cases, in order: staying in the current piece; the first piece; a new stage of the first round; the next
    piece of a later round, or of the second round if this action begins it, whose device is given.
    """
    j, pieces, p = b.turn[lane], b.pieces[lane], b.members[lane]
    n, piece = len(t.wall) - 1, b.pieces[lane] - 1
    if action == 0:
        if pieces == 0:
            return False
        device, i = b.device[lane, piece], b.begun[lane, piece]
        if p == 0:
            return _open_end(t, piece, device, i, j + 1, b.free[lane], b.most[lane])
        return _round_ends(t, b, lane, piece // p + 1, p, piece % p, i, j + 1, False)
    device = action - 1
    if pieces == 0:
        return _open_end(t, 0, device, 0, 1, b.free[lane] - t.stride[t.kind[device]], b.most[lane])
    if p == 0 and b.used[lane, device] == 0:
        most = most_stages(t, piece, b.device[lane, piece], b.begun[lane, piece], j, b.most[lane])
        return _open_end(t, pieces, device, j, j + 1, b.free[lane] - t.stride[t.kind[device]], most)
    round_of = 1 if p == 0 else pieces // p
    if p == 0:
        p = pieces
    if round_of >= g.rounds or p < 2 or device != b.device[lane, pieces % p]:
        return False
    if n - j < p - pieces % p or t.peak[round_of + 1, p, 0] < 0:
        return False
    return _round_ends(t, b, lane, round_of + 1, p, pieces % p, j, j + 1, True)


@step
def memory_left(t: CutTables, device: int, need: float) -> float:
    """Share of a device's memory that is left when ``need`` bytes are in use; 1 if memory is unlimited."""
    capacity = t.capacity[device]
    if capacity == np.inf:
        return 1.0
    return max(0.0, 1.0 - need / capacity) if capacity > 0 else 0.0
