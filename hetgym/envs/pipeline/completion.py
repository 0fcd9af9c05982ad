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
def show_completion(board: PipelineState, seen: PipelineObservation, lane: int) -> None:
    """Write the completions of legal actions, or their bounds if no action has a completion."""
    best, least = np.inf, np.inf
    for action in range(seen.mask.shape[1]):
        if seen.mask[lane, action]:
            best = min(best, board.completion[lane, action])
            least = min(least, board.ahead[lane, action])
    found = best < np.inf
    if not found:
        best = least
    for action in range(seen.mask.shape[1]):
        if seen.mask[lane, action]:
            completion = board.completion[lane, action] if found else board.ahead[lane, action]
            row = seen.candidates[lane, action]
            row[CutColumn.REGRET] = share(completion - best, board.scale[lane])
            row[CutColumn.COMPLETION] = share(completion, board.scale[lane])


@step
def _stay(tables: CutTables, board: PipelineState, game: Game, lane: int, action: int, device: int) -> float:
    """Approximate value after an action of a later round if all remaining blocks stayed in its piece [s]."""
    j, piece, n = board.turn[lane], board.pieces[lane] - 1, len(tables.wall) - 1
    load, high, total = board.busy[lane, device], 0.0, board.work[lane]
    i = board.begun[lane, piece] if action == 0 else j
    here = board.forward[lane, piece] + board.backward[lane, piece] + board.weight[lane, piece]
    if action > 0:
        old = board.device[lane, piece]
        if tables.pays[old] > 0:
            here += 2.0 * tables.comm[board.begun[lane, piece], j]
        total += here
        high = board.busy[lane, old] + here
        load += here if old == device else 0.0
        here = 0.0
    for block in range(j, n):
        here += tables.forward[block, device] + tables.backward[block, device] + tables.weight[block, device]
    if tables.pays[device] > 0:
        here += 2.0 * tables.comm[i, n]
    high = max(high, load + here)
    for other in range(len(tables.capacity)):
        high = max(high, board.busy[lane, other])
    return float(game.turns * high + max(0.0, total + here - high) / game.rounds)


# For each number of stages with a memory demand of its own (a level), the current stage is extended block by block, up
# to its end e: here and more are the seconds of its passes up to e, and the tables give the least value of cutting
# blocks e to the end on the remaining devices. best is the least value found so far. Cost: O(levels * blocks * limits).
@step
def completion_after(tables: CutTables, board: PipelineState, game: Game, lane: int, action: int) -> float:
    """The value after an action if the rest of the first round were cut as well as the tables know [s].

    It is exact for the throughput; for a training step it is the latency of its micro-batches. It is inf if no cut
    is found, and the bound if there are no tables.
    """
    bound, j, piece = board.ahead[lane, action], board.turn[lane], board.pieces[lane] - 1
    device = board.device[lane, piece] if action == 0 else action - 1
    if len(tables.rest_sum) == 0:
        return float(bound)
    if board.members[lane] > 0 or (action > 0 and board.used[lane, device] > 0):
        return float(_stay(tables, board, game, lane, action, device))
    i, stage, free, most = j, piece + 1, board.free[lane], board.most[lane]
    both, weight, closed, high = 0.0, 0.0, board.closed[lane], 0.0
    passes = 2.0 if game.objective == TRAINING else 1.0
    for other in range(len(tables.capacity)):
        high = max(high, board.busy[lane, other])
    if action == 0:
        i, stage = board.begun[lane, piece], piece
        both, weight = board.forward[lane, piece] + board.backward[lane, piece], board.weight[lane, piece]
    else:
        free -= tables.stride[tables.kind[device]]
        if piece >= 0:
            old, start = board.device[lane, piece], board.begun[lane, piece]
            ended = board.forward[lane, piece] + board.backward[lane, piece]
            if tables.pays[old] > 0:
                ended += passes * tables.comm[start, j]
            closed += ended
            high = max(high, ended + board.weight[lane, piece])
            most = most_stages(tables, piece, old, start, j, most)
    best = np.inf
    for row in range(len(tables.levels)):
        depth = tables.levels[row]
        if depth <= stage or depth > most:
            continue
        left = depth - stage - 1 if game.objective == TRAINING else 1
        end = reach(tables, device, i, tables.peak[1, depth, stage], 0.0, 0.0)
        here, more = both, weight
        for e in range(j + 1, end + 1):
            here += tables.forward[e - 1, device] + tables.backward[e - 1, device]
            more += tables.weight[e - 1, device]
            alone = here + (passes * tables.comm[i, e] if tables.pays[device] > 0 else 0.0)
            load = max(high, alone + more)
            for k in range(len(tables.rest_sum)):
                rest = tables.rest_sum[k, left, free, e]
                if rest < np.inf:
                    value = max(load, rest)
                    if game.objective >= LATENCY:
                        value = closed + alone + rest + (game.turns - 1) * max(load, tables.rest_load[k, left, free, e])
                    best = min(best, value)
    return float(max(best, bound))
