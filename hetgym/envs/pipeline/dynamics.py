"""The dynamics of cutting pipelines: blocks come one by one, an action goes on or begins the next stage.

One call of :func:`decide` takes a decision in every lane and writes what the agents see next. What a
decision leaves possible is known exactly: a table says from where on the last blocks fit on any set of
devices, so that no agent ever stands before a block that fits nowhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym import _records as records
from hetgym._jit import lean, step
from hetgym._types import BoolArray, FloatArray, frozen
from hetgym.envs.pipeline.stages import LATENCY, TRAINING, Index, Tables

CLIP = 10.0
"""Upper bound of every feature."""


def _example() -> Tables:
    whole = ("kind", "stride", "free", "wall", "levels", "room")
    dimensions = dict.fromkeys(("forward", "backward", "weight", "comm", "certain", "wall"), 2)
    dimensions |= {"peak": 3, "room": 3, "rest_sum": 4, "rest_load": 4}
    return Tables._make(
        frozen(np.zeros((1,) * dimensions.get(name, 1), np.int64 if name in whole else np.float64))
        for name in Tables._fields
    )  # fmt: skip


TABLES = _example()
"""A record of the kind that lanes hold."""

_tables = records.reader(TABLES)


class Board(NamedTuple):
    """The state of the episodes; P is the most pieces, devices times rounds.

    Attributes:
        turn: [L] number of blocks that are decided.
        pieces: [L] number of pieces begun, the current one among them.
        begun: [L, P + 1] first block of each piece.
        device: [L, P] device of each piece.
        members: [L] devices in the first round, once a second one has begun; 0 before.
        free: [L] the set of devices that are not used.
        unused: [L] how many these are.
        most: [L] most stages with which all closed ones fit into memory.
        forward, backward, weight: [L, P] seconds of the passes of each piece: of closed ones with
            transfers, of the current one without.
        before: [L, P] a forward pass of the pieces before one; for training also a backward pass [s].
        ramp: [L, P] a forward pass of the pieces before one [s].
        busy: [L, D] seconds of all passes of what a device's closed pieces do for a request.
        held, stashed: [L, D] bytes of closed pieces: weights and state, and activations of a micro-batch.
        used: [L, D] 1 + the position of a device among the stages; 0 if not used.
        closed: [L] seconds that a request spends in closed pieces.
        work: [L] seconds of all passes of closed pieces.
        high: [L] largest bound that a closed piece proves [s].
        reference, scale, pace: [L] see :func:`open_lane` [s], [1/s].
        potential: [L] what rewards are differences of [s].
        ahead: [L, 1 + D] bound after each action [s]; inf where it is not legal.
        completion: [L, 1 + D] value if the rest were then cut well [s]; likewise.
        assignment: [L, N] device of each block.
        log: [L, N] actions as they came.
        spare: [L, N + 2] scratch.
    """

    turn: Index
    pieces: Index
    begun: Index
    device: Index
    members: Index
    free: Index
    unused: Index
    most: Index
    forward: FloatArray
    backward: FloatArray
    weight: FloatArray
    before: FloatArray
    ramp: FloatArray
    busy: FloatArray
    held: FloatArray
    stashed: FloatArray
    used: Index
    closed: FloatArray
    work: FloatArray
    high: FloatArray
    reference: FloatArray
    scale: FloatArray
    pace: FloatArray
    potential: FloatArray
    ahead: FloatArray
    completion: FloatArray
    assignment: Index
    log: Index
    spare: Index


def new_board(lanes: int, blocks: int, devices: int, rounds: int) -> Board:
    """An empty board."""
    most = devices * rounds
    shapes = {
        "begun": most + 1, "device": most, "forward": most, "backward": most, "weight": most, "before": most,
        "ramp": most, "busy": devices, "held": devices, "stashed": devices, "used": devices, "ahead": 1 + devices,
        "completion": 1 + devices, "assignment": blocks, "log": blocks, "spare": blocks + 2,
    }  # fmt: skip
    real = ("forward", "backward", "weight", "before", "ramp", "busy", "held", "stashed", "closed", "work", "high",
            "reference", "scale", "pace", "potential", "ahead", "completion")  # fmt: skip
    return Board._make(
        np.zeros((lanes, shapes[name]) if name in shapes else lanes, np.float64 if name in real else np.int64)
        for name in Board._fields
    )  # fmt: skip


class Seen(NamedTuple):
    """What changes in observations from step to step; see :mod:`hetgym.envs.pipeline.observation`.

    Attributes:
        blocks: [L, N, 12], or [L, 0, 12] where nobody sees the blocks.
        assignment: [L, N], or [L, 0].
        devices: [L, D, 6].
        candidates: [L, 1 + D, 8].
        current: [L, 1].
        mask: [L, 1 + D].
    """

    blocks: npt.NDArray[np.float32]
    assignment: npt.NDArray[np.int64]
    devices: npt.NDArray[np.float32]
    candidates: npt.NDArray[np.float32]
    current: npt.NDArray[np.int64]
    mask: npt.NDArray[np.int8]


class Game(NamedTuple):
    """What the rules mean for kernels.

    Attributes:
        objective: position among the objectives.
        turns: requests or micro-batches.
        split: 1 if weight passes are passes of their own.
        rounds: most pieces on a device.
        sparse: 1 if the whole return comes with the last reward.
    """

    objective: int
    turns: int
    split: int
    rounds: int
    sparse: int


@step
def _share(value: float, scale: float) -> float:
    """A feature: a value in units of the scale, clipped."""
    return min(max(value * scale, 0.0), CLIP) if value < np.inf else CLIP


@step
def _fits(t: Tables, device: int, i: int, j: int, keep: float, held: float, stashed: float) -> bool:
    """Whether blocks i to before j fit on a device that holds something already, keeping so many micro-batches."""
    if t.wall[i, device] < j:
        return False
    need = held + (t.size[j] - t.size[i]) + keep * (stashed + (t.stash[j] - t.stash[i]))
    return bool(need <= t.capacity[device])


@step
def _reach(t: Tables, device: int, i: int, keep: float, held: float, stashed: float) -> int:
    """The first block from i on that does not fit on a device any more."""
    low, high = i, t.wall[i, device]
    while low < high:
        middle = (low + high + 1) // 2
        if _fits(t, device, i, middle, keep, held, stashed):
            low = middle
        else:
            high = middle - 1
    return int(low)


@step
def _open_end(t: Tables, stage: int, device: int, i: int, j: int, free: int, most: int) -> bool:
    """Whether the rest can be placed if a stage of the first round holds blocks i to before j at least."""
    for row in range(len(t.levels)):
        p = t.levels[row]
        if p <= stage or p > most:
            continue
        keep = t.peak[1, p, stage]
        if not _fits(t, device, i, j, keep, 0.0, 0.0):
            continue
        if t.room[row, p - stage - 1, free] <= _reach(t, device, i, keep, 0.0, 0.0):
            return True
    return False


@step
def _most(t: Tables, stage: int, device: int, i: int, j: int, most: int) -> int:
    """Most stages with which blocks i to before j fit on a device as one of them; 0 if never."""
    for row in range(len(t.levels) - 1, -1, -1):
        p = t.levels[row]
        if stage < p <= most and _fits(t, device, i, j, t.peak[1, p, stage], 0.0, 0.0):
            return int(p)
    return 0


@step
def _round_ends(t: Tables, b: Board, lane: int, rounds: int, p: int, stage: int, i: int, j: int, last: bool) -> bool:
    """Whether the round can be finished if the piece of a stage holds blocks i to before j at least.

    Args:
        t: tables.
        b: the board.
        lane: which.
        rounds: how many there will be, this one included.
        p: devices.
        stage: of the current piece.
        i: its first block.
        j: the first block that need not be in it.
        last: whether the piece that ends before block i is still to be closed.
    """
    n = len(t.wall) - 1
    spare = b.spare[lane]  # whether what begins at a block can be placed on the stages looked at so far
    for e in range(n + 1):
        spare[e] = 1 if e == n else 0
    for s in range(p - 1, stage - 1, -1):
        device = b.device[lane, s]
        held, stashed = b.held[lane, device], b.stashed[lane, device]
        if last and device == b.device[lane, b.pieces[lane] - 1]:
            first = b.begun[lane, b.pieces[lane] - 1]
            held += t.size[i] - t.size[first]
            stashed += t.stash[i] - t.stash[first]
        keep = t.peak[rounds, p, s]
        if s == stage:
            end = _reach(t, device, i, keep, held, stashed)
            while end >= j and spare[end] == 0:
                end -= 1
            return end >= j
        nearest = n + 1  # the next end that is good
        for e in range(n, -1, -1):
            good = spare[e] == 1
            spare[e] = 0
            if nearest <= n and _fits(t, device, e, nearest, keep, held, stashed):
                spare[e] = 1
            if good:
                nearest = e
    return False


@step
def _proved(g: Game, before: float, ramp: float, forward: float, backward: float, weight: float, busy: float) -> float:
    """A lower bound from one stage: what must come before, its work for all requests, what must follow [s].

    Args:
        g: the rules.
        before: forward passes of what comes before, and its backward passes behind [s].
        ramp: these forward passes alone [s].
        forward: pass of the stage [s].
        backward: likewise.
        weight: likewise.
        busy: what the device does for a request besides [s].
    """
    if g.objective != TRAINING:
        return forward
    if g.split == 0:
        return before + g.turns * (forward + backward + busy)
    return max(ramp + g.turns * (forward + backward + weight + busy), before + g.turns * (forward + backward))


@step
def _close(t: Tables, b: Board, g: Game, lane: int, end: int) -> None:
    """Close the current piece before a block."""
    piece = b.pieces[lane] - 1
    device, i = b.device[lane, piece], b.begun[lane, piece]
    paid = t.comm[i, end] if t.pays[device] > 0 else 0.0
    b.begun[lane, piece + 1] = end
    b.forward[lane, piece] += paid
    if g.objective == TRAINING:
        b.backward[lane, piece] += paid
    f, k, w = b.forward[lane, piece], b.backward[lane, piece], b.weight[lane, piece]
    stage = b.used[lane, device] - 1
    proved = _proved(g, b.before[lane, stage], b.ramp[lane, stage], f, k, w, b.busy[lane, device])
    b.high[lane] = max(b.high[lane], proved)
    b.closed[lane] += f + k
    b.work[lane] += f + k + w
    b.busy[lane, device] += f + k + w
    b.held[lane, device] += t.size[end] - t.size[i]
    b.stashed[lane, device] += t.stash[end] - t.stash[i]
    if b.members[lane] == 0:
        b.most[lane] = _most(t, stage, device, i, end, b.most[lane])
        if piece + 1 < b.device.shape[1]:
            b.before[lane, piece + 1] = b.before[lane, piece] + (f + k)
            b.ramp[lane, piece + 1] = b.ramp[lane, piece] + f


@step
def _begin(t: Tables, b: Board, lane: int, device: int, block: int) -> None:
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
def _legal(t: Tables, b: Board, g: Game, lane: int, action: int) -> bool:
    """Whether an action leaves a way to place all blocks."""
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
        most = _most(t, piece, b.device[lane, piece], b.begun[lane, piece], j, b.most[lane])
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
def _bound(t: Tables, b: Board, g: Game, lane: int, action: int) -> float:
    """A proven lower bound on the value after an action [s]."""
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
            high = max(high, _proved(g, b.before[lane, stage], b.ramp[lane, stage], cf, ck, cw, b.busy[lane, old]))
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
    high = max(high, _proved(g, before, ramp, f, k, w, busy))
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


@step
def _stay(t: Tables, b: Board, g: Game, lane: int, action: int, device: int) -> float:
    """The value after an action of a later round if all that is left stayed in its piece, about [s]."""
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


@step
def _completion(t: Tables, b: Board, g: Game, lane: int, action: int) -> float:
    """The value after an action if the rest of the first round were cut as well as is known [s].

    It is exact for the throughput, and for a training step what the requests' latency would be; inf where
    no cut is found, the bound where none was looked for.
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
            most = _most(t, piece, old, start, j, most)
    best = np.inf
    for row in range(len(t.levels)):
        p = t.levels[row]
        if p <= stage or p > most:
            continue
        left = p - stage - 1 if g.objective == TRAINING else 1
        end = _reach(t, device, i, t.peak[1, p, stage], 0.0, 0.0)
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


