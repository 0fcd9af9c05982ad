"""Changes: small changes of a layout, written into the row of another one.

A change has a kind, a piece or stage where it is made, and a direction. Whatever else it needs is drawn.
"""

from __future__ import annotations

import numpy as np

from hetgym._kernels.jit import step
from hetgym.pipeline.layout import Layouts, copy
from hetgym.pipeline.tables import CutTables

SHIFTS = 4
"""Kinds 0 to 3: move the end of a piece by 1, 2, 4 or 8 blocks."""

SLIDE, SWAP, REPLACE, DROP, ADD, ROUNDS = range(SHIFTS, SHIFTS + 6)
"""Further kinds: move the ends of a few pieces by a block; swap the devices of two stages; give a stage an unused
device; take a stage out; put one in, on an unused device; change the number of rounds."""

KINDS = ROUNDS + 1

MOST_SLID = 4  # ends that move together


@step
def draw(rng: np.random.Generator, count: int) -> int:
    """A number of 0 .. count - 1."""
    return int(rng.random() * count)


@step
def draw_place(b: Layouts, row: int, kind: int, rng: np.random.Generator) -> int:
    """A piece for a change that moves ends, a stage for any other."""
    p, v = b.shape[row, 0], b.shape[row, 1]
    return draw(rng, max(1, p * v - 1) if kind <= SLIDE else p)


@step
def change(
    t: CutTables, b: Layouts, source: int, target: int, kind: int, place: int, back: bool, rng: np.random.Generator
) -> bool:
    """Write a change of a layout into another row; whether it fits is not checked.

    Args:
        t: tables of the problem.
        b: the layouts.
        source: row of the layout.
        target: row of the changed one.
        kind: kind of change.
        place: piece whose end moves, or the stage.
        back: True to move ends towards the first block, to add a stage before this one instead of behind it, and to
            leave the blocks of a dropped stage to the one before it; other kinds of change have no direction.
        rng: of the draws.

    Returns:
        False if there is no such change.
    """
    p, v, d = b.shape[source, 0], b.shape[source, 1], len(t.capacity)
    if kind <= SLIDE:
        return _move_ends(b, source, target, kind, place, back, rng)
    if kind == ROUNDS:
        rounds = 1 + draw(rng, len(t.peak) - 1)
        if rounds == v or p < 2 or p * rounds >= len(t.wall) or t.peak[rounds, p, 0] < 0.0:
            return False
        spread(t, b, source, target, rounds)
        return True
    if kind == DROP:
        return _drop(b, source, target, place, back)
    if kind == SWAP:
        if p < 2:
            return False
        other = (place + 1 + draw(rng, p - 1)) % p
        if t.kind[b.device[source, place]] == t.kind[b.device[source, other]]:
            return False
        copy(b, source, target)
        b.device[target, place], b.device[target, other] = b.device[source, other], b.device[source, place]
        return True
    device = _unused(b, source, d, rng)
    if device < 0:
        return False
    if kind == ADD:
        return _add(t, b, source, target, place, back, device, rng)
    if t.kind[device] == t.kind[b.device[source, place]]:
        return False
    copy(b, source, target)
    b.device[target, place] = device
    return True


@step
def _move_ends(
    b: Layouts, source: int, target: int, kind: int, place: int, back: bool, rng: np.random.Generator
) -> bool:
    """Move the end of a piece, or of a few pieces that follow each other."""
    pieces = b.shape[source, 0] * b.shape[source, 1]
    if place >= pieces - 1:
        return False
    first = last = place + 1
    by = 1
    if kind == SLIDE:
        last = min(pieces - 1, first + 1 + draw(rng, MOST_SLID - 1))
    else:
        by = 1 << kind
    if back:
        by = -by
    if by > 0 and b.begun[source, last] + by >= b.begun[source, last + 1]:
        return False
    if by < 0 and b.begun[source, first] + by <= b.begun[source, first - 1]:
        return False
    copy(b, source, target)
    for k in range(first, last + 1):
        b.begun[target, k] += by
    return True


