"""DONF-M: DONF within the devices' memories."""

from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np

from hetgym._jit import jit, step
from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.errors import ProblemError
from hetgym.planning import timeline
from hetgym.planning.degrees import weighted_out_degree
from hetgym.planning.pull_loop import AGGREGATED, Links, choose, commit
from hetgym.planning.ready_queue import new_queue, open_queue, release
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule


def donf_memory(problem: Problem) -> Schedule:
    """DONF that passes over devices without room, and lets operators wait until there is some.

    From its commitment on, an operator holds its weights on its device for good, and its outputs until its
    last reader has finished (for good if there are no readers). A device with less free memory than the two
    need is not considered. When the first operator of the queue fits nowhere, the devices without room for it
    count as full until the next finish. Then operators that read outputs on full devices go first, those whose
    input has the fewest readers left before others, as they free memory soonest. Operators that fit nowhere go
    back to the queue. With unlimited memories the schedule is DONF's.

    Args:
        problem: the problem to schedule, with ``weight_bytes``, ``output_bytes`` and ``memory_capacity``.

    Raises:
        ProblemError: an operator has no room anywhere and nothing is left that could free any.
    """
    placed = timeline.new_timeline(problem.num_operators, problem.num_devices)
    free = np.array(problem.memory_capacity)
    stuck = _run(problem.arrays, placed, weighted_out_degree(problem), problem.weight_bytes, problem.output_bytes, free)
    if stuck >= 0:
        need = problem.weight_bytes[stuck] + problem.output_bytes[stuck]
        room = np.where(np.isfinite(problem.cost[stuck]), free, -np.inf)
        device = int(np.argmax(room))
        raise ProblemError(
            f"problem {problem.name!r}: donf-m found no memory for operator {stuck} "
            f"({problem.operator_names[stuck]!r}), which needs {need:g} bytes: of the devices that can run it "
            f"{problem.device_names[device]!r} has most left, {room[device]:g} of "
            f"{problem.memory_capacity[device]:g}, and nothing is running that could free any"
        )
    return replace(timeline.planned(problem, placed), model="donf")


# As in the pull loop, `ready` holds the operators whose predecessors have finished by `now`, and `finishes` those that
# are committed; `free` is what is left of each device's memory by the commitments so far. Within a moment an operator
# that fits nowhere moves to `blocked`, so that `ready` gets shorter in each iteration, and comes back at the next
# finish. While some device is full, `relief` is the ready operator that is preferred to the head of the queue; it is
# committed out of turn and stays in the queue, where `taken` lets it be skipped. The loop ends when nothing runs.
@jit
def _run(
    p: ProblemArrays,
    t: timeline.Timeline,
    priority: FloatArray,
    weight: FloatArray,
    output: FloatArray,
    free: FloatArray,
) -> int:
    """Run the loop; an operator that found no room at the end, or -1."""
    n, d = p.cost.shape
    readers = np.empty(n, np.int32)  # edges whose reader has not finished
    room = np.empty(d, np.bool_)
    full = np.empty(d, np.bool_)  # devices that had no room for a head of the queue at this moment
    taken = np.zeros(n, np.bool_)
    bonus = np.zeros((n, d))
    links = Links(np.zeros((d, d)), np.zeros((d, d)))
    waiting, ready = open_queue(p, priority)
    blocked, finishes = new_queue(), new_queue()
    for i in range(n):
        readers[i] = p.successor_pointer[i + 1] - p.successor_pointer[i]
    now = 0.0
    while True:
        blocked.clear()
        full[:] = False
        relief = -1
        while len(ready) > 0:
            head = (0.0, p.position[relief]) if relief >= 0 else heapq.heappop(ready)
            operator = p.topological_order[head[1]]
            if taken[operator]:
                continue
            need = weight[operator] + output[operator]
            for device in range(d):
                room[device] = need <= free[device]
            device = choose(p, t, operator, now, AGGREGATED, bonus, room, links)
            if device < 0:
                blocked.append(head)
                for other in range(d):
                    full[other] |= not room[other] and p.cost[operator, other] < np.inf
            else:
                commit(p, t, operator, device, now, AGGREGATED, links)
                free[device] -= need
                taken[operator] = True
                heapq.heappush(finishes, (t.finish[operator], head[1]))
            relief = -1
            if full.any():
                fewest = (n + len(p.successor), 0.0, np.int32(0))
                for key, position in ready:
                    left = _fewest_readers(p, t, readers, full, p.topological_order[position])
                    if left > 0 and (left, key, position) < fewest:
                        j = p.topological_order[position]
                        if not taken[j] and _fits(p, j, weight[j] + output[j], free):
                            fewest = (left, key, position)
                            relief = j
        if len(finishes) == 0:
            return p.topological_order[blocked[0][1]] if len(blocked) > 0 else -1
        for head in blocked:
            heapq.heappush(ready, head)
        now = finishes[0][0]
        while len(finishes) > 0 and finishes[0][0] == now:
            _, position = heapq.heappop(finishes)
            operator = p.topological_order[position]
            for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
                i = p.predecessor[k]
                readers[i] -= 1
                if readers[i] == 0:
                    free[t.assignment[i]] += output[i]
            release(p, operator, priority, waiting, ready)


@step
def _fewest_readers(p: ProblemArrays, t: timeline.Timeline, readers: IntArray, full: BoolArray, operator: int) -> int:
    """Of the operator's inputs that lie on full devices, the least number of readers left; 0 if there are none."""
    fewest = 0
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        i = p.predecessor[k]
        if full[t.assignment[i]] and (fewest == 0 or readers[i] < fewest):
            fewest = readers[i]
    return fewest


@step
def _fits(p: ProblemArrays, operator: int, need: float, free: FloatArray) -> bool:
    """True if some device that can run the operator has room for it."""
    fits = False
    for device in range(len(free)):
        fits |= p.cost[operator, device] < np.inf and need <= free[device]
    return fits
