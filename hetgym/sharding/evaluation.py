"""Cost and memory of a choice of strategies, in exact integers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hetgym._types import Int64Array
from hetgym.errors import InvalidSharding
from hetgym.sharding.problem import INFINITE, ShardingProblem


@dataclass(frozen=True, eq=False)
class ShardingReport:
    """What a choice of strategies costs, and the memory that it takes.

    Attributes:
        cost: sum over nodes and edges, infinite entries included.
        infinite: number of infinite entries among them.
        peak: most memory at any time.
        peak_time: first time at which it is taken.
    """

    problem: ShardingProblem
    choice: Int64Array
    node_cost: int
    edge_cost: int
    infinite: int
    peak: int
    peak_time: int

    @property
    def cost(self) -> int:
        """Sum over nodes and edges, infinite entries included."""
        return self.node_cost + self.edge_cost

    @property
    def fits(self) -> bool:
        """True if no more memory is taken than the limit at any time."""
        return self.problem.limit is None or self.peak <= self.problem.limit

    @property
    def feasible(self) -> bool:
        """True if it fits and has no infinite entries."""
        return self.fits and not self.infinite

    @cached_property
    def profile(self) -> tuple[Int64Array, npt.NDArray[np.int64]]:
        """[t] times at which the usage of memory changes, and [t] usage from then on."""
        return self.problem.profile_order[0], profile_of(self.problem, self.choice)

    def __repr__(self) -> str:
        infinite = f", {self.infinite} infinite entries" if self.infinite else ""
        limit = "" if self.problem.limit is None else f" of {self.problem.limit}"
        return f"ShardingReport(cost {self.cost}{infinite}, peak {self.peak}{limit} at {self.peak_time})"


def evaluate(problem: ShardingProblem, choice: npt.ArrayLike) -> ShardingReport:
    """Cost and memory of a choice.

    Args:
        choice: [n] strategy of each node, counted from 0 in each.

    Raises:
        InvalidSharding: a choice of the wrong length, or a strategy that a node does not have.

    >>> from hetgym.sharding import ShardingProblem
    >>> problem = ShardingProblem.from_lists(
    ...     [[3, 1], [2, 2]], [[1, 5], [1, 2]], [[0, 2], [1, 3]], [[0, 1]], [[[0, 9], [9, 0]]], limit=6
    ... )
    >>> evaluate(problem, [1, 1])
    ShardingReport(cost 3, peak 7 of 6 at 1)
    """
    chosen = as_choice(problem, choice)
    strategies = problem.offsets[:-1] + chosen
    first, second = problem.ends[:, 0], problem.ends[:, 1]
    entries = problem.tables[problem.table_offsets[:-1] + chosen[first] * problem.widths[second] + chosen[second]]
    costs = problem.costs[strategies]
    infinite = int(np.count_nonzero(costs == INFINITE) + np.count_nonzero(entries == INFINITE))
    usage = profile_of(problem, chosen)
    top = int(usage.argmax())
    return ShardingReport(
        problem, chosen, exact_sum(costs), exact_sum(entries), infinite, int(usage[top]),
        int(problem.profile_order[0][top]),
    )  # fmt: skip


def as_choice(problem: ShardingProblem, choice: npt.ArrayLike) -> Int64Array:
    """A caller's choice of strategies as an array; errors as for :func:`evaluate`."""
    chosen = np.asarray(choice)
    if chosen.shape != (problem.nodes,) or chosen.dtype.kind not in "iu":
        raise InvalidSharding(f"a choice has {problem.nodes} whole numbers, not {chosen.dtype} of shape {chosen.shape}")
    chosen = chosen.astype(np.int64)
    wrong = np.flatnonzero((chosen < 0) | (chosen >= problem.widths))
    if wrong.size:
        v = int(wrong[0])
        raise InvalidSharding(f"node {v} has no strategy {chosen[v]}; it has {problem.widths[v]}")
    return chosen


def profile_of(problem: ShardingProblem, choice: Int64Array) -> Int64Array:
    """[t] usage of memory from each time of :attr:`ShardingProblem.profile_order` on; the last is 0."""
    _, order, last = problem.profile_order
    usage = problem.usages[problem.offsets[:-1] + choice]
    if problem.wide:
        usage = usage.astype(object)
    changes = np.concatenate([usage, -usage])[order]
    return np.cumsum(changes)[last]


def exact_sum(values: Int64Array) -> int:
    """The sum of 64-bit numbers, however large.

    >>> exact_sum(np.array([2**62, 2**62, 2**62, 1]))
    13835058055282163713
    """
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())
