"""Improvement of cuts: annealing over small changes, each priced exactly under the schedule.

A change is refused without pricing if a critical path that was found before shows that it is too long; see
:func:`~hetgym.pipeline.layout.least`. A network may propose the changes, see :mod:`hetgym.pipeline.odds`.
"""

from __future__ import annotations

import numpy as np

from hetgym._jit import lean
from hetgym._types import Int64Array
from hetgym.planning.search import clock
from hetgym.pipeline import odds
from hetgym.pipeline.changes import MIX, ROUNDS, SLIDE, change, draw, spread
from hetgym.pipeline.cuts import Cut, CutProblem, Stage
from hetgym.pipeline.layout import Layouts, Orders, copy, fits, least, new_layouts, orders_of, price, read, set_times, write
from hetgym.pipeline.objective import THROUGHPUT, TRAINING
from hetgym.pipeline.starts import starts
from hetgym.pipeline.tables import CutTables

LANES = 8
"""Most cuts that are improved side by side, of different numbers of stages and rounds."""

SWEEPS = 4
"""Sweeps over the lanes; each is twice as long as the one before, over the better half of the lanes."""

HOT, COLD = 0.02, 1e-4
"""First and last temperature of a sweep, as shares of the value."""

GUIDED = 0.8
"""Share of the changes that the network proposes."""

SLICE = 5_000
"""Most tries between two readings of the clock."""

NOW, TRIAL, BEST, FIRST = range(4)  # rows of layouts; lanes follow

TRIED, LEGAL, PRICED, KEPT = range(4)  # counts


