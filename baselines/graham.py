"""Graham's list scheduling, whose anomalies every simulator should show."""

import heapq
from collections.abc import Sequence

import numpy as np

from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.errors import ConfigError
from hetgym.planning import timeline
from hetgym.planning.capacity import fitted
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime


def graham(problem: Problem, order: Sequence[int] | None = None, runtime: str | Runtime = "classic") -> Schedule:
    """Whenever a device is idle it takes the first operator of a list whose predecessors have finished.

    Devices choose in the order of their numbers, whatever their speeds and transfers. On identical devices the makespan
    is at most (2 - 1/p) times the optimum.

    Args:
        order: the list, a permutation of the operators; topological order by default.
        runtime: the runtime that will run the schedule. If it enforces capacities, an operator is passed over where
            a device has no room for its weights.

    Raises:
        ConfigError: the list is not a permutation.
    """
    n, switches = problem.num_operators, as_runtime(runtime)
    try:
        sequence = problem.topological_order.tolist() if order is None else [int(i) for i in order]
    except (TypeError, ValueError, OverflowError):
        sequence = []
    if sorted(sequence) != list(range(n)):
        raise ConfigError(f"graham: order must list each of the operators 0..{n - 1} once")
    return fitted(problem, switches, lambda room: _plan(problem, sequence, switches, room))


def _plan(problem: Problem, sequence: list[int], runtime: Runtime, room: FloatArray) -> Schedule:
    """The schedule under these capacities for weights [d], in bytes."""
    n, d, arrays = problem.num_operators, problem.num_devices, problem.arrays
    rank, room = np.empty(n, np.int64), room.copy()
    rank[sequence] = np.arange(n)
    able, taken = np.isfinite(problem.cost), np.zeros(n, np.bool_)
    placed = timeline.new_timeline(problem, runtime, room)
    waiting = np.diff(problem.predecessors.pointer)
    ready: list[list[int]] = [[] for _ in range(d)]  # heaps of the operators that each device can run, by rank
    finishes: list[tuple[float, int, int]] = []
    idle = list(range(d))
    now, left = 0.0, n

    def make_ready(operator: int) -> None:
        for device in np.flatnonzero(able[operator]).tolist():
            heapq.heappush(ready[device], int(rank[operator]))

    for operator in np.flatnonzero(waiting == 0).tolist():
        make_ready(operator)
    while left or finishes:
        for device in sorted(idle):
            chosen = _first_placeable(problem, ready[device], sequence, taken, placed.assignment, device, room)
            if chosen is None:
                continue
            taken[chosen] = True
            left -= 1
            room[device] -= _more(problem, placed.assignment, chosen, device)
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
                    make_ready(successor)
    return timeline.planned(problem, placed, runtime)


def _more(problem: Problem, assignment: IntArray, operator: int, device: int) -> float:
    """Weights that a device must hold more of with an operator [byte]."""
    return float(problem.weight_bytes[operator] - problem.shared_weights.present(assignment, operator, device))


def _first_placeable(
    problem: Problem,
    ready: list[int],
    sequence: list[int],
    taken: BoolArray,
    assignment: IntArray,
    device: int,
    room: FloatArray,
) -> int | None:
    """Take the first ready operator of a device off its heap; one that has room nowhere it must take."""
    passed = []
    chosen = None
    while ready and chosen is None:
        candidate = heapq.heappop(ready)
        operator = sequence[candidate]
        if taken[operator]:
            continue
        able = np.isfinite(problem.cost[operator])
        if _more(problem, assignment, operator, device) <= room[device] or room[device] == room[able].max():
            chosen = operator
        else:
            passed.append(candidate)
    for candidate in passed:
        heapq.heappush(ready, candidate)
    return chosen
