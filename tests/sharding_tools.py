"""Random sharding problems, and their optima by enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import strategies as st

from hetgym.errors import InvalidSharding
from hetgym.sharding import INFINITE, ShardingProblem, validate

EXAMPLE = ShardingProblem.from_lists(
    [[15], [55, 65], [25, 45, 35], [85, 75], [95]],
    [[10], [25, 25], [15, 20, 15], [10, 10], [15]],
    [[30, 70], [40, 70], [50, 120], [110, 140], [110, 150]],
    [[0, 1], [0, 2], [1, 3], [2, 4], [3, 4]],
    [[30, 40], [50, 10, 40], [90, 10, 20, 80], [60, 20, 30], [70, 60]],
    limit=50,
    name="example",
)
"""example.json of the contest (google/iopddl, Apache-2.0)."""


@st.composite
def problems(draw: st.DrawFn, nodes: int = 6, width: int = 3) -> ShardingProblem:
    """Problems with followers, infinite entries, several edges between two nodes, and limits that bind or not."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = int(rng.integers(1, nodes + 1))
    widths = rng.integers(1, width + 1, n)
    share, follow = rng.random() * 0.5, rng.random() * 0.7
    ends, tables = [], []
    for _ in range(int(rng.integers(0, 2 * n + 1))) if n > 1 else ():
        u, v = rng.choice(n, 2, replace=False)
        table = rng.integers(0, 12, (widths[u], widths[v]))
        if widths[u] == widths[v] and rng.random() < follow:
            table[~np.eye(widths[u], dtype=bool)[rng.permutation(widths[u])]] = INFINITE
        else:
            table[rng.random(table.shape) < share] = INFINITE
        ends.append([u, v])
        tables.append(table)
    costs = [np.where(rng.random(w) < 0.1, INFINITE, rng.integers(0, 12, w)) for w in widths]
    intervals = np.sort(rng.integers(0, 8, (n, 2)), axis=1)
    usages = [rng.integers(0, 9, w) for w in widths]
    limit = int(rng.integers(0, 9 * n + 1)) if rng.random() < 0.8 else None
    return ShardingProblem.from_lists(costs, usages, intervals, ends, tables, limit=limit)


def optimum(problem: ShardingProblem) -> int | None:
    """The least cost of all feasible choices; None if there are none."""
    best = None
    for choice in product(*(range(w) for w in problem.widths.tolist())):
        try:
            cost = validate(problem, choice)
        except InvalidSharding:
            continue
        best = cost if best is None else min(best, cost)
    return best