@lean
def decide(
    rows: Index, b: Board, seen: Seen, g: Game, actions: Index, active: BoolArray, illegal: Index, reward: FloatArray,
    over: BoolArray,
) -> None:  # fmt: skip
    """Take a decision in every active lane.

    A lane whose last block this decides is over; its reward is left to whoever prices the cut. What is no
    legal action is replaced: by staying where that is legal, else by the legal action of the least bound,
    the smaller device on ties.

    Args:
        rows: [L, …] rows of records, each lane's tables.
        b: of all lanes.
        seen: of all lanes.
        g: the rules.
        actions: [L] 0 to stay, 1 + d to begin the next stage on device d.
        active: [L] lanes that go on.
        illegal: [L] see :class:`hetgym.envs.core.lanes.Lanes`, as the following.
        reward: [L].
        over: [L].
    """
    for lane in range(len(actions)):
        if not active[lane]:
            continue
        t = _tables(rows[lane])
        action, j, n = actions[lane], b.turn[lane], len(t.wall) - 1
        b.log[lane, j] = action
        if action < 0 or action >= seen.mask.shape[1] or seen.mask[lane, action] == 0:
            illegal[lane] += 1
            action = -1
            for other in range(seen.mask.shape[1]):
                if seen.mask[lane, other] and (action < 0 or b.ahead[lane, other] < b.ahead[lane, action]):
                    action = other
                if action == 0:
                    break
        bound = b.ahead[lane, action]
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
        over[lane] = j + 1 == n
        if over[lane]:
            _close(t, b, g, lane, n)
            reward[lane] = 0.0
        else:
            gain = b.potential[lane] - bound
            b.potential[lane] = bound
            reward[lane] = 0.0 if g.sparse else gain * b.scale[lane]
        _show_decided(t, b, seen, lane, j, device)
        _look_ahead(t, b, seen, g, lane)


