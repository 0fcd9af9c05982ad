"""Search by trees: the strategies of a random tree of nodes are chosen anew, exactly, and kept if memory suffices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._kernels.draws import Random
from hetgym._kernels.jit import jit
from hetgym._kernels.records import record
from hetgym._types import FloatArray, Int64Array
from hetgym.sharding.solvers.forests import Forest, grow, optimise
from hetgym.sharding.solvers.model import Model, add_usage, cost_of

SHARES = np.array([1.0, 0.0, 0.5, 0.0, 1.5, 0.0])
"""Shares of the prices at which trees are chosen, in turn: without prices, what is chosen is never dearer."""

NODES = 40  # Most nodes of a tree

COST, NOW, TRIED = range(3)  # Figures of a search: cost of the best choice and of the current one, trees so far


@record
class Exchange(NamedTuple):
    """State of a search."""

    choice: Int64Array  # [n] current choice, which fits
    tried: Int64Array  # [n] the same with the changes that are tried
    used: Int64Array  # [t + 1] memory of the current choice
    change: Int64Array  # [t + 1] 0 throughout, between trials
    worth: FloatArray  # [s] what the memory of each strategy is worth
    theta: FloatArray  # [s] scratch
    best: Int64Array  # [n]
    figures: FloatArray  # [3] see COST and those after it


def new_exchange(model: Model, choice: Int64Array, worth: FloatArray) -> Exchange:
    """A search from a choice that fits."""
    used = np.zeros(len(model.slack) + 1, np.int64)
    add_usage(model, choice, used)
    cost = cost_of(model, choice)
    return Exchange(
        choice.copy(), choice.copy(), used, np.zeros_like(used), worth, np.zeros_like(worth), choice.copy(),
        np.array([cost, cost, 0.0]),
    )  # fmt: skip


@jit
def search(model: Model, forest: Forest, state: Exchange, trials: int, draws: Random) -> int:
    """Try a number of trees; returns how many changes were kept."""
    kept = 0
    figures, choice, tried = state.figures, state.choice, state.tried
    n = len(model.offsets) - 1
    for _ in range(trials):
        share = SHARES[int(figures[TRIED]) % len(SHARES)]
        figures[TRIED] += 1.0
        root = int(draws.random() * n)
        size = grow(model, forest, root, NODES, draws)
        for k in range(size):
            v = forest.nodes[k]
            for s in range(model.offsets[v], model.offsets[v + 1]):
                state.theta[s] = model.costs[s] + share * state.worth[s]
        optimise(model, forest, state.theta, tried)
        difference, changed = _difference(model, forest, choice, tried)
        if changed and (share > 0.0 or difference < 0.0) and _book(model, forest, state):
            kept += 1
            figures[NOW] += difference
            for k in range(size):
                choice[forest.nodes[k]] = tried[forest.nodes[k]]
            if figures[NOW] < figures[COST] - 1e-9 * abs(figures[COST]):
                figures[COST] = figures[NOW]
                for v in range(n):
                    state.best[v] = choice[v]
        else:
            for k in range(size):
                tried[forest.nodes[k]] = choice[forest.nodes[k]]
    return kept


@jit
def _difference(model: Model, forest: Forest, choice: Int64Array, tried: Int64Array) -> tuple[float, bool]:
    """By how much the changes of a forest's nodes raise the cost, and whether there are any."""
    total, changed = 0.0, False
    for k in range(forest.figures[1]):
        v = forest.nodes[k]
        if tried[v] == choice[v]:
            continue
        changed = True
        low, width = model.offsets[v], model.offsets[v + 1] - model.offsets[v]
        total += model.costs[low + tried[v]] - model.costs[low + choice[v]]
        for e in range(model.first[v], model.first[v + 1]):
            w = model.ends[e, 1]
            q = model.offsets[w + 1] - model.offsets[w]
            at = model.table_offsets[e]
            total += model.tables[at + tried[v] * q + tried[w]] - model.tables[at + choice[v] * q + choice[w]]
        for i in range(model.second_offsets[v], model.second_offsets[v + 1]):
            e = model.second[i]
            w = model.ends[e, 0]
            if tried[w] == choice[w]:  # else the edge is counted from its first node
                at = model.table_offsets[e] + choice[w] * width
                total += model.tables[at + tried[v]] - model.tables[at + choice[v]]
    return total, changed


@jit
def _book(model: Model, forest: Forest, state: Exchange) -> bool:
    """Take the memory of the changes if it suffices; false if it does not."""
    used, change, slack = state.used, state.change, model.slack
    low, high = len(slack), 0
    for k in range(forest.figures[1]):
        v = forest.nodes[k]
        if state.tried[v] == state.choice[v]:
            continue
        for j in range(model.row_offsets[v], model.row_offsets[v + 1]):
            at = model.usage_offsets[j]
            more = model.usages[at + state.tried[v]] - model.usages[at + state.choice[v]]
            if more != 0:
                change[model.begins[j]] += more
                change[model.ends_of_rows[j]] -= more
                low, high = min(low, model.begins[j]), max(high, model.ends_of_rows[j])
    running, suffices = 0, True
    for t in range(low, high):
        running += change[t]
        if running > 0 and used[t] + running > slack[t]:
            suffices = False
            break
    running = 0
    for t in range(low, high + 1):
        if suffices:
            running += change[t]
            if t < high:
                used[t] += running
        change[t] = 0
    return suffices
