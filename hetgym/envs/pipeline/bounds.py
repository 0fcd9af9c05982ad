"""Bounds: proven lower bounds on the value of any cut that extends the decisions so far."""

from __future__ import annotations

from hetgym._kernels.jit import step
from hetgym.envs.pipeline.state import Game, PipelineState
from hetgym.pipeline.objective import LATENCY, TRAINING
from hetgym.pipeline.tables import CutTables


@step
def proved_by_stage(
    game: Game, before: float, ramp: float, forward: float, backward: float, weight: float, busy: float
) -> float:
    """A lower bound from one stage: the passes before its work, its work for all requests, the passes after it [s].

    Args:
        before: forward and backward passes of the stages before this one [s].
        ramp: their forward passes alone [s].
        forward: forward pass of the stage [s].
        backward: backward pass of the stage [s].
        weight: weight pass of the stage [s].
        busy: other work of the device for one request [s].
    """
    if game.objective != TRAINING:
        return forward
    if game.split == 0:
        return before + game.turns * (forward + backward + busy)
    return max(ramp + game.turns * (forward + backward + weight + busy), before + game.turns * (forward + backward))


# The bound is the largest of these: the bounds of closed stages; the bound of the current stage with the block in it;
# the work of all remaining blocks, shared by the unused devices; and for a training step the time of one micro-batch
# through all stages and back. Cost: O(1).
@step
def bound_after(tables: CutTables, board: PipelineState, game: Game, lane: int, action: int) -> float:
    """A proven lower bound on the value of any cut that continues with an action [s]."""
    j, piece = board.turn[lane], board.pieces[lane] - 1
    n, unused = len(tables.wall) - 1, board.unused[lane]
    high, closed, work = board.high[lane], board.closed[lane], board.work[lane]
    if action == 0:
        device, i = board.device[lane, piece], board.begun[lane, piece]
        stage = board.used[lane, device] - 1
        forward, backward, weight = board.forward[lane, piece], board.backward[lane, piece], board.weight[lane, piece]
        before, ramp = board.before[lane, stage], board.ramp[lane, stage]
        busy = board.busy[lane, device]
    else:
        device, i = action - 1, j
        forward, backward, weight, before, ramp, busy = 0.0, 0.0, 0.0, 0.0, 0.0, board.busy[lane, device]
        if piece >= 0:
            old, start = board.device[lane, piece], board.begun[lane, piece]
            paid = tables.comm[start, j] if tables.pays[old] > 0 else 0.0
            cf, ck, cw = board.forward[lane, piece] + paid, board.backward[lane, piece], board.weight[lane, piece]
            if game.objective == TRAINING:
                ck += paid
            stage = board.used[lane, old] - 1
            before, ramp = board.before[lane, stage], board.ramp[lane, stage]
            high = max(high, proved_by_stage(game, before, ramp, cf, ck, cw, board.busy[lane, old]))
            closed += cf + ck
            work += cf + ck + cw
            if board.used[lane, device] > 0:
                stage = board.used[lane, device] - 1
                before, ramp = board.before[lane, stage], board.ramp[lane, stage]
            else:
                before, ramp = before + (cf + ck), ramp + cf
            if old == device:
                busy += cf + ck + cw
        if board.used[lane, device] == 0:
            unused -= 1
    paid = 0.0
    if tables.pays[device] > 0:
        paid = tables.comm[i, n] if j + 1 == n else tables.certain[i, j + 1]
    forward += tables.forward[j, device] + paid
    backward += tables.backward[j, device]
    weight += tables.weight[j, device]
    if game.objective == TRAINING:
        backward += paid
    high = max(high, proved_by_stage(game, before, ramp, forward, backward, weight, busy))
    rest = tables.rest[j + 1]
    if game.objective == TRAINING:
        if game.rounds == 1:
            high = max(high, ramp + game.turns * (forward + backward + weight + rest) / (unused + 1))
        else:
            high = max(high, game.turns * (work + forward + backward + weight + rest) / len(tables.capacity))
        return float(max(high, closed + forward + backward + tables.path[j + 1]))
    high = max(high, max(tables.largest[j + 1], (forward + rest) / (unused + 1)))
    if game.objective == LATENCY:
        return float(closed + forward + rest + (game.turns - 1) * high)
    return float(high)