@lean
def open_lane(rows: Index, b: Board, seen: Seen, g: Game, lane: int, reference: float) -> None:
    """Begin an episode in a lane whose row and fixed observations are in place.

    Args:
        rows: see :func:`decide`.
        b: likewise.
        seen: likewise.
        g: likewise.
        lane: which.
        reference: value that returns are measured by [s].
    """
    t = _tables(rows[lane])
    d = len(t.capacity)
    b.turn[lane] = b.pieces[lane] = b.members[lane] = 0
    b.free[lane], b.unused[lane], b.most[lane] = t.free[0], d, d
    b.closed[lane] = b.work[lane] = b.high[lane] = 0.0
    b.reference[lane] = b.potential[lane] = reference
    b.scale[lane] = 1.0 / reference if reference > 0 else 0.0
    b.pace[lane] = b.scale[lane] * g.turns
    b.before[lane, 0] = b.ramp[lane, 0] = 0.0
    for device in range(b.used.shape[1]):
        b.used[lane, device] = 0
        b.busy[lane, device] = b.held[lane, device] = b.stashed[lane, device] = 0.0
    for block in range(b.assignment.shape[1]):
        b.assignment[lane, block] = -1
    for device in range(d):
        _show_device(t, b, seen, lane, device)
    _look_ahead(t, b, seen, g, lane)


