"""Ascent of the dual: a price for memory at each time, raised where memory runs out and lowered where some is left.

The dual of a sharding problem under prices is the bound of TRW-S on the priced costs, less what the slack is worth.
After every sweep the prices take a step of Polyak's length towards the best known cost, in an averaged direction. When
steps no longer help, the ascent returns to the best prices and shortens its steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._kernels.jit import jit
from hetgym._kernels.records import record
from hetgym._types import FloatArray, Int64Array
from hetgym.sharding.solvers.model import HIGH, Model, add_usage, cost_of, fits, priced
from hetgym.sharding.solvers.sweeps import backward, forward

BOUND, BEST, LENGTH, STALLED, SEEN = range(5)
"""Figures of an ascent: the best bound, the cost of the best choice, length of steps, steps since the bound grew, and
the bound that growth is measured from."""

PATIENCE = 15  # Steps without a better bound after which the ascent returns
DROP = 0.1  # Share of the bound that may be lost before it returns
SHORTER, MUCH_SHORTER = 0.7, 0.5  # Factors of the length of steps after either
LONGEST, SHORTEST = 1.0, 1e-6  # Length of the first steps; from below the shortest, steps start again at RESTART
RESTART = 0.02
AVERAGED = 0.7  # Weight of earlier directions


@record
class Ascent(NamedTuple):
    """State of an ascent."""

    prices: FloatArray  # [t] per unit of memory
    best_prices: FloatArray  # [t]
    direction: FloatArray  # [t]
    sums: FloatArray  # [t + 1] sums of prices before each time
    theta: FloatArray  # [s] priced costs
    messages: FloatArray
    used: Int64Array  # [t + 1] memory of the latest choice
    choice: Int64Array  # [n] latest choice
    best: Int64Array  # [n] best choice that fits
    figures: FloatArray  # see BOUND and those after it
    scratch: FloatArray  # [2 * widest node]


def new_ascent(model: Model) -> Ascent:
    """An ascent from prices of 0."""
    times, nodes = len(model.slack), len(model.offsets) - 1
    widest = int(np.diff(model.offsets).max(initial=1))
    figures = np.zeros(5)
    figures[[BOUND, BEST, LENGTH, SEEN]] = -np.inf, np.inf, LONGEST, -np.inf
    return Ascent(
        np.zeros(times), np.zeros(times), np.zeros(times), np.zeros(times + 1), np.zeros(len(model.costs)),
        np.zeros(model.sides[-1]), np.zeros(times + 1, np.int64), np.zeros(nodes, np.int64),
        np.zeros(nodes, np.int64), figures, np.zeros(2 * widest),
    )  # fmt: skip


@jit
def ascend(model: Model, ascent: Ascent, sweeps: int) -> None:
    """Make a number of double sweeps, each followed by a step of the prices."""
    figures, prices, sums = ascent.figures, ascent.prices, ascent.sums
    times = len(prices)
    for _ in range(sweeps):
        for t in range(times):
            sums[t + 1] = sums[t] + prices[t]
        priced(model, sums, 1.0, ascent.theta)
        forward(model, ascent.theta, ascent.messages, ascent.choice, ascent.scratch)
        bound = backward(model, ascent.theta, ascent.messages, ascent.scratch)
        for t in range(times):
            bound -= prices[t] * model.slack[t]
        add_usage(model, ascent.choice, ascent.used)
        if fits(ascent.used, model.slack):
            cost = cost_of(model, ascent.choice)
            if cost < figures[BEST] and cost < HIGH:
                figures[BEST] = cost
                ascent.best[:] = ascent.choice
        if times == 0:
            figures[BOUND] = max(figures[BOUND], bound)
            continue
        _step(model, ascent, bound)


@jit
def _step(model: Model, ascent: Ascent, bound: float) -> None:
    figures, prices, direction = ascent.figures, ascent.prices, ascent.direction
    times = len(prices)
    top = max(abs(figures[BOUND]), 1.0)
    if bound > figures[BOUND]:
        if bound > figures[SEEN] + 1e-5 * top:
            figures[STALLED] = 0
            figures[SEEN] = bound
        else:
            figures[STALLED] += 1
        figures[BOUND] = bound
        ascent.best_prices[:] = prices
    else:
        figures[STALLED] += 1
    lost = bound < figures[BOUND] - DROP * top
    if lost or figures[STALLED] >= PATIENCE:
        prices[:] = ascent.best_prices
        direction[:] = 0.0
        figures[LENGTH] *= MUCH_SHORTER if lost else SHORTER
        if figures[LENGTH] < SHORTEST:
            figures[LENGTH] = RESTART
        figures[STALLED] = 0
        figures[SEEN] = figures[BOUND]
        return
    square = 0.0
    for t in range(times):
        excess = float(ascent.used[t] - model.slack[t])
        if prices[t] == 0.0 and excess < 0.0:
            excess = 0.0
        direction[t] = AVERAGED * direction[t] + (1.0 - AVERAGED) * excess
        square += direction[t] * direction[t]
    if square == 0.0:
        return
    goal = figures[BEST] if figures[BEST] < HIGH else bound + 0.05 * max(abs(bound), 1.0)
    length = figures[LENGTH] * max(goal - bound, 1e-6 * abs(goal)) / square
    for t in range(times):
        prices[t] = max(0.0, prices[t] + length * direction[t])