@step
def _unused(b: Layouts, row: int, devices: int, rng: np.random.Generator) -> int:
    """A device without a stage, -1 if there is none."""
    p = b.shape[row, 0]
    if p == devices:
        return -1
    left = draw(rng, devices - p)
    for device in range(devices):
        used = False
        for s in range(p):
            used = used or b.device[row, s] == device
        if not used:
            if left == 0:
                return device
            left -= 1
    return -1


@step
def _drop(b: Layouts, source: int, target: int, stage: int, back: bool) -> bool:
    """Take out a stage; its pieces go to those before or behind them, and the first or last one where it can."""
    p, v = b.shape[source, 0], b.shape[source, 1]
    if p < 2:
        return False
    b.shape[target, 0], b.shape[target, 1] = p - 1, v
    count = 0
    for s in range(p):
        if s != stage:
            b.device[target, count] = b.device[source, s]
            count += 1
    count = 0
    for k in range(p * v):
        if k % p == stage:
            continue
        follows = k > 0 and (k - 1) % p == stage
        takes = follows and (not back or k == 1)
        b.begun[target, count] = b.begun[source, k - 1 if takes else k]
        count += 1
    b.begun[target, count] = b.begun[source, p * v]
    return True


@step
def _add(
    t: CutTables,
    b: Layouts,
    source: int,
    target: int,
    stage: int,
    back: bool,
    device: int,
    rng: np.random.Generator,
) -> bool:
    """Put a stage before a stage or behind it; it takes a quarter to three quarters of each of that stage's pieces."""
    p, v = b.shape[source, 0], b.shape[source, 1]
    if (p + 1) * v >= len(t.wall) or t.peak[v, p + 1, 0] < 0.0:
        return False
    share = 0.25 + 0.5 * rng.random()
    b.shape[target, 0], b.shape[target, 1] = p + 1, v
    for s in range(p):
        b.device[target, s + (1 if s > stage or (s == stage and back) else 0)] = b.device[source, s]
    b.device[target, stage + (0 if back else 1)] = device
    count = 0
    for k in range(p * v):
        first, end = b.begun[source, k], b.begun[source, k + 1]
        b.begun[target, count] = first
        count += 1
        if k % p == stage:
            if end - first < 2:
                return False
            b.begun[target, count] = min(end - 1, max(first + 1, first + int(share * (end - first) + 0.5)))
            count += 1
    b.begun[target, count] = b.begun[source, p * v]
    return True


# `done` is the work up to the end of the piece; the end is the block whose middle comes next, but leaves each piece a
# block.
@step
def spread(t: CutTables, b: Layouts, source: int, target: int, rounds: int) -> None:
    """Spread the stages over another number of rounds: each keeps its share of the work, the same in each round.

    Args:
        t: tables of the problem.
        b: the layouts.
        source: row of the layout.
        target: row of the changed one.
        rounds: number of rounds; there are at least as many blocks as pieces.
    """
    p, v, n = b.shape[source, 0], b.shape[source, 1], len(t.wall) - 1
    b.shape[target, 0], b.shape[target, 1] = p, rounds
    for s in range(p):
        b.device[target, s] = b.device[source, s]
    done, pieces = 0.0, p * rounds
    b.begun[target, 0] = 0
    for k in range(1, pieces):
        s = (k - 1) % p
        for c in range(v):
            done += (t.rest[b.begun[source, c * p + s]] - t.rest[b.begun[source, c * p + s + 1]]) / rounds
        block = b.begun[target, k - 1] + 1
        while block < n - (pieces - k) and t.rest[0] - 0.5 * (t.rest[block] + t.rest[block + 1]) < done:
            block += 1
        b.begun[target, k] = block
    b.begun[target, pieces] = n