@step
def _show_decided(t: Tables, b: Board, seen: Seen, lane: int, block: int, device: int) -> None:
    """Write what a decision changed into the observation."""
    if seen.blocks.shape[1] > 0:
        seen.blocks[lane, block, 8] = 1.0
        seen.blocks[lane, block, 9] = 0.0
        seen.blocks[lane, block, 10] = b.used[lane, device] / len(t.capacity)
        rounds = b.device.shape[1] // b.used.shape[1]
        seen.blocks[lane, block, 11] = b.pieces[lane] / (rounds * len(t.capacity))
        seen.assignment[lane, block] = device
    for other in range(len(t.capacity)):
        _show_device(t, b, seen, lane, other)


@step
def _show_device(t: Tables, b: Board, seen: Seen, lane: int, device: int) -> None:
    """Write a device's row."""
    piece = b.pieces[lane] - 1
    busy, held, stashed = b.busy[lane, device], b.held[lane, device], b.stashed[lane, device]
    current = piece >= 0 and b.device[lane, piece] == device
    if current and b.turn[lane] < len(t.wall) - 1:
        i, j = b.begun[lane, piece], b.turn[lane]
        busy += b.forward[lane, piece] + b.backward[lane, piece] + b.weight[lane, piece]
        held += t.size[j] - t.size[i]
        stashed += t.stash[j] - t.stash[i]
    stage = b.used[lane, device]
    keep = 0.0
    if stage > 0:
        keep = t.peak[1, max(stage, b.members[lane]), stage - 1]
    row = seen.devices[lane, device]
    row[0] = _share(busy, b.pace[lane])
    row[1] = _left(t, device, held + keep * stashed)
    row[2] = 1.0 if stage > 0 else 0.0
    row[3] = 1.0 if current else 0.0
    row[4] = stage / len(t.capacity)


