"""DONF-M: DONF within the devices' memories."""

from dataclasses import replace

import numpy as np

from hetgym._kernels.heap import first_key, pop, push
from hetgym._kernels.jit import jit, step
from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.errors import ProblemError
from hetgym.planning import timeline
from hetgym.planning.degrees import weighted_out_degree
from hetgym.planning.pull_loop import AGGREGATED, Links, choose, commit
from hetgym.planning.ready_queue import FINISHES, READY, ReadyQueue, new_queue, open_queue, release
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.weights import SharedWeights, present


def donf_memory(problem: Problem) -> Schedule:
    """DONF that passes over devices without room, and lets operators wait until there is some.

    From its commitment on, an operator holds its weights on its device for good (a shared weight once), and its
    outputs until its last reader has finished (for good if there are no readers). A device with less free memory than
    the two need is not considered. When the first operator of the queue fits nowhere, the devices without room for it
    are treated as full until the next finish. Then operators that read outputs on full devices go first, those whose
    input has the fewest readers left before others, as they free memory soonest. Operators that fit nowhere go
    back to the queue. With unlimited memories the schedule is DONF's.

    Raises:
        ProblemError: an operator has no room anywhere and nothing is left that could free any.
    """
    placed = timeline.new_timeline(problem)
    free = np.array(problem.memory_capacity)
    stuck = _run(
        problem.arrays,
        placed,
        new_queue(problem.num_operators),
        weighted_out_degree(problem),
        problem.weight_bytes + problem.output_bytes,
        problem.output_bytes,
        problem.shared_weights,
        free,
    )
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


# As in the pull loop, READY holds the operators whose predecessors have finished by `now`, and FINISHES those that
# are committed; `free` is what is left of each device's memory by the commitments so far. Within a moment an operator
# that fits nowhere moves to `blocked`, so that READY gets shorter in each iteration, and comes back at the next
# finish. While some device is full, `relief` is the ready operator that is preferred to the head of the queue; it is
# committed out of turn and stays in the queue, where `taken` lets it be skipped. The loop ends when nothing runs.
@jit
def _run(
    p: ProblemArrays,
    t: timeline.Timeline,
    queue: ReadyQueue,
    priority: FloatArray,
    need: FloatArray,
    output: FloatArray,
    shared: SharedWeights,
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
    heaps = queue.heaps
    blocked = np.empty(n, np.int32)
    open_queue(p, queue, priority)
    for i in range(n):
        readers[i] = p.successor_pointer[i + 1] - p.successor_pointer[i]
    now = 0.0
    while True:
        count = 0
        full[:] = False
        relief = -1
        while heaps.size[READY] > 0:
            operator = relief if relief >= 0 else p.topological_order[pop(heaps, READY)]
            if taken[operator]:
                continue
            for device in range(d):
                room[device] = need[operator] - present(shared, t.assignment, operator, device, n) <= free[device]
            device = choose(p, t, operator, now, AGGREGATED, bonus, room, links)
            if device < 0:
                blocked[count] = operator
                count += 1
                for other in range(d):
                    full[other] |= not room[other] and p.cost[operator, other] < np.inf
            else:
                free[device] -= need[operator] - present(shared, t.assignment, operator, device, n)
                commit(p, t, operator, device, now, AGGREGATED, links)
                taken[operator] = True
                push(heaps, FINISHES, t.finish[operator], p.position[operator])
            relief = _preferred(p, t, queue, need, shared, free, readers, full, taken) if full.any() else -1
        if heaps.size[FINISHES] == 0:
            return int(blocked[0]) if count > 0 else -1
        for operator in blocked[:count]:
            push(heaps, READY, -priority[operator], p.position[operator])
        now = first_key(heaps, FINISHES)
        while heaps.size[FINISHES] > 0 and first_key(heaps, FINISHES) == now:
            operator = p.topological_order[pop(heaps, FINISHES)]
            for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
                i = p.predecessor[k]
                readers[i] -= 1
                if readers[i] == 0:
                    free[t.assignment[i]] += output[i]
            release(p, queue, operator, priority)


@step
def _preferred(
    p: ProblemArrays,
    t: timeline.Timeline,
    queue: ReadyQueue,
    need: FloatArray,
    shared: SharedWeights,
    free: FloatArray,
    readers: IntArray,
    full: BoolArray,
    taken: BoolArray,
) -> int:
    """The ready operator that frees memory of a full device soonest, of those that fit somewhere; -1 if there is none.

    Fewest readers left first, then the order of the queue.
    """
    relief = -1
    fewest = (0, 0.0, 0)
    first = queue.heaps.first[READY]
    for k in range(first, first + queue.heaps.size[READY]):
        position = queue.heaps.code[k]
        j = p.topological_order[position]
        left = _fewest_readers(p, t, readers, full, j)
        key = (left, queue.heaps.key[k], position)
        if left > 0 and (relief < 0 or key < fewest) and not taken[j] and _fits(p, t, j, need, shared, free):
            fewest, relief = key, j
    return relief


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
def _fits(
    p: ProblemArrays, t: timeline.Timeline, operator: int, need: FloatArray, shared: SharedWeights, free: FloatArray
) -> bool:
    """True if some device that can run the operator has room for it."""
    fits = False
    for device in range(len(free)):
        more = need[operator] - present(shared, t.assignment, operator, device, len(need))
        fits |= p.cost[operator, device] < np.inf and more <= free[device]
    return fits
