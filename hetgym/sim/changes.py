"""Changes to a run when a device slows down or is lost."""

import numpy as np

from hetgym._kernels.heap import push
from hetgym._kernels.jit import step
from hetgym.problem import ProblemArrays
from hetgym.sim.kernel import State
from hetgym.sim.progress import DONE, EVENTS, FINISH, OPEN, QUEUED, RUNNING, WAITING, Progress, Sharing, open_up


@step
def slow_down(p: ProblemArrays, s: State, run: Progress, sharing: Sharing | None, device: int, factor: float) -> None:
    """Change the factor of a device's run times from now on; running operators continue at the new speed."""
    now = run.clock[0]
    ratio = factor / run.slowdown[device]
    run.slowdown[device] = factor
    if not run.alive[device]:
        return
    for k in range(device * len(run.status), run.head[device]):
        operator = run.queue[k]
        if run.status[operator] == RUNNING:
            since = max(now, s.start[operator])
            s.finish[operator] = since + (s.finish[operator] - since) * ratio
            s.free[device] = max(now, s.finish[operator])
            push(run.heaps, EVENTS, s.finish[operator], FINISH + p.position[operator])
    if sharing is not None:
        sharing.streams.stirred[device] = True


# Three passes: 1. Commitments are undone: of operators that are queued or run on the device, and of operators queued
#    elsewhere that wait for data under way from it. Queues keep their order.
# 2. In reverse topological order, finished operators on the device return to WAITING if a reader that is
#    not committed still needs their result. Readers come first, so an operator that must run again can in
#    turn require its own predecessors.
# 3. ``missing`` is now exact for every operator that is not committed; those that miss nothing open.
# The cost is O(n + e) and the length of the queues.
@step
def lose(p: ProblemArrays, s: State, run: Progress, sharing: Sharing | None, device: int) -> None:
    """Remove a device and everything on it.

    Operators that are queued or run there must be committed anew; so must those that wait elsewhere for
    data under way from it. Results that a reader still has to fetch from it are computed again.
    """
    if not run.alive[device]:
        return
    run.alive[device] = False
    run.running[device] = 0
    if sharing is not None:
        sharing.streams.first[device] = -1
    for i in range(len(run.status)):
        if (run.status[i] == QUEUED or run.status[i] == RUNNING) and run.assignment[i] == device:
            _take_back(p, s, run, i)
    run.tail[device] = run.head[device]
    for other in range(len(run.running)):
        kept = run.head[other]
        for k in range(run.head[other], run.tail[other]):
            operator = run.queue[k]
            if _comes_from(p, s, run, operator, device, run.clock[0]):
                _take_back(p, s, run, operator)
            else:
                run.queue[kept] = operator
                kept += 1
        run.tail[other] = run.pulled[other] = kept
    for k in range(len(run.status) - 1, -1, -1):
        i = p.topological_order[k]
        if run.status[i] == DONE and run.assignment[i] == device:
            _make_again(p, s, run, i)
    for i in range(len(run.status)):
        if run.status[i] == WAITING and run.missing[i] == 0:
            open_up(run, i)


@step
def _comes_from(p: ProblemArrays, s: State, run: Progress, operator: int, device: int, now: float) -> bool:
    """True if a committed operator waits for data under way from a device."""
    for k in range(p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]):
        if run.assignment[p.predecessor[k]] == device and s.arrived[p.predecessor_edge[k]] > now:
            return True
    return False


@step
def _take_back(p: ProblemArrays, s: State, run: Progress, operator: int) -> None:
    """Undo a commitment; inputs that were fetched for it will be fetched again."""
    run.status[operator] = WAITING
    run.assignment[operator] = -1
    run.missing[operator] = 0
    first, last = p.predecessor_pointer[operator], p.predecessor_pointer[operator + 1]
    s.ready[operator] = 0.0
    s.waiting[operator] = last - first
    for k in range(first, last):
        s.sent[p.predecessor_edge[k]] = np.inf
        s.arrived[p.predecessor_edge[k]] = np.inf
        if run.status[p.predecessor[k]] != DONE:
            run.missing[operator] += 1


@step
def _make_again(p: ProblemArrays, s: State, run: Progress, operator: int) -> None:
    """Let a finished operator whose result is lost run again if a reader still has to fetch the result."""
    needed = False
    for edge in range(p.successor_pointer[operator], p.successor_pointer[operator + 1]):
        target = p.successor[edge]
        if run.status[target] == OPEN:
            run.status[target] = WAITING
            run.tally[0] -= 1
        if run.status[target] == WAITING:
            run.missing[target] += 1
            needed = True
    if needed:
        run.tally[1] -= 1
        _take_back(p, s, run, operator)
