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
def cut(lanes: Int64Array, g: Game, actions: Int64Array, active: BoolArray) -> None:
    """Take a decision in every active lane, or open the episode there if it is fresh.

    A fresh lane's rows, reference and fixed observations must be in place. A lane ends with its last block; the caller,
    which prices the cut, sets the last reward.

    Args:
        lanes: row of a :class:`~hetgym.envs.pipeline.state.PipelineRecord`.
        g: the rules.
        actions: [L] legal ones: 0 to stay, 1 + d to begin the next stage on device d.
        active: [L] true for lanes to work on.
    """
    r = read_lanes(lanes)
    b, seen = r.state, r.observation
    for lane in range(len(active)):
        if not active[lane]:
            continue
        t = read_tables(r.tables[lane])
        if r.fresh[lane]:
            r.fresh[lane] = False
            _clear(t, b, seen, g, lane)
            for device in range(len(t.capacity)):
                show_device(t, b, seen, lane, device)
        else:
            action = actions[lane]
            b.log[lane, b.turn[lane]] = action
            bound = b.ahead[lane, action]
            _decide(t, b, g, lane, action)
            r.over[lane] = b.turn[lane] == len(t.wall) - 1
            r.reward[lane] = 0.0
            if not r.over[lane]:
                gain = b.potential[lane] - bound
                b.potential[lane] = bound
                r.reward[lane] = 0.0 if g.sparse else gain * b.scale[lane]
            show_decided(t, b, seen, lane, b.turn[lane] - 1, b.device[lane, b.pieces[lane] - 1])
        _look_ahead(t, b, seen, g, lane)


@step
def _clear(t: CutTables, b: PipelineState, seen: PipelineObservation, g: Game, lane: int) -> None:
    """Set a lane to the beginning of an episode; the reference must be in place."""
    b.turn[lane] = b.pieces[lane] = b.members[lane] = 0
    b.free[lane] = t.free[0]
    b.unused[lane] = b.most[lane] = len(t.capacity)
    b.closed[lane] = b.work[lane] = b.high[lane] = 0.0
    b.potential[lane] = b.reference[lane]
    b.scale[lane] = scale_of(b.reference[lane])
    b.pace[lane] = b.scale[lane] * g.turns
    b.before[lane, 0] = b.ramp[lane, 0] = 0.0
    for device in range(b.used.shape[1]):
        b.used[lane, device] = 0
        b.busy[lane, device] = b.held[lane, device] = b.stashed[lane, device] = 0.0
    for block in range(b.assignment.shape[1]):
        b.assignment[lane, block] = -1
    for block in range(seen.assignment.shape[1]):
        seen.assignment[lane, block] = -1


@step
def _decide(t: CutTables, b: PipelineState, g: Game, lane: int, action: int) -> None:
    """Put the current block into the current piece or a new one; the last block closes the last piece."""
    j = b.turn[lane]
    if action > 0:
        if b.pieces[lane] > 0:
            _close(t, b, g, lane, j)
        _begin(t, b, lane, action - 1, j)
    piece = b.pieces[lane] - 1
    device = b.device[lane, piece]
    b.forward[lane, piece] += t.forward[j, device]
    b.backward[lane, piece] += t.backward[j, device]
    b.weight[lane, piece] += t.weight[j, device]
    b.assignment[lane, j] = device
    b.turn[lane] = j + 1
    if j + 1 == len(t.wall) - 1:
        _close(t, b, g, lane, j + 1)
        _hold(t, b, lane)


@step
def _close(t: CutTables, b: PipelineState, g: Game, lane: int, end: int) -> None:
    """Close the current piece, which ends before block ``end``."""
    piece = b.pieces[lane] - 1
    device, i = b.device[lane, piece], b.begun[lane, piece]
    paid = t.comm[i, end] if t.pays[device] > 0 else 0.0
    b.begun[lane, piece + 1] = end
    b.forward[lane, piece] += paid
    if g.objective == TRAINING:
        b.backward[lane, piece] += paid
    f, k, w = b.forward[lane, piece], b.backward[lane, piece], b.weight[lane, piece]
    stage = b.used[lane, device] - 1
    proved = proved_by_stage(g, b.before[lane, stage], b.ramp[lane, stage], f, k, w, b.busy[lane, device])
    b.high[lane] = max(b.high[lane], proved)
    b.closed[lane] += f + k
    b.work[lane] += f + k + w
    b.busy[lane, device] += f + k + w
    b.held[lane, device] += t.size[i, end]
    b.stashed[lane, device] += t.stash[end] - t.stash[i]
    if b.members[lane] == 0:
        b.most[lane] = most_stages(t, stage, device, i, end, b.most[lane])
        if piece + 1 < b.device.shape[1]:
            b.before[lane, piece + 1] = b.before[lane, piece] + (f + k)
            b.ramp[lane, piece + 1] = b.ramp[lane, piece] + f


