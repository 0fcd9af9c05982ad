"""The solver `trees`: the dual first, for prices and a start, then exact choices on random trees of nodes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hetgym._types import FloatArray
from hetgym.sharding.solvers.ascent import BOUND
from hetgym.sharding.solvers.dual import Dual
from hetgym.sharding.solvers.exchange import new_exchange, search
from hetgym.sharding.solvers.incumbent import Incumbent
from hetgym.sharding.solvers.model import priced

STALLED = 40  # Steps of the dual without a better bound after which it is left
GROWTH = 1e-5  # Least growth of a bound that counts
TRIALS = 500  # Trees between two looks at the clock
PATIENCE = 60  # Such numbers of trees without a better choice after which prices are drawn anew


def trees(incumbent: Incumbent, rng: np.random.Generator) -> Iterator[None]:
    """Search without end."""
    ascent = Dual(incumbent, rng, "trees")
    seen, since = -np.inf, 0
    while since < STALLED or incumbent.choice is None:
        ascent.advance()
        bound = ascent.ascent.figures[BOUND]
        since = 0 if bound > seen + GROWTH * abs(bound) else since + 1
        seen = max(seen, bound) if since == 0 else seen
        yield
    while True:
        assert incumbent.choice is not None
        state = new_exchange(ascent.model, incumbent.choice, _worth(ascent, rng))
        idle = 0
        while idle < PATIENCE:
            before = state.figures[0]
            search(ascent.model, ascent.forest, state, TRIALS, rng, 0.0, 40)
            better = state.figures[0] < before and incumbent.offer(state.best, "trees")
            idle = 0 if better else idle + 1
            yield


def _worth(ascent: Dual, rng: np.random.Generator) -> FloatArray:
    """[s] what the memory of each strategy is worth at the best prices."""
    sums = np.concatenate([[0.0], np.cumsum(ascent.ascent.best_prices)])
    worth = np.zeros(len(ascent.model.costs))
    priced(ascent.model, sums, 1.0, worth)
    worth -= ascent.model.costs
    return worth
