"""Baechi's placers m-TOPO and m-ETF: each device takes what its memory holds."""

import numpy as np

from hetgym._kernels.jit import jit, step, variant
from hetgym._types import FloatArray, IntArray
from hetgym.errors import OutOfMemory, ProblemError
from hetgym.planning import timeline
from hetgym.planning.capacity import fitted, nothing_fits
from hetgym.planning.list_scheduling import place_by_priority
from hetgym.planning.ranks import upward_rank
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime
from hetgym.weights import SharedWeights, present


def memory_need(problem: Problem) -> FloatArray:
    """[n] memory that an operator reserves on its device: weights and outputs, none freed early [byte].

    Weights that an earlier operator of the device reads, too, are reserved already. A placement that fits by this
    measure fits in any order of execution.
    """
    return np.array(problem.weight_bytes + problem.output_bytes, np.float64)


def no_room(
    problem: Problem, operator: int, need: FloatArray, room: FloatArray, runtime: Runtime
) -> ProblemError | OutOfMemory:
    """The error for an operator that no device can hold any more."""
    if runtime.memory == "enforce":
        return nothing_fits(problem, np.where(np.isfinite(problem.cost[operator]), need[operator] - room, -np.inf))
    able = np.isfinite(problem.cost[operator])
    most = int(np.argmax(np.where(able, room, -np.inf)))
    return ProblemError(
        f"problem {problem.name!r}: operator {operator} ({problem.operator_names[operator]!r}) needs "
        f"{need[operator]:.6g} bytes, but of the devices that can run it {problem.device_names[most]!r} has most left, "
        f"{max(0.0, float(room[most])):.6g} of {problem.memory_capacity[most]:.6g} bytes"
    )


