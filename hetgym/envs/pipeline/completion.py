"""The completion of a decision: the value if the remaining blocks were cut well, by precomputed tables."""

from __future__ import annotations

import numpy as np

from hetgym._kernels.jit import step
from hetgym.envs.core.scaling import share
from hetgym.envs.pipeline.memory import most_stages, reach
from hetgym.envs.pipeline.observation import CutColumn
from hetgym.envs.pipeline.state import Game, PipelineObservation, PipelineState
from hetgym.pipeline.objective import LATENCY, TRAINING
from hetgym.pipeline.tables import CutTables


@step
def show_completion(b: PipelineState, seen: PipelineObservation, lane: int) -> None:
    """Write the completions of legal actions, or their bounds if no action has a completion."""
    best, least = np.inf, np.inf
    for action in range(seen.mask.shape[1]):
        if seen.mask[lane, action]:
            best = min(best, b.completion[lane, action])
            least = min(least, b.ahead[lane, action])
    found = best < np.inf
    if not found:
        best = least
    for action in range(seen.mask.shape[1]):
        if seen.mask[lane, action]:
            completion = b.completion[lane, action] if found else b.ahead[lane, action]
            row = seen.candidates[lane, action]
            row[CutColumn.REGRET] = share(completion - best, b.scale[lane])
            row[CutColumn.COMPLETION] = share(completion, b.scale[lane])


@step
def _stay(t: CutTables, b: PipelineState, g: Game, lane: int, action: int, device: int) -> float:
    """Approximate value after an action of a later round if all remaining blocks stayed in its piece [s]."""
    j, piece, n = b.turn[lane], b.pieces[lane] - 1, len(t.wall) - 1
    load, high, total = b.busy[lane, device], 0.0, b.work[lane]
    i = b.begun[lane, piece] if action == 0 else j
    here = b.forward[lane, piece] + b.backward[lane, piece] + b.weight[lane, piece]
    if action > 0:
        old = b.device[lane, piece]
        if t.pays[old] > 0:
            here += 2.0 * t.comm[b.begun[lane, piece], j]
        total += here
        high = b.busy[lane, old] + here
        load += here if old == device else 0.0
        here = 0.0
    for block in range(j, n):
        here += t.forward[block, device] + t.backward[block, device] + t.weight[block, device]
    if t.pays[device] > 0:
        here += 2.0 * t.comm[i, n]
    high = max(high, load + here)
    for other in range(len(t.capacity)):
        high = max(high, b.busy[lane, other])
    return float(g.turns * high + max(0.0, total + here - high) / g.rounds)


# For each number of stages with a memory demand of its own (a level), the current stage is extended block by block, up
# to its end e: here and more are the seconds of its passes up to e, and the tables give the least value of cutting
# blocks e to the end on the remaining devices. best is the least value found so far. Cost: O(levels * blocks * limits).
@step
def completion_after(t: CutTables, b: PipelineState, g: Game, lane: int, action: int) -> float:
    """The value after an action if the rest of the first round were cut as well as the tables know [s].

    It is exact for the throughput; for a training step it is the latency of its micro-batches. It is inf if no cut
    is found, and the bound if there are no tables.
    """
    bound, j, piece = b.ahead[lane, action], b.turn[lane], b.pieces[lane] - 1
    device = b.device[lane, piece] if action == 0 else action - 1
    if len(t.rest_sum) == 0:
        return float(bound)
    if b.members[lane] > 0 or (action > 0 and b.used[lane, device] > 0):
        return float(_stay(t, b, g, lane, action, device))
    i, stage, free, most = j, piece + 1, b.free[lane], b.most[lane]
    both, weight, closed, high = 0.0, 0.0, b.closed[lane], 0.0
    passes = 2.0 if g.objective == TRAINING else 1.0
    for other in range(len(t.capacity)):
        high = max(high, b.busy[lane, other])
    if action == 0:
        i, stage = b.begun[lane, piece], piece
        both, weight = b.forward[lane, piece] + b.backward[lane, piece], b.weight[lane, piece]
    else:
        free -= t.stride[t.kind[device]]
        if piece >= 0:
            old, start = b.device[lane, piece], b.begun[lane, piece]
            ended = b.forward[lane, piece] + b.backward[lane, piece]
            if t.pays[old] > 0:
                ended += passes * t.comm[start, j]
            closed += ended
            high = max(high, ended + b.weight[lane, piece])
            most = most_stages(t, piece, old, start, j, most)
    best = np.inf
    for row in range(len(t.levels)):
        p = t.levels[row]
        if p <= stage or p > most:
            continue
        left = p - stage - 1 if g.objective == TRAINING else 1
        end = reach(t, device, i, t.peak[1, p, stage], 0.0, 0.0)
        here, more = both, weight
        for e in range(j + 1, end + 1):
            here += t.forward[e - 1, device] + t.backward[e - 1, device]
            more += t.weight[e - 1, device]
            alone = here + (passes * t.comm[i, e] if t.pays[device] > 0 else 0.0)
            load = max(high, alone + more)
            for k in range(len(t.rest_sum)):
                rest = t.rest_sum[k, left, free, e]
                if rest < np.inf:
                    value = max(load, rest)
                    if g.objective >= LATENCY:
                        value = closed + alone + rest + (g.turns - 1) * max(load, t.rest_load[k, left, free, e])
                    best = min(best, value)
    return float(max(best, bound))
