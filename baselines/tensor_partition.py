"""Greedy tensor partition: split what the makespan waits for, as long as that pays."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from hetgym.costs import CostModel, cost_model
from hetgym.errors import ConfigError, GraphError
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.transforms import AXES, split
from hetgym.planning.critical import critical_chain
from hetgym.planning.graph_plan import GraphPlan
from hetgym.planning.registry import get
from hetgym.planning.timeline import timed_for
from hetgym.platform import Platform
from hetgym.problem import Problem
from hetgym.search.search import searching
from hetgym.sim import Runtime


def greedy_split(
    graph: DataflowGraph,
    platform: Platform,
    costs: str | CostModel = "auto",
    inner: str = "heft",
    evaluations: int = 300,
    gain: float = 0.01,
    runtime: str | Runtime = "classic",
) -> GraphPlan:
    """Split operators of the realised critical chain while a scheduler gets more than one per cent out of it.

    Never worse than the inner scheduler's plan of the whole graph.

    Candidates are convolutions and products on the chain that take at least one per cent of all time and four times a
    launch and a latency. Of the first that gains anything the best axis, number of pieces and ratios (equal, or by the
    speeds of the fastest devices) is kept; then the chain is looked at anew. It stops when nothing gains, when the
    graph has twice its operators, or after ``evaluations`` evaluations.

    Args:
        graph: the graph, fused or not.
        inner: scheduler of the split graphs, any registered name.
        evaluations: largest number of schedules made.
        gain: least share of the makespan that a split must save.

    Raises:
        UnknownName: no scheduler of that name.
        ConfigError: an option out of range.
    """
    if evaluations < 1 or not 0 <= gain < 1:
        raise ConfigError(f"greedy_split: evaluations is {evaluations} and gain is {gain}; expected 1 or more, 0 to 1")
    scheduler = get(inner)
    model = cost_model(costs)

    def planned(candidate: DataflowGraph) -> GraphPlan:
        problem = Problem.build(candidate, platform, model)
        return GraphPlan(candidate, problem, timed_for(problem, scheduler(problem, runtime), runtime))

    best, left, limit = planned(graph), evaluations - 1, 2 * len(graph)
    improved = True
    with searching() as ended:
        while improved and left > 0 and len(best.graph) < limit:
            improved = False
            for operator in _candidates(best, platform, runtime):
                trials = []
                for trial in _splits(best, operator):
                    if left <= 0 or ended():
                        break
                    left -= 1
                    trials.append(planned(trial))
                found = min(trials, key=lambda plan: plan.makespan, default=best)
                if found.makespan < (1.0 - gain) * best.makespan:
                    best, improved = found, True
                    break
    schedule = replace(best.schedule, scheduler=f"greedy-split+{inner}")
    return replace(best, schedule=schedule)


def _candidates(plan: GraphPlan, platform: Platform, runtime: str | Runtime) -> list[int]:
    """Operators of the critical chain that are worth splitting, first to last: by descending bottom level."""
    problem, d = plan.problem, len(platform)
    if d < 2:
        return []
    latency = float(problem.latency[~np.eye(d, dtype=np.bool_)].mean())
    launch = float(np.mean([device.launch_overhead for device in platform]))
    fastest = problem.cost.min(axis=1)
    least = max(4.0 * (latency + launch), 0.01 * float(fastest.sum()))
    chain = critical_chain(problem, plan.schedule, runtime)
    families = [op.spec.family for op in plan.graph.operators]
    return [i for i in chain.tolist() if families[i] in ("conv", "matmul") and fastest[i] >= least]


def _splits(plan: GraphPlan, operator: int) -> Iterator[DataflowGraph]:
    """All graphs with the operator split one way."""
    cost = plan.problem.cost[operator]
    devices = np.argsort(cost, kind="stable")[: int(np.isfinite(cost).sum())]
    for axis in AXES:
        for ways in range(2, len(devices) + 1):
            speeds = tuple((1.0 / np.maximum(cost[devices[:ways]], 1e-30)).tolist())
            choices: list[int | Sequence[float]] = [ways, speeds]
            for parts in choices:
                try:
                    yield split(plan.graph, operator, axis, parts)
                except GraphError:
                    continue  # no such axis, or a part would be empty
