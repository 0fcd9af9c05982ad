"""Reductions keep an optimum with its memory, and what is left leads back to the whole."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from sharding_tools import EXAMPLE, optimum, problems

from hetgym.errors import ProblemError
from hetgym.sharding import INFINITE, ShardingProblem, evaluate, reduce
from hetgym.sharding.reduction import Reduced


@examples(400)
@given(problem=problems())
def test_an_optimum_stays(problem: ShardingProblem) -> None:
    best = optimum(problem)
    try:
        reduced = reduce(problem)
    except ProblemError as error:
        assert "every choice has infinite entries" in str(error)
        assert best is None
        return
    costs = []
    for choice in product(*map(range, np.diff(reduced.core.offsets).tolist())):
        lifted = evaluate(problem, reduced.lift(choice))
        cost = _cost(reduced, choice)
        assert lifted.infinite == 0 if cost is not None else lifted.infinite > 0
        assert lifted.fits == _fits(reduced, choice)
        if cost is not None:
            assert lifted.cost == cost
        if lifted.feasible:
            costs.append(lifted.cost)
    assert min(costs, default=None) == best


def _cost(reduced: Reduced, choice: tuple[int, ...]) -> int | None:
    """Cost of a choice by the arrays that are left; None if a pair is forbidden."""
    core = reduced.core
    terms = [core.costs[core.offsets[v] + s] for v, s in enumerate(choice)]
    for e, (u, v) in enumerate(core.ends.tolist()):
        width = core.offsets[v + 1] - core.offsets[v]
        terms.append(core.tables[core.table_offsets[e] + choice[u] * width + choice[v]])
    total = sum(map(int, terms))
    return core.constant + total if total < 1 << 50 else None


def _fits(reduced: Reduced, choice: tuple[int, ...]) -> bool:
    """Whether the rows of memory that are left stay within the slack."""
    memory = reduced.memory
    used = np.zeros(memory.times, np.int64)
    for v, strategy in enumerate(choice):
        for j in range(memory.offsets[v], memory.offsets[v + 1]):
            used[memory.begins[j] : memory.ends[j]] += memory.usages[memory.usage_offsets[j] + strategy]
    return bool((used <= memory.slack).all())


def test_followers_merge_and_keep_their_intervals() -> None:
    swap = [[INFINITE, 0], [0, INFINITE]]
    problem = ShardingProblem.from_lists(
        [[0, 3], [0, 0], [1, 1]], [[1, 5], [7, 2], [1, 9]], [[0, 2], [4, 6], [1, 5]],
        [[1, 0], [1, 2]], [swap, [[0, 5], [6, 0]]], limit=15,
    )  # fmt: skip
    reduced = reduce(problem)
    assert len(reduced.core.offsets) - 1 == 2
    assert reduced.lift([0, 0]).tolist() == [0, 1, 0]
    assert reduced.lift([1, 1]).tolist() == [1, 0, 1]
    memory = reduced.memory
    # Only at time 4 can the limit be exceeded: node 1 and node 2 take 7 + 9. Both take at least 2 + 1.
    assert memory.slack.tolist() == [12]
    assert memory.usages.tolist() == [0, 5, 0, 8]


def test_the_example_reduces_to_its_optimum_or_less() -> None:
    reduced = reduce(EXAMPLE)
    assert len(reduced.core.offsets) - 1 <= 3
    assert reduced.steps[0].nodes == 5


def test_costs_that_add_up_to_too_much_are_refused() -> None:
    problem = ShardingProblem.from_lists([[2**58]] * 2, [[0]] * 2, [[0, 1]] * 2)
    with pytest.raises(ProblemError, match=r"at most 2\^59 are supported"):
        reduce(problem)


def test_without_a_limit_memory_never_matters() -> None:
    problem = ShardingProblem.from_lists([[1, 0]], [[0, 99]], [[0, 5]])
    assert reduce(problem).lift([]).tolist() == [1]