def m_topo(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """In topological order fill one device to its share of the memory, then the next.

    A share is the mean need of a device plus the largest need of an operator, or the capacity if that is less.
    Operators that the current device cannot run, or that remain when all shares are full, go to the first device with
    room.

    Raises:
        ProblemError: an operator for which no device has room.
        OutOfMemory: the same, or no plan that fits was found, where the runtime enforces capacities.
    """
    need, p, switches = memory_need(problem), problem.num_devices, as_runtime(runtime)
    share = np.minimum(problem.memory_capacity, (need.sum() - problem.shared_weights.repeated) / p + need.max())
    room = problem.memory_capacity.copy()
    used = np.zeros(p)
    assignment = np.full(problem.num_operators, -1, np.int32)

    def more(operator: int, device: int) -> float:
        return float(need[operator] - problem.shared_weights.present(assignment, operator, device))

    current = 0
    for i in problem.topological_order.tolist():
        able = np.isfinite(problem.cost[i])
        while current < p and able[current] and used[current] + more(i, current) > share[current]:
            current += 1
        device = current
        if current == p or not able[current]:
            fits = (a for a in np.flatnonzero(able).tolist() if more(i, a) <= room[a])
            device = next(fits, -1)
            if device < 0:
                raise no_room(problem, i, need, room, switches)
        used[device] += more(i, device)
        room[device] -= more(i, device)
        assignment[i] = device
    return place_by_priority(problem, upward_rank(problem), fixed=assignment, runtime=switches)


def m_etf(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """Of all ready operators and devices with room, the pair that can start first.

    Ties go to the larger upward rank, then to the smaller topological position and device.

    Raises:
        ProblemError: an operator for which no device has room.
        OutOfMemory: the same, or no plan that fits was found, where the runtime enforces capacities.
    """
    nobody = np.full(problem.num_operators, -1, np.int32)
    return earliest_start_first(problem, nobody, as_runtime(runtime))


def earliest_start_first(problem: Problem, favourite: IntArray, runtime: Runtime) -> Schedule:
    """Earliest start first within memory, with devices that wait for favourite children; errors as :func:`m_etf`.

    Args:
        favourite: [n] the successor for which a device is kept after the operator ran on it, -1 for none;
            an operator is the favourite of one other at most.
    """
    need = memory_need(problem)

    def place(weights: FloatArray) -> Schedule:
        room = np.minimum(problem.memory_capacity, weights)
        placed = timeline.new_timeline(problem, runtime, room)
        rank, shared = upward_rank(problem), problem.shared_weights
        stuck = _place(problem.arrays, placed, rank, favourite, need, shared, room)
        if stuck >= 0:
            raise no_room(problem, stuck, need, room, runtime)
        return timeline.planned(problem, placed, runtime)

    return fitted(problem, runtime, place)


# Before each round `ready[:count]` holds the operators whose predecessors are placed, in no order; `data` and `urgent`
# are final for them, unless transfers are booked. `kept[device]` is the favourite that a device waits for, and which no
# operator may delay. A round places the best pair of operator and device, so there are n rounds at most; it stops early
# where an operator has no room, which can only get worse. O(r p) a round for r ready operators.
@jit
def _place(
    p: ProblemArrays,
    t: timeline.Timeline,
    rank: FloatArray,
    favourite: IntArray,
    need: FloatArray,
    shared: SharedWeights,
    room: FloatArray,
) -> int:
    """Fill a timeline; return the operator for which there was no room, or -1."""
    n, d = p.cost.shape
    waiting = np.empty(n, np.int32)
    data = np.zeros((n, d))  # time from which an operator's inputs can be on a device
    urgent = np.zeros(n)  # and on all of them
    kept = np.full(d, -1, np.int32)
    parent = np.full(n, -1, np.int32)
    ready = np.empty(n, np.int32)
    count = 0
    for i in range(n):
        waiting[i] = p.predecessor_pointer[i + 1] - p.predecessor_pointer[i]
        if favourite[i] >= 0:
            parent[favourite[i]] = i
    for i in p.topological_order:
        if waiting[i] == 0:
            ready[count] = i
            count += 1
    for _ in range(n):
        best_slot, best_device, best_start, best_own = -1, -1, 0.0, False
        for slot in range(count):
            i = ready[slot]
            _arrive_again(p, t, i, data, urgent)
            hosted = False
            for device in range(d):
                if p.cost[i, device] == np.inf:
                    continue
                if need[i] - present(shared, t.assignment, i, device, n) > room[device]:
                    continue
                hosted = True
                start = timeline.earliest_start(t, device, data[i, device], p.cost[i, device], False)
                if kept[device] >= 0 and kept[device] != i:
                    start = max(start, urgent[i])
                own = parent[i] >= 0 and t.assignment[parent[i]] == device
                better = best_slot < 0 or start < best_start
                if best_slot >= 0 and start == best_start:
                    chosen = ready[best_slot]
                    if own != best_own:
                        better = own
                    elif rank[i] != rank[chosen]:
                        better = rank[i] > rank[chosen]
                    else:
                        better = p.position[i] < p.position[chosen]
                if better:
                    best_slot, best_device, best_start, best_own = slot, device, start, own
            if not hosted:
                return int(i)
        i = ready[best_slot]
        room[best_device] -= need[i] - present(shared, t.assignment, i, best_device, n)
        timeline.book(p, t, i, best_device, best_start)
        kept[best_device] = favourite[i]
        for device in range(d):
            if kept[device] == i:
                kept[device] = -1
        count -= 1
        ready[best_slot] = ready[count]
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            j = p.successor[edge]
            waiting[j] -= 1
            if waiting[j] == 0:
                ready[count] = j
                count += 1
                _arrive(p, t, j, data, urgent)
    return -1


@step
def _arrive(p: ProblemArrays, t: timeline.Timeline, operator: int, data: FloatArray, urgent: FloatArray) -> None:
    """Write the times at which an operator's inputs can be on each device, and on all of them."""
    urgent[operator] = 0.0
    for device in range(p.cost.shape[1]):
        data[operator, device] = timeline.data_ready(p, t, operator, device)
        urgent[operator] = max(urgent[operator], data[operator, device])


# Where transfers are booked, `_arrive_booked` stands in for this function.
@step
def _arrive_again(p: ProblemArrays, t: timeline.Timeline, operator: int, data: FloatArray, urgent: FloatArray) -> None:
    """Bring these times up to date, in a round: they stay under the classic model."""


@variant(_arrive_again, timeline.carries_bookings)
def _arrive_booked(p: ProblemArrays, t: timeline.Timeline, operator: int, data: FloatArray, urgent: FloatArray) -> None:
    _arrive(p, t, operator, data, urgent)
