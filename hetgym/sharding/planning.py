"""Planning of shardings: a graph on a mesh, solved, beside the plans that people write by hand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hetgym.costs import CostModel
from hetgym.errors import ConfigError, InvalidSharding
from hetgym.graph.dataflow import DataflowGraph
from hetgym.sharding.building import build
from hetgym.sharding.classical import data_parallel, megatron
from hetgym.sharding.evaluation import ShardingReport, evaluate
from hetgym.sharding.mesh import Mesh
from hetgym.sharding.sharded_graph import ShardedGraph
from hetgym.sharding.solvers.incumbent import CLOSE
from hetgym.sharding.solvers.solving import ShardingPlan, solve

CLASSICAL = {"data-parallel": data_parallel, "megatron": megatron}
"""Name -> plan of a graph on a mesh that needs no search."""

FEWEST = 2  # Fewest ranks of a mesh that :func:`shapes` gives


@dataclass(frozen=True, eq=False)
class ShardedPlan:
    """The best sharding of a graph on a mesh.

    Attributes:
        sharded: the graph on the mesh.
        report: cost [ns] and memory of a rank [byte] of the plan.
        solver: the solver that found it, or the name of a classical plan that no solver undercut.
        plan: what the solver found, with its bound; None if it found nothing that fits.
        classical: name -> report of each classical plan, whether it fits or not.
    """

    sharded: ShardedGraph
    report: ShardingReport
    solver: str
    plan: ShardingPlan | None
    classical: dict[str, ShardingReport]

    @property
    def seconds(self) -> float:
        """Time of the graph [s]."""
        return self.report.cost * 1e-9

    @property
    def optimal(self) -> bool:
        """True if no plan costs less, to within the rounding of floating point."""
        bound = None if self.plan is None else self.plan.bound
        return bound is not None and self.report.cost - bound <= CLOSE * self.report.cost

    @cached_property
    def parts(self) -> dict[str, float]:
        """Times of ``compute``, with the collectives inside operators; of ``resharding``; and of ``reduction`` [s].

        Reductions are those reshardings that end a partial sum.
        """
        problem, choice, nodes = self.sharded.problem, self.report.choice, self.sharded.nodes
        first, second = problem.ends.T
        at = problem.table_offsets[:-1] + choice[first] * problem.widths[second] + choice[second]
        reduced = []
        for u, v, operand, result in self.sharded.edges:
            if result < 0:
                reduced.append(False)
                continue
            source = nodes[u].strategies[choice[u]].outputs[result]
            taker = nodes[v].strategies[choice[v]]
            target = (taker.operands or taker.outputs)[operand]  # layouts and results have no operands
            reduced.append(any(s.kind == "P" and t.kind != "P" for s, t in zip(source, target, strict=True)))
        ends = np.array(reduced, np.bool_)
        return {
            "compute": self.report.node_cost * 1e-9,
            "resharding": int(problem.tables[at][~ends].sum()) * 1e-9,
            "reduction": int(problem.tables[at][ends].sum()) * 1e-9,
        }

    def owners(self, most: int = 5) -> list[tuple[str, str, int]]:
        """Nodes that take most memory at the peak: kind, name and bytes of each."""
        problem = self.sharded.problem
        low, high = problem.intervals.T
        live = (low <= self.report.peak_time) & (self.report.peak_time < high)
        usage = np.where(live, problem.usages[problem.offsets[:-1] + self.report.choice], 0)
        found = [v for v in np.argsort(-usage, kind="stable").tolist()[:most] if usage[v]]
        return [(self.sharded.nodes[v].kind, self.sharded.nodes[v].name, int(usage[v])) for v in found]


def plan_sharding(
    graph: DataflowGraph,
    mesh: Mesh,
    *,
    optimizer: str | None = None,
    memory: float | None = None,
    budget: str | float = "10s",
    seed: int = 0,
    solver: str = "auto",
    costs: str | CostModel = "auto",
    follow: bool = True,
) -> ShardedPlan:
    """Choose how a mesh runs every operator of a graph.

    Args:
        graph, mesh, optimizer, memory, costs, follow: see :func:`hetgym.sharding.build`.
        budget, seed, solver: see :func:`hetgym.sharding.solve`.

    Returns:
        A plan that costs no more than those of :data:`CLASSICAL` that fit.

    Raises:
        InvalidSharding: no plan that fits was found.
        ProblemError: no plan fits.
        HetgymError: others as for both functions.
    """
    sharded = build(graph, mesh, costs, optimizer=optimizer, memory=memory, follow=follow)
    classical = {name: evaluate(sharded.problem, make(sharded)) for name, make in CLASSICAL.items()}
    usable = {name: report for name, report in classical.items() if report.feasible}
    try:
        plan = solve(
            sharded.problem, budget, solver=solver, seed=seed, starts=[report.choice for report in usable.values()]
        )
    except InvalidSharding:
        if not usable:
            raise
        plan = None
    best = min(usable, key=lambda name: usable[name].cost, default=None)
    if best is not None and (plan is None or usable[best].cost <= plan.cost):
        return ShardedPlan(sharded, usable[best], best, plan, classical)
    assert plan is not None
    return ShardedPlan(sharded, plan.report, plan.solver, plan, classical)


def shapes(ranks: int) -> list[tuple[int, ...]]:
    """Shapes of all meshes with a number of ranks: one axis, or two of at least two ranks each.

    Raises:
        ConfigError: fewer than two ranks.

    >>> shapes(8)
    [(8,), (2, 4), (4, 2)]
    """
    if ranks < FEWEST:
        raise ConfigError(f"a mesh of {ranks} ranks has nothing to shard; give at least {FEWEST}")
    return [(ranks,), *((k, ranks // k) for k in range(2, ranks // 2 + 1) if ranks % k == 0)]
