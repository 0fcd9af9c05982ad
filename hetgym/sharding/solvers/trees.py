"""The solver `trees`: exact choices on random trees of nodes, from many starts that the dual gives.

Good choices differ in most nodes at once, such as in the axis that carries the batch, so no tree leads from one to the
other. A start is what message passing chooses when costs and prices carry random errors: where the dual leaves a choice
open, starts differ.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hetgym._types import FloatArray, Int64Array
from hetgym.sharding.solvers.ascent import BOUND
from hetgym.sharding.solvers.dual import REPAIRS, Dual
from hetgym.sharding.solvers.exchange import COST, TRIED, Exchange, new_exchange, search
from hetgym.sharding.solvers.incumbent import Incumbent
from hetgym.sharding.solvers.model import priced
from hetgym.sharding.solvers.repairing import repair
from hetgym.sharding.solvers.sweeps import backward, forward

WINDOW, GROWTH = 600, 1e-4  # The dual is left once its bound has grown by less than this share in that many sweeps
LONGEST = 2000  # Most sweeps before the first trees, unless nothing that fits has been found
SHARE = 0.3  # Share of the time after which the dual is left
ASCENTS = 5  # Steps of the dual before each further start
IDLE = 4  # Numbers of trees without a better choice after which a start is given up
SWEEPS = 3  # Sweeps of messages under erroneous costs
ERRORS = ((True, False), (False, True), (True, True))  # Whether prices and costs have errors, in turn
LEAST_PRICE, MOST_PRICE, SPREAD = 0.3, 2.0, 0.5  # Factor of all prices, and deviation of the logarithm of each
LEAST_ERROR, MOST_ERROR = 0.01, 3.0  # Scale of errors of costs, over the mean cost of a node in the bound


def trees(incumbent: Incumbent, rng: np.random.Generator) -> Iterator[None]:
    """Search without end."""
    dual = Dual(incumbent, rng, "trees")
    seen, since, sweeps = -np.finfo(float).max, 0, 0
    while incumbent.choice is None or (since < WINDOW and sweeps < LONGEST and incumbent.spent < SHARE):
        dual.advance()
        bound, sweeps, since = dual.ascent.figures[BOUND], sweeps + dual.sweeps, since + dual.sweeps
        if bound > seen + GROWTH * abs(seen):
            seen, since = bound, 0
        yield
    dual.take(incumbent.choice)  # it may be that of another solver
    main = _exchange(dual, dual.ascent.best)
    yield from _improve(dual, main)
    behind, errors = 0.0, 0
    while True:
        for _ in range(ASCENTS):  # better prices, and a better bound
            dual.advance()
        start = _start(dual, *ERRORS[errors % len(ERRORS)], rng)
        errors += 1
        yield
        if start is not None:
            other = _exchange(dual, start)
            yield from _improve(dual, other)
            behind += other.figures[TRIED]
            main = other if other.figures[COST] < main.figures[COST] else main
        if incumbent.choice is not None and dual.take(incumbent.choice):  # another solver was better
            main = _exchange(dual, incumbent.choice)
        while behind > 0:  # as many trees for the best choice as for all others
            behind -= _more(dual, main)
            yield


def _exchange(dual: Dual, choice: Int64Array) -> Exchange:
    """A search from a choice, at the best prices."""
    return new_exchange(dual.model, choice, _priced(dual, dual.ascent.best_prices) - dual.model.costs)


def _improve(dual: Dual, state: Exchange) -> Iterator[None]:
    """Search until trees no longer help."""
    idle = 0
    while idle < IDLE:
        before = state.figures[COST]
        _more(dual, state)
        idle = 0 if state.figures[COST] < before else idle + 1
        yield


def _more(dual: Dual, state: Exchange) -> int:
    """Try some trees; returns how many."""
    trials = 100 + dual.order.size // 4
    search(dual.model, dual.forest, state, trials, dual.rng)
    dual.take(state.best)
    return trials


def _start(dual: Dual, prices: bool, costs: bool, rng: np.random.Generator) -> Int64Array | None:
    """A choice that fits, from erroneous prices or costs; None if it cannot be repaired."""
    ascent, model = dual.ascent, dual.model
    price = ascent.best_prices
    if prices:
        price = price * rng.uniform(LEAST_PRICE, MOST_PRICE) * np.exp(rng.normal(0.0, SPREAD, len(price)))
    theta = _priced(dual, price)
    if costs:
        scale = abs(ascent.figures[BOUND]) / dual.order.size
        scale *= LEAST_ERROR * (MOST_ERROR / LEAST_ERROR) ** rng.random()
        theta -= scale * rng.gumbel(size=len(theta))
    messages, choice = ascent.messages.copy(), ascent.choice.copy()
    for _ in range(SWEEPS):
        forward(model, theta, messages, choice, ascent.scratch)
        backward(model, theta, messages, ascent.scratch)
    sums, used = ascent.sums.copy(), ascent.used.copy()
    return choice if repair(model, dual.forest, choice, theta, sums, used, dual.order, REPAIRS, rng) else None


def _priced(dual: Dual, prices: FloatArray) -> FloatArray:
    """[s] costs of strategies with their memory at some prices."""
    theta = np.zeros(len(dual.model.costs))
    priced(dual.model, np.concatenate([[0.0], np.cumsum(prices)]), 1.0, theta)
    return theta
