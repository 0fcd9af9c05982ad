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
from hetgym.sharding.solvers.exchange import new_exchange, repair, search
from hetgym.sharding.solvers.incumbent import Incumbent
from hetgym.sharding.solvers.model import priced
from hetgym.sharding.solvers.sweeps import backward, forward

WINDOW, GROWTH = 40, 1e-4  # The dual is left once its bound has grown by less than this share in that many steps
LONGEST = 120  # Most steps of the dual before the first trees, unless it has found nothing that fits
IDLE = 4  # Numbers of trees without a better choice after which a start is given up
SWEEPS = 3  # Sweeps of messages under erroneous costs
ERRORS = ((True, False), (False, True), (True, True))  # Whether prices and costs have errors, in turn
LEAST_PRICE, MOST_PRICE, SPREAD = 0.3, 2.0, 0.5  # Factor of all prices, and deviation of the logarithm of each
LEAST_ERROR, MOST_ERROR = 0.01, 3.0  # Scale of errors of costs, over the mean cost of a node in the bound


def trees(incumbent: Incumbent, rng: np.random.Generator) -> Iterator[None]:
    """Search without end."""
    dual = Dual(incumbent, rng, "trees")
    bounds: list[float] = []
    while incumbent.choice is None or len(bounds) < WINDOW or (len(bounds) < LONGEST and _grows(bounds)):
        dual.advance()
        bounds.append(float(dual.ascent.figures[BOUND]))
        yield
    start: Int64Array | None = incumbent.choice
    errors = 0
    while True:
        if start is not None:
            yield from _improve(dual, start, rng)
        dual.advance()  # better prices, and a better bound
        start = _start(dual, *ERRORS[errors % len(ERRORS)], rng)
        errors += 1
        yield


def _grows(bounds: list[float]) -> bool:
    return bounds[-1] - bounds[-WINDOW] > GROWTH * abs(bounds[-1])


def _improve(dual: Dual, start: Int64Array, rng: np.random.Generator) -> Iterator[None]:
    """Search from a start until trees no longer help."""
    worth = _priced(dual, dual.ascent.best_prices) - dual.model.costs
    state = new_exchange(dual.model, start, worth)
    trials = 100 + len(start) // 4
    idle = 0
    while idle < IDLE:
        before = state.figures[0]
        search(dual.model, dual.forest, state, trials, rng)
        idle = 0 if state.figures[0] < before else idle + 1
        if idle == 0:
            dual.take(state.best)
        yield


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
