"""Annealing of cuts: small changes, each priced exactly under the objective's schedule.

A cut of stages that is best for the sum of its loads is not best for a schedule such as 1F1B. But the value of a cut is
the longest path through its passes, so a path that was critical once bounds the value of every later cut of as many
stages and rounds from below. The paths found last refuse most changes, and only the others are simulated.
"""

from collections.abc import Iterator

import numpy as np

from hetgym._input.config import check_number
from hetgym._input.random import generator
from hetgym._kernels.jit import lean
from hetgym._types import Int64Array
from hetgym.errors import ConfigError
from hetgym.pipeline.changes import KINDS, change, draw, draw_place, spread
from hetgym.pipeline.cuts import Cut, CutProblem, Stage
from hetgym.pipeline.layout import (
    Layouts,
    PassTables,
    copy,
    fits,
    least,
    new_layouts,
    pass_tables,
    price,
    read,
    set_times,
    write,
)
from hetgym.pipeline.objective import THROUGHPUT, TRAINING
from hetgym.pipeline.remainders import with_remainders
from hetgym.pipeline.starts import starts
from hetgym.pipeline.tables import CutTables
from hetgym.search.search import clock

EFFORT = 100  # Tries of a search without limits, for each block and device
LEAST, MOST = 20_000, 1_000_000  # Fewest and most tries of such a search
LANES = 8  # Most cuts that are improved side by side

SWEEPS = 4
"""Sweeps over the lanes, each over the better half of those before, so that each lane left gets twice as many tries."""

HOT, COLD = 0.02, 1e-4  # First and last temperature of a lane in a sweep, as shares of the value
FIRST_ROUND = 4_000  # Tries of the first round of a search within a time; each further round has twice as many
SLICE = 5_000  # Most tries between two readings of the clock

NOW, TRIAL, BEST, FIRST = range(4)
"""Rows of layouts: the present one, the changed one, the best one, and the best one of the first lane."""

TRIED, LEGAL, PRICED, KEPT = range(4)  # Places in the counts of a search


