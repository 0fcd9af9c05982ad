"""Tokens: what a list policy sees of a problem, before any operator is placed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._types import FloatArray, IntArray
from hetgym.agents.place import tokens as place
from hetgym.graph.dataflow import Feature
from hetgym.planning import ranks
from hetgym.planning.timeline import Timeline
from hetgym.problem import Problem
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime

TOKEN_FEATURES: tuple[Feature, ...] = (
    *place.TOKEN_FEATURES,
    Feature(
        "again_key_regret", "operator", "finish and optimistic cost in the shortest plan of PEFT over the best device's"
    ),
    Feature("again_choice", "-", "1 for its device there"),
    Feature("again_slack", "log operator", "delay that does not lengthen that plan"),
    Feature("again_start", "makespan", "start in that plan"),
    Feature("again_load", "makespan", "busy time of the device in that plan"),
    Feature("bound_to_go_regret", "operator", "least time to an exit with true transfers over the best device's"),
    Feature("bound_regret", "operator", "run time and that over the best device's"),
    Feature("entry_regret", "operator", "least time from an entry with true transfers over the best device's"),
    Feature("path", "-", "longest mean path through the operator over the longest of all"),
    Feature("incoming", "log operator", "mean transfer times of the inputs, in sum"),
    Feature("outgoing", "log operator", "mean transfer times of the outputs, in sum"),
    Feature("siblings", "1/4 edge", "other inputs of the readers, at most 24, mean over the readers"),
    Feature("mean_cost", "log operator", "run time, mean over the devices"),
    Feature("communication", "log operator", "mean transfer time of all edges"),
    Feature("devices", "1/8 device", "number of devices"),
)
"""Columns of the encoder's tokens, one token for each operator and device; HEFT and PEFT plan for the runtime."""

EDGE_FEATURES = (
    *place.EDGE_FEATURES,
    Feature("share", "-", "transfer time over those of all inputs of the reader"),
)
"""Columns of the encoder's edges."""

URGENCY = 2.0  # priority of the untrained policy for each scale of an operator's rank or level
PASSES = 3  # of PEFT: first by upward ranks, then each by the bottom levels of the plan before it


class Again(NamedTuple):
    """A plan of PEFT, each operator where finish and optimistic cost to an exit are least."""

    priority: FloatArray  # [n] by which its operators took their turns [s]
    finish: FloatArray  # [n, d] finish on each device, had it gone there [s]
    devices: IntArray  # [n]
    placed: Timeline
    level: FloatArray  # [n] bottom levels of the placement [s]


class View(NamedTuple):
    """A list policy's view of a problem."""

    scale: float  # unit of time: mean run time, and half the mean transfer time [s]
    tokens: FloatArray  # [n, d, F] features of TOKEN_FEATURES
    edge_features: FloatArray  # [m, E] features of EDGE_FEATURES
    priority: FloatArray  # [n] of the untrained policy: that of the shortest plan of PEFT, times URGENCY
    bonus: FloatArray  # [n, d] of the untrained policy: optimistic costs to an exit [scale]


def view(problem: Problem, runtime: str | Runtime = "classic") -> View:
    """Compute a list policy's view of a problem."""
    seen = place.view(problem, runtime)
    n, d, _ = seen.tokens.shape
    unit, communication = seen.scale, problem.mean_communication
    half = 0.5 * float(communication.mean()) if len(communication) else 0.0
    source, target = problem.edge_source, problem.edge_target
    upward, downward = ranks.upward_rank(problem), ranks.downward_rank(problem)
    through = upward + downward
    to_go, entry = ranks.least_cost_to_exit(problem), ranks.least_cost_from_entry(problem)
    incoming = np.bincount(target, communication, n)
    inputs = np.diff(problem.predecessors.pointer)
    siblings = np.bincount(source, inputs[target] - 1.0, n) / np.maximum(np.diff(problem.successors.pointer), 1)
    again = _again(problem, upward, seen.tail, as_runtime(runtime))
    start = again.placed.start
    makespan = max(float(again.placed.finish.max(initial=0.0)), 1e-300)
    busy = np.bincount(again.devices, weights=problem.cost[np.arange(n), again.devices], minlength=d)
    columns = [
        place.regret(again.finish + seen.tail, unit),
        np.eye(d)[again.devices],
        place.compressed((makespan - start - again.level) / unit)[:, None],
        (start / makespan)[:, None],
        busy / makespan,
        place.regret(to_go, unit),
        place.regret(problem.cost + to_go, unit),
        place.regret(entry, unit),
        (through / max(float(through.max(initial=0.0)), 1e-300))[:, None],
        place.compressed(incoming / unit)[:, None],
        place.compressed(np.bincount(source, communication, n) / unit)[:, None],
        siblings[:, None] / 4,
        place.compressed(problem.mean_cost / unit)[:, None],
        np.full((1, 1), np.log1p(2.0 * half / unit)),
        np.full((1, 1), d / 8),
    ]
    tokens = np.concatenate(
        [seen.tokens, np.stack([np.broadcast_to(column, (n, d)) for column in columns], -1)], axis=-1
    )
    share = communication / np.maximum(incoming[target], 1e-300)
    scale = unit + half
    return View(
        scale,
        np.minimum(tokens, place.LIMIT),
        np.concatenate([seen.edge_features, share[:, None]], axis=1),
        URGENCY / scale * again.priority,
        np.array(seen.tail) / scale,
    )


def _again(problem: Problem, upward: FloatArray, tail: FloatArray, runtime: Runtime) -> Again:
    """The shortest plan of PEFT in a few orders: first that of upward ranks, then those of the plans before."""
    priority, best, least = upward, None, np.inf
    for _ in range(PASSES):
        order = ranks.list_order(problem.arrays, priority)
        finish, devices, placed = place.surveyed(problem, order, tail, runtime)
        level = ranks.assigned_bottom_level(problem.arrays, devices)
        end = float(placed.finish.max(initial=0.0))
        if best is None or end < least:
            best, least = Again(priority, finish, devices, placed, level), end
        priority = level
    assert best is not None
    return best
