"""Bounds: proven lower bounds on the value of any cut that extends the decisions so far."""

from __future__ import annotations

from hetgym._kernels.jit import step
from hetgym.envs.pipeline.state import Game, PipelineState
from hetgym.pipeline.objective import LATENCY, TRAINING
from hetgym.pipeline.tables import CutTables


@step
def proved_by_stage(
    g: Game, before: float, ramp: float, forward: float, backward: float, weight: float, busy: float
) -> float:
    """A lower bound from one stage: the passes before its work, its work for all requests, the passes after it [s].

    Args:
        g: the rules.
        before: forward and backward passes of the stages before this one [s].
        ramp: their forward passes alone [s].
        forward: forward pass of the stage [s].
        backward: backward pass of the stage [s].
        weight: weight pass of the stage [s].
        busy: other work of the device for one request [s].
    """
    if g.objective != TRAINING:
        return forward
    if g.split == 0:
        return before + g.turns * (forward + backward + busy)
    return max(ramp + g.turns * (forward + backward + weight + busy), before + g.turns * (forward + backward))


# The bound is the largest of these: the bounds of closed stages; the bound of the current stage with the block in it;
# the work of all remaining blocks, shared by the unused devices; and for a training step the time of one micro-batch
# through all stages and back. Cost: O(1).
@step
def bound_after(t: CutTables, b: PipelineState, g: Game, lane: int, action: int) -> float:
    """A proven lower bound on the value of any cut that continues with an action [s]."""
    j, piece = b.turn[lane], b.pieces[lane] - 1
    n, unused = len(t.wall) - 1, b.unused[lane]
    high, closed, work = b.high[lane], b.closed[lane], b.work[lane]
    if action == 0:
        device, i, stage = b.device[lane, piece], b.begun[lane, piece], b.used[lane, b.device[lane, piece]] - 1
        f, k, w = b.forward[lane, piece], b.backward[lane, piece], b.weight[lane, piece]
        before, ramp = b.before[lane, stage], b.ramp[lane, stage]
        busy = b.busy[lane, device]
    else:
        device, i = action - 1, j
        f, k, w, before, ramp, busy = 0.0, 0.0, 0.0, 0.0, 0.0, b.busy[lane, device]
        if piece >= 0:
            old, start = b.device[lane, piece], b.begun[lane, piece]
            paid = t.comm[start, j] if t.pays[old] > 0 else 0.0
            cf, ck, cw = b.forward[lane, piece] + paid, b.backward[lane, piece], b.weight[lane, piece]
            if g.objective == TRAINING:
                ck += paid
            stage = b.used[lane, old] - 1
            high = max(
                high, proved_by_stage(g, b.before[lane, stage], b.ramp[lane, stage], cf, ck, cw, b.busy[lane, old])
            )
            closed += cf + ck
            work += cf + ck + cw
            if b.used[lane, device] > 0:
                before, ramp = b.before[lane, b.used[lane, device] - 1], b.ramp[lane, b.used[lane, device] - 1]
            else:
                before, ramp = b.before[lane, stage] + (cf + ck), b.ramp[lane, stage] + cf
            if old == device:
                busy += cf + ck + cw
        if b.used[lane, device] == 0:
            unused -= 1
    paid = 0.0
    if t.pays[device] > 0:
        paid = t.comm[i, n] if j + 1 == n else t.certain[i, j + 1]
    f += t.forward[j, device] + paid
    k += t.backward[j, device]
    w += t.weight[j, device]
    if g.objective == TRAINING:
        k += paid
    high = max(high, proved_by_stage(g, before, ramp, f, k, w, busy))
    rest = t.rest[j + 1]
    if g.objective == TRAINING:
        if g.rounds == 1:
            high = max(high, ramp + g.turns * (f + k + w + rest) / (unused + 1))
        else:
            high = max(high, g.turns * (work + f + k + w + rest) / len(t.capacity))
        return float(max(high, closed + f + k + t.path[j + 1]))
    high = max(high, max(t.largest[j + 1], (f + rest) / (unused + 1)))
    if g.objective == LATENCY:
        return float(closed + f + rest + (g.turns - 1) * high)
    return float(high)
