"""Odds: a network that reads a layout with its critical paths and says which changes to try.

It estimates the odds that a change of a kind, at a place, in a direction makes the value smaller. Changes are drawn by
these odds. They change with every change of the layout, but a change is judged again only when it is drawn, and then
drawn again if its odds have fallen; beside each draw one more is judged, in turn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._jit import inlined, step
from hetgym._records import record
from hetgym._types import FloatArray, Int64Array
from hetgym.pipeline.changes import ADD, REPLACE, ROUNDS, SHIFTS, SLIDE
from hetgym.pipeline.layout import PATHS, Layouts
from hetgym.pipeline.tables import CutTables
from hetgym.planning import sum_tree

FEATURES = (
    "slide",
    "swap",
    "replace",
    "drop",
    "add",
    "size",
    "critical",
    "critical_other",
    "often_critical",
    "often_critical_other",
    "busy",
    "busy_other",
    "gain",
    "mean_gain",
    "transfer",
    "room",
    "blocks",
    "blocks_other",
    "heat",
    "refused",
    "stages",
    "rounds",
    "unused",
)
"""Inputs of the network, in its order; see :func:`look`."""

FIRST = 0.2
"""Odds of changes that were not judged yet."""

DRAWS = 4
"""Most draws for a change; the last one counts however its odds have changed."""

LARGEST = 20.0
"""Largest logarithm of odds, and minus the smallest."""

WORSE = 0.1
"""What a change counts in training that is accepted though the value grows: it may lead somewhere."""

NEXT, ROWS, EVERY, OPEN, SEEN = range(5)  # in Odds.counts


class Network(NamedTuple):
    """Weights of the network: a hidden layer of rectified units, and one output, the logarithm of the odds.

    Attributes:
        enter: [f, h] of the inputs, see :data:`FEATURES`.
        bias: [h].
        leave: [h].
    """

    enter: FloatArray
    bias: FloatArray
    leave: FloatArray


NONE = Network(np.zeros((len(FEATURES), 0)), np.zeros(0), np.zeros(0))
"""No network."""


@record
class Odds(NamedTuple):
    """A network at work on a layout.

    Attributes:
        enter, bias, leave: its weights, see :class:`Network`; without hidden units there is no network.
        inputs: [f] scratch.
        hidden: [h] scratch.
        tree: the odds of all changes as a sum tree; kind c, piece k and direction b are leaf (c s + k) 2 + b.
        refused: [leaves] changes refused since the layout last changed.
        since: [leaves] layouts kept when the last of these was refused.
        rows: [r, f] inputs of changes that were tried, for training; ``outcome``: [r] 1 if the value became smaller,
            ``WORSE`` if the change was accepted though it grew, else 0.
        counts: the leaf to be judged next; rows written; number of tries for each row, 0 for no rows; whether the
            present try is a row; tries.
    """

    enter: FloatArray
    bias: FloatArray
    leave: FloatArray
    inputs: FloatArray
    hidden: FloatArray
    tree: FloatArray
    refused: FloatArray
    since: Int64Array
    rows: npt.NDArray[np.float32]
    outcome: npt.NDArray[np.float32]
    counts: Int64Array


def new_odds(pieces: int, network: Network | None = None, rows: int = 0, every: int = 1) -> Odds:
    """Begin on a problem.

    Args:
        pieces: most pieces of a layout.
        network: the network; without one, only rows are kept.
        rows: most rows kept for training.
        every: number of tries for each row.
    """
    network = network or NONE
    leaves = ROUNDS * pieces * 2
    return Odds(
        enter=np.ascontiguousarray(network.enter, np.float64),
        bias=np.ascontiguousarray(network.bias, np.float64),
        leave=np.ascontiguousarray(network.leave, np.float64),
        inputs=np.zeros(len(FEATURES)),
        hidden=np.zeros(len(network.bias)),
        tree=sum_tree.new_tree(leaves),
        refused=np.zeros(leaves),
        since=np.full(leaves, -1),
        rows=np.zeros((rows, len(FEATURES)), np.float32),
        outcome=np.zeros(rows, np.float32),
        counts=np.array([0, 0, every if rows else 0, 0, 0]),
    )


def rows_of(g: Odds) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """The inputs [r, f] and outcomes [r] that were kept for training."""
    count = int(g.counts[ROWS])
    return g.rows[:count].copy(), g.outcome[:count].copy()


@step
def forget(b: Layouts, g: Odds, row: int) -> None:
    """Begin on a layout of another number of pieces: nothing was judged."""
    pieces, p = b.shape[row, 0] * b.shape[row, 1], b.shape[row, 0]
    slots = b.begun.shape[1] - 1
    half = len(g.tree) // 2
    for k in range(len(g.tree)):
        g.tree[k] = 0.0
    for kind in range(ROUNDS):
        for place in range(pieces - 1 if kind <= SLIDE else p):
            for back in range(2):
                g.tree[half + (kind * slots + place) * 2 + back] = FIRST
    for k in range(half - 1, 0, -1):
        g.tree[k] = g.tree[2 * k] + g.tree[2 * k + 1]


@step
def draw_leaf(t: CutTables, b: Layouts, g: Odds, row: int, heat: float, kept: int, rng: np.random.Generator) -> int:
    """A change drawn by its odds, as the number of its leaf; -1 if the draws gave none."""
    slots = b.begun.shape[1] - 1
    leaves = ROUNDS * slots * 2
    judge(t, b, g, row, g.counts[NEXT], heat, kept)
    g.counts[NEXT] = (g.counts[NEXT] + 1) % leaves
    leaf = -1
    for _ in range(DRAWS):
        if not g.tree[1] > 0.0:
            return -1
        leaf = sum_tree.draw_leaf(g.tree, rng.random())
        before = sum_tree.weight_of(g.tree, leaf)
        now = judge(t, b, g, row, leaf, heat, kept)
        if now >= before * rng.random():
            return int(leaf)
    return int(leaf)


@step
def judge(t: CutTables, b: Layouts, g: Odds, row: int, leaf: int, heat: float, kept: int) -> float:
    """Judge a change as the layout is now: its odds, 0 if there is no such change."""
    odds = 0.0
    if sum_tree.weight_of(g.tree, leaf) > 0.0:
        odds = TINY
        if look(t, b, g, row, leaf, heat, kept):
            h = g.hidden
            for k in range(len(h)):
                h[k] = g.bias[k]
            for f in range(len(g.inputs)):
                for k in range(len(h)):
                    h[k] += g.inputs[f] * g.enter[f, k]
            log_odds = 0.0
            for k in range(len(h)):
                log_odds += max(0.0, h[k]) * g.leave[k]
            odds = np.exp(min(LARGEST, max(-LARGEST, log_odds)))
        sum_tree.weigh(g.tree, leaf, odds)
    return odds


TINY = 1e-9
"""Odds of a change that the present layout does not allow; the next one may."""


@step
def note(g: Odds, leaf: int, kept: int, before: float, limit: float, value: float) -> None:
    """Remember what became of a change.

    Args:
        g: the odds.
        leaf: the change.
        kept: number of layouts kept before it.
        before: value of the layout before it [s].
        limit: values from here on are refused [s].
        value: of the changed layout [s], or a bound above the limit; inf if it does not fit.
    """
    if g.counts[OPEN] > 0:
        accepted = value < limit
        g.outcome[g.counts[ROWS]] = 1.0 if value < before * TIE else WORSE if accepted else 0.0
        g.counts[ROWS] += 1
        g.counts[OPEN] = 0
    if value >= limit:
        g.refused[leaf] = (g.refused[leaf] if g.since[leaf] == kept else 0.0) + 1.0
        g.since[leaf] = kept


TIE = 1.0 - 1e-9
"""Factor by which a value must be smaller to count as smaller."""


@step
def show(t: CutTables, b: Layouts, g: Odds, row: int, leaf: int, heat: float, kept: int) -> None:
    """Write the inputs of a change into a row for training, if it is its turn."""
    g.counts[SEEN] += 1
    if g.counts[EVERY] > 0 and g.counts[ROWS] < len(g.rows) and g.counts[SEEN] % g.counts[EVERY] == 0:
        if look(t, b, g, row, leaf, heat, kept):
            for f in range(len(g.inputs)):
                g.rows[g.counts[ROWS], f] = g.inputs[f]
            g.counts[OPEN] = 1


@inlined
def _soft(x: float) -> float:
    """A number brought into (-1, 1)."""
    return x / (1.0 + abs(x))


@step
def look(t: CutTables, b: Layouts, g: Odds, row: int, leaf: int, heat: float, kept: int) -> bool:
    """Write what the network is told about a change; False if there is no such change.

    The *piece* is the one that loses blocks, or the stage's first; the *other* is the one that gains them. A piece is
    *critical* by the share of its passes on the critical path that was found last, and *often* critical by their mean
    over the paths found lately. The *gain* of moving an end is what these paths become shorter, in shares of the value.
    """
    slots = b.begun.shape[1] - 1
    kind, place, back = leaf // (2 * slots), leaf // 2 % slots, leaf % 2
    p, v, d = b.shape[row, 0], b.shape[row, 1], len(t.capacity)
    pieces, shape = p * v, (v - 1) * d + p - 1
    x = g.inputs
    if kind <= SLIDE:
        if place >= pieces - 1:
            return False
    elif place >= p or (p == d and (kind == REPLACE or kind == ADD)):
        return False
    piece, other, by = place, place, 0
    if kind <= SLIDE:
        by = 1 << kind if kind < SHIFTS else 1
        piece, other = (place, place + 1) if back else (place + 1, place)
        if b.begun[row, piece + 1] - b.begun[row, piece] <= by:
            return False
    elif p > 1:
        other = (place - 1 if back and place > 0 else place + 1) % p
    path = (b.known[shape] - 1) % PATHS
    last, often, last_other, often_other = 0.0, 0.0, 0.0, 0.0
    for c in range(3):
        last += b.paths[shape, path, c, piece]
        often += b.mean[shape, c, piece]
        last_other += b.paths[shape, path, c, other]
        often_other += b.mean[shape, c, other]
    turns, value = b.turns[0], b.value[row]
    scale = 0.5 / turns
    for f in range(6):
        x[f] = 0.0
    if kind >= SLIDE:
        x[kind - SLIDE] = 1.0
    else:
        x[5] = kind / 3.0
    x[6], x[7], x[8], x[9] = scale * last, scale * last_other, scale * often, scale * often_other
    x[10] = _busy(b, row, piece) * turns / value
    x[11] = _busy(b, row, other) * turns / value
    x[12] = x[13] = x[14] = 0.0
    if kind <= SLIDE:
        one, two = b.device[row, piece % p], b.device[row, other % p]
        first, end = b.begun[row, piece], b.begun[row, piece + 1]
        start, stop = (end - by, end) if back else (first, first + by)
        paid_here, paid_there = 0.0, 0.0
        if t.pays[one] > 0.0:
            paid_here = t.comm[first, end] - (t.comm[first, start] if back else t.comm[stop, end])
        if t.pays[two] > 0.0:
            begin, finish = b.begun[row, other], b.begun[row, other + 1]
            after = t.comm[start, finish] if back else t.comm[begin, stop]
            paid_there = after - t.comm[begin, finish]
        gain, mean = 0.0, 0.0
        for c in range(3):
            here = b.whole[c, stop, one] - b.whole[c, start, one]
            there = b.whole[c, stop, two] - b.whole[c, start, two]
            if b.seconds[row, c, 0, piece] > 0.0 and c < 2:
                here, there = here + paid_here, there + paid_there
            gain += b.paths[shape, path, c, piece] * here - b.paths[shape, path, c, other] * there
            mean += b.mean[shape, c, piece] * here - b.mean[shape, c, other] * there
        x[12], x[13] = _soft(20.0 * gain / value), _soft(20.0 * mean / value)
        x[14] = _soft(20.0 * (paid_here - paid_there) * turns / value)
    x[15] = _room(t, b, row, other % p)
    x[16] = 1.0 / (b.begun[row, piece + 1] - b.begun[row, piece])
    x[17] = 1.0 / (b.begun[row, other + 1] - b.begun[row, other])
    x[18] = 0.2 * np.log10(heat)
    x[19] = _soft(g.refused[leaf] / 2.0) if g.since[leaf] == kept else 0.0
    x[20], x[21], x[22] = p / 16.0, v / 4.0, (d - p) / d
    return True


@step
def _busy(b: Layouts, row: int, piece: int) -> float:
    """Time for which the device of a piece works on one micro-batch [s]."""
    p, v = b.shape[row, 0], b.shape[row, 1]
    total = 0.0
    for c in range(v):
        for kind in range(3):
            total += b.seconds[row, kind, 0, c * p + piece % p]
    return total


@step
def _room(t: CutTables, b: Layouts, row: int, stage: int) -> float:
    """Share of the memory of a stage's device that is free."""
    p, v, device = b.shape[row, 0], b.shape[row, 1], b.device[row, stage]
    if t.capacity[device] == np.inf:
        return 1.0
    need = 0.0
    for c in range(v):
        first, end = b.begun[row, c * p + stage], b.begun[row, c * p + stage + 1]
        need += t.size[end] - t.size[first] + t.peak[v, p, stage] * (t.stash[end] - t.stash[first])
    return max(0.0, 1.0 - need / max(t.capacity[device], 1e-300))
