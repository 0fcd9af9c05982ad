"""Tokens: features of a problem for the place policy's encoder, before any operator is placed.

Times are divided by the mean run time of an operator, so that they are comparable between graphs of fifty
operators and of five thousand; long times are compressed by ``log(1 + x)``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._kernels.jit import lean
from hetgym._memory import check_memory
from hetgym._types import FloatArray, IntArray
from hetgym.graph.dataflow import Feature
from hetgym.planning import ranks, timeline
from hetgym.problem import Problem, ProblemArrays
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime

TOKEN_FEATURES: tuple[Feature, ...] = (
    Feature("cost", "log operator", "run time on the device"),
    Feature("cost_regret", "operator", "run time over that on the fastest device"),
    Feature("cost_to_go", "log operator", "PEFT's optimistic cost to an exit"),
    Feature("cost_to_go_regret", "operator", "the same over the best device's"),
    Feature("path_regret", "operator", "run time and cost to go over the best device's"),
    Feature("heft_regret", "operator", "finish in HEFT's schedule, had it gone to the device, over the best device's"),
    Feature("peft_regret", "operator", "the same in PEFT's placement in HEFT's order"),
    Feature("peft_key_regret", "operator", "the same with the optimistic cost added"),
    Feature("heft_choice", "-", "1 for HEFT's device"),
    Feature("peft_choice", "-", "1 for PEFT's device in HEFT's order"),
    Feature("upward_rank", "log operator", "HEFT's rank_u"),
    Feature("downward_rank", "log operator", "mean longest path from an entry"),
    Feature("slack", "log operator", "delay that does not lengthen PEFT's placement"),
    Feature("start", "makespan", "start in PEFT's placement"),
    Feature("in_degree", "1/4 edge", "incoming edges, at most 24"),
    Feature("out_degree", "1/4 edge", "outgoing edges, at most 24"),
    Feature("load", "makespan", "busy time of the device in PEFT's placement"),
    Feature("speed", "log operator", "mean run time of all operators on the device"),
    Feature("arrival", "log operator", "time to send a mean tensor to the device from the others"),
    Feature("departure", "log operator", "time to send a mean tensor from the device to the others"),
)
"""Columns of the encoder's tokens, one token for each operator and device."""

EDGE_FEATURES: tuple[Feature, ...] = (Feature("transfer", "log operator", "mean transfer time"),)
"""Columns of the encoder's edges."""

LIMIT = 6.0  # Upper bound of the features; also the value where a device cannot run an operator


class View(NamedTuple):
    """The place policy's view of a problem."""

    order: IntArray  # [n] operators in upward-rank order
    scale: float  # mean run time of an operator [s]
    bonus: FloatArray  # [4, n, d] terms that the roll-outs' four heuristics add to finish times [s]
    tail: FloatArray  # [n, d] optimistic time from an operator's finish on a device to the end [s]
    tokens: FloatArray  # [n, d, 20] features of TOKEN_FEATURES
    edge_features: FloatArray  # [m, 1] features of EDGE_FEATURES