class CutSearch:
    """A search for a cut of the least value, in progress.

    Args:
        cuts: the problem, with remainders (:func:`~hetgym.pipeline.remainders.with_remainders`); without, it begins with
            the reference.
        network: proposes changes; None to draw them.
        seed: of all draws.
        rows: most tries that are kept for training.
        every: number of tries for each row.

    Attributes:
        value: of the best cut so far [s].
        tries: number of changes tried.
        counts: tries; those that fit; those that were priced; those kept.
    """

    def __init__(
        self, cuts: CutProblem, network: odds.Network | None = None, seed: int = 0, rows: int = 0, every: int = 1
    ) -> None:
        t = self.tables = cuts.tables
        self.cuts, self.code = cuts, cuts.objective.code
        self.orders = orders_of(cuts.objective, len(t.capacity), len(t.wall) - 1)
        self.layouts = new_layouts(cuts, self.orders, FIRST + LANES)
        self.odds = odds.new_odds(self.layouts.begun.shape[1] - 1, network, rows, every)
        self.counts = np.zeros(4, np.int64)
        self._rng = np.random.default_rng(seed)
        self._lanes = self._open()

    @property
    def value(self) -> float:
        return float(self.layouts.value[BEST])

    @property
    def tries(self) -> int:
        return int(self.counts[TRIED])

    @property
    def cut(self) -> tuple[Stage, ...]:
        """The best cut so far."""
        return read(self.layouts, BEST)

    def run(self, tries: int, seconds: float | None = None) -> None:
        """Search on.

        Args:
            tries: number of changes to try.
            seconds: limit of time [s]; with it, results depend on the machine.
        """
        began, left, part = clock(), tries, tries if seconds is None else min(tries, FIRST_PART)
        while left > 0 and self._lanes:
            part = min(part, left)
            lanes = list(self._lanes)
            for sweep in range(SWEEPS):
                length = max(1, part // (SWEEPS * len(lanes)))
                for lane in lanes:
                    for first in range(0, length, SLICE):
                        if seconds is not None and clock() - began >= seconds:
                            return
                        self._anneal(lane, first, min(length, first + SLICE), length)
                lanes = sorted(lanes, key=lambda lane: float(self.layouts.value[lane]))[: max(1, (len(lanes) + 1) // 2)]
            left, part = left - part, 2 * part

    def _anneal(self, lane: int, first: int, end: int, total: int) -> None:
        _anneal(
            self.tables, self.orders, self.layouts, self.odds, self._rng, lane, first, end, total, self.code, self.counts
        )

    def _open(self) -> list[int]:
        """Write the best starts of different numbers of stages and rounds into lanes; return these."""
        t, b = self.tables, self.layouts
        found: list[tuple[float, Cut]] = []
        for cut in [*starts(self.cuts), self.cuts.reference_cut]:
            write(b, NOW, cut)
            for rounds in range(1, len(t.peak)):
                value = _begin(t, self.orders, b, rounds, self.code)
                if value < np.inf:
                    found.append((value, read(b, TRIAL)))
        found.sort(key=lambda pair: pair[0])
        best: dict[tuple[int, int], Cut] = {}
        for _, cut in found:
            devices = len({stage.device for stage in cut})
            best.setdefault((devices, len(cut)), cut)
        lanes = list(range(FIRST, FIRST + min(LANES, len(best))))
        for row, cut in zip([BEST, *lanes], [*list(best.values())[:1], *best.values()], strict=False):
            write(b, row, cut)
            _price_row(t, self.orders, b, row, self.code)
        return lanes


FIRST_PART = 4_000
"""Tries of the first part of a search within a time; each further part has twice as many."""


@lean
def _begin(t: CutTables, o: Orders, b: Layouts, rounds: int, code: int) -> float:
    """Price the layout of the first row, or one spread over so many rounds, in the row of trials; inf if it fails."""
    p, v = b.shape[NOW, 0], b.shape[NOW, 1]
    if rounds == v:
        copy(b, NOW, TRIAL)
    elif v > 1 or p < 2 or p * rounds >= len(t.wall):
        return np.inf
    else:
        spread(t, b, NOW, TRIAL, rounds)
    if not fits(t, b, TRIAL):
        return np.inf
    set_times(t, b, TRIAL, code == TRAINING)
    return price(o, b, TRIAL, code == THROUGHPUT)


@lean
def _price_row(t: CutTables, o: Orders, b: Layouts, row: int, code: int) -> None:
    set_times(t, b, row, code == TRAINING)
    price(o, b, row, code == THROUGHPUT)


# Invariants before each try: the present layout fits and is priced; the lane holds the best one of this lane, the row
# BEST that of all. A try is refused if its value is not below a limit, that of the present layout and a random amount
# that shrinks with the temperature; a bound that is not below the limit saves the pricing.
@lean
def _anneal(
    t: CutTables,
    o: Orders,
    b: Layouts,
    g: odds.Odds,
    rng: np.random.Generator,
    lane: int,
    first: int,
    end: int,
    total: int,
    code: int,
    counts: Int64Array,
) -> None:
    d, slots = len(t.capacity), b.begun.shape[1] - 1
    guided = len(g.bias) > 0
    if first == 0:
        copy(b, lane, NOW)
        g.since[:] = -1
        if guided:
            odds.forget(b, g, NOW)
    for k in range(first, end):
        counts[TRIED] += 1
        heat = HOT * (COLD / HOT) ** (k / total)
        p, v = b.shape[NOW, 0], b.shape[NOW, 1]
        kind = -1
        if guided and rng.random() < GUIDED:
            leaf = odds.draw_leaf(t, b, g, NOW, heat, counts[KEPT], rng)
            if leaf < 0:
                continue
            kind, place, back = leaf // (2 * slots), leaf // 2 % slots, leaf % 2
        else:
            kind = MIX[draw(rng, len(MIX))]
            place, back = draw(rng, max(1, p * v - 1) if kind <= SLIDE else p), draw(rng, 2)
            leaf = (kind * slots + place) * 2 + back if kind < ROUNDS else 0
        before = b.value[NOW]
        limit = before - heat * before * np.log(1.0 - rng.random())
        if kind < ROUNDS:
            odds.show(t, b, g, NOW, leaf, heat, counts[KEPT])
        value = np.inf
        if change(t, b, NOW, TRIAL, kind, place, back == 1, rng) and fits(t, b, TRIAL):
            counts[LEGAL] += 1
            set_times(t, b, TRIAL, code == TRAINING)
            value = least(b, TRIAL, d, limit)
            if value < limit:
                counts[PRICED] += 1
                value = price(o, b, TRIAL, code == THROUGHPUT)
        if kind < ROUNDS:
            odds.note(g, leaf, counts[KEPT], before, limit, value)
        if value < limit:
            counts[KEPT] += 1
            copy(b, TRIAL, NOW)
            if guided and (b.shape[NOW, 0] != p or b.shape[NOW, 1] != v):
                odds.forget(b, g, NOW)
            if value < b.value[lane]:
                copy(b, NOW, lane)
            if value < b.value[BEST]:
                copy(b, NOW, BEST)
