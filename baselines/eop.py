"""EOP: split the operators that take most time between two devices, in tuned ratios, one after the other."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from hetgym._sums import summed
from hetgym._types import FloatArray
from hetgym.baselines.fused import tvm_fusion
from hetgym.costs import CostModel, cost_model
from hetgym.errors import ConfigError, GraphError
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.ops import Operator
from hetgym.graph.transforms import pieces, sizes, split
from hetgym.planning.graph_plan import GraphPlan
from hetgym.planning.list_scheduling import place_by_priority
from hetgym.platform import Platform
from hetgym.problem import Problem
from hetgym.search.search import searching
from hetgym.sim import Runtime

STEPS = 16  # Ratios are multiples of one over this

GRANULARITY = {"batch": 1, "output": 8, "spatial": 1}
"""Axes that are tried, and what pieces along them are multiples of; kernels like eight channels."""

KEEP = 0.98  # A split must take less than this share of the better whole operator


@dataclass(frozen=True)
class _Choice:
    """A split: the first piece, ``step`` sixteenths of the axis, goes to the helper."""

    axis: str
    helper: int
    step: int

    @property
    def ratios(self) -> tuple[float, float]:
        return self.step / STEPS, 1.0 - self.step / STEPS


def eop(
    graph: DataflowGraph,
    platform: Platform,
    costs: str | CostModel = "auto",
    share: float = 0.8,
    sweeps: int = 3,
    runtime: str | Runtime = "classic",
) -> GraphPlan:
    """Split the key operators of the fused graph between the best single device and a helper.

    Key operators are the fewest that take ``share`` of the time on the home device. Each that can be split is given the
    axis, helper and ratio of least estimated time: the slower of the helper's piece with its transfers and the home's
    piece, plus the join; a split must save two per cent. Then ratios move by a sixteenth as long as the plan gets
    shorter, at most ``sweeps`` times through all splits. Everything runs in topological order on the home device, so
    parallel branches are not used. Never worse than :func:`~hetgym.baselines.tvm_fusion`.

    Args:
        graph: graph of operators, not yet fused.
        platform: two devices or more.
        share: share of the time that key operators take together, between 0 and 1.
        sweeps: largest number of rounds of tuning.
        runtime: the runtime that will run the plan; estimates of single splits leave contention out.

    Raises:
        ConfigError: an option out of range.

    Source: Xu et al., *EOP*, VEE 2022, as its abstract states it; patterns and estimates are hetgym's.
    """
    if not 0 <= share <= 1 or sweeps < 0:
        raise ConfigError(f"eop: share is {share} and sweeps is {sweeps}; expected 0 to 1, and 0 or more")
    model = cost_model(costs)
    base = tvm_fusion(graph, platform, model, runtime)
    home = int(np.bincount(base.schedule.assignment).argmax())
    choices: dict[str, _Choice] = {}
    with searching() as ended:
        for i in _key(base.problem.cost[:, home], base.problem.topological_order.tolist(), share):
            found = None if ended() else _best_split(base.graph.operators[i], platform, model, home)
            if found is not None:
                choices[base.graph.operators[i].name] = found
    plan = partial(_plan, base.graph, platform, model, home, runtime)
    best = plan(choices)
    with searching() as ended:
        for _ in range(sweeps):
            before = best.makespan
            for name in list(choices):
                if not ended():
                    best = _tuned(name, choices, best, plan)
            if ended() or not best.makespan < before:
                break
    best = min(best, base, key=lambda plan: plan.makespan)
    return replace(best, schedule=replace(best.schedule, scheduler="eop"))


def _key(cost: FloatArray, order: list[int], share: float) -> list[int]:
    """The fewest operators that take the share of the time, in topological order."""
    finite = np.where(np.isfinite(cost), cost, 0.0)
    chosen, total = set(), 0.0
    for i in sorted(order, key=lambda i: -finite[i]):
        if total >= share * finite.sum():
            break
        chosen.add(i)
        total += finite[i]
    return [i for i in order if i in chosen]


def _best_split(op: Operator, platform: Platform, model: CostModel, home: int) -> _Choice | None:
    """The split of least estimated time, None if none saves enough."""
    whole = float(model.predict([op], platform[home])[0])
    limit, best = whole, None
    for helper in range(len(platform)):
        if helper == home:
            continue
        away = float(model.predict([op], platform[helper])[0])
        limit = min(limit, away + _transfer(op, platform, home, helper))
        for axis, granularity in GRANULARITY.items():
            candidates = []
            for step in range(1, STEPS):
                try:
                    choice = _Choice(axis, helper, step)
                    candidates.append((choice, pieces(op, axis, sizes(op, axis, choice.ratios, granularity))))
                except GraphError:
                    continue  # no such axis, or an empty piece
            if not candidates:
                continue
            theirs = model.predict([parted[0] for _, parted in candidates], platform[helper])
            ours = model.predict([parted[1] for _, parted in candidates], platform[home])
            joins = [
                Operator("join", "Concat", tuple(part.outputs[0] for part in parted), op.outputs)
                for _, parted in candidates
            ]
            join = model.predict(joins, platform[home])
            for k, (choice, parted) in enumerate(candidates):
                there = float(theirs[k]) + _transfer(parted[0], platform, home, helper)
                time = max(there, float(ours[k])) + float(join[k])
                if best is None or time < best[0]:
                    best = time, choice
    return best[1] if best is not None and best[0] < KEEP * limit else None


def _transfer(op: Operator, platform: Platform, home: int, helper: int) -> float:
    """Time to send an operator's inputs to the helper and its outputs back [s]."""
    read = summed(t.bytes for t in op.inputs if not t.constant)
    there = platform.latency[home, helper] + read / platform.bandwidth[home, helper]
    back = platform.latency[helper, home] + op.output_bytes / platform.bandwidth[helper, home]
    return float(there + back)


def _plan(
    fused: DataflowGraph,
    platform: Platform,
    model: CostModel,
    home: int,
    runtime: str | Runtime,
    choices: Mapping[str, _Choice],
) -> GraphPlan:
    graph = fused
    for name, choice in choices.items():
        graph = split(graph, name, choice.axis, choice.ratios, GRANULARITY[choice.axis])
    problem = Problem.build(graph, platform, model)
    device = {f"{name}/0": choice.helper for name, choice in choices.items()}
    fixed = np.array([device.get(name, home) for name in problem.operator_names], np.int32)
    able = np.isfinite(problem.cost[np.arange(len(fixed)), fixed])
    fixed = np.where(able, fixed, problem.cost.argmin(axis=1)).astype(np.int32)
    in_turn = -problem.arrays.position.astype(np.float64)
    schedule = place_by_priority(problem, in_turn, fixed=fixed, insertion=False, runtime=runtime)
    return GraphPlan(graph, problem, schedule)


def _tuned(
    name: str, choices: dict[str, _Choice], best: GraphPlan, plan: Callable[[Mapping[str, _Choice]], GraphPlan]
) -> GraphPlan:
    """Move one ratio by a step as long as the plan gets shorter; a piece of nothing undoes the split."""
    for direction in (-1, 1):
        while name in choices:
            step = choices[name].step + direction
            trial = {**choices, name: replace(choices[name], step=step)}
            if step in (0, STEPS):
                del trial[name]
            try:
                found = plan(trial)
            except GraphError:
                break  # the piece would be empty after rounding
            if not found.makespan < best.makespan:
                break
            choices.clear()
            choices.update(trial)
            best = found
    return best
