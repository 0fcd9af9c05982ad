"""Slack reclaiming: operators that nothing waits for run at a lower clock, and the makespan stays.

The clock is lowered step by step. Each step goes to the operator that saves the most energy for each second that it
takes longer, among those that may finish that much later without delaying the end: this time is their slack. It is that
of the graph of data dependencies, with the transfers of the run at full clock, and of the order on each device.
Sources: Kimura, Sato, Hotta, Boku, Takahashi, "Empirical study on reducing energy of parallel programs using slack
reclamation by DVFS in a power-scalable high performance cluster", IEEE Cluster 2006; Huang, Su, Li, Xu, Shuang, Huang,
"Enhanced energy-efficient scheduling for parallel applications in cloud", CCGrid 2012. The order of the steps is new.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hetgym._kernels.jit import lean
from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.errors import ConfigError
from hetgym.graph import topology
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Runtime, Trace, simulate
from hetgym.sim.energy import EXPONENT, has_power
from hetgym.sim.runtime import runtime as as_runtime
from hetgym.sim.runtime import runtime_name

SPEEDS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)  # Clocks by default, as shares of the full one

ROUNDING = 1e-12
"""Share of the makespan by which a path may seem longer or shorter than it is, since sums of times are rounded."""


def reclaim_slack(
    problem: Problem, schedule: Schedule, speeds: Sequence[float] = SPEEDS, runtime: str | Runtime = "classic"
) -> Schedule:
    """Lower the clock of operators that have time.

    The result is simulated. Where transfers wait for each other it may be longer than the schedule at full clock. Then
    operators whose results are sent to other devices are made to finish when they did, so that every transfer stays as
    it was. The result is never longer and never takes more energy than the schedule at full clock.

    Args:
        schedule: the schedule; speeds that it has are dropped.
        speeds: clocks that operators may run at, as shares of the full one, which is always among them.

    Returns the schedule as it was if the problem states no power, or under a runtime with noise or several streams or
    with partitions that take time to enter, where slack is not known.

    Raises:
        ConfigError: a speed that is not above 0 and at most 1.
        InvalidSchedule: the schedule is not legal for the problem.
    """
    levels = _levels(speeds)
    switches = as_runtime(runtime)
    plain = replace(schedule, speed=None)
    full = simulate(problem, plain, switches)
    if (
        not has_power(problem)
        or problem.has_partitions
        or switches.streams > 1
        or switches.noise > 0
        or len(levels) == 1
    ):
        return plain
    anyone = np.zeros(problem.num_operators, np.bool_)
    senders = anyone.copy()
    senders[problem.edge_source[full.remote]] = True
    for punctual, end in ((anyone, 1 + ROUNDING), (anyone, 1 - ROUNDING), (senders, 1 - ROUNDING)):
        speed = _lowered(problem, full, levels, punctual, full.makespan * end)
        slowed = simulate(problem, Schedule(full.assignment, order=full.order, speed=speed), switches)
        if slowed.makespan <= full.makespan and slowed.energy.total <= full.energy.total:
            return Schedule(
                slowed.assignment,
                order=slowed.order,
                start=slowed.start,
                finish=slowed.finish,
                model=runtime_name(switches),
                scheduler=schedule.scheduler,
                speed=speed,
            )
    return plain


def _levels(speeds: Sequence[float]) -> FloatArray:
    """Clocks from the highest to the lowest."""
    try:
        levels = np.unique(np.array([1.0, *speeds], np.float64))[::-1].copy()
    except (TypeError, ValueError) as cause:
        raise ConfigError(f"speeds must be numbers ({cause})") from cause
    if not ((levels > 0) & (levels <= 1)).all():
        raise ConfigError("speeds are shares of the full clock: each must be above 0 and at most 1")
    return levels


def _lowered(problem: Problem, full: Trace, levels: FloatArray, punctual: BoolArray, end: float) -> FloatArray:
    """[n] clocks that fill the slack before an end [s]; [n] punctual operators finish no later than at full clock."""
    n = problem.num_operators
    neighbours = [(row[:-1], row[1:]) for row in full.order if len(row) > 1]
    source = np.concatenate([problem.edge_source, *(pair[0] for pair in neighbours)]).astype(np.int32)
    target = np.concatenate([problem.edge_target, *(pair[1] for pair in neighbours)]).astype(np.int32)
    lag = np.zeros(len(source))
    moved = np.where(full.remote, full.arrived - full.finish[problem.edge_source], 0.0)
    lag[: problem.num_edges] = np.maximum(moved, 0.0)
    successors = topology.adjacency(n, source, target)
    order = topology.kahn_order(successors, np.bincount(target, minlength=n).astype(np.int32))
    device = full.assignment
    dynamic = (problem.power_busy - problem.power_idle)[device]
    level, scratch = np.zeros(n, np.int32), np.empty((2, n))
    _lower(
        order,
        successors.pointer,
        successors.node,
        lag[successors.edge],
        problem.cost[np.arange(n), device],
        dynamic,
        levels,
        end,
        np.where(punctual, end - full.finish, 0.0),
        level,
        scratch,
    )
    return levels[level]


# Before each iteration no path of the graph, with run times `cost / levels[level]`, is longer than `end`. An iteration
# computes the longest paths to and from every operator, and lowers the clock of one operator by one level within the
# slack that they leave; or the loop ends because no level fits. It ends, since there are n * (levels - 1) levels to go.
# O(n + e) an iteration.
@lean
def _lower(
    order: IntArray,
    pointer: IntArray,
    successor: IntArray,
    lag: FloatArray,
    cost: FloatArray,
    dynamic: FloatArray,
    levels: FloatArray,
    end: float,
    least: FloatArray,
    level: IntArray,
    scratch: FloatArray,
) -> None:
    """Lower clocks greedily.

    Args:
        order: [n] topological order of the graph.
        pointer, successor: [n + 1] row starts of its edges by source, and [e] their targets.
        lag: [e] time from the finish of an edge's source to the earliest start of its target [s].
        cost: [n] run time at full clock [s].
        dynamic: [n] power beyond idle at full clock, of the operator's device [W].
        levels, end: clocks, descending, the first 1; time by which everything must be finished [s].
        least: [n] time by which an operator must finish before the end, whatever follows it [s].
        level: [n] index of each operator's clock; 0 at first, and changed in place.
    """
    head, tail = scratch[0], scratch[1]
    while True:
        for i in order:
            head[i] = 0.0
        for i in order:
            done = head[i] + cost[i] / levels[level[i]]
            for k in range(pointer[i], pointer[i + 1]):
                head[successor[k]] = max(head[successor[k]], done + lag[k])
        best, chosen = 0.0, -1
        for at in range(len(order) - 1, -1, -1):
            i = order[at]
            tail[i] = least[i]
            for k in range(pointer[i], pointer[i + 1]):
                j = successor[k]
                tail[i] = max(tail[i], lag[k] + cost[j] / levels[level[j]] + tail[j])
            if level[i] + 1 < len(levels) and cost[i] > 0.0:
                now, lower = levels[level[i]], levels[level[i] + 1]
                longer = cost[i] / lower - cost[i] / now
                slack = end - head[i] - cost[i] / now - tail[i]
                saved = dynamic[i] * cost[i] * (now ** (EXPONENT - 1) - lower ** (EXPONENT - 1))
                if longer <= slack and saved > best * longer:
                    best, chosen = saved / longer, i
        if chosen < 0:
            return
        level[chosen] += 1
