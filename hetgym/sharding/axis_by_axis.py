"""The plan that is solved for one axis of the mesh after the other (PartIR, arXiv 2401.11202)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hetgym._types import Int64Array
from hetgym.errors import InvalidSharding, ProblemError
from hetgym.sharding.problem import ShardingProblem
from hetgym.sharding.rules.indices import REPLICATED
from hetgym.sharding.sharded_graph import ShardedGraph
from hetgym.sharding.solvers.solving import solve

STEPS = 300
"""Steps of the solver for each axis of the mesh."""


def axis_by_axis(sharded: ShardedGraph, steps: int = STEPS, seed: int = 0) -> Int64Array:
    """The plan that is solved for one axis of the mesh after the other, outermost first (PartIR, arXiv 2401.11202).

    The choice on an axis is fixed before the next one is tried; later axes replicate until then. Only the last axis is
    solved under the limit of memory.

    Args:
        sharded: the graph.
        steps: steps of the solver for each axis.
        seed: of its random numbers.

    Returns:
        [n] strategy of each node; it need not fit the memory.
    """
    problem, count = sharded.problem, len(sharded.mesh.shape)
    allowed = [np.arange(width) for width in problem.widths.tolist()]
    for axis in range(count):
        rows = [_until(sharded, v, kept, axis) for v, kept in enumerate(allowed)]
        limits = [problem.limit, None] if axis == count - 1 and problem.limit is not None else [None]
        choice = _solved(problem, rows, limits, steps, seed)
        picked = [row[s] for row, s in zip(rows, choice.tolist(), strict=True)]
        allowed = [_alike(sharded, v, int(s), allowed[v], axis) for v, s in enumerate(picked)]
    return np.array(picked, np.int64)


def _leader(sharded: ShardedGraph, v: int) -> int:
    """The node whose list a node shares at last."""
    while sharded.nodes[v].follows >= 0:
        v = sharded.nodes[v].follows
    return v


def _until(sharded: ShardedGraph, v: int, kept: Int64Array, axis: int) -> Int64Array:
    """The strategies among some that replicate on all axes behind one."""
    found = sharded.nodes[_leader(sharded, v)].strategies
    return np.array([s for s in kept.tolist() if all(o.label == REPLICATED for o in found[s].options[axis + 1 :])])


def _alike(sharded: ShardedGraph, v: int, picked: int, kept: Int64Array, axis: int) -> Int64Array:
    """The strategies among some that have the option of the picked one on an axis."""
    found = sharded.nodes[_leader(sharded, v)].strategies
    return np.array([s for s in kept.tolist() if found[s].options[axis] == found[picked].options[axis]])


def _solved(
    problem: ShardingProblem, rows: Sequence[Int64Array], limits: Sequence[int | None], steps: int, seed: int
) -> Int64Array:
    """A choice among some strategies of each node, under the first limit that one fits."""
    for limit in limits:
        part = ShardingProblem.from_lists(
            [problem.costs[problem.offsets[v] + row] for v, row in enumerate(rows)],
            [problem.usages[problem.offsets[v] + row] for v, row in enumerate(rows)],
            problem.intervals.tolist(),
            problem.ends.tolist(),
            list(_tables(problem, rows)),
            limit=limit,
            name=problem.name,
            unit=problem.unit,
        )
        try:
            return solve(part, solver="trees", steps=steps, seed=seed).choice
        except (InvalidSharding, ProblemError):  # nothing fits, or nothing was found
            if limit is None:
                raise
    raise ProblemError(f"sharding problem {problem.name!r}: no limits to try")


def _tables(problem: ShardingProblem, rows: Sequence[Int64Array]) -> Iterator[Int64Array]:
    """The parts of all tables that some strategies of each node leave."""
    for e, (u, v) in enumerate(problem.ends.tolist()):
        table = problem.tables[problem.table_offsets[e] : problem.table_offsets[e + 1]]
        yield table.reshape(problem.widths[u], problem.widths[v])[np.ix_(rows[u], rows[v])]
