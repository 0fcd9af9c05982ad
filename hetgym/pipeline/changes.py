"""Changes: small changes of a layout, written into the row of another one.

A change has a kind, a piece or stage where it is made, and a direction. Whatever else it needs is drawn.
"""

from numpy.random import Generator

from hetgym._kernels.jit import step
from hetgym.pipeline.layout import Layouts, copy
from hetgym.pipeline.tables import CutTables

SHIFTS = 4  # Kinds 0 to 3: move the end of a piece by 1, 2, 4 or 8 blocks

SLIDE, SWAP, REPLACE, DROP, ADD, ROUNDS = range(SHIFTS, SHIFTS + 6)
"""Further kinds: move the ends of a few pieces by a block; swap the devices of two stages; give a stage an unused
device; take a stage out; put one in, on an unused device; change the number of rounds."""

KINDS = ROUNDS + 1

MOST_SLID = 4  # ends that move together


@step
def draw(rng: Generator, count: int) -> int:
    """A number of 0 .. count - 1."""
    return int(rng.random() * count)


@step
def draw_place(layouts: Layouts, row: int, kind: int, rng: Generator) -> int:
    """A piece for a change that moves ends, a stage for any other."""
    p, v = layouts.shape[row, 0], layouts.shape[row, 1]
    return draw(rng, max(1, p * v - 1) if kind <= SLIDE else p)


# The row `source` stays as it is, and `target` is only complete if the result is true. Each kind draws what it needs,
# and nothing before it is known to be possible as far as the row tells. O(pieces).
@step
def change(
    tables: CutTables, layouts: Layouts, source: int, target: int, kind: int, place: int, back: bool, rng: Generator
) -> bool:
    """Write a change of a layout into another row, false if there is none; whether it fits is not checked.

    Args:
        source, target: rows of the layout and of the changed one.
        place: piece whose end moves, or the stage.
        back: True to move ends towards the first block, to add a stage before this one instead of behind it, and to
            leave the blocks of a dropped stage to the one before it; other kinds of change have no direction.
    """
    p, v, d = layouts.shape[source, 0], layouts.shape[source, 1], len(tables.capacity)
    if kind <= SLIDE:
        return _move_ends(layouts, source, target, kind, place, back, rng)
    if kind == ROUNDS:
        rounds = 1 + draw(rng, len(tables.peak) - 1)
        if rounds == v or p < 2 or p * rounds >= len(tables.wall) or tables.peak[rounds, p, 0] < 0.0:
            return False
        spread(tables, layouts, source, target, rounds)
        return True
    if kind == DROP:
        return _drop(layouts, source, target, place, back)
    if kind == SWAP:
        if p < 2:
            return False
        other = (place + 1 + draw(rng, p - 1)) % p
        if tables.kind[layouts.device[source, place]] == tables.kind[layouts.device[source, other]]:
            return False
        copy(layouts, source, target)
        layouts.device[target, place] = layouts.device[source, other]
        layouts.device[target, other] = layouts.device[source, place]
        return True
    device = _unused(layouts, source, d, rng)
    if device < 0:
        return False
    if kind == ADD:
        return _add(tables, layouts, source, target, place, back, device, rng)
    if tables.kind[device] == tables.kind[layouts.device[source, place]]:
        return False
    copy(layouts, source, target)
    layouts.device[target, place] = device
    return True


@step
def _move_ends(layouts: Layouts, source: int, target: int, kind: int, place: int, back: bool, rng: Generator) -> bool:
    """Move the end of a piece, or of a few pieces that follow each other."""
    pieces = layouts.shape[source, 0] * layouts.shape[source, 1]
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
    if by > 0 and layouts.begun[source, last] + by >= layouts.begun[source, last + 1]:
        return False
    if by < 0 and layouts.begun[source, first] + by <= layouts.begun[source, first - 1]:
        return False
    copy(layouts, source, target)
    for k in range(first, last + 1):
        layouts.begun[target, k] += by
    return True


