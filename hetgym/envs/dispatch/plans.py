"""Plans: a device and a turn for every operator that is left of a run, and the end of the run if they are kept to.

A plan is kept from decision to decision. Committed operators leave it, newly known ones enter it. Like the roll-outs
of :mod:`hetgym.envs.dispatch.rollouts` it is judged by the present costs, without noise. While these commit every
operator that they come to, a plan also makes operators wait: none is committed to a device before those of earlier
turns there are, and it requests its inputs only then, as it would in the run.
"""

from __future__ import annotations

import numpy as np

from hetgym._kernels.jit import step
from hetgym.envs.dispatch.rollouts import Course, Rollouts, rewind
from hetgym.envs.dispatch.service import LINE, mean_time
from hetgym.envs.dispatch.state import DispatchTables, Plan
from hetgym.problem import ProblemArrays
from hetgym.sim.kernel import Switches, book_transfer
from hetgym.sim.progress import OPEN, Progress

FLOW = 0.3  # Weight of the flow beside the completion where plans and roll-outs are compared
NOTHING, AS_PLANNED = -1, -2  # Stand for an operator: none is committed until the next event; the plan decides at once


# Invariant: ``order[:many[0]]`` holds each operator that is known and not committed once, behind its predecessors, and
# ``turn`` is its inverse there.
@step
def refresh(tables: DispatchTables, run: Progress, plan: Plan) -> bool:
    """Drop committed operators, and append new ones, for which the plan has no device yet; true if there are any.

    After the loss of a device everything is new, for operators that had been committed may be left once more.
    """
    alive = 0
    for device in range(len(run.alive)):
        alive += run.alive[device]
    if alive != plan.many[1]:
        plan.many[0], plan.many[1] = 0, alive
    for i in range(len(plan.turn)):
        plan.turn[i] = -1
    kept = 0
    for k in range(plan.many[0]):
        i = plan.order[k]
        if run.status[i] <= OPEN:
            plan.order[kept], plan.turn[i] = i, kept
            kept += 1
    known = kept
    service = tables.service
    for turn in range(service.tally[LINE]):
        i = service.line[turn]
        if plan.turn[i] < 0:
            plan.order[kept], plan.turn[i], plan.device[i] = i, kept, -1
            kept += 1
    plan.many[0] = kept
    return kept > known


@step
def jobs_left(tables: DispatchTables, plan: Plan) -> int:
    """Number of jobs that have operators in the plan."""
    service = tables.service
    if len(service.came) == 1:
        return int(min(1, plan.many[0]))
    for k in range(plan.many[0]):
        service.left[service.job[plan.order[k]]] = 0.0
    jobs = 0.0
    for k in range(plan.many[0]):
        j = service.job[plan.order[k]]
        jobs += 1.0 - service.left[j]
        service.left[j] = 1.0
    return int(jobs)


@step
def adopt(course: Course, plan: Plan) -> None:
    """Take a roll-out that has been played as the plan, unless it left an operator out that no device can run."""
    if course.many[1] < plan.many[0]:
        return
    for k in range(plan.many[0]):
        i = course.order[k]
        plan.order[k], plan.device[i], plan.turn[i] = i, course.assignment[i], k


@step
def keep(plan: Plan) -> None:
    """Keep a copy of the plan."""
    for k in range(plan.many[0]):
        plan.kept_order[k], plan.kept_device[k] = plan.order[k], plan.device[plan.order[k]]


@step
def take_back(plan: Plan) -> None:
    """Return to the copy that was kept last."""
    for k in range(plan.many[0]):
        i = plan.kept_order[k]
        plan.order[k], plan.device[i], plan.turn[i] = i, plan.kept_device[k], k


@step
def judge(
    p: ProblemArrays, tables: DispatchTables, run: Progress, rollouts: Rollouts, plan: Plan, switches: Switches
) -> float:
    """Completion plus weighted flow if the plan is kept to [s]; inf if it has gaps."""
    end, flow = follow(p, tables, run, rollouts, plan, switches, AS_PLANNED, 0, 0.0)
    return end + FLOW * flow


# Invariant: finish, assignment, devices and links in ``later`` are those of the run so far and of the operators of all
# turns before k. Entries of operators of later turns are stale, but nothing reads them: an operator stands behind its
# predecessors. ``asked`` is the last request on each device, before which no later operator there can request its
# inputs. O(d + l + the operators' in-degrees).
@step
def follow(
    p: ProblemArrays,
    tables: DispatchTables,
    run: Progress,
    rollouts: Rollouts,
    plan: Plan,
    switches: Switches,
    operator: int,
    device: int,
    wait: float,
) -> tuple[float, float]:
    """Take a decision and keep to the plan from then on.

    Args:
        rollouts: scratch, in which :func:`~hetgym.envs.dispatch.rollouts.survey` has written the state of the run.
        operator: the operator of the plan that is committed now; or :data:`NOTHING` or :data:`AS_PLANNED`.
        wait: time of the next event [s]; only read when waiting for it.

    Returns:
        The mean time that jobs take, and the mean of finish plus optimistic cost over the operators of the plan [s];
        inf if an operator has no device.
    """
    now, course, service = rollouts.now, rollouts.later, tables.service
    base = max(wait, run.clock[0]) if operator == NOTHING else run.clock[0]
    rewind(now, course, service)
    for chosen in range(len(plan.asked)):
        plan.asked[chosen] = base
    total = 0.0
    for k in range(-1 if operator >= 0 else 0, plan.many[0]):
        i = operator if k < 0 else plan.order[k]
        if k >= 0 and i == operator:
            continue
        chosen = device if k < 0 else plan.device[i]
        if chosen < 0 or rollouts.run[i, chosen] == np.inf:
            return np.inf, np.inf
        asked = plan.asked[chosen]
        first, behind = p.predecessor_pointer[i], p.predecessor_pointer[i + 1]
        for entry in range(first, behind):
            asked = max(asked, course.finish[p.predecessor[entry]])
        plan.asked[chosen] = ready = asked
        for entry in range(first, behind):
            source = course.assignment[p.predecessor[entry]]
            if source != chosen:
                size = p.edge_bytes[p.predecessor_edge[entry]]
                links, channels = course.link_free, course.channel_free
                _, arrived = book_transfer(p, switches.communication, links, channels, source, chosen, size, asked)
                ready = max(ready, arrived)
        course.assignment[i] = chosen
        finish = max(ready, course.free[chosen]) + rollouts.run[i, chosen]
        course.finish[i] = course.free[chosen] = finish
        course.last[service.job[i]] = max(course.last[service.job[i]], finish)
        total += finish + tables.optimistic[i, chosen]
    return mean_time(service, course.last, service.past[1]), total / max(1, plan.many[0])
