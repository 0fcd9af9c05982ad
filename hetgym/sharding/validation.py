"""The check that a choice of strategies is legal: own code, in whole numbers, without the evaluator."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hetgym.errors import InvalidSharding, shown
from hetgym.sharding.problem import INFINITE, ShardingProblem


def validate(problem: ShardingProblem, choice: npt.ArrayLike, infinite: bool = False) -> int:
    """Check a choice of strategies, and return its cost.

    The rules are checked in this order: *length*; *index*; *infinite* entries, unless they are allowed; and *usage* of
    memory, which must not be above the limit at any time.

    Args:
        choice: [n] strategy of each node.
        infinite: True to accept infinite entries, which the contest adds as the number 10^18.

    Raises:
        InvalidSharding: the message names the rule and the node, the edge or the time.

    >>> from hetgym.sharding import ShardingProblem
    >>> problem = ShardingProblem.from_lists([[3, 1]], [[1, 5]], [[0, 2]], limit=4)
    >>> validate(problem, [0])
    3
    >>> validate(problem, [1])
    Traceback (most recent call last):
    ...
    hetgym.errors.InvalidSharding: usage: 5 of 4 at time 0
    """
    chosen = np.asarray(choice).tolist()
    if not isinstance(chosen, list) or len(chosen) != problem.nodes:
        count = len(chosen) if isinstance(chosen, list) else shown(chosen)
        raise InvalidSharding(f"length: {count} strategies for {problem.nodes} nodes")
    offsets, costs, usages = problem.offsets.tolist(), problem.costs.tolist(), problem.usages.tolist()
    changes: dict[int, int] = {}
    total = 0
    for v, (strategy, first, end) in enumerate(zip(chosen, offsets, offsets[1:], strict=False)):
        if type(strategy) is not int or not 0 <= strategy < end - first:
            raise InvalidSharding(f"index: node {v} has {end - first} strategies, not a strategy {shown(strategy)}")
    for v, (strategy, (low, high)) in enumerate(zip(chosen, problem.intervals.tolist(), strict=True)):
        cost, usage = costs[offsets[v] + strategy], usages[offsets[v] + strategy]
        if cost == INFINITE and not infinite:
            raise InvalidSharding(f"infinite: the cost of strategy {strategy} of node {v} is infinite")
        total += cost
        if low < high:
            changes[low] = changes.get(low, 0) + usage
            changes[high] = changes.get(high, 0) - usage
    tables, starts = problem.tables, problem.table_offsets.tolist()
    for e, (u, v) in enumerate(problem.ends.tolist()):
        width = offsets[v + 1] - offsets[v]
        cost = int(tables[starts[e] + chosen[u] * width + chosen[v]])
        if cost == INFINITE and not infinite:
            raise InvalidSharding(f"infinite: edge {e} from node {u} to node {v} forbids {chosen[u]} with {chosen[v]}")
        total += cost
    used = 0
    for time in sorted(changes):
        used += changes[time]
        if problem.limit is not None and used > problem.limit:
            raise InvalidSharding(f"usage: {used} of {problem.limit} at time {time}")
    return total
