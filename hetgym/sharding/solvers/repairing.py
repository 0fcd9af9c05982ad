"""Repair: a choice that takes too much memory is made anew, on random forests, until it fits."""

from __future__ import annotations

from hetgym._kernels.draws import Random
from hetgym._kernels.jit import jit
from hetgym._types import FloatArray, Int64Array
from hetgym.sharding.solvers.forests import Forest, optimise, spread
from hetgym.sharding.solvers.model import HIGH, Model, add_usage, cost_of, fits


@jit
def repair(
    model: Model,
    forest: Forest,
    choice: Int64Array,
    theta: FloatArray,
    sums: FloatArray,
    used: Int64Array,
    order: Int64Array,
    rounds: int,
    draws: Random,
) -> bool:
    """Choose anew, on random forests, at prices that rise where memory runs out, until a choice fits.

    Args:
        choice: [n] the start, and the result.
        theta: [s] costs at the prices of the start, which are changed.
        sums, used: [t + 1] scratch.
        order: [n] the nodes.

    Returns:
        True if the choice fits and no pair is forbidden.
    """
    times = len(model.slack)
    typical = 0.0
    for v in range(len(model.offsets) - 1):
        low, high = model.offsets[v], model.offsets[v + 1]
        least, most = theta[low], theta[low]
        for s in range(low + 1, high):
            least, most = min(least, theta[s]), max(most, theta[s])
        typical += most - least
    for trial in range(rounds + 1):
        add_usage(model, choice, used)
        if fits(used, model.slack):
            return cost_of(model, choice) < HIGH
        if trial == rounds:
            break
        excess = 0.0
        for t in range(times):
            excess += max(0, used[t] - model.slack[t])
        # Prices that make all of the excess as dear as the nodes are in all.
        rate = 0.05 * (trial + 1.0) * typical / excess
        sums[0] = 0.0
        for t in range(times):
            over = max(0, used[t] - model.slack[t])
            sums[t + 1] = sums[t] + (rate / excess * over if over > 0 else 0.0)
        for v in range(len(model.offsets) - 1):
            low, width = model.offsets[v], model.offsets[v + 1] - model.offsets[v]
            for j in range(model.row_offsets[v], model.row_offsets[v + 1]):
                price = sums[model.ends_of_rows[j]] - sums[model.begins[j]]
                if price > 0.0:
                    for s in range(width):
                        theta[low + s] += price * model.usages[model.usage_offsets[j] + s]
        for k in range(len(order) - 1, 0, -1):
            pick = int(draws.random() * (k + 1))
            order[k], order[pick] = order[pick], order[k]
        spread(model, forest, order)
        optimise(model, forest, theta, choice)
    return False
