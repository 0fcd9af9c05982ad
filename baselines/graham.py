"""Graham's list scheduling, whose anomalies every simulator should show."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from hetgym.errors import ConfigError
from hetgym.planning import timeline
from hetgym.problem import Problem
from hetgym.schedule import Schedule


def graham(problem: Problem, order: Sequence[int] | None = None) -> Schedule:
    """Whenever a device is idle it takes the first operator of a list whose predecessors have finished.

    Devices choose in the order of their numbers and look at nothing else: neither speed nor
    transfers. On identical devices the makespan is at most (2 - 1/p) times the optimum.

    Args:
        problem: the problem to schedule.
        order: the list, a permutation of the operators; topological order by default.

    Raises:
        ConfigError: the list is not a permutation.
    """
    n, d, arrays = problem.num_operators, problem.num_devices, problem.arrays
    try:
        sequence = problem.topological_order.tolist() if order is None else [int(i) for i in order]
    except (TypeError, ValueError, OverflowError):
        sequence = []
    if sorted(sequence) != list(range(n)):
        raise ConfigError(f"graham: order must list each of the operators 0..{n - 1} once")
    rank = np.empty(n, np.int64)
    rank[sequence] = np.arange(n)
    placed = timeline.new_timeline(problem)
    waiting = np.diff(problem.predecessors.pointer)
    ready = [int(rank[i]) for i in np.flatnonzero(waiting == 0)]
    heapq.heapify(ready)
    finishes: list[tuple[float, int, int]] = []
    idle = list(range(d))
    now = 0.0
    while ready or finishes:
        for device in sorted(idle):
            chosen = _first_placeable(problem, ready, sequence, device)
            if chosen is None:
                continue
            timeline.append(arrays, placed, chosen, device, now)
            idle.remove(device)
            heapq.heappush(finishes, (float(placed.finish[chosen]), device, chosen))
        now = finishes[0][0]
        while finishes and finishes[0][0] == now:
            _, device, finished = heapq.heappop(finishes)
            idle.append(device)
            for k in range(arrays.successor_pointer[finished], arrays.successor_pointer[finished + 1]):
                successor = int(arrays.successor[k])
                waiting[successor] -= 1
                if waiting[successor] == 0:
                    heapq.heappush(ready, int(rank[successor]))
    return timeline.planned(problem, placed)


def _first_placeable(problem: Problem, ready: list[int], sequence: list[int], device: int) -> int | None:
    """Take the first ready operator that the device can run off the heap."""
    passed = []
    chosen = None
    while ready and chosen is None:
        candidate = heapq.heappop(ready)
        if np.isfinite(problem.cost[sequence[candidate], device]):
            chosen = sequence[candidate]
        else:
            passed.append(candidate)
    for candidate in passed:
        heapq.heappush(ready, candidate)
    return chosen