@step
def _left(t: Tables, device: int, need: float) -> float:
    """Share of a device's memory that is left."""
    capacity = t.capacity[device]
    if capacity == np.inf:
        return 1.0
    return max(0.0, 1.0 - need / capacity) if capacity > 0 else 0.0


@step
def _look_ahead(t: Tables, b: Board, seen: Seen, g: Game, lane: int) -> None:
    """Find out what each action would lead to for the current block, and write it down.

    After the last decision there are no candidates; the mask stays, so that it never is empty.
    """
    j, n, piece = b.turn[lane], len(t.wall) - 1, b.pieces[lane] - 1
    for action in range(seen.candidates.shape[1]):
        for k in range(seen.candidates.shape[2]):
            seen.candidates[lane, action, k] = 0.0
    if j == n:
        return
    seen.current[lane, 0] = j
    if seen.blocks.shape[1] > 0:
        seen.blocks[lane, j, 9] = 1.0
    best, least = np.inf, np.inf
    for action in range(seen.mask.shape[1]):
        b.ahead[lane, action] = b.completion[lane, action] = np.inf
        legal = action <= len(t.capacity) and _legal(t, b, g, lane, action)
        seen.mask[lane, action] = 1 if legal else 0
        if not legal:
            continue
        b.ahead[lane, action] = _bound(t, b, g, lane, action)
        b.completion[lane, action] = _completion(t, b, g, lane, action)
        best = min(best, b.completion[lane, action])
        least = min(least, b.ahead[lane, action])
        row, scale, pace = seen.candidates[lane, action], b.scale[lane], b.pace[lane]
        device = b.device[lane, piece] if action == 0 else action - 1
        first = b.begun[lane, piece] if action == 0 else j
        load = t.forward[j, device] + t.backward[j, device] + t.weight[j, device]
        row[0] = _share(load, pace)
        passes = 2.0 if g.objective == TRAINING else 1.0
        if action > 0 and piece >= 0:
            old, start = b.device[lane, piece], b.begun[lane, piece]
            ended = b.forward[lane, piece] + b.backward[lane, piece] + b.weight[lane, piece]
            if t.pays[old] > 0:
                ended += passes * t.comm[start, j]
            row[1] = _share(ended, pace)
        if action == 0:
            load += b.forward[lane, piece] + b.backward[lane, piece] + b.weight[lane, piece]
        if t.pays[device] > 0:
            load += passes * t.comm[first, j + 1]
        row[2] = _share(load, pace)
        row[3] = _share(b.ahead[lane, action], scale)
        stage = b.used[lane, device] - 1 if b.used[lane, device] > 0 else b.pieces[lane]
        keep = t.peak[1, max(stage + 1, b.members[lane]), stage]
        need = b.held[lane, device] + t.size[j + 1] - t.size[first]
        need += keep * (b.stashed[lane, device] + t.stash[j + 1] - t.stash[first])
        row[5] = _left(t, device, need)
        row[6] = 1.0 if action == 0 or b.used[lane, device] > 0 else 0.0
    found = best < np.inf
    if not found:
        best = least
    for action in range(seen.mask.shape[1]):
        if seen.mask[lane, action]:
            completion = b.completion[lane, action] if found else b.ahead[lane, action]
            seen.candidates[lane, action, 4] = _share(completion - best, b.scale[lane])
            seen.candidates[lane, action, 7] = _share(completion, b.scale[lane])