@step
def _hold(t: CutTables, b: PipelineState, lane: int) -> None:
    """Write the peak memory of each device under the finished cut; sums as in :meth:`CutProblem.memory`."""
    depth = b.pieces[lane] if b.members[lane] == 0 else b.members[lane]
    for device in range(len(t.capacity)):
        b.memory[lane, device] = 0.0
    for piece in range(b.pieces[lane]):
        device, i, end = b.device[lane, piece], b.begun[lane, piece], b.begun[lane, piece + 1]
        keep = t.peak[b.pieces[lane] // depth, depth, piece % depth]
        b.memory[lane, device] += t.size[i, end] + keep * (t.stash[end] - t.stash[i])


@step
def _begin(t: CutTables, b: PipelineState, lane: int, device: int, block: int) -> None:
    """Begin a piece at a block."""
    piece = b.pieces[lane]
    if b.used[lane, device] == 0:
        b.used[lane, device] = piece + 1
        b.free[lane] -= t.stride[t.kind[device]]
        b.unused[lane] -= 1
    elif b.members[lane] == 0:
        b.members[lane] = piece
    b.begun[lane, piece] = block
    b.device[lane, piece] = device
    b.forward[lane, piece] = b.backward[lane, piece] = b.weight[lane, piece] = 0.0
    b.pieces[lane] = piece + 1


@step
def _look_ahead(t: CutTables, b: PipelineState, seen: PipelineObservation, g: Game, lane: int) -> None:
    """Compute and write the results of each action for the current block.

    After the last decision there are no candidates; the mask stays, so that it is never empty.
    """
    j = b.turn[lane]
    for action in range(seen.candidates.shape[1]):
        for column in range(seen.candidates.shape[2]):
            seen.candidates[lane, action, column] = 0.0
    if j == len(t.wall) - 1:
        return
    seen.current[lane, 0] = j
    if seen.blocks.shape[1] > 0:
        seen.blocks[lane, j, BlockColumn.IS_CURRENT] = 1.0
    for action in range(seen.mask.shape[1]):
        b.ahead[lane, action] = b.completion[lane, action] = np.inf
        legal = action <= len(t.capacity) and is_legal(t, b, g, lane, action)
        seen.mask[lane, action] = 1 if legal else 0
        if legal:
            b.ahead[lane, action] = bound_after(t, b, g, lane, action)
            b.completion[lane, action] = completion_after(t, b, g, lane, action)
            _show_action(t, b, seen, g, lane, action)
    show_completion(b, seen, lane)


# first is the first block of the piece that the action puts block j into, and j + 1 its end if it ended there. Times
# are those of one request, in units of 1 / pace; a piece pays for the tensors that cross its two ends. Cost: O(1).
@step
def _show_action(t: CutTables, b: PipelineState, seen: PipelineObservation, g: Game, lane: int, action: int) -> None:
    """Write the row of a legal action, apart from its completion."""
    j, piece, pace = b.turn[lane], b.pieces[lane] - 1, b.pace[lane]
    row, passes = seen.candidates[lane, action], 2.0 if g.objective == TRAINING else 1.0
    device = b.device[lane, piece] if action == 0 else action - 1
    first = b.begun[lane, piece] if action == 0 else j
    load = t.forward[j, device] + t.backward[j, device] + t.weight[j, device]
    row[CutColumn.COST] = share(load, pace)
    if piece >= 0:
        current = b.forward[lane, piece] + b.backward[lane, piece] + b.weight[lane, piece]
        if action == 0:
            load += current
        else:
            old, start = b.device[lane, piece], b.begun[lane, piece]
            ended = current + (passes * t.comm[start, j] if t.pays[old] > 0 else 0.0)
            row[CutColumn.ENDED] = share(ended, pace)
    if t.pays[device] > 0:
        load += passes * t.comm[first, j + 1]
    row[CutColumn.LOAD] = share(load, pace)
    row[CutColumn.BOUND] = share(b.ahead[lane, action], b.scale[lane])
    stage = b.used[lane, device] - 1 if b.used[lane, device] > 0 else b.pieces[lane]
    keep = t.peak[1, max(stage + 1, b.members[lane]), stage]
    need = b.held[lane, device] + t.size[first, j + 1]
    need += keep * (b.stashed[lane, device] + t.stash[j + 1] - t.stash[first])
    row[CutColumn.MEMORY_LEFT] = memory_left(t, device, need)
    row[CutColumn.IS_USED] = 1.0 if action == 0 or b.used[lane, device] > 0 else 0.0