@step
def _unused(layouts: Layouts, row: int, devices: int, rng: Generator) -> int:
    """A device without a stage, -1 if there is none."""
    p = layouts.shape[row, 0]
    if p == devices:
        return -1
    left = draw(rng, devices - p)
    for device in range(devices):
        used = False
        for stage in range(p):
            used = used or layouts.device[row, stage] == device
        if not used:
            if left == 0:
                return device
            left -= 1
    return -1


@step
def _drop(layouts: Layouts, source: int, target: int, stage: int, back: bool) -> bool:
    """Take out a stage; its pieces go to those before or behind them, and the first or last one where it can."""
    p, v = layouts.shape[source, 0], layouts.shape[source, 1]
    if p < 2:
        return False
    layouts.shape[target, 0], layouts.shape[target, 1] = p - 1, v
    count = 0
    for other in range(p):
        if other != stage:
            layouts.device[target, count] = layouts.device[source, other]
            count += 1
    count = 0
    for k in range(p * v):
        if k % p == stage:
            continue
        follows = k > 0 and (k - 1) % p == stage
        takes = follows and (not back or k == 1)
        layouts.begun[target, count] = layouts.begun[source, k - 1 if takes else k]
        count += 1
    layouts.begun[target, count] = layouts.begun[source, p * v]
    return True


@step
def _add(
    tables: CutTables, layouts: Layouts, source: int, target: int, stage: int, back: bool, device: int, rng: Generator
) -> bool:
    """Put a stage before a stage or behind it; it takes a quarter to three quarters of each of that stage's pieces."""
    p, v = layouts.shape[source, 0], layouts.shape[source, 1]
    if (p + 1) * v >= len(tables.wall) or tables.peak[v, p + 1, 0] < 0.0:
        return False
    share = 0.25 + 0.5 * rng.random()
    layouts.shape[target, 0], layouts.shape[target, 1] = p + 1, v
    for other in range(p):
        to = other + (1 if other > stage or (other == stage and back) else 0)
        layouts.device[target, to] = layouts.device[source, other]
    layouts.device[target, stage + (0 if back else 1)] = device
    count = 0
    for k in range(p * v):
        first, end = layouts.begun[source, k], layouts.begun[source, k + 1]
        layouts.begun[target, count] = first
        count += 1
        if k % p == stage:
            if end - first < 2:
                return False
            layouts.begun[target, count] = min(end - 1, max(first + 1, first + int(share * (end - first) + 0.5)))
            count += 1
    layouts.begun[target, count] = layouts.begun[source, p * v]
    return True


# `done` is the work up to the end of the piece; the end is the block whose middle comes next, but leaves each piece a
# block.
@step
def spread(tables: CutTables, layouts: Layouts, source: int, target: int, rounds: int) -> None:
    """Spread the stages over ``rounds`` rounds: each keeps its share of the work, the same in each round.

    There are at least as many blocks as pieces.
    """
    p, v, n = layouts.shape[source, 0], layouts.shape[source, 1], len(tables.wall) - 1
    layouts.shape[target, 0], layouts.shape[target, 1] = p, rounds
    for stage in range(p):
        layouts.device[target, stage] = layouts.device[source, stage]
    done, pieces = 0.0, p * rounds
    layouts.begun[target, 0] = 0
    for k in range(1, pieces):
        stage = (k - 1) % p
        for chunk in range(v):
            first, end = layouts.begun[source, chunk * p + stage], layouts.begun[source, chunk * p + stage + 1]
            done += (tables.rest[first] - tables.rest[end]) / rounds
        block = layouts.begun[target, k - 1] + 1
        while block < n - (pieces - k) and tables.rest[0] - 0.5 * (tables.rest[block] + tables.rest[block + 1]) < done:
            block += 1
        layouts.begun[target, k] = block
    layouts.begun[target, pieces] = n