def view(problem: Problem, runtime: str | Runtime = "classic") -> View:
    """Compute the place policy's view of a problem; HEFT and PEFT plan for the runtime.

    Raises:
        ConfigError: it would not fit into memory.
    """
    n, d = problem.num_operators, problem.num_devices
    needed = 2 * 8.0 * n * d * len(TOKEN_FEATURES)  # the columns, and their stack
    check_memory(f"the network's inputs for {n} operators on {d} devices", needed, "use 'portfolio'")
    cost, able = problem.cost, np.isfinite(problem.cost)
    finite = np.where(able, cost, 0.0)
    scale = float(finite.sum() / able.sum())
    scale = scale if scale > 0 else 1.0
    upward, tail = ranks.upward_rank(problem), np.array(ranks.optimistic_cost(problem))
    order = ranks.list_order(problem.arrays, upward)
    bonus = np.stack([tail, np.zeros((n, d)), 0.5 * tail, 0.5 * tail + 0.5 * finite])
    heft_finish, heft, _ = surveyed(problem, order, bonus[1], runtime)
    peft_finish, peft, placed = surveyed(problem, order, bonus[0], runtime)
    makespan = float(placed.finish.max()) if n else 0.0
    level = ranks.assigned_bottom_level(problem.arrays, peft)
    load = np.bincount(peft, weights=finite[np.arange(n), peft], minlength=d)
    whole = makespan if makespan > 0 else 1.0
    moved = _transfers(problem)
    columns = [
        compressed(cost / scale),
        regret(cost, scale),
        compressed(tail / scale),
        regret(tail, scale),
        regret(cost + tail, scale),
        regret(heft_finish, scale),
        regret(peft_finish, scale),
        regret(peft_finish + tail, scale),
        np.eye(d)[heft],
        np.eye(d)[peft],
        compressed(upward / scale)[:, None],
        compressed(ranks.downward_rank(problem) / scale)[:, None],
        compressed(np.maximum(makespan - placed.start - level, 0.0) / scale)[:, None],
        (placed.start / whole)[:, None],
        np.diff(problem.predecessors.pointer)[:, None] / 4,
        np.diff(problem.successors.pointer)[:, None] / 4,
        load / whole,
        compressed(finite.sum(axis=0) / np.maximum(able.sum(axis=0), 1) / scale),
        compressed(moved[0] / scale),
        compressed(moved[1] / scale),
    ]
    tokens = np.minimum(np.stack(np.broadcast_arrays(*columns), -1), LIMIT)
    return View(order, scale, bonus, tail, tokens, compressed(problem.mean_communication / scale)[:, None])


def compressed(x: FloatArray) -> FloatArray:
    """The logarithm of 1 + x, 0 for negative x."""
    found: FloatArray = np.log1p(np.maximum(x, 0.0))
    return found


def regret(x: FloatArray, scale: float) -> FloatArray:
    """[n, d] x over its least value of a row, in units of the scale."""
    found: FloatArray = (x - x.min(axis=1, keepdims=True)) / scale
    return found


def _transfers(problem: Problem) -> FloatArray:
    """[2, d] mean time to send a tensor of mean size to each device from the others, and from it [s]."""
    d = problem.num_devices
    if d == 1 or problem.num_edges == 0:
        return np.zeros((2, d))
    time = problem.latency + float(problem.edge_bytes.mean()) / problem.bandwidth
    time = np.where(np.eye(d, dtype=np.bool_), 0.0, time)
    found: FloatArray = np.stack([time.sum(axis=0), time.sum(axis=1)]) / (d - 1)
    return found


def surveyed(
    problem: Problem, order: IntArray, bonus: FloatArray, runtime: str | Runtime
) -> tuple[FloatArray, IntArray, timeline.Timeline]:
    """Finish times on each device while a heuristic schedules [n, d], its schedule's devices [n], and its timeline.

    The heuristic takes operators in a given order, each to the device of least finish plus ``bonus``, [n, d] [s].
    """
    n, d = problem.num_operators, problem.num_devices
    finish, placed = np.empty((n, d)), timeline.new_timeline(problem, as_runtime(runtime))
    _survey(problem.arrays, order, bonus, placed, finish)
    return finish, placed.assignment, placed


@lean
def _survey(p: ProblemArrays, order: IntArray, bonus: FloatArray, t: timeline.Timeline, finish: FloatArray) -> None:
    insertion = len(order) > 0  # always true; a literal would compile the timeline again
    for operator in order:
        best_device, best_start, best_key = -1, 0.0, np.inf
        for device in range(p.cost.shape[1]):
            duration = p.cost[operator, device]
            finish[operator, device] = np.inf
            if duration == np.inf:
                continue
            ready = timeline.data_ready(p, t, operator, device)
            start = timeline.start_after(p, t, operator, device, ready, insertion)
            finish[operator, device] = start + duration
            key = start + duration + bonus[operator, device]
            if best_device < 0 or key < best_key:
                best_device, best_start, best_key = device, start, key
        timeline.book(p, t, operator, best_device, best_start)