class CutSearch:
    """A search for a cut of least value, in progress.

    Each lane begins with the best start of a number of stages and rounds, and further lanes with the best others.
    Starts are the cuts of least sum of loads within several limits on the largest load
    (:func:`~hetgym.pipeline.starts.starts`), the same spread over several rounds, and the reference.

    Args:
        cuts: the problem, with remainders (:func:`~hetgym.pipeline.remainders.with_remainders`); without, the search
            begins with the reference alone.

    Attributes:
        counts: [4] tries; those that fit into memory; those that were simulated; those that were kept.
    """

    def __init__(self, cuts: CutProblem, seed: int = 0) -> None:
        tables = self._tables = cuts.tables
        self._code = cuts.objective.code
        self._passes = pass_tables(cuts.objective, len(tables.capacity), len(tables.wall) - 1)
        self._layouts = new_layouts(cuts, self._passes, FIRST + LANES)
        self._rng = generator(seed)
        self.counts = np.zeros(4, np.int64)
        self._lanes = self._open([*starts(cuts), cuts.reference_cut])

    @property
    def value(self) -> float:
        """Value of the best cut so far, but for rounding [s]."""
        return float(self._layouts.value[BEST])

    @property
    def cut(self) -> tuple[Stage, ...]:
        """The best cut so far."""
        return read(self._layouts, BEST)

    def run(self, tries: int, seconds: float | None = None, began: float | None = None) -> None:
        """Search on.

        Args:
            tries: number of changes to try, rounded up so that every sweep over all lanes has some.
            seconds: limit of wall-clock time [s]; with it, results depend on the machine.
            began: time from which the seconds count, on :func:`hetgym.search.search.clock`; by default now.
        """
        began, length = clock() if began is None else began, tries if seconds is None else FIRST_ROUND
        left = tries
        while left > 0:
            for lane, first, end, total in self._round(min(length, left)):
                if seconds is not None and clock() - began >= seconds:
                    return
                held = self._tables, self._passes, self._layouts, self._rng
                _anneal(*held, lane, first, end, total, self._code, self.counts)
            left, length = left - length, 2 * length

    def _round(self, tries: int) -> Iterator[tuple[int, int, int, int]]:
        """Slices of a round, in turn: the lane, the first and the last try, and the tries of the lane in the sweep."""
        lanes = list(self._lanes)
        for _ in range(SWEEPS):
            total = -(-tries // (SWEEPS * len(lanes)))
            for lane in lanes:
                for first in range(0, total, SLICE):
                    yield lane, first, min(total, first + SLICE), total
            lanes.sort(key=lambda lane: float(self._layouts.value[lane]))
            del lanes[(len(lanes) + 1) // 2 :]

    def _open(self, tried: list[Cut]) -> list[int]:
        """Write the best starts of different numbers of stages and rounds into lanes, and return these."""
        tables, layouts, found = self._tables, self._layouts, []
        for cut in tried:
            write(layouts, NOW, cut)
            for rounds in range(1, len(tables.peak)):
                value = _begin(tables, self._passes, layouts, rounds, self._code)
                if value < np.inf:
                    found.append((value, read(layouts, TRIAL)))
        found.sort(key=lambda pair: pair[0])
        best: dict[tuple[int, int], Cut] = {}
        for _, cut in found:
            best.setdefault((len({stage.device for stage in cut}), len(cut)), cut)
        others = dict.fromkeys(cut for _, cut in found if cut not in best.values())
        chosen = [*best.values(), *others][:LANES]
        lanes = list(range(FIRST, FIRST + len(chosen)))
        for row, cut in zip([BEST, *lanes], [chosen[0], *chosen], strict=True):
            write(layouts, row, cut)
            _price(tables, self._passes, layouts, row, self._code)
        return lanes


def annealed_cut(
    cuts: CutProblem, tries: int | None = None, seconds: float | None = None, seed: int = 0
) -> tuple[Stage, ...]:
    """Cut a pipeline into stages by annealing; memory limits are kept, and nothing is proven.

    Args:
        cuts: the problem, see :func:`~hetgym.pipeline.cut_problem`.
        tries: largest number of changes to try; by default :data:`EFFORT` for each block and device, within
            :data:`LEAST` and :data:`MOST`, or any number if ``seconds`` is given.
        seconds: limit of wall-clock time [s], once the tables behind the first cuts are made.

    Returns:
        The stages of the best cut found, never worse than the reference.

    Raises:
        ConfigError: a negative number of tries, or a time that is not positive.

    >>> from hetgym.pipeline import Objective, RandomChains, cut_problem
    >>> cuts = cut_problem(RandomChains()(np.random.default_rng(0)), Objective("training"))
    >>> cuts.evaluate(annealed_cut(cuts)).value < cuts.reference
    True
    """
    if tries is None:
        tries = min(MOST, max(LEAST, EFFORT * len(cuts.names) * cuts.problem.num_devices)) if seconds is None else 2**62
    check_number(tries, "tries", ConfigError, minimum=0, maximum=2**62)
    if seconds is not None:
        check_number(seconds, "seconds", ConfigError, positive=True)
    if not cuts.tables.rest_sum.size:
        cuts = with_remainders(cuts)
    began = clock()
    search = CutSearch(cuts, seed)
    search.run(int(tries), seconds, began)
    return search.cut if cuts.evaluate(search.cut).value <= cuts.reference else cuts.reference_cut


@lean
def _begin(tables: CutTables, passes: PassTables, layouts: Layouts, rounds: int, code: int) -> float:
    """Price the present layout, or the same spread over several rounds, in the row TRIAL; inf if it does not fit."""
    p, v = layouts.shape[NOW, 0], layouts.shape[NOW, 1]
    if rounds == v:
        copy(layouts, NOW, TRIAL)
    elif v > 1 or p < 2 or p * rounds >= len(tables.wall):
        return np.inf
    else:
        spread(tables, layouts, NOW, TRIAL, rounds)
    if not fits(tables, layouts, TRIAL):
        return np.inf
    set_times(tables, layouts, TRIAL, code == TRAINING)
    return price(passes, layouts, TRIAL, code == THROUGHPUT)


@lean
def _price(tables: CutTables, passes: PassTables, layouts: Layouts, row: int, code: int) -> None:
    """Compute the times and the value of a layout that fits."""
    set_times(tables, layouts, row, code == TRAINING)
    price(passes, layouts, row, code == THROUGHPUT)


# Invariants before each try: the present layout fits and its value is known; the lane's row holds the best layout of
# the lane, and BEST the best of all. The limit is the present value and a random amount that shrinks with the
# temperature. A change is kept if its value is below the limit; a bound that is not below it saves the simulation.
@lean
def _anneal(
    tables: CutTables,
    passes: PassTables,
    layouts: Layouts,
    rng: np.random.Generator,
    lane: int,
    first: int,
    end: int,
    total: int,
    code: int,
    counts: Int64Array,
) -> None:
    """Improve a lane by tries from the first to before the end, out of a total over which the temperature falls."""
    if first == 0:
        copy(layouts, lane, NOW)
    for k in range(first, end):
        counts[TRIED] += 1
        kind = draw(rng, KINDS)
        place, back = draw_place(layouts, NOW, kind, rng), rng.random() < 0.5
        if not change(tables, layouts, NOW, TRIAL, kind, place, back, rng) or not fits(tables, layouts, TRIAL):
            continue
        counts[LEGAL] += 1
        set_times(tables, layouts, TRIAL, code == TRAINING)
        limit = layouts.value[NOW] * (1.0 - HOT * (COLD / HOT) ** (k / total) * np.log(1.0 - rng.random()))
        if least(layouts, TRIAL, len(tables.capacity), limit) >= limit:
            continue
        counts[PRICED] += 1
        if price(passes, layouts, TRIAL, code == THROUGHPUT) >= limit:
            continue
        counts[KEPT] += 1
        copy(layouts, TRIAL, NOW)
        if layouts.value[NOW] < layouts.value[lane]:
            copy(layouts, NOW, lane)
        if layouts.value[NOW] < layouts.value[BEST]:
            copy(layouts, NOW, BEST)
